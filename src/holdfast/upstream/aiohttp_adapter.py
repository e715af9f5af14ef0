"""What the client takes from inside aiohttp, in one place: pooled connections and the parser of answers, without the
session that aiohttp puts around them.

Not promised by aiohttp, and used here only: `ResponseHandler` (a connection's protocol: `set_response_params`, `read`,
`start_timeout`, `writing_paused`), `Connection`, `StreamWriter`, `BaseConnector.connect` with a `ClientRequest` that is
never sent, and `StreamReader._buffer`. What that buys:

- The head leaves as the caller wrote it. A `ClientSession` adds headers and spells their names anew.
- What had come of an answer before it broke off can be read (`Response.rest`); a `StreamReader` keeps that back.
- Speed: a request of 100 kB and its answer cost 97 µs of processor time, with a `ClientSession` 137 µs; an answer of
  200 events 3% less. `python -m benchmarks upstream` measures both, taking turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import struct
import sys
import weakref
from collections.abc import Mapping, Sequence
from typing import Literal, Self

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError, RawResponseMessage, StreamWriter
from multidict import CIMultiDictProxy
from yarl import URL

from .addresses import Address

KEEP_ALIVE_S = 15.0
"""How long an idle connection is kept: shorter than providers do, since a request must not run into one that closes."""

_FAILURES = (aiohttp.ClientError, TimeoutError, OSError)
_LONGEST_HEADER = 65_536
_MOST_HEADERS = 1_000
_NOT_ADDED = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")

FailureKind = Literal[
    "connect_timeout", "read_timeout", "untrusted", "tls", "unreachable", "not_http", "invalid", "closed"
]
RawHeaders = tuple[tuple[bytes, bytes], ...]


class UpstreamError(Exception):
    """There is no answer, or no more of it. Holds nothing of the request or of its address."""

    def __init__(self, kind: FailureKind, reason: str = "") -> None:
        super().__init__(f"{kind}: {reason}" if reason else kind)
        self.kind = kind
        self.reason = reason  # what the system, the certificate or the answer says; empty where nothing does


class UnreadError(Exception):
    """The server closed a pooled connection and has read nothing of the request."""


class Destination:
    """How a server is reached."""

    __slots__ = ("before", "headers", "like")

    def __init__(self, address: Address, proxy: str | None, loop: asyncio.AbstractEventLoop) -> None:
        url = URL.build(scheme=address.scheme, host=address.host, port=address.port)
        self.like = aiohttp.ClientRequest(  # never sent: aiohttp sees from it where a connection has to go
            "GET", url, loop=loop, proxy=None if proxy is None else URL(proxy), skip_auto_headers=_NOT_ADDED
        )
        whole = proxy is not None and address.scheme == "http"
        self.before = str(url.origin()) if whole else ""  # in front of paths where a proxy is told whose they are
        self.headers = _bytes(self.like.headers)

    def first_headers(self) -> RawHeaders:
        """The headers in front of the caller's: the host and, for a proxy that wants to know who asks, who does, which
        aiohttp adds when it connects."""
        return _bytes(self.like.headers) if self.before else self.headers


def _bytes(headers: Mapping[str, str]) -> RawHeaders:
    return tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items())


class Response:
    """An answer: its head, and its body as it comes. Whoever leaves before its end closes it."""

    __slots__ = ("_connection", "_content", "_upload", "at_eof", "headers", "raw_headers", "status")

    def __init__(
        self,
        message: RawResponseMessage,
        content: aiohttp.StreamReader,
        connection: Connection,
        upload: asyncio.Task[None] | None,
    ) -> None:
        self.status: int = message.code
        self.headers: CIMultiDictProxy[str] = message.headers
        self.raw_headers: RawHeaders = message.raw_headers
        self.at_eof = content.at_eof  # whether all of the body was read
        self._content = content
        self._connection: Connection | None = connection
        self._upload = upload
        content.on_eof(self._release)

    async def read_any(self) -> bytes:
        """What has come of the body, at least a byte; empty at its end. UpstreamError if it breaks off."""
        try:
            return await self._content.readany()
        except _FAILURES as error:
            kind: FailureKind = "read_timeout" if isinstance(error, TimeoutError) else "closed"
        raise UpstreamError(kind)

    async def read(self, most: int) -> bytes:
        """The whole body; of one that is longer than `most`, somewhat more than that."""
        body = bytearray()
        while not self.at_eof() and len(body) <= most:
            body += await self.read_any()
        return bytes(body)

    async def rest(self) -> bytes:
        """What had come before the body broke off and was not given out; empty if aiohttp keeps that elsewhere."""
        await asyncio.sleep(0)
        content = self._content
        try:
            rest = b"".join(content._buffer)[content._buffer_offset :]
            content._buffer.clear()
            content._buffer_offset = 0
        except (AttributeError, TypeError):
            return b""
        return rest

    def has_come(self) -> bool:
        """Whether some of the body can be read without waiting for it."""
        content = self._content
        return (content.total_bytes > 0 or content.is_eof()) and content.exception() is None

    def close(self) -> None:
        if self._connection is not None:
            _abandon(self._connection, self._upload)
            self._connection = None

    def _release(self) -> None:
        """Others may have the connection now, unless the request itself has not gone out yet."""
        if self._upload is not None and not self._upload.done():
            self.close()
        elif self._connection is not None:
            self._connection.release()
            self._connection = None


class Connections:
    """The connections of one client, in the event loop that makes them."""

    def __init__(self, trusted: ssl.SSLContext | bool, connect_s: float, idle_s: float) -> None:
        self.loop = asyncio.get_running_loop()
        self._idle_s = idle_s
        self._pool = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S, ttl_dns_cache=60, ssl=trusted)
        self._unpooled = aiohttp.TCPConnector(limit=0, force_close=True, ttl_dns_cache=60, ssl=trusted)
        self._used: weakref.WeakSet[ResponseHandler] = weakref.WeakSet()
        self._timeout = aiohttp.ClientTimeout(connect=connect_s, sock_connect=connect_s)

    async def close(self) -> None:
        await self._pool.close()
        await self._unpooled.close()

    async def exchange(
        self,
        to: Destination,
        method: str,
        target: str,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes,
        *,
        pooled: bool = True,
    ) -> Response:
        """Send a request and read the head of its answer. UnreadError where a pooled connection had ended and the
        request can go out on another one."""
        reuse: Reuse | None = None
        if pooled:
            connection, reuse = await self._pooled(to)
        else:
            connection = await self._unpooled.connect(to.like, [], self._timeout)
        upload: asyncio.Task[None] | None = None
        try:
            protocol = connection.protocol
            if protocol is None or protocol.transport is None:
                raise aiohttp.ServerDisconnectedError
            protocol.set_response_params(
                skip_payload=method == "HEAD",
                read_until_eof=True,
                auto_decompress=False,
                read_timeout=self._idle_s,
                max_line_size=_LONGEST_HEADER,
                max_field_size=_LONGEST_HEADER,
                max_headers=_MOST_HEADERS,
            )
            line = f"{to.before}{target}".encode("latin-1")
            head = head_of(method, line, (*to.first_headers(), *headers), len(body))
            protocol.transport.writelines((head, body) if body else (head,))
            if protocol.writing_paused:
                upload = self.loop.create_task(_finish_upload(protocol, self.loop))
            else:
                protocol.start_timeout()
            message, content = await protocol.read()
            while 100 <= message.code < 200 and message.code != 101:  # there is more to come
                message, content = await protocol.read()
        except BaseException as error:
            _abandon(connection, upload)
            if reuse is not None and isinstance(error, _FAILURES) and reuse.is_unread(error):
                raise UnreadError from error
            raise
        finally:
            if reuse is not None:
                reuse.close()
        return Response(message, content, connection, upload)

    async def _pooled(self, to: Destination) -> tuple[Connection, Reuse | None]:
        """A connection and, if it was used before, how that is watched. Those that have ended meanwhile are closed."""
        while True:
            connection = await self._pool.connect(to.like, [], self._timeout)
            protocol = connection.protocol
            if protocol is None or protocol.transport is None or protocol not in self._used:
                if protocol is not None:
                    self._used.add(protocol)
                return connection, None
            reuse = Reuse.watching(protocol.transport.get_extra_info("socket"))
            if reuse is None or not reuse.is_over():
                return connection, reuse
            reuse.close()
            connection.close()


async def _finish_upload(protocol: ResponseHandler, loop: asyncio.AbstractEventLoop) -> None:
    """A request that does not go out at once: the server's time to answer begins when all of it is on its way."""
    with contextlib.suppress(*_FAILURES):  # the reader sees it too
        await StreamWriter(protocol, loop).drain()
        protocol.start_timeout()


