"""Which tools the array holds, in which order, and which are left out until somebody asks for them.

Decided when a session begins and at resets, by pure functions of tools, settings and counts. Definitions cost tokens on
every request; a tool that is left out costs one search when it is wanted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from holdfast.config.sections import DeferralSettings
from holdfast.facts import estimate_json
from holdfast.records import ToolDefinition

from .carriers import definition_of, function_text
from .contract import CALL_TOOL, DISCOVER_TOOLS, Tool

Pin = Literal["never", "always"]

DISCOVERY = frozenset({DISCOVER_TOOLS, CALL_TOOL})
"""What leads to the others: deferred, nothing else could be found or called."""

_RANK = {"builtin": 0, "host": 1, "mcp": 2}


class DeferralPolicy(Struct, frozen=True, kw_only=True):
    """By what the tools that are left out are chosen. Pins of the settings win over `keep` and `out`."""

    settings: DeferralSettings
    context_limit: int
    uses: Mapping[str, int] = {}  # calls by tool
    keep: Collection[str] = ()  # tools that proved useful: `always` declares them, `auto` leaves them out last
    out: Collection[str] = ()  # tools that did not: they are left out whatever the budget


class Arrangement(Struct, frozen=True):
    """Definitions to declare, in order, and those to leave out until they are asked for."""

    declared: tuple[ToolDefinition, ...]
    deferred: tuple[ToolDefinition, ...]


def arrange(
    tools: Iterable[Tool],
    discovery: Sequence[Tool],
    policy: DeferralPolicy,
    *,
    dialect: str = "",
    wanted: bool | None = None,
) -> Arrangement:
    """What of these tools to declare. The tools for `discovery` are added where they are `wanted`, or by themselves
    where something is deferred or comes from an MCP server. Without them nothing is deferred: nobody could find it."""
    existing = _ordered(tools)

    def left_out(among: Sequence[Tool]) -> frozenset[str]:
        return deferred(among, policy, {tool.name: size_of(definition_of(tool)) for tool in among})

    if wanted is None:
        wanted = any(tool.source == "mcp" for tool in existing) or bool(left_out(existing))
    out: frozenset[str] = frozenset()
    if wanted:
        existing = _ordered((*existing, *discovery))
        out = left_out(existing)
    return Arrangement(
        tuple(definition_of(tool, dialect) for tool in existing if tool.name not in out),
        tuple(definition_of(tool, dialect) for tool in existing if tool.name in out),
    )


def _ordered(tools: Iterable[Tool]) -> list[Tool]:
    """Built-in tools and the host's as they were registered, then those of MCP servers by name: their order of arrival
    is a matter of chance."""
    return sorted(tools, key=lambda tool: (_RANK[tool.source], tool.name if tool.source == "mcp" else ""))


@lru_cache(maxsize=4096)
def size_of(definition: ToolDefinition) -> int:
    """About how many tokens a definition takes in a request."""
    return estimate_json(function_text(definition).encode())


def pinned(name: str, settings: DeferralSettings) -> Pin | None:
    """How the settings pin a tool, in every mode.

    A name counts before a pattern (`mcp__github__*`), so that a tool can be excepted from its server's pin. Where both
    lists have the name, or both a pattern for it, `never` counts: what is declared can always be called.
    """
    if name in DISCOVERY:
        return "never"
    if name in settings.never:
        return "never"
    if name in settings.always:
        return "always"
    if any(fnmatchcase(name, pattern) for pattern in settings.never):
        return "never"
    return "always" if any(fnmatchcase(name, pattern) for pattern in settings.always) else None


def deferred(tools: Sequence[Tool], policy: DeferralPolicy, tokens: Mapping[str, int]) -> frozenset[str]:
    """The names of the tools to leave out, of those that a request could declare; `tokens` is what each costs.

    `auto` leaves out, once definitions take more than the budget, as few as bring them under it: those that cost most
    for how often they are used first, core tools never.
    """
    settings, keep, uses = policy.settings, policy.keep, policy.uses
    pins = {tool.name: pinned(tool.name, settings) for tool in tools}
    names = {name for name, pin in pins.items() if pin == "always" or (name in policy.out and pin is None)}
    others = [tool for tool in tools if pins[tool.name] is None and not tool.core and tool.name not in names]
    if settings.mode == "always":
        names.update(tool.name for tool in others if tool.name not in keep)
    elif settings.mode == "auto":
        size = sum(tokens.get(name, 0) for name in pins if name not in names)

        def order(tool: Tool) -> tuple[bool, float, str]:
            return tool.name in keep, -tokens.get(tool.name, 0) / (1 + uses.get(tool.name, 0)), tool.name

        for tool in sorted(others, key=order):
            if size <= settings.budget * policy.context_limit:
                break
            names.add(tool.name)
            size -= tokens.get(tool.name, 0)
    return frozenset(names)
