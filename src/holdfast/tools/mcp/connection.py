"""One connection to a server, from the first word to the last: what is asked over it, and how its end is noticed.

The SDK's contexts are entered and left in the task that opened the connection; calls may come from any task of the same
event loop. This is the one module that knows the SDK's session; it is imported when a server is started.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import httpx2
import mcp_types as types
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    CONNECTION_CLOSED,
    METHOD_NOT_FOUND,
    REQUEST_TIMEOUT,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from holdfast.config import mask
from holdfast.config.sections import McpSettings
from holdfast.records import Block, Image, Text
from holdfast.version import __version__

from ..contract import ToolExecutionError, ToolOutput
from ..text_limits import cut, describe_error, error_text, mend, shown
from . import translation
from .configuration import ConnectionLost, McpServer
from .http import HttpEndpoint
from .stdio import ServerProgram
from .translation import ListedTool

_MOST_PAGES = 100
_PING_S = 10.0
_SENT_S = 1.0
_PATH = re.compile(r"(https?://[^/\s]+)/\S+")
_LONGEST_WHY = 1_500
_CLOSED = "the connection was closed"
MOST_ASKED = 1_000
"""Questions of a server that wait for their answers to be taken. What it asks beyond that is not answered."""
_Result: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)

# What the SDK logs of a server's faults is said in our own words; without a handler Python would print it.
for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


class RepairingDispatcher(JSONRPCDispatcher[TransportContext]):
    """The SDK's dispatcher, which also reports its end, and repairs a server's answers before the SDK validates them:
    one bad tool would lose the whole list, one unknown kind of content the whole result."""

    def __init__(self, read: Any, write: Any, ended: Callable[[], None]) -> None:
        super().__init__(read, write)
        self._tell_end = ended
        self.over = False
        self.left_out: list[str] = []

    async def run(self, *args: Any, **kwargs: Any) -> None:
        try:
            await super().run(*args, **kwargs)
        finally:
            self.over = True
            self._tell_end()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **more: Any
    ) -> dict[str, Any]:
        result = await super().send_raw_request(method, params, opts, **more)
        if method == "tools/list":
            return translation.mended_list(result, self.left_out)
        return translation.mended_result(result) if method == "tools/call" else result


class ServerConnection:
    """What can be asked of a server while it is there. `wake` is called whenever there is something to look at."""

    def __init__(self, server: McpServer, settings: McpSettings, root: Path | None, wake: Callable[[], None]) -> None:
        self.server, self.settings, self._root, self._wake = server, settings, root, wake
        self.changed = False
        self.suspect = False
        self.noted = asyncio.Event()
        """Set when all owners know that the connection is over."""
        self.version = ""
        self.warnings: tuple[str, ...] = ()
        self._calls = 0
        largest = settings.max_message_bytes
        self._transport = (
            HttpEndpoint(server, largest, self._suspected) if server.url else ServerProgram(server, largest)
        )

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Connect, agree on a version, and stay until left. Raises whatever the connection breaks with."""
        async with self._transport.running() as (read, write):
            self.wire = RepairingDispatcher(*bound_questions(read, write), self._wake)
            info = types.Implementation(name="holdfast", version=__version__)
            self._session = ClientSession(
                dispatcher=self.wire,
                client_info=info,
                message_handler=self._hear,
                list_roots_callback=self._roots if self._root is not None else None,
            )
            async with self._session, anyio.create_task_group() as tasks:
                async with asyncio.timeout(self._start_timeout_s):
                    await self._agree()
                if self._modern and self._tells_changes:
                    tasks.start_soon(self._follow)
                try:
                    yield
                finally:
                    tasks.cancel_scope.cancel()

    async def _agree(self) -> None:
        """The handshake that every server knows; for those that have left it behind, what came after it."""
        try:
            await self._session.initialize()
        except MCPError as error:
            if error.code in (CONNECTION_CLOSED, REQUEST_TIMEOUT):
                raise
            try:
                await self._session.discover()
            except MCPError as second:
                raise (error if second.code == METHOD_NOT_FOUND else second) from None
        info = self._session.server_info
        self.version = shown(f"{info.name} {info.version}").strip() if info is not None else ""

    @property
    def over(self) -> bool:
        return self.wire.over

    @property
    def idle(self) -> bool:
        return self._calls == 0

    @property
    def _modern(self) -> bool:
        return self._session.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def _tells_changes(self) -> bool:
        able = self._session.server_capabilities
        return able is not None and able.tools is not None and bool(able.tools.list_changed)

    async def settled(self) -> None:
        await self._transport.settled()

    def why(self, error: BaseException | None = None) -> tuple[str, str]:
        """Return why the connection is over, as parts of a sentence: briefly in our words, and with all details."""
        ended = self._transport.ended()
        brief, detail = _reason(error, self.server, self._start_timeout_s)
        parts = (ended, "" if ended and detail == _CLOSED else detail, self._transport.words())
        full = "; ".join(part for part in parts if part)
        if self.server.url is not None:  # the path of an address may be a key
            full = _PATH.sub(r"\1/…", full)
        return ended or brief, cut(full, _LONGEST_WHY)

    @property
    def _start_timeout_s(self) -> float:
        return self.server.start_timeout_s or self.settings.start_timeout_s

    async def tools(self) -> tuple[ListedTool, ...]:
        """The server's tools, in its order; what cannot be used is in `warnings`."""
        self.changed = False
        self.wire.left_out = []
        able = self._session.server_capabilities
        read: list[ListedTool | str] = []
        if able is not None and able.tools is not None:
            async with asyncio.timeout(self._start_timeout_s):
                read = await self._pages(time.monotonic() + self._start_timeout_s)
        self.warnings = translation.few((*self.wire.left_out, *(item for item in read if isinstance(item, str))))
        return tuple(item for item in read if isinstance(item, ListedTool))

    async def _pages(self, deadline: float) -> list[ListedTool | str]:
        """Return the tools of all pages, with notes on those left out. Only the necessary parts of a page are kept."""
        tools: list[ListedTool | str] = []
        cursors: set[str | None] = {None}
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor) if cursor is not None else None
            page = await self._session.list_tools(params=params)
            tools += await asyncio.to_thread(_read, page.tools[: translation.MOST_TOOLS + 1], deadline)
            cursor = page.next_cursor
            if cursor in cursors or len(tools) > translation.MOST_TOOLS:
                break
            if sum(map(_size, tools)) > self.settings.max_message_bytes:
                tools.append("further tools are left out: its list is larger than a message may be")
                break
            cursors.add(cursor)
        return tools

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> ToolOutput:
        """Call the tool and return its output; raises ToolExecutionError with the reason if it fails, ConnectionLost if
        the connection ends first. On cancellation or timeout the server is told to stop."""
        limit = self.server.timeout_s or self.settings.timeout_s
        params = types.CallToolRequestParams(name=tool, arguments=_sendable(arguments))
        self._calls += 1
        try:
            # The SDK's clock starts when the call is sent, which never happens where a server does not read.
            async with asyncio.timeout(limit + _SENT_S):
                result = await self._session.send_request(types.CallToolRequest(params=params), _Result, limit)
        except TimeoutError as error:
            raise ToolExecutionError(f"{self._name} did not answer within {limit:g} s.") from error
        except MCPError as error:
            if error.code == CONNECTION_CLOSED and (self.over or error.message == "Connection closed"):
                raise ConnectionLost(_CLOSED) from error
            raise ToolExecutionError(self._refusal(error, limit)) from error
        except ValidationError as error:
            raise ToolExecutionError(f"{self._name} answered with something that is no result.") from error
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            raise ConnectionLost(_CLOSED) from error
        finally:
            self._calls -= 1
        if isinstance(result, types.InputRequiredResult):
            raise ToolExecutionError(
                f"{self._name} asks its user for more before it goes on; here nobody can answer it."
            )
        if result.is_error:
            raise ToolExecutionError(translation.failure("\n".join(_texts(result))))
        return ToolOutput(content=_blocks(result))

    @property
    def _name(self) -> str:
        return f"The MCP server {self.server.name}"

    def _refusal(self, error: MCPError, limit: float) -> str:
        message = translation.failure(error.message)
        if error.code == REQUEST_TIMEOUT:
            return f"{self._name} did not answer within {limit:g} s and was told to stop."
        if error.code == CONNECTION_CLOSED or self._transport.ended():
            self._suspected()
        return f"{self._name} did not carry out the call: {message}"

    async def ping(self) -> None:
        """Ask whether the server is there and knows us; Lost if not. One that does not know this question is asked for
        its tools."""
        self.suspect = False
        try:
            async with asyncio.timeout(_PING_S):
                if await self._answers(self._session.send_ping):
                    return
                if not await self._answers(self._session.list_tools):
                    raise ConnectionLost(self._transport.ended() or _CLOSED)
        except TimeoutError as error:
            raise ConnectionLost(f"it did not answer within {_PING_S:g} s") from error

    async def _answers(self, question: Callable[[], Awaitable[object]]) -> bool:
        try:
            await question()
        except MCPError as error:
            return error.code not in (CONNECTION_CLOSED, REQUEST_TIMEOUT) and not self._transport.ended()
        except ValidationError:
            pass
        return True

    # What the server says unasked

    async def _hear(self, message: types.ServerNotification | Exception) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._tools_changed()

    async def _follow(self) -> None:
        """Servers without a handshake say what changed only to those who ask for it, as long as they ask."""
        delay = self.settings.reconnect_s
        while True:
            try:
                async with listen(self._session, tools_list_changed=True) as changes:
                    delay = self.settings.reconnect_s
                    async for _ in changes:
                        self._tools_changed()
            except (MCPError, SubscriptionLost) as error:
                if isinstance(error, MCPError) and error.code == METHOD_NOT_FOUND:
                    return
            self._tools_changed()  # it may have changed while nobody was told
            self._suspected()
            await anyio.sleep(delay)
            delay = min(2 * delay, self.settings.reconnect_max_s)

    def _tools_changed(self) -> None:
        self.changed = True
        self._wake()

    def _suspected(self) -> None:
        self.suspect = True
        self._wake()

    async def _roots(self, context: ClientRequestContext) -> types.ListRootsResult:
        assert self._root is not None
        return types.ListRootsResult(
            roots=[types.Root.model_validate({"uri": self._root.as_uri(), "name": "workspace"})]
        )


