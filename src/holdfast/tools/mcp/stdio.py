"""A server that is a program: started, spoken to line by line, and stopped with everything it started.

The SDK has a transport of this kind. This one also bounds the length of a line, reads on where one is no message, and
knows how the program ended and what it last said on standard error.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter

from ..descendants import Descendants
from ..text_limits import cut, shown
from .configuration import McpServer

STOP_S = 2.0
"""How long a program may take to end when its input is closed, and again when it is told to."""
_LATE_S = 0.5
_LOOK_S = 0.02
_CHUNK = 65_536
_KEPT = 1_000
_ALSO_INHERITED = ("LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ")
_LAST_LINES = 20
_LONGEST_LINE = 500
_LONGEST_WORDS = 1_000
_LONGEST_STRAY = 200
_ID = rb'"id"\s*:\s*(\d+)'
_ID_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID + rb"\s*,")
_ID_LAST = re.compile(_ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')

Streams: TypeAlias = tuple[
    "MemoryObjectReceiveStream[SessionMessage | Exception]", "MemoryObjectSendStream[SessionMessage]"
]


class _Protocol(asyncio.subprocess.SubprocessStreamProtocol):
    """Says at once that the program ended; asyncio's own `wait` waits for the pipes too, which a child may hold."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=_CHUNK, loop=loop)
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()


