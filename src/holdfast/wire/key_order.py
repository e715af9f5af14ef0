"""The order of the keys in a JSON value, stored without the keys: per object, each key's place in alphabetical order.

Two values that differ in the order of keys alone have the same sorted keys, so the order of one can be given to the
other. Bytes are moved and never spelled anew, except in the arguments of a call that are JSON within a string.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.records import decode_string, encode_string

from . import scan

LONGEST = 1_024
"""Bytes of an order that is worth keeping; a value with more keys has none."""

_DEEPEST = 32
_ARGUMENTS = "arguments"
_STYLES = ((b",", b":"), (b", ", b": "))
"""How JSON is written within a string: what stands between two members, and between a key and its value."""


class _Unfit(ValueError):
    """The value has no order that can be stored, or the given order is that of another value."""


def order_of(parts: Sequence[bytes]) -> bytes | None:
    """The order of the keys in a block: its own bytes, and the members of its message that belong to it. None where it
    cannot be stored."""
    order = bytearray()
    try:
        for value in _values(parts):
            _read(value, 0, 0, order)
    except (_Unfit, scan.Misfit):
        return None
    return bytes(order)


def in_order(parts: Sequence[bytes], order: bytes) -> list[bytes] | None:
    """The same parts with their keys in this order; None if it is that of another value."""
    places = iter(order)
    try:
        own, *others = _values(parts)
        rows = [_written(own, 0, 0, places)]
        for members in others:
            rows += _members(members, 0, 0, places, None)
        if next(places, None) is not None:
            return None
    except (_Unfit, scan.Misfit):
        return None
    return rows


def _values(parts: Sequence[bytes]) -> list[bytes]:
    return [parts[0], b"{" + b",".join(parts[1:]) + b"}"] if len(parts) > 1 else [parts[0]]


def _read(raw: bytes, start: int, depth: int, order: bytearray) -> None:
    """Add the order of the value that begins at `start`."""
    first = raw[start : start + 1]
    if depth > _DEEPEST or len(order) > LONGEST:
        raise _Unfit
    if first == b"[":
        for item, _ in _items(raw, start):
            _read(raw, item, depth + 1, order)
    elif first == b"{":
        members, _ = scan.walk_object(raw, start)
        named = sorted(members)
        if len(members) > 1:
            place = {member.key: number for number, member in enumerate(named)}
            if len(members) > 255:
                raise _Unfit
            order += bytes((len(members), *(place[member.key] for member in members)))
        for member in named:
            text = _inner(raw, member)
            if text is None:
                _read(raw, member.start, depth + 1, order)
            else:
                order.append(_style(text))
                _read(text, 0, depth + 1, order)


def _written(raw: bytes, start: int, depth: int, places: Iterator[int], style: int | None = None) -> bytes:
    """The value that begins at `start` with the keys of its objects at these places."""
    first = raw[start : start + 1]
    if depth > _DEEPEST:
        raise _Unfit
    between = _STYLES[style or 0][0]
    if first == b"{":
        return b"{" + between.join(_members(raw, start, depth, places, style)) + b"}"
    if first == b"[":
        items = _items(raw, start)
        return b"[" + between.join(_written(raw, item, depth + 1, places, style) for item, _ in items) + b"]"
    return raw[start : scan.skip_value(raw, start)]


def _members(raw: bytes, start: int, depth: int, places: Iterator[int], style: int | None) -> list[bytes]:
    """The members of an object in the given order. Inner values use up `places` in alphabetical order of their keys."""
    members, _ = scan.walk_object(raw, start)
    named = sorted(members)
    order: Sequence[int] = range(len(named))
    if len(named) > 1:
        if next(places, None) != len(named):
            raise _Unfit
        order = [next(places, 0) for _ in named]
        if sorted(order) != list(range(len(named))):
            raise _Unfit
    texts: list[bytes] = []
    for member in named:
        inner = _inner(raw, member)
        if inner is None:
            value = _written(raw, member.start, depth + 1, places, style)
        else:
            written = next(places, len(_STYLES))
            if written >= len(_STYLES):
                raise _Unfit
            text = _written(inner, 0, depth + 1, places, written)
            value = encode_string(text.decode("utf-8", "surrogatepass"))
        key = raw[member.key_start : member.start]
        texts.append((key if style is None else encode_string(member.key) + _STYLES[style][1]) + value)
    return [texts[place] for place in order]


def _items(raw: bytes, start: int) -> list[scan.Span]:
    spans, complete = scan.walk_values(raw, start)
    if not complete:
        raise _Unfit
    return spans


def _inner(raw: bytes, member: scan.Member) -> bytes | None:
    """The JSON that a call's arguments are within a string; None for any other value."""
    if member.key != _ARGUMENTS or raw[member.start : member.start + 1] != b'"':
        return None
    try:
        inner = decode_string(raw[member.start : member.end]).encode("utf-8", "surrogatepass")
        if inner[:1] != b"{" or scan.skip_value(inner, 0) != len(inner):
            return None
        scan.walk_object(inner, 0)
    except ValueError:
        return None
    return inner


def _style(text: bytes) -> int:
    """How JSON within a string is written."""
    order = bytearray()
    for style in range(len(_STYLES)):
        order.clear()
        _read(text, 0, 0, order)
        if _written(text, 0, 0, iter(order), style) == text:
            return style
    raise _Unfit
