"""The way to the providers and back: one HTTP client, which changes nothing and follows nothing.

Retries are the client's business, but for one: a request that the provider certainly has not read, because it closed a
pooled connection at that moment, is sent once more on a new one. What goes wrong on the way is told as `Unreachable`,
in words that hold no part of the request.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import weakref
from collections.abc import Mapping

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError, RawResponseMessage, StreamWriter
from multidict import CIMultiDictProxy
from yarl import URL

from holdfast.config.sections import Limits
from holdfast.engine.passage import RawHeaders
from holdfast.upstream import proxy_for, trust, untrusted

from .headers import head_of
from .reuse import Reuse
from .routes import Address

KEEP_ALIVE_S = 15.0
"""An idle connection is kept so long: shorter than providers do, since a call must not run into one that is closing."""

FAILURES = (aiohttp.ClientError, TimeoutError, OSError)
"""How an answer can break off."""

_LONGEST_HEADER = 65_536
_MOST_HEADERS = 1_000
_STATUSES = range(200, 600)
_NOT_ADDED = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


class _UnreadError(Exception):
    """The provider closed a pooled connection and has read nothing of the request."""


class Unreachable(Exception):
    """There is no answer to pass on; the status and sentence to give instead."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Response:
    """An answer as far as its head, and its body as it comes. Whoever leaves early closes it."""

    __slots__ = ("_connection", "_upload", "content", "headers", "raw_headers", "status")

    def __init__(
        self,
        message: RawResponseMessage,
        content: aiohttp.StreamReader,
        connection: Connection,
        upload: asyncio.Task[None] | None,
    ) -> None:
        self.status: int = message.code
        self.headers: CIMultiDictProxy[str] = message.headers
        self.raw_headers: tuple[tuple[bytes, bytes], ...] = message.raw_headers
        self.content = content
        self._connection: Connection | None = connection
        self._upload = upload
        content.on_eof(self._whole)

    def _whole(self) -> None:
        """Others may have the connection now, unless the request itself has not gone out yet."""
        if self._upload is not None and not self._upload.done():
            self.close()
        elif self._connection is not None:
            self._connection.release()
            self._connection = None

    def close(self) -> None:
        if self._connection is not None:
            _give_up(self._connection, self._upload)
            self._connection = None


class _Way:
    """How an upstream is reached. `like` is a request from which the library sees where a connection has to go; it is
    never sent. `before` stands in front of paths where a proxy has to be told whose they are."""

    __slots__ = ("_first", "before", "like")

    def __init__(self, like: aiohttp.ClientRequest, before: str) -> None:
        self.like, self.before = like, before
        self._first = _bytes(like.headers)

    def first(self) -> RawHeaders:
        """The headers that stand before the client's: the host, and for such a proxy who asks it, which the library
        adds when it connects."""
        return _bytes(self.like.headers) if self.before else self._first


