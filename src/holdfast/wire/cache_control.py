"""`cache_control` on and in a block, as Anthropic and the routes to it understand it.

A marker is a member of a block or of one of its inner blocks; the same word inside a tool's input or schema is data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from . import scan
from .body import apply, change_members
from .raw_json import arr, canon, obj, object_at, object_of, string_of

MARKERS = {"5m": b'{"type":"ephemeral"}', "1h": b'{"type":"ephemeral","ttl":"1h"}'}
"""A five-minute marker has no ttl member: it is the default, and compatible servers may refuse the member."""

ENDINGS = tuple((b',"cache_control":' + marker + b"}", ttl) for ttl, marker in MARKERS.items())
"""How a block ends whose last member is a marker, in compact text, and the marker's TTL."""

_HOLDERS = ("tool_result", "search_result")


def markers(raw: bytes, start: int) -> Iterator[tuple[int, str]]:
    """Every marker on and in the block that begins at `start`: where its object begins, and its TTL."""
    for at, _ in _objects(raw, start):
        ttl = ttl_of((object_at(raw, at) or {}).get("cache_control"))
        if ttl is not None:
            yield at, ttl


def ttl_of(marker: bytes | None) -> str | None:
    """The TTL of a marker, in whole characters; None if it is not one."""
    members = object_of(marker or b"")
    return None if members is None else (string_of(members.get("ttl")) or "5m").encode("utf-8", "replace").decode()


def is_deferred(tool: bytes) -> bool:
    return (object_of(tool) or {}).get("defer_loading") == b"true"


def _objects(raw: bytes, start: int) -> Iterator[tuple[int, int]]:
    """The block at `start` and the blocks it holds, two levels deep: a result may hold a document with blocks."""
    level = [start]
    for _ in range(3):
        inner: list[int] = []
        for at in level:
            try:
                members, end = scan.walk_object(raw, at)
            except scan.Misfit:
                continue
            yield at, end
            inner += (start for start, _ in _held(raw, {m.key: m for m in members}))
        level = inner


def _held(raw: bytes, members: Mapping[str, scan.Member]) -> list[scan.Span]:
    kind = string_of(raw[members["type"].start : members["type"].end]) if "type" in members else None
    if kind == "document" and "source" in members:
        content = scan.member_at(raw, members["source"].start, "content")
    elif kind in _HOLDERS or (kind or "").endswith("_tool_result"):
        content = members.get("content")
    else:
        content = None
    if content is None or raw[content.start : content.start + 1] != b"[":
        return []
    spans, _ = scan.walk_values(raw, content.start)
    return [span for span in spans if raw[span[0] : span[0] + 1] == b"{"]


def unmarked(raw: bytes) -> bytes:
    """The canonical text of a block without its own marker and those nested in it; a string stays one text block.

    A `cache_control` of any value goes: null is how some clients say that there is none.
    """
    if scan.may_name(raw, "cache_control", 0, len(raw)):
        splices = []
        for at, _ in _objects(raw, 0):
            members, end = scan.walk_object(raw, at)
            splices += change_members(members, end, {}, ("cache_control",))
        raw = apply(raw, splices)
    whole = object_of(raw) if scan.may_name(raw, "tool_result", 0, len(raw)) else None
    if whole is None or string_of(whole.get("type")) != "tool_result" or whole.get("content", b"")[:1] != b'"':
        return canon(raw)
    whole["content"] = arr([as_text_block(whole["content"])])
    return obj((key, canon(value)) for key, value in whole.items())


def as_text_block(literal: bytes) -> bytes:
    """A string is one text block."""
    return b'{"type":"text","text":' + canon(literal) + b"}"
