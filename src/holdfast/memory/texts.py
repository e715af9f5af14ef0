"""Text that is kept and shown to a model again and again: valid, visible, with one kind of line break.

Pure functions; a text that went through them once comes out of them unchanged.
"""

from __future__ import annotations

import re

from holdfast.tools import mend

_BREAKS = re.compile("\r\n|[\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
# Beside control characters: marks that turn the direction of text, and the "tags" that a reader cannot see and a model
# can. Joiners stay, scripts and emoji need them.
_UNSEEN = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")


def plain(text: str) -> str:
    """The text with line feeds only, and without characters that nobody sees."""
    return _UNSEEN.sub("", _BREAKS.sub("\n", mend(text)))


def whole(text: str) -> str:
    """A file's text as it is kept: plain, without space at the ends of lines and empty lines around it."""
    return "\n".join(line.rstrip() for line in plain(text).split("\n")).strip("\n")


def one_line(text: str) -> str:
    return " ".join(plain(text).split())


def beginning(text: str, most: int) -> str:
    """As many whole lines from the beginning as `most` bytes hold; of a first line that is longer, a part."""
    data = text.encode()
    if len(data) <= most:
        return text
    head = data[: most + 1].decode("utf-8", "ignore")
    lines = head.rpartition("\n")[0]
    return lines.rstrip("\n") if lines.strip() else data[:most].decode("utf-8", "ignore")
