"""Who may come in: the access key where strangers can reach the gateway, the admin token for what is ours.

Keys are compared in constant time, and the answer to a wrong one is that to a missing one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import Struct

from holdfast.config import Settings
from holdfast.engine.passage import OURS, RawHeaders

ACCESS_HEADER = "x-holdfast-key"
_prefix = re.compile(r"/(k|run)/([A-Za-z0-9._~-]{1,128})(?=/|\Z)").match
_BEARER = "bearer "
_DEEPEST = 3  # layers of percent-encoding
_STANDARD = bytes.maketrans(b"-_", b"+/")  # the alphabets of base64 differ in these


class EntryPath(Struct, frozen=True):
    """A path without the prefixes that are ours, and what they say."""

    path: str
    key: str | None = None
    run: str | None = None


def parse_entry(path: str) -> EntryPath:
    """Take `/k/KEY` and `/run/ID`, in any order, off the front of a path."""
    if not path.startswith(("/k/", "/run/")):
        return EntryPath(path)
    values: dict[str, str] = {}
    while (prefix := _prefix(path)) is not None and prefix[1] not in values:
        values[prefix[1]] = prefix[2]
        path = path[prefix.end() :] or "/"
    return EntryPath(path, values.get("k"), values.get("run"))


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

    def allows(self, entry: EntryPath, headers: Mapping[str, str]) -> bool:
        if self._key is None:
            return True
        key = headers.get(ACCESS_HEADER) or entry.key or ""
        return hmac.compare_digest(key.encode("utf-8", "replace"), self._key)


class Admin:
    """Access to our own pages by the admin token."""

    def __init__(self, token: str, *, serves: bytes = b"") -> None:
        self._token = token.encode()
        self._serves = serves

    def proof(self, nonce: str, port: int) -> str:
        return proof(self._token.decode(), nonce, port, self._serves)

    def allows(self, headers: Mapping[str, str]) -> bool:
        value = headers.get("authorization", "")
        token = value[len(_BEARER) :].strip() if value.lower().startswith(_BEARER) else ""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self._token)


class OwnKeys:
    """The keys that are no provider's: the admin token and the access key.

    They are looked for in everything of a request's head that would be forwarded, also percent-encoded, as hex and
    within base64.
    """

    def __init__(self, *keys: str) -> None:
        raw = [each.encode() for each in keys]
        self._lower = tuple(spelt for each in raw for spelt in (each.lower(), each.hex().encode()))
        self._base64 = tuple(spelt for each in raw for spelt in _in_base64(each))

    def are_in(self, path: str, query: str, headers: RawHeaders) -> bool:
        parts = [path.encode("latin-1"), query.encode("latin-1")]
        for each in headers:
            if not each[0].startswith(OURS):
                parts += each
        text = b"\n".join(parts)
        for _ in range(_DEEPEST):
            if self._stand_in(text):
                return True
            if b"%" not in text:
                return False
            text = unquote_to_bytes(text)
        return self._stand_in(text)

    def _stand_in(self, text: bytes) -> bool:
        lower, standard = text.lower(), text.translate(_STANDARD)  # names of headers come in lower case
        return any([key in lower for key in self._lower] + [key in standard for key in self._base64])


def _in_base64(key: bytes) -> list[bytes]:
    """The characters that stand for a key within base64, for each of the three ways it may be aligned."""
    spellings = []
    for before in range(3):
        text = base64.b64encode(bytes(before) + key).rstrip(b"=")
        spellings.append(text[(0, 2, 3)[before] : None if (before + len(key)) % 3 == 0 else -1])
    return spellings
