"""Who may come in: the access key where strangers can reach the gateway, the admin token for what is ours.

Keys are compared in constant time, and the answer to a wrong one is that to a missing one.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from holdfast.config.schema import Settings
from holdfast.serving import is_loopback

ACCESS_HEADER = "x-holdfast-key"
_door = re.compile(r"/(k|run)/([A-Za-z0-9._~-]{1,128})(?=/|\Z)").match
_BEARER = "bearer "


class Entry(Struct, frozen=True):
    """A path without the prefixes that are ours, and what they said."""

    path: str
    key: str | None = None
    run: str | None = None


def enter(path: str) -> Entry:
    """`/k/KEY` and `/run/ID` stand in front of a path, in any order."""
    if not path.startswith(("/k/", "/run/")):
        return Entry(path)
    said: dict[str, str] = {}
    while (found := _door(path)) is not None and found[1] not in said:
        said[found[1]] = found[2]
        path = path[found.end() :] or "/"
    return Entry(path, said.get("k"), said.get("run"))


def serves(settings: Settings) -> bytes:
    """Where a gateway forwards to and where it stores: one that does otherwise is not the one that is looked for."""
    return msgspec.json.encode((settings.upstream, settings.store.url))


def proof(token: str, nonce: str, port: int, serves: bytes) -> str:
    """What shows that who listens on a port knows the admin token and serves so, without showing either."""
    return hmac.new(token.encode(), f"holdfast {port} {nonce} ".encode() + serves, hashlib.sha256).hexdigest()


class Access:
    """The door to the provider APIs. Without a key everybody may pass: the address is loopback's."""

    def __init__(self, key: str | None) -> None:
        self._key = None if key is None else key.encode()

    def allows(self, entry: Entry, headers: Mapping[str, str]) -> bool:
        if self._key is None:
            return True
        given = headers.get(ACCESS_HEADER) or entry.key or ""
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._key)


class Admin:
    """The door to what is ours: the token, and nobody whom a web page sent."""

    def __init__(self, token: str, *, loopback: bool, serves: bytes = b"") -> None:
        self._token = token.encode()
        self._loopback, self._serves = loopback, serves

    def proof(self, nonce: str, port: int) -> str:
        return proof(self._token.decode(), nonce, port, self._serves)

    def allows(self, headers: Mapping[str, str]) -> bool:
        value = headers.get("authorization", "")
        given = value[len(_BEARER) :].strip() if value.lower().startswith(_BEARER) else ""
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token)

    def is_given(self, credentials: Iterable[str]) -> bool:
        """Whether somebody shows the token where a provider's key belongs."""
        return any(hmac.compare_digest(each.encode("utf-8", "replace"), self._token) for each in credentials)

    def is_foreign(self, headers: Mapping[str, str]) -> bool:
        """Whether a page of another origin asks, or one that made its name point at this machine."""
        host = headers.get("host", "")
        if self._loopback and not _is_here(host):
            return True
        if headers.get("sec-fetch-site", "none").lower() not in ("none", "same-origin"):
            return True
        origin = headers.get("origin")
        return origin is not None and urlsplit(origin).netloc.lower() != host.lower()


def _is_here(host: str) -> bool:
    """Whether the header `host` names this machine as itself."""
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    return name is not None and is_loopback(name)
