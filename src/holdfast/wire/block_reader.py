"""One block of a body as a cache sees it: its digest, its tokens, and its properties.

The formats are defined by the dialects. Nearly all blocks of a long conversation are messages of one provider in its
most compact form, for which one pass is enough.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import Block
from holdfast.facts import IMAGE_TOKENS, encode, estimate, estimate_json

from . import anthropic
from .body import BlockSpan, Body
from .dialects import Dialect
from .raw_json import object_of, string_of
from .scan import may_name
from .tool_references import Late, late_tool, references

_CITATIONS = b'"citations":{"enabled":true'
_ATTRIBUTION = b'{"type":"text","text":"x-anthropic-billing-header:'
"""A line of Claude Code's that differs from request to request while its sessions still hit: no part of the prefix."""
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use", "function_call", "custom_tool_call", "additional_tools")
"""Blocks whose input, or schema, is data of a tool's own: what looks like a picture in it is none."""

_CONTENT = b',"content":'
_NO_MARKS: tuple[str, ...] = ()
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class ReadBlock(Struct, frozen=True, gc=False):
    """A block as the cache sees it, and what it brings with it."""

    block: Block | None  # None for one that is no part of the prefix
    images: bool = False
    citations: bool = False
    marks: tuple[str, ...] = ()  # the TTLs of the markers on and in it
    special: bool = True  # it brings anything, or is no part of the prefix
    at_end: bool = False  # it ends with the only marker that is on or in it
    refers: tuple[str, ...] = ()  # the deferred tools that a result names
    late: Late | None = None  # the deferred tool that it declares


def read_block(
    body: Body, dialect: Dialect, index: int, border: bool, with_ids: bool, plain: bytes | None = None
) -> ReadBlock | None:
    """Read a block of a body. `plain` is its text without the marker it ends with, if that is to be left out; None is
    returned if the block may have further markers."""
    span, marks = body.blocks[index], _NO_MARKS
    compact = _at_once(body.dialect, span, body.raw[span.start : span.end] if plain is None else plain)
    if compact is not None:
        content, kind, markable, text, flat = compact
    else:
        if plain is not None:
            if may_name(plain, "cache_control", 0, len(plain)):
                return None
            body, index = _single_block_body(body, span, plain), 0
        marks = tuple(marker.ttl for marker in dialect.markers(body, (index,)) if marker.block is not None)
        if dialect.deferred(body, index):
            return ReadBlock(None, marks=marks, late=late_tool(dialect.content(body, index), with_ids))
        content, kind = dialect.content(body, index), dialect.kind(body, index)
        if span.section == "system" and content.startswith(_ATTRIBUTION):
            return ReadBlock(None, marks=marks)
        markable, text, flat = dialect.markable(body, index), _text_of(content, kind), False
    digest = _digest(span, border, content)
    images = citations = False
    refers = references(content) if span.section == "messages" and kind.endswith("tool_result") else ()
    if not flat and span.section == "messages" and kind not in _CALLS:
        images, citations = any(mark in content for mark in dialect.images), _CITATIONS in content
    ids = b""
    if with_ids:
        ids = _ids(content, span, text, digest if images else b"")
        tokens = len(ids) // 4
    else:
        tokens = estimate(text) if text is not None else estimate_json(content)
    block = Block(span.section, kind, span.role, span.message, digest, tokens, markable, ids)
    special = images or citations or bool(marks) or bool(refers)
    return ReadBlock(block, images, citations, marks, special, False, refers)


def digest_of(body: Body, dialect: Dialect, index: int, border: bool, parts: Sequence[bytes]) -> bytes:
    """The digest of a block made of these parts: its own bytes without a marker, and the members of its message that
    belong to it."""
    span, own = body.blocks[index], parts[0]
    compact = _at_once(body.dialect, span, own)
    content = compact[0] if compact is not None else dialect.content(_single_block_body(body, span, own, parts[1:]), 0)
    return _digest(span, border, content)


