"""The offsets of the values in a JSON text: a walk that never copies or re-serialises.

msgspec decodes the parts of a body and their lengths; the walk turns those lengths into offsets. Values of unknown
length are skipped by regular expressions. The text is valid JSON when the walk begins, so a step that does not fit
means duplicate keys or a bug and raises `Misfit`, which `parse` turns into `Unreadable`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Raw

from holdfast.records import decode_string

T = TypeVar("T")
Span = tuple[int, int]

_CLOSING = ord("]")
# Possessive quantifiers: without them a long run of escapes costs sixty times its size in backtracking state.
_SPACE = rb"[ \t\n\r]*+"
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_space = re.compile(_SPACE).match
_key = re.compile(_SPACE + rb"(" + _STRING + rb")" + _SPACE + rb":" + _SPACE, re.DOTALL).match
_string = re.compile(_STRING, re.DOTALL).match
_scalar = re.compile(rb"[^\s,\]}]+").match
_OTHER = rb'[^"\[\]{}]*+'
_next_bracket = re.compile(_OTHER + rb"(?:" + _STRING + _OTHER + rb")*+([\[\]{}])", re.DOTALL).match
_after = re.compile(_SPACE + rb"([,\]}])" + _SPACE).match
_escape = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|[^u])")


class Misfit(ValueError):
    """The text and the values decoded from it do not match."""


class Member(NamedTuple):
    """One `"key": value` of an object: the key's text, where its literal begins, and the span of its value."""

    key: str
    key_start: int
    start: int
    end: int


def decode(raw: bytes, kind: type[T]) -> T:
    """msgspec's reading of a text, also where JavaScript left half of a surrogate pair in it.

    msgspec refuses lone surrogate escapes. They are replaced, length for length, in a copy that is only measured;
    offsets in the copy are offsets in the original.
    """
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        patched = _patch_surrogates(raw)
        if patched is None:
            raise
        return msgspec.json.decode(patched, type=kind)


def _patch_surrogates(raw: bytes) -> bytes | None:
    if b"\\ud" not in raw and b"\\uD" not in raw:
        return None
    lone: list[int] = []
    high: int | None = None  # offset of a high surrogate that still waits for its other half
    for match in _escape.finditer(raw):
        code = int(match[1], 16) if match[1] else 0
        if high is not None:
            if 0xDC00 <= code <= 0xDFFF and match.start() == high + 6:
                high = None
                continue
            lone.append(high)
            high = None
        if 0xD800 <= code <= 0xDBFF:
            high = match.start()
        elif 0xDC00 <= code <= 0xDFFF:
            lone.append(match.start())
    if high is not None:
        lone.append(high)
    patched = bytearray(raw)
    for at in lone:
        patched[at : at + 6] = b"\\ufffd"
    return bytes(patched)


def mended(raw: bytes) -> bytes:
    """A JSON text without lone surrogates, which no provider takes and no file can hold."""
    return _patch_surrogates(raw) or raw


def skip_value(raw: bytes, pos: int) -> int:
    """The end of the value that begins at `pos`."""
    first = raw[pos : pos + 1]
    if first == b'"':
        match = _string(raw, pos)
    elif first not in (b"{", b"["):
        match = _scalar(raw, pos)
    else:
        depth, match = 0, None
        end = pos
        while True:
            match = _next_bracket(raw, end)
            if match is None:
                break
            depth += 1 if match[1] in b"[{" else -1
            end = match.end()
            if depth == 0:
                return end
    if match is None:
        raise Misfit(f"no value at byte {pos}")
    return match.end()


def walk_object(
    raw: bytes, pos: int, handlers: Mapping[str, Callable[[int], int]] | None = None
) -> tuple[list[Member], int]:
    """The members of the object that begins at `pos`, and where it ends.

    A handler gets the start of its key's value and returns its end. A key given twice is a Misfit.
    """
    if raw[pos : pos + 1] != b"{":
        raise Misfit(f"no object at byte {pos}")
    members: list[Member] = []
    empty = _after(raw, pos + 1)
    if empty is not None and empty[1] == b"}":
        return members, empty.end(1)
    seen: set[str] = set()
    pos += 1
    while True:
        match = _key(raw, pos)
        if match is None:
            raise Misfit(f"no key at byte {pos}")
        try:
            key = decode_string(match[1])
        except ValueError:
            raise Misfit(f"no readable key at byte {match.start(1)}") from None
        if key in seen:
            raise Misfit(f'the key "{key}" stands twice in one object (byte {match.start(1)})')
        seen.add(key)
        start = match.end()
        handler = handlers.get(key) if handlers else None
        end = handler(start) if handler is not None else skip_value(raw, start)
        members.append(Member(key, match.start(1), start, end))
        after = _after(raw, end)
        if after is None:
            raise Misfit(f"no end of the member at byte {end}")
        if after[1] == b"}":
            return members, after.end(1)
        pos = after.end()


