"""Anthropic's refusals of cache markers, in the provider's order."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator, Sequence

from holdfast.wire import ENDINGS, Body, Dialect, Marker, object_of, scan, string_of

LIMIT = 4
_WORD = b'"cache_control"'
_ORDER = (
    "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note that blocks are "
    "processed in the following order: `tools`, `system`, `messages`."
)
_TEXT, _QUOTE = b'{"type":"text","text":"', ord('"')
_spelled = re.compile(rb"\\u00[567]").search
"""An escape of one of the word's own letters. Others, of control characters and accents, are in many tool results."""

_UNMARKABLE = ("thinking", "redacted_thinking")


def wrong(body: Body, dialect: Dialect) -> Iterator[str]:
    if not scan.may_name(body.raw, "cache_control", 0, len(body.raw)):
        return
    markers = _markers(body, dialect)
    explicit = [marker for marker in markers if marker.block is not None]
    automatic = next((marker.ttl for marker in markers if marker.block is None), None)
    if len(markers) > LIMIT:
        yield f"A maximum of {LIMIT} blocks with cache_control may be provided. Found {len(markers)}."
    yield from _order(body, explicit)
    if automatic is not None:
        yield from _automatic(body, dialect, explicit, automatic)
    yield from _empty(body, explicit)
    yield from _thinking(body, dialect, explicit)
    yield from _lifetimes(body, dialect, explicit, automatic)
    yield from _nested(body, explicit)
    yield from _deferred(body, dialect, explicit)


def _markers(body: Body, dialect: Dialect) -> list[Marker]:
    """The body's markers as the dialect finds them. The usual one, last in its block and plainly spelled, is seen by
    the block's ending; only other blocks are walked through."""
    named = _named(body)
    if named is None:
        return list(dialect.markers(body))
    ttls = {index: _ending(body.text(body.blocks[index])) for index in named}
    markers = [Marker(index, ttl, at=body.blocks[index].start) for index, ttl in ttls.items() if ttl is not None]
    others = dialect.markers(body, [index for index, ttl in ttls.items() if ttl is None])
    return sorted([*markers, *others], key=lambda marker: len(body.blocks) if marker.block is None else marker.block)


def _ending(text: bytes) -> str | None:
    """The TTL of the marker that a block ends with; None where it has none there, or others too."""
    ttl = next((ttl for ending, ttl in ENDINGS if text.endswith(ending)), None)
    return ttl if ttl is not None and text.count(_WORD) == 1 else None


def _named(body: Body) -> list[int] | None:
    """The blocks in which the word occurs, found from the word: a long body has hundreds of blocks and four markers.
    None where it may be spelled with escapes."""
    if _spelled(body.raw):
        return None
    starts = [block.start for block in body.blocks]
    by_place: Sequence[int] = range(len(starts))
    if starts != sorted(starts):
        by_place = sorted(by_place, key=starts.__getitem__)
        starts.sort()
    places = set()
    at = body.raw.find(_WORD)
    while at >= 0:
        place = bisect(starts, at) - 1
        if place >= 0 and at < body.blocks[by_place[place]].end:
            places.add(by_place[place])
        at = body.raw.find(_WORD, at + len(_WORD))
    return sorted(places)


def _order(body: Body, explicit: Sequence[Marker]) -> Iterator[str]:
    short = False
    for marker in explicit:
        if marker.ttl == "1h" and short:
            yield f"{_path(body, marker)}.cache_control.ttl: {_ORDER}"
        short |= marker.ttl == "5m"


def _automatic(body: Body, dialect: Dialect, explicit: Sequence[Marker], ttl: str) -> Iterator[str]:
    target = next((i for i in range(len(body.blocks) - 1, -1, -1) if dialect.markable(body, i)), None)
    there = next((marker.ttl for marker in explicit if marker.block == target), ttl)
    if there != ttl:
        other = f"the target block already has cache_control with ttl='{there}'"
        yield f"Top-level cache_control has ttl='{ttl}' but {other}"
    if ttl == "1h" and any(marker.ttl == "5m" for marker in explicit):
        yield f"cache_control.ttl: {_ORDER}"


