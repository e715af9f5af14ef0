"""All MCP servers of a process, shared by its live sessions: which tools there are now, and who is told of changes.

Lives in one event loop. Every change reaches every attached owner of a tools array at once, so that the next request of
its session knows of it; that a declared tool keeps its bytes is the owner's business.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from holdfast.config import Settings
from holdfast.config.sections import McpSettings
from holdfast.errors import HoldfastError
from holdfast.records.events import NO_SESSION, Bus, Event, McpServerDisconnected, McpToolsChanged

from ..contract import Tool
from ..journal import ToolJournal
from ..text_limits import shown
from .configuration import McpServer, McpServerStatus, servers
from .link import ServerLink
from .translation import few

logger = logging.getLogger(__name__)

START_TIMEOUT_S = 10.0
"""How long an agent waits for servers before it begins without them; they may come later."""
_CLOSE_S = 8.0
"""Longer than a program may take that has to be told twice to end."""


class ToolArrayOwner(Protocol):
    """The owner of a session's tools array, which is informed of changes."""

    def add(self, tools: Iterable[Tool]) -> tuple[str, ...]: ...

    def remove(self, names: Iterable[str], why: str = "") -> tuple[str, ...]: ...


class Hub:
    """The running servers. `workspace` is the root reported to servers that ask for it.

    Use it as a context, or `start` and `close` it. A session takes `tools()` and is attached in the same step; from
    then on it is notified. Events go to the attached sessions, or to none if there is no session.
    """

    def __init__(
        self,
        servers: Mapping[str, McpServer],
        *,
        settings: McpSettings | None = None,
        workspace: Path | None = None,
        bus: Bus | None = None,
    ) -> None:
        self._servers, self._settings, self._workspace = servers, settings or McpSettings(), workspace
        self._bus = bus
        self._links: dict[str, ServerLink] = {}
        self._owners: dict[int, tuple[ToolArrayOwner, str | None]] = {}
        self._listeners: dict[int, Callable[[Event], None]] = {}
        self._starting = asyncio.Lock()
        self._started = self._closed = False

    async def start(self, timeout_s: float | None = None) -> None:
        """Start every server that may be; returns when each has answered or failed once. HoldfastError without the SDK.

        None is waited for longer than its `start_timeout_s`, nor longer than `timeout_s` where that is given; what
        comes later is told to those who are attached.
        """
        async with self._starting:
            await self._start(timeout_s)

    async def _start(self, timeout_s: float | None) -> None:
        if any(not server.blocked for server in self._servers.values()):
            await asyncio.to_thread(_require)
        if self._started or self._closed:
            return
        self._started = True
        root = self._workspace.absolute() if self._workspace is not None else None
        self._links = {
            name: ServerLink(server, self._settings, root, self._changed) for name, server in self._servers.items()
        }
        for link in self._links.values():
            link.start()
        try:
            async with asyncio.timeout(timeout_s):
                for link in self._links.values():
                    await link.settled.wait()
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            await self.close()
            raise

    async def close(self) -> None:
        """End every connection and every program that was started, without an event: the sessions end too."""
        self._closed = True
        self._owners.clear()
        self._bus = None
        await asyncio.gather(*(link.close(_CLOSE_S) for link in self._links.values()))
        for link in self._links.values():
            link.tools = {}

    async def __aenter__(self) -> Hub:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def tools(self) -> tuple[Tool, ...]:
        """The tools there are now, by name."""
        every = {name: tool for link in self._links.values() for name, tool in link.tools.items()}
        return tuple(every[name] for name in sorted(every))

    def status(self) -> tuple[McpServerStatus, ...]:
        """How every server is, also those that are not used, by name."""
        if not self._links:
            links = [ServerLink(server, self._settings, None, self._changed) for server in self._servers.values()]
        else:
            links = list(self._links.values())
        return tuple(sorted((link.status() for link in links), key=lambda status: status.server))

    def attach(
        self, owner: ToolArrayOwner, *, session: str | None = None, listener: Callable[[Event], None] | None = None
    ) -> None:
        """Notify this owner of changes from now on. Events are those of `session`, and `listener` gets them too."""
        self._owners[id(owner)] = (owner, session)
        if listener is not None:
            self._listeners[id(owner)] = listener

    def detach(self, owner: ToolArrayOwner) -> None:
        self._owners.pop(id(owner), None)
        self._listeners.pop(id(owner), None)

    # What links find out

    def _changed(self, link: ServerLink, tools: Mapping[str, Tool], why: str) -> None:
        """A server has these tools from now on. `why` is said where it has none because it was lost."""
        before = link.tools
        after = self._free(link, tools)
        removed = [name for name in before if name not in after]
        came = [tool for name, tool in after.items() if name not in before]
        other = [tool for name, tool in after.items() if name in before and not _same(before[name], tool)]
        link.tools = after
        if removed:
            reason = f"the MCP server {link.server.name} no longer offers it"
            if why:
                reason = f"the MCP server {link.server.name} is not connected ({why})"
            for owner, _ in tuple(self._owners.values()):
                _remove(owner, removed, reason)
        if came or other:
            for owner, _ in tuple(self._owners.values()):
                _add(owner, [*came, *other])
        if why:
            self._emit(McpServerDisconnected(server=link.server.name, tools=tuple(sorted(before)), error=why))
        elif removed or (came and (link.settled.is_set() or self._owners)):
            added = tuple(sorted(tool.name for tool in came))
            self._emit(McpToolsChanged(server=link.server.name, added=added, removed=tuple(sorted(removed))))

    def _free(self, link: ServerLink, tools: Mapping[str, Tool]) -> dict[str, Tool]:
        """Return the tools whose names no other server uses."""
        taken = {name for other in self._links.values() if other is not link for name in other.tools}
        both = (
            f"the tool {name} is left out: another server has one of this name" for name in sorted(taken & set(tools))
        )
        link.warnings = few((*link.warnings, *both))
        return {name: tool for name, tool in tools.items() if name not in taken}

    def _emit(self, event: Event) -> None:
        sessions = {session for _, session in self._owners.values() if session is not None} or {NO_SESSION}
        for session in sorted(sessions):
            ToolJournal(self._bus, session).emit(event, actor="system")
        for listener in tuple(self._listeners.values()):
            listener(event)


