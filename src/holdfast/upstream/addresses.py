"""Where providers are: the configured addresses, taken apart once for everybody who asks a provider."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlencode, urlsplit

from msgspec import Struct

from holdfast.errors import HoldfastError

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