def _abandon(connection: Connection, upload: asyncio.Task[None] | None) -> None:
    if upload is not None:
        upload.cancel()
    connection.close()


EXCHANGE_FAILURES = (*_FAILURES, HttpProcessingError, ValueError)
"""What `exchange` raises, beside `UnreadError`, where there is no answer."""


def failure_of(error: BaseException) -> UpstreamError:
    """What an exception of `EXCHANGE_FAILURES` means, apart from certificates."""
    if isinstance(error, aiohttp.SocketTimeoutError):
        return UpstreamError("read_timeout")
    if isinstance(error, TimeoutError):
        return UpstreamError("connect_timeout")
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError | ssl.SSLError):
        return UpstreamError("tls")
    if isinstance(error, aiohttp.ClientConnectorError):
        return UpstreamError("unreachable", _reason(error.os_error))
    if isinstance(error, aiohttp.ClientResponseError | HttpProcessingError):
        return UpstreamError("not_http")
    return UpstreamError("closed")


def _reason(error: OSError) -> str:
    """Return the system's error text; aiohttp's would repeat the address."""
    number = error.errno
    return (os.strerror(number) if number is not None and number > 0 else error.strerror) or "no connection"


_PEEK: int | None = socket.MSG_PEEK | socket.MSG_DONTWAIT if hasattr(socket, "MSG_DONTWAIT") else None
_TCP_INFO: int | None = socket.TCP_INFO if sys.platform == "linux" else None
_BYTES_ACKED = 120  # of `struct tcp_info`, since Linux 4.1
_SIZE = _BYTES_ACKED + 8


