"""Both ends of a fuzzed gateway, in bare bytes: a provider that keeps exactly what it got, a client that says anything.

What the provider answers is fixed before the request is sent, by the number that the request carries in a header.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from types import TracebackType

from msgspec import Struct

NUMBER = b"x-fuzz-number"
Headers = list[tuple[bytes, bytes]]


class Said(Struct, frozen=True):
    """An answer of the provider. `framing` is how its end is told: by its length, in chunks, or by closing."""

    status: int
    headers: Headers
    pieces: tuple[bytes, ...] = ()
    framing: str = "length"
    pause: float = 0.0

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)


class Got(Struct, frozen=True):
    """A request as the provider got it."""

    method: bytes
    target: bytes
    headers: Headers
    body: bytes


class Heard(Struct, frozen=True):
    """An answer as the client got it."""

    status: int
    headers: Headers
    body: bytes

    def header(self, name: bytes) -> bytes | None:
        return next((value for each, value in self.headers if each == name), None)


class Provider:
    """Answers by the book of `answers`; keeps what it `got` under the same numbers."""

    def __init__(self) -> None:
        self.answers: dict[bytes, Said] = {}
        self.got: dict[bytes, list[Got]] = {}
        self.strays: list[Got] = []
        self.port = 0
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="fuzz-provider")

    def __enter__(self) -> Provider:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def take(self, number: bytes) -> list[Got]:
        self.answers.pop(number, None)
        return self.got.pop(number, [])

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=2**26)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._answer(reader, writer):
                pass
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        line, *lines = head[:-4].split(b"\r\n")
        method, target, _ = line.split(b" ")
        headers = [(name, value.strip(b" \t")) for name, _, value in (each.partition(b":") for each in lines)]
        named = {name.lower(): value for name, value in headers}
        body = await reader.readexactly(int(named.get(b"content-length", b"0")))
        got = Got(method, target, headers, body)
        number = named.get(NUMBER)
        if number is None:
            self.strays.append(got)
        said = self.answers.get(number or b"", Said(200, [], (b"{}",)))
        self.got.setdefault(number or b"", []).append(got)
        await say(writer, said, method)
        return said.framing != "close"


async def say(writer: asyncio.StreamWriter, said: Said, method: bytes) -> None:
    lines = [b"HTTP/1.1 %d Fine" % said.status, *(name + b": " + value for name, value in said.headers)]
    empty = method == b"HEAD" or said.status in (204, 304)
    if said.framing == "close":
        lines += [b"Connection: close"]
    elif not empty or said.status == 200:
        lines += [b"Content-Length: %d" % len(said.body) if said.framing == "length" else b"Transfer-Encoding: chunked"]
    writer.write(b"\r\n".join(lines) + b"\r\n\r\n")
    if empty:
        return
    for piece in said.pieces:
        if said.pause:
            await writer.drain()
            await asyncio.sleep(said.pause)
        writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if said.framing == "chunked" and piece else piece)
    if said.framing == "chunked":
        writer.write(b"0\r\n\r\n")
    await writer.drain()


class Client:
    """One connection to the gateway, opened again where it was closed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None
        self._data = b""

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self._data = None, b""

    def send(self, pieces: Iterator[bytes]) -> None:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=60)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            self._socket.sendall(piece)

    def hear(self, method: str) -> Heard:
        while True:
            head = self._until(b"\r\n\r\n")
            line, *lines = head.split(b"\r\n")
            status = int(line.split(b" ", 2)[1])
            headers = [(name.lower(), value.strip(b" \t")) for name, _, value in (x.partition(b":") for x in lines)]
            if status >= 200:
                break
        named = dict(headers)
        if method == "HEAD" or status in (204, 304):
            body = b""
        elif b"content-length" in named:
            body = self._exactly(int(named[b"content-length"]))
        elif named.get(b"transfer-encoding") == b"chunked":
            body = b"".join(iter(self._chunk, b""))
        else:
            body = self._rest()
        if named.get(b"connection") == b"close":
            self.close()
        return Heard(status, headers, body)

    def _chunk(self) -> bytes:
        size = int(self._until(b"\r\n"), 16)
        return self._exactly(size + 2)[:-2]

    def _more(self) -> bool:
        piece = self._socket.recv(262_144)
        self._data += piece
        return bool(piece)

    def _until(self, end: bytes) -> bytes:
        while end not in self._data:
            if not self._more():
                raise ConnectionError(f"the connection ended early, after {self._data[:200]!r}")
        found, _, self._data = self._data.partition(end)
        return found

    def _exactly(self, size: int) -> bytes:
        while len(self._data) < size:
            if not self._more():
                raise ConnectionError("the connection ended within a body")
        found, self._data = self._data[:size], self._data[size:]
        return found

    def _rest(self) -> bytes:
        while self._more():
            pass
        found, self._data = self._data, b""
        self.close()
        return found
