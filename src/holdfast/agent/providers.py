"""The providers over HTTP: where a request goes, which key goes with it, and what a broken connection means.

Addresses are the configuration's and keys the environment's; neither is ever part of an error, since a path may hold a
key too: errors name the host.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from holdfast import facts
from holdfast.config.sections import LimitSettings, UpstreamSettings
from holdfast.errors import HoldfastError
from holdfast.serving import encodings, is_loopback
from holdfast.upstream import Address, HttpClient, Response, UpstreamError, parse_address
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
_HEADERS = {
    "accept": "*/*",
    "accept-encoding": "identity",
    "content-type": "application/json",
    "user-agent": "holdfast",
}
_VERSION = "2023-06-01"
_OPENAI = urlsplit(UpstreamSettings().openai).hostname
_LARGEST = 4_194_304
"""Largest answer to a call besides the requests, in bytes."""
_printable = re.compile(r"[!-~]+").fullmatch


class HttpProvider:
    """The configured servers. Its connections belong to the loop that uses it first, and last until `close`."""

    def __init__(
        self,
        upstream: UpstreamSettings,
        environ: Mapping[str, str] | None = None,
        *,
        limits: LimitSettings = LimitSettings(),  # noqa: B008  a frozen value
    ) -> None:
        self._environ = os.environ if environ is None else environ
        self._limits = limits
        self._upstream = upstream
        self._addresses = {name: parse_address(name, getattr(upstream, name)) for name in KEYS}
        self._client = HttpClient(connect_s=limits.connect_s, idle_s=limits.idle_s, environ=environ)

    @asynccontextmanager
    async def open(self, request: OutgoingRequest) -> AsyncIterator[HttpAnswer]:
        """Send a request; whoever leaves before the answer's end closes the connection."""
        name = _UPSTREAMS.get(request.dialect, "openai")
        address = self._addresses[name]
        local = is_loopback(address.host)
        headers = _HEADERS | _credential(name, self._key(name, local=local))
        if name == "openai" and (problem := not_served(request.model, self._upstream)):
            raise KeyMissing(problem)
        if local and request.session:
            headers["x-holdfast-session"] = request.session
        response = await self._send(
            address, address.target(*path_of(request.dialect, wire_model(request.model))), headers, request.raw
        )
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
        headers = _HEADERS | _credential(name, self._key(name, local=is_loopback(address.host)))
        target = address.target(request.path, request.query)
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
        """Close all connections."""
        await self._client.close()

    async def _send(
        self, address: Address, target: str, headers: Mapping[str, str], raw: bytes, method: str = "POST"
    ) -> Response:
        try:
            encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
            return await self._client.send(address, method, target, encoded, raw)
        except UpstreamError as error:
            raise _no_answer(address, error, self._limits) from None

    def _key(self, name: str, *, local: bool) -> str:
        variables = KEYS[name]
        variable = next((each for each in variables if self._environ.get(each, "").strip()), None)
        if variable is None:
            if local:
                return NO_KEY
            raise KeyMissing(f"there is no key for {name}; set {' or '.join(variables)} in the environment.")
        key = self._environ[variable].strip()
        if _printable(key) is None:
            raise HoldfastError(f"{variable} holds characters that no key has; set it to the key alone.")
        return key


def not_served(model: str, upstream: UpstreamSettings) -> str:
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

    def __init__(self, response: Response, address: Address, limits: LimitSettings) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}
        self._response = response
        self._address = address
        self._limits = limits
        encoding = encodings.named(self.headers.get("content-encoding"))
        self._decoder = (
            encodings.Decoder(encoding) if encoding in encodings.KNOWN else None
        )  # some encode what was asked for in plain

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = b""
            while not chunk and not self._response.at_eof():
                chunk = await self._response.read_any()
                if self._decoder is not None:
                    chunk = self._decoder.feed(chunk)
        except UpstreamError as error:
            raise _broken_off(self._address, error, self._limits) from None
        except ValueError:  # not what its header says
            raise _broken_off(self._address, UpstreamError("closed"), self._limits) from None
        if not chunk:
            raise StopAsyncIteration
        return chunk


def _credential(name: str, key: str) -> dict[str, str]:
    if name == "anthropic":
        return {"x-api-key": key, "anthropic-version": _VERSION}
    return {"x-goog-api-key": key} if name == "gemini" else {"authorization": f"Bearer {key}"}


def _no_answer(address: Address, error: UpstreamError, limits: LimitSettings) -> Unreachable:
    """Why there is no answer."""
    where = address.netloc
    match error.kind:
        case "read_timeout":
            return Unreachable(f"{where} did not answer within {limits.idle_s:g} seconds.")
        case "connect_timeout":
            return Unreachable(f"{where} could not be connected to within {limits.connect_s:g} seconds.")
        case "untrusted":
            return Unreachable(f"no secure connection to {where} can be made: {error.reason}.")
        case "tls":
            return Unreachable(f"no secure connection to {where} can be made; check its address and certificate.")
        case "unreachable":
            return Unreachable(f"{where} cannot be reached ({error.reason}); check the address and network.")
        case "invalid":
            return Unreachable(f"{where} answered with {error.reason}.")
        case "not_http" | "closed":
            return Unreachable(f"{where} broke the connection before it answered.")


def _broken_off(address: Address, error: UpstreamError, limits: LimitSettings) -> Unreachable:
    if error.kind == "read_timeout":
        return Unreachable(f"{address.netloc} was silent for {limits.idle_s:g} seconds in the middle of its answer.")
    return Unreachable(f"{address.netloc} broke off in the middle of its answer.")