def walk_body(raw: bytes, handlers: Mapping[str, Callable[[int], int]]) -> tuple[list[Member], int]:
    """The members of the object that is the whole text, and where it ends.

    A key given twice makes the walk use the lengths of the second value on the first; one that came through all the
    same does not end where the text does.
    """
    members, end = walk_object(raw, _past_space(raw, 0), handlers)
    if _past_space(raw, end) != len(raw):
        raise Misfit(f"no end of the body at byte {end}")
    return members, end


def member_at(raw: bytes, pos: int, key: str) -> Member | None:
    """A member of the object that begins at `pos`; None where there is no such member or no readable object."""
    try:
        members, _ = walk_object(raw, pos)
    except Misfit:
        return None
    return next((member for member in members if member.key == key), None)


def may_name(raw: bytes, key: str, start: int, end: int) -> bool:
    """A quick no for the many spans in which the key does not occur, written plainly or with escapes."""
    return raw.find(b'"%b"' % key.encode(), start, end) >= 0 or raw.find(b"\\u00", start, end) >= 0


def walk_array(raw: bytes, pos: int, items: Sequence[Raw]) -> tuple[list[Span], int]:
    """Return the spans of an array's items, whose lengths are known, and the end of the array."""
    spans: list[Span] = []
    pos = first_item(raw, pos)
    sign = raw[pos]
    for item in items:
        if raw[pos] <= 32:
            pos = _past_space(raw, pos)
        end = pos + len(item)
        spans.append((pos, end))
        if raw[end] <= 32:
            end = _past_space(raw, end)
        sign = raw[end]
        pos = end + 1
    if sign != _CLOSING:
        raise Misfit(f"no end of the array at byte {pos}")
    return spans, pos if items else pos + 1


def walk_values(raw: bytes, pos: int) -> tuple[list[Span], bool]:
    """The spans of an array's items without knowing their lengths, and whether the array is complete.

    Slower than `walk_array`, but bounded by nothing: any depth, and also the beginning of an array that was cut off.
    """
    spans: list[Span] = []
    try:
        pos = first_item(raw, pos)
        while raw[pos : pos + 1] != b"]":
            end = skip_value(raw, pos)
            after = _after(raw, end)
            if after is not None or raw[end - 1] in b'"]}':  # a scalar at the very end may be cut off itself
                spans.append((pos, end))
            if after is None or after[1] != b",":
                return spans, after is not None and after[1] == b"]"
            pos = after.end()
    except Misfit:
        return spans, False
    return spans, not spans


def walk_objects(raw: bytes, pos: int, count: int, visit: Callable[[int, int], int]) -> int:
    """Walk an array of `count` objects; `visit` gets index and start of each and returns its end."""
    pos = first_item(raw, pos)
    for index in range(count):
        pos = next_item(raw, visit(index, pos))
    return pos if count else pos + 1


def first_item(raw: bytes, pos: int) -> int:
    """Where the first item of the array at `pos` begins, or its closing bracket."""
    if raw[pos : pos + 1] != b"[":
        raise Misfit(f"no array at byte {pos}")
    return _past_space(raw, pos + 1)


def next_item(raw: bytes, end: int) -> int:
    """Where the item after the one that ends at `end` begins; after the last, where the array ends."""
    after = _after(raw, end)
    if after is None or after[1] == b"}":
        raise Misfit(f"no end of the item at byte {end}")
    return after.end() if after[1] == b"," else after.end(1)


def _past_space(raw: bytes, pos: int) -> int:
    match = _space(raw, pos)
    return match.end() if match else pos
