"""The servers of a configuration, started for an agent: which may be, and what to tell of those that are not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from holdfast.config import Settings
from holdfast.records.events import Bus

from .configuration import servers
from .hub import Hub
from .server import Server

PATIENCE_S = 10.0
"""How long an agent waits for servers before it begins without them; they may come later."""


def usable(settings: Settings, workspace: Path, home: Path, notice: Callable[[str], None]) -> dict[str, Server]:
    """The servers that may be started. Of others a notice says why not, unless that was the user's wish."""
    named = servers(settings, workspace, home)
    for server in named.values():
        if server.blocked and not server.ourselves and "switched off" not in server.blocked:
            notice(f"MCP server {server.name}: {server.blocked}")
    return {name: server for name, server in named.items() if not server.blocked}


async def started(
    named: Mapping[str, Server], settings: Settings, *, workspace: Path | None = None, bus: Bus | None = None
) -> Hub:
    """A hub with these servers."""
    hub = Hub(named, settings=settings.mcp, workspace=workspace, bus=bus)
    await hub.start(PATIENCE_S)
    return hub


def unconnected(hub: Hub) -> Iterator[str]:
    """What is said of each server that has not come."""
    for each in hub.status():
        if each.state != "connected":
            yield f"MCP server {each.server} is not connected: {each.why or 'it has not answered yet'}"
