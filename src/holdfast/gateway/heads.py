"""The head of a request as it leaves: the bytes of the client's headers, whatever they are.

The library writes heads in UTF-8 only. Headers come here as Latin-1, one character for a byte, and what it has written
is turned back into these bytes on its way out. Heads of plain ASCII, nearly all, do not pass here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import aiohttp
from aiohttp.connector import Connection

_END = b"\r\n\r\n"


class Request(aiohttp.ClientRequest):
    """A request whose head goes out byte by byte."""

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        protocol = conn.protocol
        plain = all(name.isascii() and value.isascii() for name, value in self.headers.items())
        if not plain and protocol is not None and protocol.transport is not None:
            protocol.transport = Exact(protocol)  # type: ignore[assignment]
        return await super().send(conn)


class Exact:
    """Stands in for a connection's transport until the head is written."""

    def __init__(self, protocol: Any) -> None:
        known = protocol.transport
        if isinstance(known, Exact):  # nothing was written the last time
            known = known._transport
        self._protocol: Any = protocol
        self._transport: Any = known

    def write(self, data: bytes) -> None:
        if self._protocol.transport is self:
            self._protocol.transport = self._transport
        head, end, body = bytes(data).partition(_END)
        self._transport.write(head.decode().encode("latin-1") + end + body)

    def writelines(self, pieces: Iterable[bytes]) -> None:
        self.write(b"".join(pieces))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