def _digest(span: BlockSpan, border: bool, content: bytes) -> bytes:
    head = as_bytes(f"{span.section}|{span.role}|{'1' if border else '0'}|")
    return sha256(head + content).digest()[:16]


def _single_block_body(body: Body, span: BlockSpan, text: bytes, members: Sequence[bytes] | None = None) -> Body:
    """A body with this one block. `members` replace the members of its message that belong to it."""
    context, raw = [], text
    for member in [body.raw[start:end] for start, end in span.context] if members is None else members:
        context.append((len(raw), len(raw) + len(member)))
        raw += member
    return replace(body, raw=raw, blocks=(replace(span, start=0, end=len(text), context=tuple(context)),))


def _at_once(dialect: str, span: BlockSpan, content: bytes) -> tuple[bytes, str, bool, str | None, bool] | None:
    """Return a block from one decoding: content, kind, whether it is markable, text, and whether it is flat. Only for a
    block of a message in canonical form without a marker; None for any other."""
    if dialect != anthropic.NAME or span.section != "messages" or span.form != "object" or span.context:
        return None
    try:
        members: Any = _decode(content)
        if type(members) is not dict or _encode(members) != content:  # it spells every character as the canonical form
            return None
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
    kind, flat = members.get("type"), _is_flat(members)
    if type(kind) is not str or not kind or span.where == anthropic.EMPTY:
        return None
    if not flat and b'"cache_control"' in content:
        return None
    string = members.get("text")
    markable = anthropic.may_carry(kind) and (kind != "text" or (type(string) is str and bool(string)))
    if kind == "tool_result" and type(members.get("content")) is str:
        content = _with_text_block(members, content, flat)
    text = members.get("thinking") if kind == "thinking" else string if b'"text"' in content[:64] else None
    return content, kind, markable, text if type(text) is str else None, flat


def _is_flat(members: dict[str, Any]) -> bool:
    """Whether a block holds no objects, or only a list of parts that hold none. Such a block needs no search through
    its bytes."""
    if "cache_control" in members or members.get("type") == "image":
        return False
    for value in members.values():
        if type(value) is dict:
            return False
        if type(value) is list:
            for part in value:
                if type(part) is not dict or "cache_control" in part or part.get("type") == "image":
                    return False
                if any(type(inner) in (dict, list) for inner in part.values()):
                    return False
    return True


def _with_text_block(members: dict[str, Any], content: bytes, flat: bool) -> bytes:
    """Return a result with its string content as one text block."""
    if flat and next(reversed(members)) == "content":
        at = content.find(_CONTENT)  # nowhere else: a quote in a string has a backslash
        if at >= 0:
            at += len(_CONTENT)
            return b'%b[{"type":"text","text":%b}]}' % (content[:at], content[at:-1])
    return _encode({**members, "content": [{"type": "text", "text": members["content"]}]})


def _text_of(content: bytes, kind: str) -> str | None:
    """What the model reads of a block that is mostly text; None for one it reads as a structure."""
    if kind == "thinking" or b'"text"' in content[:64]:
        members = object_of(content) or {}
        return string_of(members.get("thinking" if kind == "thinking" else "text"))
    return None


def _ids(content: bytes, span: BlockSpan, text: str | None, picture: bytes) -> bytes:
    """Token ids, the role first. A picture counts as many tokens as one usually has, with ids that depend on the
    picture; the rest of its block counts too."""
    if picture:
        count = max(IMAGE_TOKENS, estimate_json(content))
        return array("I", [int.from_bytes(picture[:3], "big")] * count).tobytes()
    words = text if text is not None else content.decode("utf-8", "replace")
    return array("I", encode(f"\n{span.role or span.section}: ") + encode(words)).tobytes()


def as_bytes(text: str) -> bytes:
    """A name a client chose: half of a surrogate pair is as good as any."""
    return text.encode("utf-8", "surrogatepass")
