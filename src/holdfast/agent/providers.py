"""The providers over HTTP: where a request goes, which key goes with it, and what a broken connection means.

Addresses are the configuration's and keys the environment's; neither is ever part of an error, since a path may hold a
key too: errors name the host.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import SplitResult, urlsplit

import aiohttp
from yarl import URL

from holdfast import facts
from holdfast.config.sections import Limits, Upstream
from holdfast.errors import HoldfastError
from holdfast.serving import is_loopback
from holdfast.upstream import Trust, proxy_for, trust, untrusted
from holdfast.wire import path_of, wire_model

from .contract import KeyMissing, OutgoingRequest, SideRequest, Unreachable

NO_KEY = "holdfast-no-key"
"""What goes in a key's place to this machine: a simulator takes any, and a gateway passes on what it gets."""

KEYS: dict[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "openrouter": ("OPENROUTER_API_KEY",),
}
"""The variables that a provider's key is looked for in; the first that is set counts."""

_UPSTREAMS = {"anthropic": "anthropic", "gemini": "gemini", "openrouter": "openrouter"}
_HEADERS = {"content-type": "application/json", "accept-encoding": "identity", "user-agent": "holdfast"}
_VERSION = "2023-06-01"
_OPENAI = urlsplit(Upstream().openai).hostname
_KEEP_ALIVE_S = 15.0
"""Shorter than providers keep an idle connection: a call must not run into one that is closing."""

_LARGEST = 4_194_304
"""Bytes of an answer to a call beside the requests."""
_FAILURES = (aiohttp.ClientError, TimeoutError, OSError)
_version = re.compile(r"/v1(?:beta|alpha)?\Z").search
_printable = re.compile(r"[!-~]+").fullmatch


class HttpProvider:
    """The configured servers. Its connections belong to the loop that uses it first, and last until `close`."""

    def __init__(
        self,
        upstream: Upstream,
        environ: Mapping[str, str] | None = None,
        *,
        limits: Limits = Limits(),  # noqa: B008  a frozen value
    ) -> None:
        self._environ = os.environ if environ is None else environ
        self._limits = limits
        self._trust = trust(environ)
        self._upstream = upstream
        self._addresses = {name: _address(name, getattr(upstream, name)) for name in KEYS}
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def open(self, request: OutgoingRequest) -> AsyncIterator[HttpAnswer]:
        """Send a request; whoever leaves before the answer's end closes the connection."""
        name = _UPSTREAMS.get(request.dialect, "openai")
        address = self._addresses[name]
        local = is_loopback(address.hostname or "")
        headers = _HEADERS | _credential(name, self._key(name, local=local))
        if name == "openai" and (problem := not_served(request.model, self._upstream)):
            raise KeyMissing(problem)
        if local and request.session:
            headers["x-holdfast-session"] = request.session
        response = await self._send(address, _target(address, request), headers, request.raw)
        try:
            if 300 <= response.status < 400:
                raise HoldfastError(
                    f"upstream.{name} leads to {address.netloc}, which answers with a redirect; set the address that "
                    "it leads to."
                )
            yield HttpAnswer(response, address, self._limits)
        finally:
            response.close()

    async def send(self, request: SideRequest) -> tuple[int, bytes]:
        """A call beside the requests, to the same server with the same key, which goes in a header only."""
        name = _UPSTREAMS.get(request.dialect, "openai")
        address = self._addresses[name]
        headers = _HEADERS | _credential(name, self._key(name, local=is_loopback(address.hostname or "")))
        target = _below(address, request.path, request.query)
        response = await self._send(address, target, headers, request.raw, request.method)
        try:
            answer = HttpAnswer(response, address, self._limits)
            raw = bytearray()
            async for chunk in answer:
                raw += chunk
                if len(raw) > _LARGEST:
                    raise Unreachable(f"{address.netloc} answered with more than {_LARGEST:,} bytes.")
            return answer.status, bytes(raw)
        finally:
            response.close()

    async def close(self) -> None:
        """End all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _send(
        self, address: SplitResult, target: URL, headers: dict[str, str], raw: bytes, method: str = "POST"
    ) -> aiohttp.ClientResponse:
        problem: Exception
        try:
            return await self._connections().request(
                method,
                target,
                data=raw,
                headers=headers,
                proxy=proxy_for(address.scheme, address.hostname or ""),
                allow_redirects=False,
            )
        except _FAILURES as error:
            problem = _unreachable(address, error, self._limits, self._trust)
        raise problem  # outside of the handler: the library's errors hold the headers, and with them the key

    def _connections(self) -> aiohttp.ClientSession:
        if self._session is None:
            limits = self._limits
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0, keepalive_timeout=_KEEP_ALIVE_S, ttl_dns_cache=60, ssl=self._trust.for_connector
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(
                    total=None, connect=limits.connect_s, sock_connect=limits.connect_s, sock_read=limits.idle_s
                ),
            )
        return self._session

    def _key(self, name: str, *, local: bool) -> str:
        variables = KEYS[name]
        found = next((variable for variable in variables if self._environ.get(variable, "").strip()), None)
        if found is None:
            if local:
                return NO_KEY
            raise KeyMissing(f"there is no key for {name}; set {' or '.join(variables)} in the environment.")
        key = self._environ[found].strip()
        if _printable(key) is None:
            raise HoldfastError(f"{found} holds characters that no key has; set it to the key alone.")
        return key


def not_served(model: str, upstream: Upstream) -> str:
    """Why no server can be asked for a model of this name; empty where one can. What no service has is asked for at a
    server of the user's, `upstream.openai`: a misspelled provider must not send a conversation to OpenAI."""
    provider, _, name = model.partition(":")
    if not name:
        return f"{model!r} names no model; give one as provider:name, such as anthropic:claude-haiku-4-5."
    if provider in KEYS or urlsplit(upstream.openai).hostname != _OPENAI:
        return ""
    services = ", ".join(f"{each}:NAME" for each in KEYS)
    near = facts.default().nearest(model)
    meant = f"did you mean {near}? Models" if near else "models"
    return (
        f"there is no provider {provider!r}; {meant} are named {services}. For a server of your own set "
        "upstream.openai to its address."
    )


