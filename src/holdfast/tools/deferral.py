"""Which tools are left out of a request until somebody asks for them.

Pure functions of tools, settings and counts. Definitions cost tokens on every request; a tool that is left out costs
one search when it is wanted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal

from holdfast.config.sections import Deferral

from .contract import CALL_TOOL, DISCOVER_TOOLS, Tool

Pin = Literal["never", "always"]

DISCOVERY = frozenset({DISCOVER_TOOLS, CALL_TOOL})
"""What leads to the others: deferred, nothing else could be found or called."""


def pinned(name: str, settings: Deferral) -> Pin | None:
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


def deferred(
    tools: Sequence[Tool],
    settings: Deferral,
    *,
    context_limit: int,
    tokens: Mapping[str, int],
    uses: Mapping[str, int],
    keep: Collection[str] = (),
    out: Collection[str] = (),
) -> frozenset[str]:
    """The names of the tools to leave out, of those that a request could declare.

    `auto` leaves out, once definitions take more than the budget, as few as bring them under it: those that cost most
    for how often they are used first, core tools never. `keep` are tools that have proved useful: `always` declares
    them, `auto` leaves them out last. `out` are tools that have not: they are left out whatever the budget. Pins win
    over both.
    """
    pins = {tool.name: pinned(tool.name, settings) for tool in tools}
    left = {name for name, pin in pins.items() if pin == "always" or (name in out and pin is None)}
    others = [tool for tool in tools if pins[tool.name] is None and not tool.core and tool.name not in left]
    if settings.mode == "always":
        left.update(tool.name for tool in others if tool.name not in keep)
    elif settings.mode == "auto":
        size = sum(tokens.get(name, 0) for name in pins if name not in left)

        def order(tool: Tool) -> tuple[bool, float, str]:
            return tool.name in keep, -tokens.get(tool.name, 0) / (1 + uses.get(tool.name, 0)), tool.name

        for tool in sorted(others, key=order):
            if size <= settings.budget * context_limit:
                break
            left.add(tool.name)
            size -= tokens.get(tool.name, 0)
    return frozenset(left)
