"""HTTP connections of our servers: uvicorn's, with more that an application can ask of one.

It can be reset, so that a broken answer does not look like a complete one; it tells when its client leaves, and answers
one that only stops sending. An offer to go on in another protocol is removed from the request, trailers are ignored,
and a head that does not end or does not come closes the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import sys
from collections.abc import Callable, Mapping
from typing import Any, Self

import httptools
from starlette.types import ASGIApp, Message, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from .admission import Admission

try:
    import fcntl
    import termios
except ImportError:  # what the kernel still holds cannot be asked here
    fcntl = None  # type: ignore[assignment]

CONNECTION = "holdfast.connection"
"""The extension of a request's scope by which its connection is found."""

HEAD_S = 30.0
"""Seconds from the first byte of a head to its last."""

_LARGEST_HEAD = 262_144
_TOO_LARGE = "too large a head"
_NO_LINGER = struct.pack("ii", 1, 0)
_FLUSH_S = 1.0  # for what was written before a reset to reach the client
_TRAVEL_S = 0.02  # and to be read by it: a reset may take away what is not
_PROBE_S = (0.02, 1.0)  # first and longest pause between two looks at a client that stopped sending
_STATUS = b"H"  # the first byte of every response
_ZERO = b"0"  # a chunk's size may begin with zeros (RFC 9112, 7.1)


class Arrived:
    """The received part of a request's body; `whole` if it is complete, `received` counts the parser's bytes. It
    replaces a bytearray that would copy every piece twice."""

    __slots__ = ("_pieces", "_size", "received", "whole")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = self.received = 0
        self.whole = False

    def __iadd__(self, piece: bytes) -> Self:
        self._pieces.append(piece)
        self._size += len(piece)
        return self

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self._pieces)

    def take(self) -> bytes:
        """All of it, once."""
        body = b"".join(self._pieces)
        self._pieces.clear()
        return body