def _reason(error: BaseException | None, server: McpServer, timeout_s: float) -> tuple[str, str]:
    """Return the first error: in our own words, and with those of the server. Never an address with its path."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is None:
        return _CLOSED, _CLOSED
    if isinstance(error, TimeoutError):
        late = f"it did not answer within {timeout_s:g} s"
        return late, late
    if isinstance(error, ConnectionLost):
        return str(error), str(error)
    if isinstance(error, MCPError):
        if error.code == CONNECTION_CLOSED:
            return _CLOSED, _CLOSED
        return "it refused the connection", f"it refused the connection ({shown(error.message)})"
    if isinstance(error, OSError) and server.command is not None:
        return "it cannot be started", f"{shown(server.command)} cannot be started ({_missing(error, server)})"
    if isinstance(error, httpx2.ConnectError) and server.url is not None:
        address = httpx2.URL(server.url)
        place = shown(f"{address.scheme}://{address.netloc.decode('ascii', 'replace')}")
        return "it cannot be reached", f"there is no connection to {place} ({mask(cut(error_text(error), 300))})"
    return "it cannot be reached", str(mask(describe_error(error, 300)))


def _missing(error: OSError, server: McpServer) -> str:
    if isinstance(error, FileNotFoundError) and server.command is not None:
        if error.filename == server.cwd:
            return f"there is no directory {shown(server.cwd or '')}"
        if "/" not in server.command:
            return "there is no such program on the PATH"
    return error.strerror or str(error)


def _size(item: ListedTool | str) -> int:
    return len(item) if isinstance(item, str) else sum(map(len, (item.name, item.title, item.description, item.schema)))


def _read(tools: list[types.Tool], deadline: float) -> list[ListedTool | str]:
    """The tools that are read before the deadline: a thread cannot be cancelled, and would keep the process alive."""
    return [
        translation.listed(
            tool.name,
            tool.input_schema,
            description=tool.description or "",
            title=tool.title or "",
            read_only=bool(tool.annotations and tool.annotations.read_only_hint),
        )
        for tool in takewhile(lambda _: time.monotonic() < deadline, tools)
    ]


def _sendable(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with valid texts: a model may write half a character, which no message can hold."""
    text = json.dumps(dict(arguments), ensure_ascii=False)
    return dict(arguments) if mend(text) is text else dict(json.loads(mend(text)))


