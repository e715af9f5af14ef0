"""Which web pages may use the gateway: judged by the name they call it and by the origin they come from.

A page of any site can send requests to this machine: to its address, or to a name of the page's own that it makes point
here (DNS rebinding). A browser says so: in `Host`, in `Origin`, and in `Sec-Fetch-Site`. Other programs send neither of
the last two and pass; `Sec-Fetch-Mode` alone comes from Node's `fetch`, which is no browser.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import urlsplit

from msgspec import Struct
from starlette.types import Message, Send

from holdfast.engine.passage import RawHeaders
from holdfast.serving import is_loopback

_LONGEST = 200
_REMEMBERED = 64  # names that were judged before
_MAX_AGE_S = 600
_NOT_OWN = "this is for the gateway's own pages and for programs, not for pages of other origins."
_host = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/?#@\[\],]+)(:\d*)?").fullmatch


class Caller(Struct, frozen=True):
    """The sender of a request according to its headers."""

    refused: str = ""
    """`host` or `origin` if it is refused."""
    message: str = ""
    """The reason and the remedy."""
    origin: str = ""
    """The other origin that may read the answer."""


_PROGRAM = Caller()


class OriginPolicy:
    """The names this gateway is called by, and the origins of other pages that may use it.

    On loopback `hosts` adds to this machine's own names. Elsewhere it is the whole list, and any name will do where it
    is empty.
    """

    def __init__(self, *, hosts: Sequence[str], origins: Sequence[str], loopback: bool) -> None:
        self._loopback = loopback
        self._hosts = frozenset(each.lower().rstrip(".") for each in hosts)
        self._origins = frozenset(each.lower().rstrip("/") for each in origins if not each.endswith("://*"))
        self._schemes = tuple(each[:-1].lower() for each in origins if each.endswith("://*"))
        self._is_ours = lru_cache(_REMEMBERED)(self._judge_host)

    def judge(self, method: str, headers: RawHeaders, *, own: bool = False) -> Caller:
        """Decide whether a request is allowed. Every value of a repeated header counts. The gateway's `own` resources
        are for its own pages only."""
        hosts, origins, sites = [], [], []
        for name, value in headers:
            if name == b"host":
                hosts.append(value.decode("latin-1"))
            elif name == b"origin":
                origins.append(value.decode("latin-1"))
            elif name == b"sec-fetch-site":
                sites.append(value.decode("latin-1").strip().lower())
        for host in hosts:
            if not self._is_ours(host):
                return Caller("host", _wrong_host(host))
        if not origins and not sites:
            return _PROGRAM
        listed = ""
        for origin in origins:
            if _is_same(origin, hosts):
                continue
            if own:
                return Caller("origin", _NOT_OWN)
            if not self._is_listed(origin):
                return Caller("origin", _wrong_origin(origin))
            listed = origin
        if not listed and not all(site == "same-origin" or _was_typed(method, site) for site in sites):
            return Caller("origin", _wrong_origin(""))
        return Caller(origin=listed)

    def _judge_host(self, host: str) -> bool:
        if not self._loopback and not self._hosts:
            return True
        match = _host(host.strip().lower())
        if match is None:
            return False
        name = match[1].rstrip(".")
        if self._loopback and is_loopback(name.strip("[]")):
            return True
        return name in self._hosts or name + (match[2] or "") in self._hosts

    def _is_listed(self, origin: str) -> bool:
        lower = origin.lower()
        return lower in self._origins or lower.startswith(self._schemes)


def _is_same(origin: str, hosts: Sequence[str]) -> bool:
    """Return whether a page is one of ours: its origin is the host of its request."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    place = parts.netloc.lower()
    return parts.scheme in ("http", "https") and bool(place) and [place] == [each.lower() for each in hosts]


def _was_typed(method: str, site: str) -> bool:
    return site == "none" and method in ("GET", "HEAD")


def _wrong_host(host: str) -> str:
    name = _shown(host)
    return (
        f"this gateway is not called {name or 'nothing'}, so a web page may have sent this request. If that is its "
        f"name, write hosts = [{json.dumps(name)}] under [gateway] in holdfast.toml (gateway.hosts)."
    )


def _wrong_origin(origin: str) -> str:
    named = _shown(origin)
    if not named:
        return (
            "a web page of another origin sent this request. Pages may use the gateway if their origin stands in "
            "gateway.origins (under [gateway] in holdfast.toml) and they ask in a way that names it."
        )
    return (
        f"pages and apps of the origin {named} may not use this gateway. If you trust them, write "
        f"origins = [{json.dumps(named)}] under [gateway] in holdfast.toml (gateway.origins)."
    )


def _shown(text: str) -> str:
    return "".join(each for each in text if each.isprintable())[:_LONGEST].strip()


# Answers that a page of another origin may read (CORS)


def preflight(headers: RawHeaders) -> list[tuple[bytes, bytes]]:
    """Return the headers that answer a browser's CORS preflight request."""
    allowed = [(b"access-control-max-age", b"%d" % _MAX_AGE_S)]
    for name, value in headers:
        if name == b"access-control-request-method":
            allowed.append((b"access-control-allow-methods", value))
        elif name == b"access-control-request-headers":
            allowed.append((b"access-control-allow-headers", value))
        elif name == b"access-control-request-private-network":
            allowed.append((b"access-control-allow-private-network", b"true"))
    return allowed


def readable_by(send: Send, origin: str) -> Send:
    """`send` for answers that pages of one origin, and no others, may read. What the provider allows does not count."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [each for each in message["headers"] if not _is_providers(each[0])]
            names = b", ".join(sorted({name.lower() for name, _ in headers}))
            headers += [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"Origin")]
            headers.append((b"access-control-expose-headers", names))
            message = {**message, "headers": headers}
        await send(message)

    sending.__self__ = send.__self__  # type: ignore[attr-defined]  # whose connection it is
    return sending


def _is_providers(name: bytes) -> bool:
    lower = name.lower()
    return lower.startswith(b"access-control-") and lower not in _PREFLIGHT


_PREFLIGHT = frozenset(
    b"access-control-" + each for each in (b"max-age", b"allow-methods", b"allow-headers", b"allow-private-network")
)
