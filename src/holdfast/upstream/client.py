"""The HTTP client with which everything of ours asks a provider: the gateway, its chores, the agent.

It changes nothing and follows nothing: what the caller wrote goes out, what the server answers comes back as it comes,
and no faster than it is read. Retries are the caller's business, but for one: a request that the server certainly has
not read, because it closed a pooled connection at that moment, is sent once more on a new one.
"""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Mapping, Sequence

from holdfast.serving import is_loopback

from .addresses import Address
from .aiohttp_adapter import (
    EXCHANGE_FAILURES,
    Connections,
    Destination,
    Response,
    UnreadError,
    UpstreamError,
    failure_of,
)
from .certificates import trust, untrusted

Headers = Sequence[tuple[bytes, bytes]]

_STATUSES = range(200, 600)


class HttpClient:
    """Connections to servers. They belong to the event loop that sends first, and last until `close`."""

    def __init__(
        self, *, connect_s: float, idle_s: float, environ: Mapping[str, str] | None = None, use_proxies: bool = True
    ) -> None:
        """`connect_s` and `idle_s`: seconds in which a server has to be connected to, and to send something. `environ`
        names certificates to trust; `use_proxies`: whether to go through the environment's proxies."""
        self._connect_s, self._idle_s, self._use_proxies = connect_s, idle_s, use_proxies
        self._trust = trust(environ)
        self._connections: Connections | None = None
        self._destinations: dict[Address, Destination] = {}

    async def send(self, to: Address, method: str, target: str, headers: Headers, body: bytes = b"") -> Response:
        """Send a request, and return its answer as far as its head. `target` is path and query; `headers` get the host
        and the length of the body. UpstreamError if there is no answer that can be used."""
        connections = self._connections
        if connections is None:
            trusted = self._trust.for_connector
            connections = self._connections = Connections(trusted, self._connect_s, self._idle_s)
        destination = self._destinations.get(to) or self._destination(to, connections)
        problem: UpstreamError
        try:
            try:
                response = await connections.exchange(destination, method, target, headers, body)
            except UnreadError:
                response = await connections.exchange(destination, method, target, headers, body, pooled=False)
        except EXCHANGE_FAILURES as error:
            why = untrusted(error, self._trust)
            problem = UpstreamError("untrusted", why) if why else failure_of(error)
        else:
            invalid = _invalid(response)
            if not invalid:
                return response
            response.close()
            problem = UpstreamError("invalid", invalid)
        raise problem  # outside of the handler: the library's errors hold headers, and with them keys

    async def close(self) -> None:
        """Close all connections."""
        connections, self._connections = self._connections, None
        self._destinations.clear()
        if connections is not None:
            await connections.close()

    def _destination(self, to: Address, connections: Connections) -> Destination:
        proxy = proxy_for(to.scheme, to.host) if self._use_proxies else None
        destination = self._destinations[to] = Destination(to, proxy, connections.loop)
        return destination


def _invalid(response: Response) -> str:
    """What makes an answer one that cannot be passed on; empty where nothing does."""
    if response.status not in _STATUSES:
        return f"the status {response.status:03}, which ends no call"
    codings = response.headers.getall("transfer-encoding", ())
    if any(each.strip().lower() != "chunked" for each in codings):
        return "a transfer coding that was not asked for"
    return ""


def fetch(
    to: Address, method: str, target: str, headers: Headers, body: bytes, *, seconds: float, most: int
) -> tuple[int, bytes]:
    """Send one request past all proxies and wait for its whole answer, where no event loop runs: its status and body.
    The server has `seconds` to be connected to and to send something. UpstreamError if there is no answer, or one of
    more than `most` bytes."""

    async def exchange() -> tuple[int, bytes]:
        client = HttpClient(connect_s=seconds, idle_s=seconds, use_proxies=False)
        try:
            response = await client.send(to, method, target, [*headers, (b"connection", b"close")], body)
            try:
                answer = await response.read(most)
            finally:
                response.close()
        finally:
            await client.close()
        if len(answer) > most:
            raise UpstreamError("invalid", f"more than {most:,} bytes")
        return response.status, answer

    return asyncio.run(exchange())


def proxy_for(scheme: str, host: str, proxies: Mapping[str, str] | None = None) -> str | None:
    """`HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`; this machine is never asked through one."""
    if is_loopback(host) or urllib.request.proxy_bypass(host):
        return None
    return (urllib.request.getproxies() if proxies is None else proxies).get(scheme)
