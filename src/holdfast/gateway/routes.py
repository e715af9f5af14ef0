"""Where a request goes: its upstream, the path to send, and the dialect if it is a call to plan.

A pure function of path and headers. The addresses come from the configuration; nothing in a request can name another,
and neither can a model. The path is sent on as the provider spells it, without the prefixes that are ours.

Clients append their own path to the address they are given and disagree on whether that ends with a version: Claude
Code appends `/v1/messages`, opencode `/messages`, Gemini's SDK `/v1beta/models/…`. So that one address serves them all,
a version that was doubled counts once, and one that is missing is added to the paths that providers are known to have.
Every other path stays as it came.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote

from msgspec import Struct

from holdfast.config.sections import UpstreamSettings
from holdfast.upstream import Address, parse_address
from holdfast.wire import DIALECTS, Dialect

NAMES = ("anthropic", "openai", "gemini", "openrouter")
_STYLES = {"anthropic": "anthropic", "openai": "openai_chat", "gemini": "gemini", "openrouter": "openrouter"}
_CLAUDE = "claude-cli"  # looks at `/` without a key
_KEYS = ("key=", "access_token=")

_prefixed = re.compile(r"/(anthropic|openai|gemini|openrouter)(/.*)?\Z", re.DOTALL).match
_generate = re.compile(r"/v1(?:beta|alpha)?/models/([^/:]+):(?:generateContent|streamGenerateContent)\Z").match
_gemini = re.compile(r"/v1(?:beta|alpha)/|/v1/models/[^/:]+:|/(?:upload|download)/v1beta/").match
_versions = re.compile(r"(?:/+v1(?:beta|alpha)?(?=/|\Z))+").match
_version = re.compile(r"/(v1(?:beta|alpha)?)(?=/|\Z)").findall
_call = re.compile(r"/(?:messages|chat/completions|responses)(?=/|\Z)").match
_resource = re.compile(
    r"/(?:messages|chat/completions|responses|models|files|batches|completions|embeddings|images|audio|videos|"
    r"moderations|conversations|uploads|vector_stores|fine_tuning|containers|organizations|skills)(?=/|\Z)"
).match
_of_gemini = re.compile(r"/(?:models/[^/:]+:|(?:cachedContents|tunedModels|fileSearchStores)(?=/|\Z))").match
_AZURE = "api-version="  # whose paths name a deployment and no version


class ProviderRoute(Struct, frozen=True):
    """Where one request goes."""

    upstream: Address
    path: str  # what the upstream is asked for
    dialect: Dialect | None  # None where the request just passes
    model: str  # where the path names it
    style: Dialect  # the dialect in which errors of ours are written


class Routes:
    """The routes to the configured upstreams."""

    def __init__(self, upstreams: UpstreamSettings) -> None:
        self.addresses = {name: parse_address(name, getattr(upstreams, name)) for name in NAMES}

    def find(self, method: str, path: str, query: str, headers: Mapping[str, str]) -> ProviderRoute | None:
        """The route of a request; None where it is no provider's. `path` is the raw one, still percent-encoded."""
        if _climbs(path):
            return None
        chosen = _prefixed(path)
        if chosen is not None:
            name = chosen[1]
            path = provider_path(chosen[2] or "/", query, google=name == "gemini")
        else:
            path = provider_path(path, query, google=_is_google(query, headers))
            upstream = _upstream(path, query, headers)
            if upstream is None:
                return None
            name = upstream
        if name == "openrouter" and path.startswith("/api/"):
            path = path[4:]  # its base has that part
        address = self.addresses[name]
        dialect, model = _dialect(method, path, address)
        style = dialect or DIALECTS[_STYLES[name]]
        return ProviderRoute(address, address.path(path), dialect, model, style)

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
    match = _generate(path)
    return (None, "") if match is None else (DIALECTS["gemini"], unquote(match[1]))


def _climbs(path: str) -> bool:
    """Whether a path has parts that could lead out of the upstream's base, however they are spelt."""
    if "." not in path and "%" not in path and "\\" not in path:
        return False
    if "." not in path and "%" not in path:
        return False
    plain = unquote(unquote(path)).replace("\\", "/")
    return any(part in (".", "..") for part in plain.split("/"))


# The path that a provider serves, however the base URL in front of it was spelled


def provider_path(path: str, query: str, *, google: bool) -> str:
    """The path to route and to send. `google` says that the credential or the prefix is Gemini's: of what several
    providers have, its own is under /v1beta."""
    path = _without_extra_slash(path)
    if path.startswith("/api/"):
        return _openrouter(path)
    versions = _versions(path)
    if versions is None:
        return path if _AZURE in query else _with_version(path, google)
    rest = _without_extra_slash(path[versions.end() :])
    if rest in ("", "/"):
        return "/"
    if rest.startswith("/api/"):  # what stands beside /v1: Claude Code's side calls, OpenRouter
        return _openrouter(rest)
    return "/v1" + rest if _call(rest) else f"/{_version(versions[0])[-1]}{rest}"


def _without_extra_slash(path: str) -> str:
    """A provider's path without the slash too many at its beginning that the end of a base URL left."""
    if not path.startswith("//"):
        return path
    plain = "/" + path.lstrip("/")
    return path if (_versions(plain) or _resource(plain) or _of_gemini(plain)) is None else plain


def _with_version(path: str, google: bool) -> str:
    if _of_gemini(path):
        return "/v1beta" + path
    if _resource(path):
        return ("/v1beta" if google and not _call(path) else "/v1") + path
    return path


def _openrouter(path: str) -> str:
    """A path under /api: OpenRouter's calls have one version there; the rest is Anthropic's and has none."""
    rest = path[len("/api") :]
    versions = _versions(rest)
    if versions is not None:
        return "/api/v1" + rest[versions.end() :]
    return "/api/v1" + rest if _call(rest) else path