def _bytes(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


class Relay:
    """The connections of one gateway; made where its loop runs.

    Of the library this takes connections, their pool and what reads answers. Its session is left out: it would write
    heads in its own way, and cost as much as all else that is done here for a request.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._ways: dict[str, _Way] = {}
        self._trust = trust()
        trusted = self._trust.for_connector
        self._connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S, ttl_dns_cache=60, ssl=trusted)
        self._unpooled = aiohttp.TCPConnector(limit=0, force_close=True, ttl_dns_cache=60, ssl=trusted)
        self._used: weakref.WeakSet[ResponseHandler] = weakref.WeakSet()
        self._timeout = aiohttp.ClientTimeout(connect=limits.connect_s, sock_connect=limits.connect_s)

    async def send(
        self, upstream: Address, method: str, path: str, query: str, headers: RawHeaders, body: bytes
    ) -> Response:
        """The response as far as its head."""
        way = self._ways.get(upstream.name) or self._find(upstream)
        target = f"{path}?{query}" if query else path
        try:
            try:
                connection, reuse = await self._pooled(way)
                response = await self._send(way, connection, reuse, method, target, headers, body)
            except _UnreadError:
                connection = await self._unpooled.connect(way.like, [], self._timeout)
                response = await self._send(way, connection, None, method, target, headers, body)
        except (*FAILURES, HttpProcessingError, ValueError) as error:
            raise self._unreachable(upstream, error) from error
        wrong = _wrong(response)
        if wrong:
            response.close()
            raise Unreachable(502, f"{_place(upstream)} answered with {wrong}; check the address.")
        return response

    async def _pooled(self, way: _Way) -> tuple[Connection, Reuse | None]:
        """A connection, and if it was used before how that is watched. Those that have ended meanwhile are left."""
        while True:
            connection = await self._connector.connect(way.like, [], self._timeout)
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

    async def _send(
        self,
        way: _Way,
        connection: Connection,
        reuse: Reuse | None,
        method: str,
        target: str,
        headers: RawHeaders,
        body: bytes,
    ) -> Response:
        upload: asyncio.Task[None] | None = None
        try:
            protocol = connection.protocol
            if protocol is None or protocol.transport is None:
                raise aiohttp.ServerDisconnectedError
            protocol.set_response_params(
                skip_payload=method == "HEAD",
                read_until_eof=True,
                auto_decompress=False,
                read_timeout=self._limits.idle_s,
                max_line_size=_LONGEST_HEADER,
                max_field_size=_LONGEST_HEADER,
                max_headers=_MOST_HEADERS,
            )
            head = head_of(method, f"{way.before}{target}".encode("latin-1"), (*way.first(), *headers), len(body))
            protocol.transport.writelines((head, body) if body else (head,))
            if protocol.writing_paused:
                upload = self._loop.create_task(_gone_out(protocol, self._loop))
            else:
                protocol.start_timeout()
            message, content = await protocol.read()
            while 100 <= message.code < 200 and message.code != 101:  # there is more to come
                message, content = await protocol.read()
        except BaseException as error:
            _give_up(connection, upload)
            if reuse is not None and isinstance(error, FAILURES) and reuse.is_unread(error):
                raise _UnreadError from error
            raise
        finally:
            if reuse is not None:
                reuse.close()
        return Response(message, content, connection, upload)

    def _find(self, upstream: Address) -> _Way:
        address = URL.build(scheme=upstream.scheme, host=upstream.host, port=upstream.port)
        proxy = proxy_for(upstream.scheme, upstream.host)
        like = aiohttp.ClientRequest(
            "GET",
            address,
            loop=self._loop,
            proxy=None if proxy is None else URL(proxy),
            skip_auto_headers=_NOT_ADDED,
        )
        asked = proxy is not None and upstream.scheme == "http"
        found = self._ways[upstream.name] = _Way(like, str(address.origin()) if asked else "")
        return found

    async def close(self) -> None:
        await self._connector.close()
        await self._unpooled.close()

    def broken(self, upstream: Address, error: Exception) -> str:
        """Why an answer broke off, in a few words."""
        if isinstance(error, TimeoutError):
            return f"{upstream.host} was silent for {self._limits.idle_s:g} seconds"
        return f"{upstream.host} broke off"

    def _unreachable(self, upstream: Address, error: Exception) -> Unreachable:
        where = _place(upstream)
        if isinstance(error, (aiohttp.ConnectionTimeoutError, aiohttp.SocketTimeoutError, TimeoutError)):
            if isinstance(error, aiohttp.SocketTimeoutError):
                limit = f"did not answer within {self._limits.idle_s:g} seconds (gateway.limits.idle_s)"
            else:
                limit = (
                    f"could not be connected to within {self._limits.connect_s:g} seconds (gateway.limits.connect_s)"
                )
            return Unreachable(504, f"{where} {limit}; try again later.")
        if why := untrusted(error, self._trust):
            return Unreachable(502, f"no secure connection to {where} can be made: {why}.")
        if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError | ssl.SSLError):
            return Unreachable(502, f"no secure connection to {where} can be made; check its address and certificate.")
        if isinstance(error, aiohttp.ClientConnectorError):
            reason = _reason(error.os_error)
            return Unreachable(502, f"{where} cannot be reached ({reason}); check the address and the network.")
        if isinstance(error, aiohttp.ClientResponseError | HttpProcessingError):
            return Unreachable(502, f"{where} answered with something that is not HTTP; check the address.")
        return Unreachable(502, f"{where} closed the connection without an answer; try again.")


async def _gone_out(protocol: ResponseHandler, loop: asyncio.AbstractEventLoop) -> None:
    """A request that does not go out at once: the provider's time to answer begins when all of it is on its way."""
    with contextlib.suppress(*FAILURES):  # the reader sees it too
        await StreamWriter(protocol, loop).drain()
        protocol.start_timeout()


def _give_up(connection: Connection, upload: asyncio.Task[None] | None) -> None:
    if upload is not None:
        upload.cancel()
    connection.close()


def _place(upstream: Address) -> str:
    return f"upstream.{upstream.name} ({upstream.host} port {upstream.port})"


def _wrong(response: Response) -> str:
    """What makes an answer one that cannot be passed on."""
    if response.status not in _STATUSES:
        return f"the status {response.status:03}, which ends no call"
    codings = response.headers.getall("transfer-encoding", ())
    if any(each.strip().lower() != "chunked" for each in codings):
        return "a transfer coding that was not asked for"
    return ""


def _reason(error: OSError) -> str:
    """What the system says. The library's words repeat the address."""
    known = error.errno is not None and error.errno > 0
    return (os.strerror(error.errno) if known and error.errno is not None else error.strerror) or "no connection"


async def rest_of(response: Response) -> bytes:
    """What had come of an answer before it broke off, and was not given out: the library keeps it back. Should another
    version of it keep that elsewhere, there is nothing."""
    await asyncio.sleep(0)
    content = response.content
    try:
        found = b"".join(content._buffer)[content._buffer_offset :]
        content._buffer.clear()
        content._buffer_offset = 0
    except (AttributeError, TypeError):
        return b""
    return found
