"""The order of the tools array, and which tools stand in it: decided when a session begins and at resets.

A pure function of the tools that exist, the settings, and how often each was used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from holdfast.config.sections import Deferral
from holdfast.facts import estimate_json
from holdfast.records import ToolDefinition

from .carriers import definition_of, function_text
from .contract import Tool
from .deferral import deferred

_RANK = {"builtin": 0, "host": 1, "mcp": 2}


class Arrangement(Struct, frozen=True):
    """Definitions to declare, in order, and those to leave out until they are asked for."""

    declared: tuple[ToolDefinition, ...]
    deferred: tuple[ToolDefinition, ...]


def arranged(
    tools: Iterable[Tool],
    discovery: Sequence[Tool],
    settings: Deferral,
    *,
    context_limit: int,
    uses: Mapping[str, int],
    dialect: str = "",
    wanted: bool | None = None,
    keep: Collection[str] = (),
    out: Collection[str] = (),
) -> Arrangement:
    """What of these tools to declare. The tools for `discovery` are added where they are `wanted`, or by themselves
    where something is deferred or comes from an MCP server. Without them nothing is deferred: nobody could find it."""
    existing = _ordered(tools)

    def left_out(among: Sequence[Tool]) -> frozenset[str]:
        tokens = {tool.name: size_of(definition_of(tool)) for tool in among}
        return deferred(among, settings, context_limit=context_limit, tokens=tokens, uses=uses, keep=keep, out=out)

    if wanted is None:
        wanted = any(tool.source == "mcp" for tool in existing) or bool(left_out(existing))
    left: frozenset[str] = frozenset()
    if wanted:
        existing = _ordered((*existing, *discovery))
        left = left_out(existing)
    return Arrangement(
        tuple(definition_of(tool, dialect) for tool in existing if tool.name not in left),
        tuple(definition_of(tool, dialect) for tool in existing if tool.name in left),
    )


def _ordered(tools: Iterable[Tool]) -> list[Tool]:
    """Built-in tools and the host's as they were registered, then those of MCP servers by name: their order of arrival
    is a matter of chance."""
    return sorted(tools, key=lambda tool: (_RANK[tool.source], tool.name if tool.source == "mcp" else ""))


@lru_cache(maxsize=4096)
def size_of(definition: ToolDefinition) -> int:
    """About how many tokens a definition takes in a request."""
    return estimate_json(function_text(definition).encode())
