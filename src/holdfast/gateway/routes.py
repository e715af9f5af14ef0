"""Where a request goes: its upstream, the path to send, and the dialect if it is a call to plan.

A pure function of path and headers. The addresses come from the configuration; nothing in a request can name another,
and neither can a model. The path is sent on as the provider spells it, without the prefixes that are ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from holdfast.config.sections import Upstream
from holdfast.errors import HoldfastError
from holdfast.wire import DIALECTS, Dialect

from .paths import provider_path

NAMES = ("anthropic", "openai", "gemini", "openrouter")
_STYLES = {"anthropic": "anthropic", "openai": "openai_chat", "gemini": "gemini", "openrouter": "openrouter"}
_CLAUDE = "claude-cli"  # looks at `/` without a key
_PORTS = {"http": 80, "https": 443}
_KEYS = ("key=", "access_token=")

_prefixed = re.compile(r"/(anthropic|openai|gemini|openrouter)(/.*)?\Z", re.DOTALL).match
_generate = re.compile(r"/v1(?:beta|alpha)?/models/([^/:]+):(?:generateContent|streamGenerateContent)\Z").match
_gemini = re.compile(r"/v1(?:beta|alpha)/|/v1/models/[^/:]+:|/(?:upload|download)/v1beta/").match
_version = re.compile(r"/v1(?:beta|alpha)?(?=/|\Z)").search


class Address(Struct, frozen=True):
    """An upstream as configured, taken apart."""

    name: str
    scheme: str
    host: str
    port: int
    base: str
    """The path that stands in front of every request's, without a slash at its end."""

    def path(self, path: str) -> str:
        """The path to send. A base that ends with the version a path begins with is not doubled."""
        found = _version(self.base)
        if found is not None and found.end() == len(self.base) and path.startswith(found[0] + "/"):
            return self.base + path[len(found[0]) :]
        return self.base + path


class Route(Struct, frozen=True):
    """`path` is what the upstream is asked for; `dialect` is None where a request just passes; `style` is the dialect
    in which errors of ours are told."""

    upstream: Address
    path: str
    dialect: Dialect | None
    model: str
    style: Dialect


class Routes:
    """The routes to the configured upstreams."""

    def __init__(self, upstreams: Upstream) -> None:
        self.addresses = {name: _address(name, getattr(upstreams, name)) for name in NAMES}

    def find(self, method: str, path: str, query: str, headers: Mapping[str, str]) -> Route | None:
        """The route of a request; None where it is no provider's. `path` is the raw one, still percent-encoded."""
        if _climbs(path):
            return None
        chosen = _prefixed(path)
        if chosen is not None:
            name = chosen[1]
            path = provider_path(chosen[2] or "/", query, google=name == "gemini")
        else:
            path = provider_path(path, query, google=_is_google(query, headers))
            found = _upstream(path, query, headers)
            if found is None:
                return None
            name = found
        if name == "openrouter" and path.startswith("/api/"):
            path = path[4:]  # its base has that part
        address = self.addresses[name]
        dialect, model = _dialect(method, path, address)
        style = dialect or DIALECTS[_STYLES[name]]
        return Route(address, address.path(path), dialect, model, style)

    def style(self, path: str, query: str, headers: Mapping[str, str]) -> Dialect:
        """The dialect of an error for a request that is not routed."""
        chosen = _prefixed(path)
        if chosen is not None:
            return DIALECTS[_STYLES[chosen[1]]]
        path = provider_path(path, query, google=_is_google(query, headers))
        return DIALECTS[_STYLES[_upstream(path, query, headers) or _by_credential(query, headers)]]


def _upstream(path: str, query: str, headers: Mapping[str, str]) -> str | None:
    if path.startswith("/v1/messages"):
        return "anthropic"
    if path in ("/v1/chat/completions", "/v1/responses") or path.startswith("/v1/responses/"):
        return "openai"
    if _gemini(path) is not None:
        return "gemini"
    if path.startswith("/v1/projects/"):  # Vertex: another service, whose credentials are nobody else's
        return None
    if path.startswith("/v1/"):
        return _by_credential(query, headers)
    if path == "/":  # a client that looks whether its provider is there
        return _by_credential(query, headers) if is_client(query, headers) else None
    if path.startswith("/api/"):
        return "openrouter" if path.startswith("/api/v1/") else "anthropic"  # Claude Code's side calls
    return None


def is_client(query: str, headers: Mapping[str, str]) -> bool:
    """Whether a request looks like one of a provider's client, whatever its path."""
    return bool(headers.keys() & {"anthropic-version", "x-api-key", "api-key", "x-goog-api-key", "authorization"}) or (
        _has_key(query) or _CLAUDE in headers.get("user-agent", "")
    )


def _by_credential(query: str, headers: Mapping[str, str]) -> str:
    """Paths that several providers have: by the manner in which the client shows its key."""
    if "anthropic-version" in headers or "x-api-key" in headers or _CLAUDE in headers.get("user-agent", ""):
        return "anthropic"
    return "gemini" if _is_google(query, headers) else "openai"


def _is_google(query: str, headers: Mapping[str, str]) -> bool:
    return "x-goog-api-key" in headers or _has_key(query)


def _has_key(query: str) -> bool:
    return query.startswith(_KEYS) or any(f"&{name}" in query for name in _KEYS)


def _dialect(method: str, path: str, address: Address) -> tuple[Dialect | None, str]:
    """The dialect of a call that is planned, and the model if the path names it."""
    if method != "POST":
        return None, ""
    if path == "/v1/messages":
        return DIALECTS["anthropic"], ""
    if path == "/v1/chat/completions":
        routed = address.name == "openrouter" or address.host == "openrouter.ai"
        return DIALECTS["openrouter" if routed else "openai_chat"], ""
    if path == "/v1/responses":
        return DIALECTS["openai_responses"], ""
    found = _generate(path)
    return (None, "") if found is None else (DIALECTS["gemini"], unquote(found[1]))


def _climbs(path: str) -> bool:
    """Whether a path has parts that could lead out of the upstream's base, however they are spelt."""
    if "." not in path and "%" not in path and "\\" not in path:
        return False
    if "." not in path and "%" not in path:
        return False
    plain = unquote(unquote(path)).replace("\\", "/")
    return any(part in (".", "..") for part in plain.split("/"))


def _address(name: str, text: str) -> Address:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise HoldfastError(f"upstream.{name} is no address ({error}); give one such as https://HOST.") from error
    if not parts.hostname or parts.query or parts.fragment or parts.username is not None:
        raise HoldfastError(
            f"upstream.{name} has parts that an upstream cannot have; give scheme, host, port and path only."
        )
    return Address(name, parts.scheme, parts.hostname, port or _PORTS[parts.scheme], parts.path.rstrip("/"))