def _empty(body: Body, explicit: Sequence[Marker]) -> Iterator[str]:
    for marker in explicit:
        if body.raw.startswith(_TEXT, marker.at) and body.raw[marker.at + len(_TEXT)] != _QUOTE:
            continue  # the usual spelling of a text that says something
        members = object_of(body.raw[marker.at : scan.skip_value(body.raw, marker.at)]) or {}
        if string_of(members.get("type")) == "text" and not string_of(members.get("text")):
            yield f"{_path(body, marker)}.text: cache_control cannot be set for empty text blocks"


def _thinking(body: Body, dialect: Dialect, explicit: Sequence[Marker]) -> Iterator[str]:
    for marker in explicit:
        kind = dialect.kind(body, _block(marker))
        if kind in _UNMARKABLE and not marker.nested:
            yield f"{_path(body, marker)}.{kind}.cache_control: Extra inputs are not permitted"


def _lifetimes(body: Body, dialect: Dialect, explicit: Sequence[Marker], automatic: str | None) -> Iterator[str]:
    for marker in explicit:
        if marker.ttl not in ("5m", "1h"):
            place = _path(body, marker) + _tag(body, dialect, marker)
            yield f"{place}.cache_control.ephemeral.ttl: Input should be '5m' or '1h'"
    if automatic not in (None, "5m", "1h"):
        yield "cache_control.ephemeral.ttl: Input should be '5m' or '1h'"


def _nested(body: Body, explicit: Sequence[Marker]) -> Iterator[str]:
    """The last block of a tool result counts for its parent; any other block inside one is no place for a marker."""
    for marker in explicit:
        if marker.nested and not _is_last(body, marker):
            yield f"cache_control is not supported at {_path(body, marker)}.cache_control"


def _deferred(body: Body, dialect: Dialect, explicit: Sequence[Marker]) -> Iterator[str]:
    for marker in explicit:
        if dialect.deferred(body, _block(marker)):
            name = string_of((object_of(body.text(body.blocks[_block(marker)])) or {}).get("name"))
            yield (
                f"Tool '{name}' cannot have both defer_loading=true and cache_control set. Tools with defer_loading "
                "cannot use prompt caching."
            )


def _block(marker: Marker) -> int:
    assert marker.block is not None, "the automatic marker stands on no block"
    return marker.block


def _path(body: Body, marker: Marker) -> str:
    """Where a marker stands in the provider's spelling, `messages.3.content.0`, and on into what the block holds."""
    block = body.blocks[_block(marker)]
    path = block.path.replace("[", ".").replace("]", "")
    if not marker.nested:
        return path
    index = next((i for i, at in enumerate(_held(body, marker)) if at == marker.at), None)
    return f"{path}.content" if index is None else f"{path}.content.{index}"


def _tag(body: Body, dialect: Dialect, marker: Marker) -> str:
    """The name of the variant that the provider puts into the place of a wrong value; system text has only one."""
    block = body.blocks[_block(marker)]
    if block.section == "system" or marker.nested:
        return ""
    kind = dialect.kind(body, _block(marker))
    return ".custom" if kind == "tool" else f".{kind}"


def _held(body: Body, marker: Marker) -> list[int]:
    """Where the blocks inside the marker's block begin."""
    content = scan.member_at(body.raw, body.blocks[_block(marker)].start, "content")
    if content is None or body.raw[content.start : content.start + 1] != b"[":
        return []
    return [start for start, _ in scan.walk_values(body.raw, content.start)[0]]


def _is_last(body: Body, marker: Marker) -> bool:
    held = _held(body, marker)
    return bool(held) and held[-1] == marker.at