class HttpAnswer:
    """An answer on its way: its head, and its body as it comes."""

    def __init__(self, response: aiohttp.ClientResponse, address: SplitResult, limits: Limits) -> None:
        self.status: int = response.status
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}
        self._response = response
        self._address = address
        self._limits = limits

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        problem: Exception
        try:
            chunk = await self._response.content.readany()
        except _FAILURES as error:
            problem = _broken(self._address, error, self._limits)
        else:
            if not chunk:
                raise StopAsyncIteration
            return chunk
        raise problem


def _address(name: str, text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018  read, because it is what may be wrong
    except ValueError as error:
        raise HoldfastError(f"upstream.{name} is no address ({error}); give one such as https://HOST.") from error
    if not parts.hostname or parts.query or parts.fragment or parts.username is not None:
        raise HoldfastError(
            f"upstream.{name} has parts that an upstream cannot have; give scheme, host, port and path only."
        )
    return parts


def _target(address: SplitResult, request: OutgoingRequest) -> URL:
    return _below(address, *path_of(request.dialect, wire_model(request.model)))


def _below(address: SplitResult, path: str, query: Mapping[str, str]) -> URL:
    """A path at an upstream. A base that ends with the version a path begins with is not doubled."""
    base = address.path.rstrip("/")
    found = _version(base)
    if found is not None and path.startswith(found[0] + "/"):
        path = path.removeprefix(found[0])
    asked = f"{address.scheme}://{address.netloc}{base}{path}"
    return URL(asked, encoded=True).with_query(query) if query else URL(asked, encoded=True)


def _credential(name: str, key: str) -> dict[str, str]:
    if name == "anthropic":
        return {"x-api-key": key, "anthropic-version": _VERSION}
    return {"x-goog-api-key": key} if name == "gemini" else {"authorization": f"Bearer {key}"}


def _unreachable(address: SplitResult, error: Exception, limits: Limits, trusted: Trust) -> Unreachable:
    """Why there is no answer. The words are ours: the library's hold the whole address."""
    where = address.netloc
    if isinstance(error, aiohttp.SocketTimeoutError):
        return Unreachable(f"{where} did not answer within {limits.idle_s:g} seconds.")
    if isinstance(error, TimeoutError):
        return Unreachable(f"{where} could not be connected to within {limits.connect_s:g} seconds.")
    if why := untrusted(error, trusted):
        return Unreachable(f"no secure connection to {where} can be made: {why}.")
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError | ssl.SSLError):
        return Unreachable(f"no secure connection to {where} can be made; check its address and certificate.")
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno
        reason = os.strerror(number) if number is not None and number > 0 else error.os_error.strerror
        return Unreachable(f"{where} cannot be reached ({reason or 'no connection'}); check the address and network.")
    return Unreachable(f"{where} broke the connection before it answered.")


def _broken(address: SplitResult, error: Exception, limits: Limits) -> Unreachable:
    if isinstance(error, TimeoutError):
        return Unreachable(f"{address.netloc} was silent for {limits.idle_s:g} seconds in the middle of its answer.")
    return Unreachable(f"{address.netloc} broke off in the middle of its answer.")