class ServerProgram:
    """One run of a server's program: `ended` describes an exit of its own, `words` its last output."""

    def __init__(self, server: McpServer, largest: int) -> None:
        self._server, self._largest = server, largest
        self._transport: asyncio.SubprocessTransport | None = None
        self._protocol: _Protocol | None = None
        self._others = Descendants()
        self._code: int | None = None
        self._read = asyncio.Event()
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self._stray = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Streams]:
        process = await self._start()
        to_session, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, from_session = anyio.create_memory_object_stream[SessionMessage](0)
        with to_session, read, write, from_session:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._receive, process, to_session)
                tasks.start_soon(self._send, process, from_session, to_session)
                tasks.start_soon(self._listen, process)
                tasks.start_soon(self._watch, to_session)
                try:
                    yield read, write
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._stop(process, write)
                    tasks.cancel_scope.cancel()

    async def settled(self) -> None:
        """Wait a moment for the program's end, where the connection ended first."""
        if self._protocol is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._protocol.exited.wait(), _LATE_S)
            self._note_end()

    def ended(self) -> str:
        """How the program ended, as part of a sentence; empty where it did not, or was stopped by us."""
        return _end(self._code)

    def words(self) -> str:
        """What it last said on standard error, and what it wrote where only messages belong."""
        output = cut(" | ".join(line for line in self._last if line), _LONGEST_WORDS)
        stray = f"on its standard output, which is for messages of the protocol, it wrote: {self._stray}"
        return "; ".join([*([stray] if self._stray else []), *([f"it last said: {output}"] if output else [])])

    async def _start(self) -> asyncio.subprocess.Process:
        server, loop = self._server, asyncio.get_running_loop()
        inherited = {name: os.environ[name] for name in _ALSO_INHERITED if name in os.environ}
        pipe = asyncio.subprocess.PIPE
        transport, protocol = await loop.subprocess_exec(
            lambda: _Protocol(loop),
            server.command or "",
            *server.args,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            cwd=server.cwd,
            env=self._others.environment({**get_default_environment(), **inherited, **server.env}),
            start_new_session=True,  # what it starts is stopped with it, and Ctrl-C is ours
        )
        self._transport, self._protocol = transport, protocol
        self._others.began(transport.get_pid() or 0)
        return asyncio.subprocess.Process(transport, protocol, loop)

    async def _receive(
        self, process: asyncio.subprocess.Process, to_session: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        assert process.stdout is not None
        heard = True
        async for line in _lines(process.stdout, self._largest):
            message = _message(line, self._largest)
            if message is None and not self._stray and isinstance(line, bytes):
                self._stray = cut(_spoken(line), _LONGEST_STRAY)
            if message is None or not heard:
                continue  # read on all the same: a program that cannot write does not end
            try:
                await to_session.send(message)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                heard = False
        self._read.set()
        to_session.close()

    async def _send(
        self,
        process: asyncio.subprocess.Process,
        from_session: MemoryObjectReceiveStream[SessionMessage],
        to_session: MemoryObjectSendStream[SessionMessage | Exception],
    ) -> None:
        assert process.stdin is not None
        try:
            async for sent in from_session:
                text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
        except OSError:
            to_session.close()  # it may live on, but cannot be asked anything: for the session that is the end

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        rest = b""
        with suppress(OSError):
            while chunk := await process.stderr.read(_CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                self._last.extend(_spoken(line) for line in lines[-_LAST_LINES:])
                rest = rest[-_LONGEST_LINE:]
        if rest:
            self._last.append(_spoken(rest))

    async def _watch(self, to_session: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """The program's end is the connection's, also where something it started holds its output open."""
        assert self._protocol is not None
        await self._protocol.exited.wait()
        self._note_end()
        with anyio.move_on_after(_LATE_S):
            await self._read.wait()
        to_session.close()

    def _note_end(self) -> None:
        if self._transport is not None and self._code is None:
            self._code = self._transport.get_returncode()

    async def _stop(self, process: asyncio.subprocess.Process, write: MemoryObjectSendStream[SessionMessage]) -> None:
        assert self._protocol is not None
        assert self._transport is not None
        assert process.stdin is not None
        if self._read.is_set():  # it closed its output first, so it is about to end by itself
            await self.settled()
        self._note_end()
        code = self._code
        write.close()
        process.stdin.close()
        try:
            for sign in (None, signal.SIGTERM, signal.SIGKILL):
                if sign is not None:
                    self._signal(process.pid, sign)
                with anyio.move_on_after(STOP_S):
                    await self._protocol.exited.wait()
                    break
        finally:  # also if this is cancelled
            running = self._transport.get_returncode() is None
            self._signal(process.pid, signal.SIGKILL if running else signal.SIGTERM)  # what it started and left behind
            self._code = code  # that it ended now is our doing
            with suppress(PermissionError):
                self._transport.close()
        await self._clear(process.pid)
        with suppress(OSError, asyncio.TimeoutError):
            await asyncio.wait_for(process.stdin.wait_closed(), _LATE_S)

    async def _clear(self, group: int) -> None:
        """Wait for what the program left behind, and end it where it does not want to."""
        try:
            with anyio.move_on_after(STOP_S):
                while _there(group) or self._others.alive():
                    await anyio.sleep(_LOOK_S)
        finally:
            self._signal(group, signal.SIGKILL)

    def _signal(self, group: int, sign: signal.Signals) -> None:
        self._others.signal(sign)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, sign)


def _there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    return True


def _end(code: int | None) -> str:
    if code is None:
        return ""
    if code >= 0:
        return f"it ended with exit code {code}"
    with suppress(ValueError):
        return f"it was ended by {signal.Signals(-code).name}"
    return f"it was ended by signal {-code}"


def _spoken(line: bytes) -> str:
    return shown(line[-_LONGEST_LINE:].decode("utf-8", "replace").rstrip())


class _TooLong:
    """A line that is longer than a message may be: its beginning and its end."""

    def __init__(self, line: bytearray) -> None:
        self.head, self.tail = bytes(line[:_KEPT]), line[-_KEPT:]

    def add(self, more: bytes) -> None:
        self.tail = (self.tail + more)[-_KEPT:]


async def _lines(stream: asyncio.StreamReader, largest: int) -> AsyncIterator[bytes | _TooLong]:
    line = bytearray()
    long: _TooLong | None = None
    while True:
        try:
            chunk = await stream.read(_CHUNK)
        except OSError:
            return
        if not chunk:
            return
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            if long is not None:
                long.add(end)
                yield long
            else:
                yield bytes(line + end)
            line, long = bytearray(), None
        if long is not None:
            long.add(rest)
        else:
            line += rest
            if len(line) > largest:
                long, line = _TooLong(line), bytearray()


def _message(line: bytes | _TooLong, largest: int) -> SessionMessage | None:
    """The message on a line; None where there is none. The request that cannot be answered is told so."""
    if isinstance(line, _TooLong):
        return _refusal(line.head, bytes(line.tail), f"the answer is larger than {largest} bytes")
    if not line.strip():
        return None
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        pass
    try:  # texts that are no Unicode, of which there are some
        plain = json.dumps(json.loads(line.decode("utf-8", "replace")), ensure_ascii=False).encode("utf-8", "replace")
        return SessionMessage(jsonrpc_message_adapter.validate_json(plain, by_name=False))
    except (ValueError, RecursionError):
        return _refusal(line[:_KEPT], line[-_KEPT:], "the answer is not a message of the protocol")


def _refusal(head: bytes, tail: bytes, why: str) -> SessionMessage | None:
    """An error in place of an answer, under its id: who asked must not wait for ever."""
    if match := _ID_FIRST.match(head) or _ID_LAST.search(tail):
        error = ErrorData(code=INTERNAL_ERROR, message=why)
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=int(match[1]), error=error))
    return None
