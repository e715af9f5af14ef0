"""The differences between two texts of a block: removed and added pieces with their places.

The texts are compared unmasked and masked afterwards, like every text that may be shown (`redact`): without content
unless bodies are kept, and never with what looks like a credential. Bounded for any input.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher

from msgspec import Struct

from holdfast.records import common_head

from .redact import shown

MOST = 20
"""Changes that are listed."""

MOST_TEXT = 2_000
"""Characters that are shown of one piece."""

_CONTEXT = 512
"""Bytes on each side that are looked at when masking, so that a credential is recognised by what stands around it."""

_WORD = 64
"""Characters by which a piece is widened so that it begins and ends with whole words."""

_WINDOW = 262_144
"""Bytes of each text that are compared, from the first difference on."""

_MOST_LINES = 2_048
_MOST_PAIRS = 500_000
_LINE = re.compile(
    r".*?(?:\\n|\n|[.;] )|.+\Z", re.DOTALL
)  # a JSON text has escaped line ends; long lines have sentences
_BORDERS = frozenset(' \t\r\n"\\')


class TextChange(Struct, frozen=True, omit_defaults=True):
    """A replacement of `removed` by `added`; `at` is the byte offset in the block's new text."""

    at: int
    removed: str = ""
    added: str = ""


class Changes(Struct, frozen=True):
    """All that differs, in order. `keys` says that what looks like a key is masked in it; `whole` that nothing had to
    be left out."""

    pieces: tuple[TextChange, ...]
    keys: bool
    whole: bool


def changes(before: bytes, after: bytes, *, keep_bodies: bool = False) -> Changes:
    """Return the differences of two texts, word by word."""
    head, tail = _common(before, after)
    old, new = _Side.of(before, head, tail, keep_bodies), _Side.of(after, head, tail, keep_bodies)
    pieces = list(_pieces(old.text, new.text))
    made, long = [], False
    for i1, i2, j1, j2 in pieces[:MOST]:
        at = head + len(new.text[:j1].encode("utf-8", "replace"))
        made.append(TextChange(at, _cut(old.shown[i1:i2]), _cut(new.shown[j1:j2])))
        long = long or max(i2 - i1, j2 - j1) > MOST_TEXT
    keys = keep_bodies and (old.shown, new.shown) != (old.text, new.text)
    return Changes(tuple(made), keys, old.whole and new.whole and not long and len(pieces) <= MOST)


class _Side(Struct, frozen=True):
    """One of the two texts where they differ, as it is and as it may be shown: character for character as long."""

    text: str
    shown: str
    whole: bool

    @classmethod
    def of(cls, raw: bytes, head: int, tail: int, keep_bodies: bool) -> _Side:
        end = len(raw) - tail
        whole = end - head <= _WINDOW
        end = end if whole else head + _WINDOW
        left, text, right = (
            _text(raw[max(0, head - _CONTEXT) : head]),
            _text(raw[head:end]),
            _text(raw[end:][:_CONTEXT]),
        )
        masked = shown(left + text + right, keep_bodies=keep_bodies)
        return cls(text, masked[len(left) : len(left) + len(text)], whole)


def _common(before: bytes, after: bytes) -> tuple[int, int]:
    """How many bytes are the same at the beginning and at the end: as far as whole words go."""
    head = most = common_head(before, after)
    least = max(0, head - _WORD)
    while head > least and chr(before[head - 1]) not in _BORDERS:
        head -= 1
    head += before[head - 1 : head] == b"\\" and head < most  # what it escapes goes with it
    while head and head < len(before) and before[head] & 0xC0 == 0x80:
        head -= 1
    tail = common_head(before[head:][::-1], after[head:][::-1])
    least = max(0, tail - _WORD)
    while tail > least and chr(before[len(before) - tail]) not in _BORDERS:
        tail -= 1
    while tail and before[len(before) - tail] & 0xC0 == 0x80:
        tail -= 1
    return head, tail


def _pieces(old: str, new: str) -> Iterator[tuple[int, int, int, int]]:
    """Where the texts differ, line by line; of lines that differ, from the first word to the last."""
    a, b = _lines(old), _lines(new)
    starts_a, starts_b = _starts(a), _starts(b)
    often = len(a) * len(b) > _MOST_PAIRS  # then lines that come often are no anchors
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, a, b, autojunk=often).get_opcodes():
        if tag != "equal":
            yield _narrowed(old, new, starts_a[i1], starts_a[i2], starts_b[j1], starts_b[j2])


def _narrowed(old: str, new: str, i1: int, i2: int, j1: int, j2: int) -> tuple[int, int, int, int]:
    most = min(i2 - i1, j2 - j1)
    first = next((n for n in range(most) if old[i1 + n] != new[j1 + n]), most)
    same = first
    while first and old[i1 + first - 1] not in _BORDERS:
        first -= 1
    first += first > 0 and old[i1 + first - 1] == "\\" and first < same
    left = most - first
    last = next((n for n in range(left) if old[i2 - 1 - n] != new[j2 - 1 - n]), left)
    while last and old[i2 - last] not in _BORDERS:
        last -= 1
    return i1 + first, i2 - last, j1 + first, j2 - last


def _lines(text: str) -> list[str]:
    lines = _LINE.findall(text)
    return lines if len(lines) <= _MOST_LINES else [*lines[: _MOST_LINES - 1], "".join(lines[_MOST_LINES - 1 :])]


def _starts(lines: list[str]) -> list[int]:
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    return starts


def _cut(text: str) -> str:
    left = len(text) - MOST_TEXT
    return text if left <= 0 else f"{text[:MOST_TEXT]}… ({left:,} more characters)"


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
