"""Where providers are: the configured addresses, parsed once, and what logs and messages may show of them.

Some services take their key as a part of the path. Of an address that the user configured only the parts that every
provider's has are shown, since nobody can tell a key from a name. Of a request's path, which is a provider's own,
everything is shown but what looks like a key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote, urlencode, urlsplit

from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.facts import holds_key

_PORTS = {"http": 80, "https": 443}
_version = re.compile(r"/v1(?:beta|alpha)?(?=/|\Z)").search


class Address(Struct, frozen=True, cache_hash=True):
    """The address of a server."""

    name: str  # of the upstream in the settings
    scheme: str
    host: str
    port: int
    base: str  # the path in front of every request's, without a slash at its end
    netloc: str  # host and port as they were written

    def path(self, path: str) -> str:
        """The path to send. A base that ends with the version a path begins with is not doubled."""
        version = _version(self.base)
        if version is not None and version.end() == len(self.base) and path.startswith(version[0] + "/"):
            return self.base + path[len(version[0]) :]
        return self.base + path

    def target(self, path: str, query: Mapping[str, str]) -> str:
        """Path and query to send."""
        return f"{self.path(path)}?{urlencode(query)}" if query else self.path(path)


def parse_address(name: str, text: str) -> Address:
    """The address that the setting `upstream.NAME` holds."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise HoldfastError(f"upstream.{name} is no address ({error}); give one such as https://HOST.") from error
    if not parts.hostname or parts.query or parts.fragment or parts.username is not None:
        raise HoldfastError(
            f"upstream.{name} has parts that an upstream cannot have; give scheme, host, port and path only."
        )
    base = parts.path.rstrip("/")
    return Address(name, parts.scheme, parts.hostname, port or _PORTS[parts.scheme], base, parts.netloc)


MASK = "***"

_PLAIN = re.compile(
    r"v\d{1,3}(?:alpha|beta)?\d{0,2}|api|openai|anthropic|gemini|google|openrouter|codex|backend-api|inference|llm|proxy",
    re.IGNORECASE,
)
_DOORS = frozenset(("k", "key", "keys", "token", "tokens", "secret", "auth"))
_LONG = 16  # characters from which letters mixed with digits are taken for random ones
_LONGEST = 31  # characters of a name; what is longer is a key also without digits, or of digits alone
_MODEL = re.compile(r"(?:claude|gemini|gemma|gpt|o\d|text|models?)(?:[-_.][a-zA-Z0-9.]{1,15})*(?::[a-zA-Z]{1,31})?")


def shown_address(address: str) -> str:
    """Scheme, host and port, whether there is a user, and of the path what is certainly no key."""
    try:
        parts = urlsplit(address)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or MASK
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:  # whose words may hold a part of a password
        return MASK
    path = "/".join(part if not part or _PLAIN.fullmatch(part) else MASK for part in parts.path.split("/"))
    user = f"{MASK}@" if "@" in parts.netloc else ""
    return f"{parts.scheme}://{user}{host}{port}{path}".removesuffix("/")


def shown_path(path: str, base: str = "") -> str:
    """A request's path without `base`, which is the configured address's part of it, and without keys."""
    relative = path.removeprefix(base) if base else path
    parts, before = [], ""
    for part in relative.split("/"):
        name, given, _ = _decoded(part).partition("=")
        parts.append(
            MASK if part and (before in _DOORS or (given and _word(name) in _DOORS) or _is_key(part)) else part
        )
        before = _word(name) if part else before  # an empty part is none: /key//abc
    return ("…" if base and relative != path else "") + "/".join(parts)


def _decoded(part: str) -> str:
    """Decode a part, even if it was encoded twice."""
    return unquote(unquote(part))


def _word(name: str) -> str:
    """A part's name without its parameters: `key` of `Key;v=1`."""
    return name.partition(";")[0].strip().lower()


def _is_key(part: str) -> bool:
    text = _decoded(part)
    if holds_key(text):
        return True
    if len(text) < _LONG or _MODEL.fullmatch(text):
        return False
    if len(text) > _LONGEST and text.isalnum():
        return True
    return any(char.isdigit() for char in text) and any(char.isalpha() for char in text)
