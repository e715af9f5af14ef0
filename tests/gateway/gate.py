"""A gateway to test, before a simulator or before a provider that is no more than a socket; asked over bare sockets."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.config import Config, load
from holdfast.gateway.app import RefusedRequest
from holdfast.gateway.assembly import Gateway
from holdfast.gateway.request_reader import GatewayRequest
from holdfast.gateway.server import running
from holdfast.serving import address_of, listen
from holdfast.simulator.provider import Simulator
from holdfast.store import SqliteStore
from tests.simulator.http_client import ANTHROPIC, LONG

UPSTREAMS = ("ANTHROPIC", "OPENAI", "GEMINI", "OPENROUTER")
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


def configured(home: Path, upstream: str, **flags: Any) -> Config:
    """The configuration of a gateway all of whose upstreams are one. Flags have `__` in place of dots."""
    environ = {f"HOLDFAST_UPSTREAM_{name}": upstream for name in UPSTREAMS} | {"HOME": str(home)}
    # a busy machine is not what is tested
    given = {"gateway.limits.stages_ms": 60_000, "gateway.limits.wait_ms": 60_000}
    given |= {name.replace("__", "."): value for name, value in flags.items()}
    return load(workspace=None, home=home / "holdfast", environ=environ, flags=given)


class Gated(NamedTuple):
    address: str
    gateway: Gateway
    config: Config
    calls: list[GatewayRequest]
    refused: Sequence[RefusedRequest] = ()

    @property
    def store(self) -> SqliteStore:
        assert self.gateway.store is not None
        return self.gateway.store

    @property
    def token(self) -> str:
        return (self.config.home / "admin-token").read_text().strip()


@contextlib.contextmanager
def gated(home: Path, upstream: str, clock: Callable[[], float] = time.time, **flags: Any) -> Iterator[Gated]:
    config = configured(home, upstream, **flags)
    calls: list[GatewayRequest] = []
    refused: list[RefusedRequest] = []
    gateway = Gateway(config, on_call=calls.append, on_refused=refused.append, clock=clock)
    with running(config, gateway=gateway) as address:
        yield Gated(address, gateway, config, calls, refused)


class Received(NamedTuple):
    """A request as it came to the provider."""

    line: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def header(self, name: bytes) -> bytes | None:
        return next((value for each, value in self.headers if each.lower() == name), None)

    @property
    def names(self) -> list[bytes]:
        return [name.lower() for name, _ in self.headers]


class Provider:
    """A server of nothing but bytes: what it received is kept, what it says is said by `answer`."""

    def __init__(self, answer: Callable[[socket.socket, Received], None] | bytes = OK) -> None:
        self.received: list[Received] = []
        self.left = threading.Event()
        self.answer = answer
        self._listener = listen("127.0.0.1", 0)
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.address = address_of(self._listener)

    def __enter__(self) -> Provider:
        self._begin(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        for connection in self._open:
            connection.close()

    def _begin(self, do: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=do, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.settimeout(20)
            self._open.append(connection)
            self._begin(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError):
            while True:
                found = read_request(connection)
                self.received.append(found)
                if isinstance(self.answer, bytes):
                    head, separator, body = self.answer.partition(b"\r\n\r\n")
                    connection.sendall(head + separator + (b"" if found.line.startswith(b"HEAD") else body))
                else:
                    self.answer(connection, found)
        self.left.set()


def read_request(connection: socket.socket) -> Received:
    """The next request; ValueError where there is none any more."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65_536)
        if not piece:
            raise ValueError("the client left")
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    line, *lines = head.split(b"\r\n")
    headers = [(name, value.strip()) for name, _, value in (each.partition(b":") for each in lines)]
    length = int({name.lower(): value for name, value in headers}.get(b"content-length", b"0"))
    while len(body) < length:
        body += connection.recv(length - len(body))
    return Received(line, headers, body)


class Heard(NamedTuple):
    """What came over a bare socket until it ended: all bytes, and whether that was a reset."""

    data: bytes
    reset: bool

    @property
    def status(self) -> int:
        return int(self.data.split(b" ", 2)[1])

    @property
    def head(self) -> bytes:
        return self.data.partition(b"\r\n\r\n")[0]

    @property
    def body(self) -> bytes:
        """The body, with chunks put together as far as they came."""
        head, _, rest = self.data.partition(b"\r\n\r\n")
        if b"transfer-encoding: chunked" not in head.lower():
            return rest
        found = b""
        while rest:
            size, separator, rest = rest.partition(b"\r\n")
            if not separator:
                break
            found += rest[: int(size, 16)]
            rest = rest[int(size, 16) + 2 :]
        return found

    def headers(self, *without: str) -> list[tuple[str, str]]:
        lines = [line.partition(": ") for line in self.head.decode("latin-1").split("\r\n")[1:]]
        return [(name, value) for name, _, value in lines if name not in without and not name.startswith(without)]


def spoken(
    method: str = "POST",
    path: str = "/v1/messages",
    headers: tuple[tuple[str, str], ...] = (),
    body: bytes = b"",
    *,
    close: bool = True,
) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "host: localhost", *(f"{name}: {value}" for name, value in headers)]
    if body or method == "POST":
        lines.append(f"content-length: {len(body)}")
    if close:
        lines.append("connection: close")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def connect(address: str) -> socket.socket:
    host, _, port = address.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=20)


def hear(address: str, data: bytes) -> Heard:
    """Say something and hear everything until the connection ends."""
    with connect(address) as connection:
        connection.sendall(data)
        return listen_to(connection)


def heard_from(
    home: Path, answer: Callable[[socket.socket, Received], None] | bytes, data: bytes, **flags: Any
) -> Heard:
    """What a client hears that says this, through a gateway, where the provider answers so."""
    with Provider(answer) as provider, gated(home, provider.address, **flags) as gate:
        return hear(gate.address, data)


def listen_to(connection: socket.socket, data: bytes = b"") -> Heard:
    try:
        while piece := connection.recv(65_536):
            data += piece
    except ConnectionResetError:
        return Heard(data, reset=True)
    return Heard(data, reset=False)


def eventually(true: Callable[[], object], seconds: float = 10.0) -> None:
    ends = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < ends, "it did not come true"
        time.sleep(0.005)


@contextmanager
def guarded(home: Path, upstream: str, **flags: Any) -> Iterator[Gated]:
    """A gateway as on an address that others can reach, listening where only we can."""
    config = configured(home, upstream, **flags)
    gateway = Gateway(config, host="0.0.0.0")
    with running(config, gateway=gateway) as address:
        yield Gated(address, gateway, config, [])


class RecordingSimulator(Simulator):
    """A simulator that keeps every body it was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[bytes] = []

    def begin(self, call: Any) -> Any:
        self.bodies.append(call.body)
        return super().begin(call)

    @property
    def last(self) -> Any:
        return json.loads(self.bodies[-1])


HELLO_HEADERS = tuple(ANTHROPIC.items())


HELLO_BODY = json.dumps(
    {"model": "claude-opus-4-6", "max_tokens": 500, "system": LONG, "messages": [{"role": "user", "content": "hello"}]}
).encode()


HELLO = spoken(headers=HELLO_HEADERS, body=HELLO_BODY)


SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(text: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(text), text)