def _texts(result: types.CallToolResult) -> list[str]:
    return [part.text for part in result.content if isinstance(part, types.TextContent)]


def _blocks(result: types.CallToolResult) -> tuple[Block, ...]:
    blocks: list[Block] = []
    for part in result.content:
        if isinstance(part, types.TextContent):
            blocks.append(Text(part.text))
        elif isinstance(part, types.ImageContent):
            blocks.append(Image(media_type=part.mime_type, data=part.data))
    return tuple(blocks)


def bound_questions(read: Any, write: Any) -> tuple[Any, Any]:
    """Both streams of a connection, without the questions that are too many.

    A server that asks without end and takes no answer would fill the memory: the SDK begins a task for every question.
    """
    open_ = _Open()
    return _Reading(read, open_), _Writing(write, open_)


class _Open:
    """How many questions wait."""

    count = 0


class _Stream:
    def __init__(self, stream: Any, open_: _Open) -> None:
        self._stream, self._open = stream, open_

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> Any:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._stream.__aexit__(*error)


class _Reading(_Stream):
    def __aiter__(self) -> _Reading:
        return self

    async def __anext__(self) -> Any:
        while True:
            item = await self._stream.__anext__()
            if not isinstance(getattr(item, "message", None), JSONRPCRequest):
                return item
            if self._open.count < MOST_ASKED:
                self._open.count += 1
                return item


class _Writing(_Stream):
    async def send(self, item: Any) -> None:
        try:
            await self._stream.send(item)
        finally:
            if isinstance(item.message, (JSONRPCResponse, JSONRPCError)):
                self._open.count -= 1
