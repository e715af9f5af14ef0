"""The way to the providers and back: one HTTP client, which changes nothing, follows nothing and repeats nothing.

Retries are the client's business. What goes wrong on the way is told as `Unreachable`, in words that hold no part of
the request.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import urllib.request
from collections.abc import Mapping

import aiohttp
from aiohttp.payload import BytesPayload, Payload
from multidict import CIMultiDict
from yarl import URL

from holdfast.config.sections.serving import Limits
from holdfast.serving import is_loopback

from .heads import Request
from .routes import Address

KEEP_ALIVE_S = 15.0
"""An idle connection is kept so long: shorter than providers do, since a call must not run into one that is closing."""

FAILURES = (aiohttp.ClientError, TimeoutError, OSError)
"""How an answer can break off."""

_LONGEST_HEADER = 65_536
_MOST_HEADERS = 1_000
_STATUSES = range(200, 600)
_NOT_ADDED = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


class Unreachable(Exception):
    """There is no answer to pass on; the status and sentence to give instead."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Whole(BytesPayload):
    """A body as it is. The library's own warns of large ones, which are the usual thing here."""

    def __init__(self, value: bytes) -> None:
        Payload.__init__(self, value, content_type="application/octet-stream")
        self._size = len(value)


class Relay:
    """The connections of one gateway; made where its loop runs."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._proxies: dict[str, str | None] = {}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S, ttl_dns_cache=60),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=None, connect=limits.connect_s, sock_connect=limits.connect_s, sock_read=limits.idle_s
            ),
            auto_decompress=False,
            skip_auto_headers=_NOT_ADDED,
            max_line_size=_LONGEST_HEADER,
            max_field_size=_LONGEST_HEADER,
            max_headers=_MOST_HEADERS,
            request_class=Request,
        )
        self._session._retry_connection = False  # the library would send what is not a POST once more

    async def send(
        self, upstream: Address, method: str, path: str, query: str, headers: CIMultiDict[str], body: bytes
    ) -> aiohttp.ClientResponse:
        """The response as far as its head. Whoever leaves early closes it."""
        url = URL.build(
            scheme=upstream.scheme,
            host=upstream.host,
            port=upstream.port,
            path=path,
            query_string=query,
            encoded=True,
        )
        try:
            response = await self._session.request(
                method,
                url,
                headers=headers,
                data=Whole(body) if body else None,
                allow_redirects=False,
                proxy=self._proxy(upstream),
            )
        except (*FAILURES, ValueError) as error:
            raise self._unreachable(upstream, error) from error
        wrong = _wrong(response)
        if wrong:
            response.close()
            raise Unreachable(502, f"{_place(upstream)} answered with {wrong}; check the address.")
        return response

    async def close(self) -> None:
        await self._session.close()

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
        if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError | ssl.SSLError):
            return Unreachable(502, f"no secure connection to {where} can be made; check its address and certificate.")
        if isinstance(error, aiohttp.ClientConnectorError):
            reason = _reason(error.os_error)
            return Unreachable(502, f"{where} cannot be reached ({reason}); check the address and the network.")
        if isinstance(error, aiohttp.ClientResponseError):
            return Unreachable(502, f"{where} answered with something that is not HTTP; check the address.")
        return Unreachable(502, f"{where} closed the connection without an answer; try again.")

    def _proxy(self, upstream: Address) -> str | None:
        """The proxy that the environment names for an upstream. Taken from the variables alone: the library would also
        look for credentials in files."""
        if upstream.name not in self._proxies:
            self._proxies[upstream.name] = proxy_for(upstream)
        return self._proxies[upstream.name]


def _place(upstream: Address) -> str:
    return f"upstream.{upstream.name} ({upstream.host} port {upstream.port})"


def _wrong(response: aiohttp.ClientResponse) -> str:
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


def proxy_for(upstream: Address, proxies: Mapping[str, str] | None = None) -> str | None:
    """`HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`; this machine is never asked through one."""
    if is_loopback(upstream.host) or urllib.request.proxy_bypass(upstream.host):
        return None
    return (urllib.request.getproxies() if proxies is None else proxies).get(upstream.scheme)


async def rest_of(response: aiohttp.ClientResponse) -> bytes:
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