class Protocol(HttpToolsProtocol):
    """One connection of a client."""

    on_leave: Callable[[], None] | None = None
    """Called once if the client leaves, while a request is being answered that has set it."""

    def __init__(self, *args: Any, admission: Admission | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._admission = admission
        self._lost = asyncio.Event()
        self._arrived = Arrived()
        self._head = 0
        self._in_head = self._coded = False
        self._offers: list[tuple[bytes, bytes]] = []  # to go on in another protocol, by the request being read
        self._without_offer: bytes | None = None  # the head to read in its place
        self._waiting: asyncio.TimerHandle | None = None
        self._answered: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._admission is not None:
            self._admission.arrived(self, "" if self.client is None else self.client[0])
        self._wait(self._timeout)

    @property
    def _timeout(self) -> float:
        """Seconds to wait for the beginning of the next request."""
        if self._admission is None or self._admission.has(self):
            return self.timeout_keep_alive
        return min(self._admission.silent_s, self.timeout_keep_alive)

    def admit(self) -> bool:
        """Count this connection among those whose requests are served; False where there are too many of them."""
        return self._admission is None or self._admission.admit(self)

    def data_received(self, data: bytes) -> None:
        """The parser takes an offer to go on in another protocol (Java's client offers HTTP/2 with its first request)
        for accepted, and stops before the body. It is then given the same head without the offer, and the rest."""
        self._unset_keepalive_if_required()
        while True:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as stopped:
                assert self._without_offer is not None
                data = self._without_offer + data[stopped.args[0] :]
                self._without_offer, self.parser = None, _parser(self)
                continue
            except httptools.HttpParserError:
                self.send_400_response("Invalid HTTP request received.")
            break
        if self._in_head and self._waiting is None:
            self._wait(min(HEAD_S, self.timeout_keep_alive))

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.timeout_keep_alive_task is not None:  # it would be called off by any byte
            self._unset_keepalive_if_required()
            self._wait(min(HEAD_S, self.timeout_keep_alive) if self._in_head else self._timeout)

    def _wait(self, seconds: float) -> None:
        """For the first byte of a head, or for the last."""
        self._wait_no_more()
        if not self.transport.is_closing():
            self._waiting = self.loop.call_later(seconds, self._too_late)

    def _wait_no_more(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _too_late(self) -> None:
        if self.cycle is None or self.cycle.response_complete:  # else the wait begins again with the answer's end
            self.timeout_keep_alive_handler()

    def on_url(self, url: bytes) -> None:
        self._head += len(url)
        if self._head > _LARGEST_HEAD:  # one that never ends would fill the memory
            raise ValueError(_TOO_LARGE)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Handle a header; the parser turns an exception into a bad request."""
        self._head += len(name) + len(value)
        if self._head > _LARGEST_HEAD:
            raise ValueError(_TOO_LARGE)
        if not self._in_head:  # a trailer: what comes after the body is not taken for what came before it
            return
        name = name.lower()
        if name == b"transfer-encoding":
            if self._coded or value.strip().lower() != b"chunked":
                raise ValueError("a transfer coding that is not read")
            self._coded = True
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._wait_no_more()
        self._head, self._in_head, self._coded = 0, True, False
        self._arrived = Arrived()
        self.scope["extensions"] = {CONNECTION: {"connection": self, "arrived": self._arrived}}

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            self._remove_offer()
            return
        self._wait_no_more()
        self._in_head = False
        if self.url.endswith(b"?"):
            self.scope["extensions"][CONNECTION]["mark"] = True
        self.headers += self._offers
        self._offers = []
        super().on_headers_complete()
        self.cycle.body = self._arrived  # type: ignore[assignment]

    def _remove_offer(self) -> None:
        """Keep the head without its offer, which the application sees all the same."""
        method = self.parser.get_method()
        if method == b"CONNECT":
            raise ValueError("a tunnel, which is not offered here")
        version = self.parser.get_http_version().encode("ascii")
        lines = [b"%b %b HTTP/%b" % (method, self.url, version)]
        lines += [b"%b: %b" % each for each in self.headers if each[0] != b"upgrade"]
        self._without_offer = b"\r\n".join([*lines, b"", b""])
        self._offers = [each for each in self.headers if each[0] == b"upgrade"]

    def on_body(self, body: bytes) -> None:
        self._arrived.received += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._without_offer is not None:  # it is read again
            return
        self._arrived.whole = True
        super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGIApp) -> None:  # type: ignore[override]
        self._answered = cycle
        super()._start_asgi_task(cycle, app)  # type: ignore[arg-type]

    # A client that stops sending

    def eof_received(self) -> bool:  # type: ignore[override]
        """Whether the connection stays open: a client that has sent all of its request may still wait for the answer,
        or it may have left, which looks the same until something is sent to it."""
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            return False
        self.cycle.keep_alive = False
        self._probe()
        self._look(_PROBE_S[0])
        return True

    def _probe(self) -> None:
        """Send the next byte of the answer, which is known, ahead of the rest. A client that has left answers it with
        a reset."""
        cycle = self._answered
        if cycle is None or cycle.transport is not self.transport:  # someone holds the answer back
            return
        if not cycle.response_started:
            self.transport.write(_STATUS)
            cycle.transport = _Begun(self.transport)  # type: ignore[assignment]
        elif cycle.chunked_encoding and cycle.scope["method"] != "HEAD":
            self.transport.write(_ZERO)

    def _look(self, pause: float) -> None:
        """Abort if the client has reset the connection, since no read would show it; otherwise look again later."""
        if self.lost or self.transport.is_closing():
            return
        if self.transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.transport.abort()
            return
        self.loop.call_later(pause, self._look, min(2 * pause, _PROBE_S[1]))

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._admission is not None:
            self._admission.left(self)
        self._wait_no_more()
        self._lost.set()
        leave, self.on_leave = self.on_leave, None
        if leave is not None:
            leave()

    @property
    def idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def lost(self) -> bool:
        return self._lost.is_set()

    def watch(self) -> None:
        """Resume reading: it stops after much data, and then a disconnect would not be noticed."""
        self.flow.resume_reading()

    async def reset(self) -> None:
        """Close with a reset, once what was sent before is out of our hands."""
        ends = self.loop.time() + _FLUSH_S
        while self._unsent() and not self.transport.is_closing() and self.loop.time() < ends:
            await asyncio.sleep(0.005)
        await asyncio.sleep(_TRAVEL_S)
        self.abort()
        await self._lost.wait()

    def _unsent(self) -> int:
        """Bytes that have not reached the client yet, as far as that can be known."""
        waiting = self.transport.get_write_buffer_size()
        if waiting or fcntl is None:
            return waiting
        with contextlib.suppress(OSError):
            queued = fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, bytes(4))
            return int.from_bytes(queued, sys.byteorder)
        return 0

    def abort(self) -> None:
        """Close with a reset: without lingering, or the kernel would say goodbye politely (FIN)."""
        connection = self.transport.get_extra_info("socket")
        with contextlib.suppress(OSError):  # the peer was faster
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()


def _parser(protocol: Protocol) -> httptools.HttpRequestParser:
    """A parser as uvicorn makes it."""
    parser = httptools.HttpRequestParser(protocol)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


class _Begun:
    """A stand-in for the transport of a connection that has already sent `_STATUS`."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._begun = True
        self.is_closing, self.close = transport.is_closing, transport.close

    def write(self, data: bytes) -> None:
        if self._begun and data:
            data, self._begun = data[len(_STATUS) :], False
        self._transport.write(data)


class _Held:
    """A stand-in for a connection's transport that buffers what is written."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._closed = False
        self._pieces: list[bytes] = []
        self.write = self._pieces.append

    def is_closing(self) -> bool:
        return self._closed or self._transport.is_closing()

    def close(self) -> None:
        self._closed = True

    def release(self) -> asyncio.Transport:
        if not self._transport.is_closing():
            self._transport.write(b"".join(self._pieces))
            if self._closed:
                self._transport.close()
        return self._transport


async def send_together(send: Send, *messages: Message) -> None:
    """Send messages of one response in one write: for the system, every write is a packet of its own."""
    cycle = send.__self__  # type: ignore[attr-defined]
    held = cycle.transport = _Held(cycle.transport)
    try:
        for message in messages:
            await send(message)
    finally:
        cycle.transport = held.release()


def connection_of(scope: Mapping[str, Any]) -> Protocol:
    """The connection a request came by. Only our servers tell; under another one, an answer could not be broken off."""
    connection = scope.get("extensions", {}).get(CONNECTION, {}).get("connection")
    if not isinstance(connection, Protocol):
        raise RuntimeError("this server cannot reset a connection; run the application by `serve`")
    return connection


def arrived_of(scope: Mapping[str, Any]) -> Arrived:
    """Return what has arrived of a request's body unrequested. The caller will not receive it again."""
    arrived: Arrived = scope["extensions"][CONNECTION]["arrived"]
    return arrived


def ends_with_mark(scope: Mapping[str, Any]) -> bool:
    """Return whether a request's target ends with an empty query, which its scope does not show."""
    return not scope["query_string"] and "mark" in scope.get("extensions", {}).get(CONNECTION, {})
