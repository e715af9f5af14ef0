"""Tools that come late: declared aside (`defer_loading`), named by a result (`tool_reference`), read where it stands.

The provider leaves a deferred tool out of the prefix and puts its definition in the place of every reference to it. So
a result with references costs their tokens, and says something else when a definition changes.
"""

from __future__ import annotations

from array import array
from hashlib import sha256

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import Block
from holdfast.facts import encode, estimate_json

from . import scan
from .raw_json import array_of, object_at, string_of

_WORD = b'"tool_reference"'


class Late(Struct, frozen=True, gc=False):
    """A deferred tool as a reference expands to it."""

    name: str
    digest: bytes
    tokens: int
    ids: bytes = b""


def references(content: bytes) -> tuple[str, ...]:
    """The tools that a result names, in order: in its own parts, or found by the provider's search."""
    if _WORD not in content:
        return ()
    held = scan.member_at(content, 0, "content")
    if held is None:
        return ()
    parts = content[held.start : held.end]
    if parts[:1] == b"{":
        parts = (object_at(parts, 0) or {}).get("tool_references", b"")
    entries = [object_at(part, 0) or {} for part in array_of(parts) or ()]
    names = [string_of(part.get("tool_name")) for part in entries if string_of(part.get("type")) == "tool_reference"]
    return tuple(name for name in names if name is not None)


def late_tool(content: bytes, with_ids: bool) -> Late | None:
    """A deferred tool by its canonical text; None for one without a name, which nothing can refer to."""
    name = string_of((object_at(content, 0) or {}).get("name"))
    if name is None:
        return None
    ids = array("I", encode(content.decode("utf-8", "replace"))).tobytes() if with_ids else b""
    tokens = len(ids) // 4 if with_ids else estimate_json(content)
    return Late(name, sha256(content).digest()[:16], tokens, ids)


def expanded(block: Block, tools: list[Late]) -> Block:
    """A block with the definitions of the tools that it names."""
    digest = sha256(b"".join((block.digest, *(tool.digest for tool in tools)))).digest()[:16]
    tokens = block.tokens + sum(tool.tokens for tool in tools)
    return replace(block, digest=digest, tokens=tokens, ids=b"".join((block.ids, *(tool.ids for tool in tools))))