def _same(tool: Tool, other: Tool) -> bool:
    """Whether two tools are the same but for the function that runs them."""
    return all(getattr(tool, field) == getattr(other, field) for field in Tool.__struct_fields__ if field != "run")


def _add(owner: ToolArrayOwner, tools: list[Tool]) -> None:
    try:
        owner.add(tools)
    except HoldfastError as problem:
        if len(tools) == 1:
            logger.warning("the tool %s is not used: %s", shown(tools[0].name), problem)
            return
        for tool in tools:  # one that it cannot take must not cost the others
            _add(owner, [tool])
    except Exception:  # nor any fault of its owner the connection
        logger.exception("the tools of an MCP server could not be added")


def _remove(owner: ToolArrayOwner, names: list[str], why: str) -> None:
    try:
        owner.remove(names, why)
    except Exception:
        logger.exception("the tools of an MCP server could not be removed")


def _require() -> None:
    """Import the SDK, which takes a second."""
    try:
        importlib.import_module("mcp")
    except ImportError as problem:
        raise HoldfastError("MCP servers need the MCP SDK; pip install 'holdfast[mcp]'") from problem
    importlib.import_module("holdfast.tools.mcp.connection")


def usable(settings: Settings, workspace: Path, home: Path, notice: Callable[[str], None]) -> dict[str, McpServer]:
    """The servers that may be started. Of others a notice says why not, unless that was the user's wish."""
    named = servers(settings, workspace, home)
    for server in named.values():
        if server.blocked and not server.ourselves and "switched off" not in server.blocked:
            notice(f"MCP server {server.name}: {server.blocked}")
    return {name: server for name, server in named.items() if not server.blocked}


async def started(
    named: Mapping[str, McpServer], settings: Settings, *, workspace: Path | None = None, bus: Bus | None = None
) -> Hub:
    """A hub with these servers."""
    hub = Hub(named, settings=settings.mcp, workspace=workspace, bus=bus)
    await hub.start(START_TIMEOUT_S)
    return hub


def unconnected(hub: Hub) -> Iterator[str]:
    """Yield a line for each server that is not connected."""
    for each in hub.status():
        if each.state != "connected":
            yield f"MCP server {each.server} is not connected: {each.why or 'it has not answered yet'}"
