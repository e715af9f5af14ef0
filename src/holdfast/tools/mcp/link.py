"""One server over its whole life: started, watched, lost, retried, given up.

Runs in a task of its own and reports changes to the hub immediately; a call of one of its tools uses the current
connection, or fails if there is none.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.config.sections import McpSettings

from ..contract import Run, Tool, ToolContext, ToolExecutionError, ToolOutput
from ..text_limits import describe_error
from .configuration import ConnectionLost, McpServer, McpServerStatus, State
from .translation import ListedTool, few, tools_of

if TYPE_CHECKING:
    from .connection import ServerConnection

_NOTED_S = 2.0
_SPACING_S = 1.0
_OFTEN = 10
"""Lists that are asked for as fast as they change; after that one in `_SPACING_S`."""

Tell = Callable[["ServerLink", Mapping[str, Tool], str], None]
"""The tools that a server has from now on, and, where it has none because it was lost, why."""


def _described(tools: Mapping[str, Tool]) -> list[tuple[str, str, bytes]]:
    return [(tool.name, tool.description, tool.input_schema) for tool in tools.values()]


class ServerLink:
    """A server and its state. `tell` is called after every change of its tools."""

    def __init__(self, server: McpServer, settings: McpSettings, root: Path | None, tell: Tell) -> None:
        self.server, self._settings, self._root, self._tell = server, settings, root, tell
        self.state: State = "blocked" if server.blocked else "starting"
        self.why = server.blocked
        self.tools: Mapping[str, Tool] = {}
        self.warnings: tuple[str, ...] = ()
        self.version = ""
        self.settled = asyncio.Event()
        """Set when the first try has come to an end, good or bad."""
        self._wake = asyncio.Event()
        self._closing = False
        self._not_before = 0.0
        self._list_times: deque[float] = deque(maxlen=_OFTEN)
        self._connection: ServerConnection | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self.server.blocked:
            self.settled.set()
        else:
            self._task = asyncio.create_task(self._run(), name=f"mcp {self.server.name}")

    async def close(self, timeout_s: float) -> None:
        """Stop the server and wait for its end; after so many seconds without asking."""
        self._closing = True
        self._wake.set()
        if self._task is not None:
            if self._connection is not None:
                await asyncio.wait({self._task}, timeout=timeout_s)
            self._task.cancel()
            await asyncio.wait({self._task})
        if self.state != "blocked":
            self.state, self.why, self._connection = "closed", "It was closed.", None
        self.settled.set()

    def status(self) -> McpServerStatus:
        return McpServerStatus(
            server=self.server.name,
            state=self.state,
            why=self.why,
            tools=tuple(sorted(self.tools)),
            warnings=self.warnings,
            version=self.version,
        )

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> ToolOutput:
        connection, name = self._connection, f"The MCP server {self.server.name}"
        if connection is None:
            raise ToolExecutionError(f"{name} is not connected.")
        try:
            return await connection.call(tool, arguments)
        except ConnectionLost as problem:
            # Its tools have left when the model hears of it, so that its next request knows.
            with suppress(TimeoutError):
                await asyncio.wait_for(connection.noted.wait(), _NOTED_S)
            brief = connection.why(problem)[0]
            raise ToolExecutionError(
                f"{name} was lost during the call ({brief}). Whether the call took effect is not known."
            ) from problem

    # Its life

    async def _run(self) -> None:
        from .connection import ServerConnection

        failures = 0
        while True:
            self._wake.clear()
            self.state = "starting"
            connection = ServerConnection(self.server, self._settings, self._root, self._wake.set)
            began = time.monotonic()
            try:
                await self._live(connection)
            except Exception as problem:  # noqa: BLE001  whatever ends a connection, the next one is tried
                self._lost(connection, problem)
            if self._is_closing():
                return
            failures = 1 if time.monotonic() - began > self._settings.reconnect_max_s else failures + 1
            if failures > self._settings.reconnect_tries:
                again = " It is not tried again." if self._settings.reconnect_tries else ""  # nobody expects it to be
                self.state, self.why = "failed", f"{self.why}{again}"
                return
            await self._pause(failures)

    def _is_closing(self) -> bool:
        return self._closing

    async def _live(self, connection: ServerConnection) -> None:
        async with connection.open():
            tools = await connection.tools()
            self._connection = connection
            self.state, self.why, self.version = "connected", "", connection.version
            self._offer(connection, tools)
            self.settled.set()
            while not self._is_closing():
                try:
                    await self._look(connection)
                except ConnectionLost as problem:
                    self._lost(connection, problem)  # its tools leave at once: what follows may wait for its end
                    return
                if connection.over:
                    await connection.settled()
                    self._lost(connection)
                    return

    async def _look(self, connection: ServerConnection) -> None:
        """Wait for something to happen, and see to it."""
        try:
            # A program that ends closes its pipes; at an address silence says nothing.
            limit = self._settings.ping_s if self.server.url is not None else None
            await asyncio.wait_for(self._wake.wait(), limit)
        except TimeoutError:
            connection.suspect = connection.idle  # a call in flight notices by itself, and may keep a server busy
        self._wake.clear()
        if self._closing or connection.over:
            return
        if connection.suspect:
            await connection.ping()
        if connection.changed and (early := self._not_before - time.monotonic()) > 0:
            asyncio.get_running_loop().call_later(early, self._wake.set)
        elif connection.changed:
            await self._refresh_tools(connection)

    async def _refresh_tools(self, connection: ServerConnection) -> None:
        """Ask for the list of tools once more. A list that cannot be had leaves what is there."""
        before = _described(self.tools)
        try:
            tools = await connection.tools()
        except Exception as problem:  # noqa: BLE001  a server's fault; that it is gone is noticed elsewhere
            if not connection.over:
                self.warnings = few(
                    (*self.warnings, f"its list of tools could not be read again ({describe_error(problem, 200)})")
                )
                self._not_before = time.monotonic() + _SPACING_S
                connection.suspect = True
                self._wake.set()
            return
        self._offer(connection, tools)
        # Some servers announce a change whenever they are asked, or change all the time: those are asked now and then.
        now = time.monotonic()
        self._list_times.append(now)
        often = len(self._list_times) == _OFTEN and now - self._list_times[0] < _OFTEN * _SPACING_S
        self._not_before = now + _SPACING_S if often or _described(self.tools) == before else 0.0

    def _offer(self, connection: ServerConnection, listed: tuple[ListedTool, ...]) -> None:
        warnings = list(connection.warnings)
        runs = {tool.name: self._caller(tool.name) for tool in listed}
        tools = tools_of(self.server, listed, self._settings, runs, warnings)
        self.warnings = few(warnings)
        self._tell(self, tools, "")

    def _caller(self, tool: str) -> Run:
        async def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
            return await self.call(tool, arguments)

        return run

    def _lost(self, connection: ServerConnection, problem: BaseException | None = None) -> None:
        if self.state == "waiting":
            return
        was = self._connection is not None
        brief, full = connection.why(problem)
        self.state, self._connection = "waiting", None
        self.why = f"It was lost: {full}." if was else f"It was not reached: {full}."
        if was:
            self._tell(self, {}, brief)
        connection.noted.set()
        self.settled.set()

    async def _pause(self, failures: int) -> None:
        delay = min(self._settings.reconnect_s * 2 ** min(failures - 1, 30), self._settings.reconnect_max_s)
        deadline = time.monotonic() + delay
        while not self._is_closing() and (seconds := deadline - time.monotonic()) > 0:
            self._wake.clear()
            try:
                await asyncio.wait_for(self._wake.wait(), seconds)
            except TimeoutError:
                return