class Reuse:
    """The socket of a connection that is used again, from before a request is written until its answer begins.

    Where the connection ends without an answer, this says whether the request can have reached the provider, which may
    close an idle connection at any time, also while a request is on its way to it. Two cases are certain:

    - The connection had ended, or something unasked had come, before the request was written.
    - The connection ended before the provider's system had acknowledged a single byte of the request. What arrives is
      acknowledged with whatever is sent next, an end (FIN) included, and after 40 milliseconds by itself; so a provider
      that has read a request and worked on it has acknowledged it.

    Everything else may have been processed: a provider that acknowledges a request and ends without an answer, a
    connection that is new, and all that happens where the system does not tell what was acknowledged (other than
    Linux).
    """

    def __init__(self, watched: socket.socket) -> None:
        self._socket = watched
        self._acknowledged = self._bytes_acked()

    @classmethod
    def watching(cls, used: socket.socket) -> Self | None:
        """Watch a connection by its socket; None where that is not possible."""
        try:  # a second descriptor: the transport closes its own as soon as the connection ends
            return None if _PEEK is None else cls(used.dup())
        except OSError:
            return None

    def is_over(self) -> bool:
        """Return whether the connection is unusable: it has ended, or holds unrequested data."""
        assert _PEEK is not None
        try:
            self._socket.recv(1, _PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def is_unread(self, error: Exception) -> bool:
        """Whether the provider has read nothing of the request, which ended with this error."""
        if isinstance(error, TimeoutError):  # the connection has not ended
            return False
        return self._acknowledged is not None and self._bytes_acked() == self._acknowledged

    def close(self) -> None:
        self._socket.close()

    def _bytes_acked(self) -> int | None:
        if _TCP_INFO is None:
            return None
        try:
            info = self._socket.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _SIZE)
        except OSError:
            return None
        return None if len(info) < _SIZE else int(struct.unpack_from("Q", info, _BYTES_ACKED)[0])


_BODILESS = frozenset(("GET", "HEAD", "OPTIONS", "TRACE"))
_END = b"\r\n"
_IN_A_LINE = bytes({0x09, *range(0x20, 0x100)} - {0x7F})


def head_of(method: str, target: bytes, headers: Sequence[tuple[bytes, bytes]], length: int) -> bytes:
    """`headers` and the length of the body, as lines. ValueError where one of them would be more than a line."""
    lines = [b"%b %b HTTP/1.1" % (method.encode("ascii"), target)]
    lines += [b"%b: %b" % each for each in headers]
    if length or method not in _BODILESS:
        lines.append(b"Content-Length: %d" % length)
    head = _END.join(lines)
    if head.translate(None, _IN_A_LINE) != _END * (len(lines) - 1):
        raise ValueError("a control character in a head")
    return head + b"\r\n\r\n"
