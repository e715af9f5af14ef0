"""Stored text that is shown to a model repeatedly: valid, visible, with one kind of line break; and its hash.

Pure functions, and idempotent.
"""

from __future__ import annotations

import re
from hashlib import sha256
from unicodedata import normalize

from holdfast.tools import mend

_BREAKS = re.compile("\r\n|[\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
# Beside control characters: marks that turn the direction of text, and the "tags" that a reader cannot see and a model
# can. Joiners stay, scripts and emoji need them.
_UNSEEN = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")
_LENGTH = 16
_ENDS = ".,;:!? "


def plain(text: str) -> str:
    """The text with line feeds only, and without invisible characters."""
    return _UNSEEN.sub("", _BREAKS.sub("\n", mend(text)))


def whole(text: str) -> str:
    """A file's text as it is stored: plain, without space at the ends of lines and empty lines around it."""
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


def normalised(text: str) -> str:
    """Normalise a text: letter forms, case, white space, and punctuation at the ends of lines, none of which changes
    the meaning. Idempotent."""
    lines = normalize("NFKC", normalize("NFKC", text).casefold()).splitlines()
    return " ".join(line for each in lines if (line := " ".join(each.split()).rstrip(_ENDS)))


def entry_hash(title: str, content: str) -> str:
    """A hash that changes when the entry says something else, and not when only its spelling is tidied. Neither
    normalised text holds a line break, so one separates them."""
    return sha256(f"{normalised(title)}\n{normalised(content)}".encode("utf-8", "surrogatepass")).hexdigest()[:_LENGTH]
