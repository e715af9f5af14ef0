"""Tools that a conversation makes known on its way, and the choice of those that may be called now.

On Anthropic a result names a deferred tool; on Responses an item holds the definitions. The model answers at the end,
so everything that stands in the conversation counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.records import Block, Opaque, Request, ToolDefinition, ToolResult
from holdfast.wire import array_of, object_of, references
from holdfast.wire.codecs import LATE_TOOLS, decode_tool

_HOLDERS = (LATE_TOOLS, "tool_search_output")


class LateTools(Struct, frozen=True):
    """Deferred tools that were made known by their names, and tools that came with their definitions."""

    names: frozenset[str] = frozenset()
    tools: tuple[ToolDefinition | Opaque, ...] = ()


def found(request: Request) -> LateTools:
    """What the conversation of a request has made known."""
    names: set[str] = set()
    tools: list[ToolDefinition | Opaque] = []
    for block in _opaque(request):
        if block.kind == "tool_reference":
            names.add(str(_members(block.raw).get("tool_name")))
        elif block.kind.endswith("tool_result"):
            names.update(references(block.raw))
        elif block.kind in _HOLDERS:
            held = [decode_tool(raw) for raw in array_of((object_of(block.raw) or {}).get("tools", b"")) or ()]
            tools += held
            names.update(tool.name for tool in held if isinstance(tool, ToolDefinition))
    return LateTools(frozenset(names), tuple(tools))


def _opaque(request: Request) -> Iterator[Opaque]:
    """The blocks of unknown kinds, in results too."""
    said = request.system_prompt if isinstance(request.system_prompt, tuple) else ()
    blocks: list[Block] = [*said, *(block for message in request.messages for block in message.content)]
    for block in blocks:
        for each in block.content if isinstance(block, ToolResult) else (block,):
            if isinstance(each, Opaque):
                yield each


def allowed(request: Request) -> frozenset[str] | None:
    """The tools that `tool_choice` restricts the model to; None where it may call any."""
    choice = _members(dict(request.rest).get("tool_choice", b""))
    if choice.get("type") != "allowed_tools":
        return None
    inner = choice.get("allowed_tools")
    tools = (inner if isinstance(inner, dict) else choice).get("tools")
    names = [_name(tool) for tool in tools] if isinstance(tools, list) else []
    return frozenset(name for name in names if name is not None)


def _name(tool: Any) -> str | None:
    """A tool by its name; Chat Completions wraps it once more."""
    function = tool.get("function", tool) if isinstance(tool, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else None


def _members(raw: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(raw) if raw else {}
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
