"""A server at an address, over streamable HTTP by the SDK's transport, with limits of our own.

An answer that is too large, or compressed without being requested so, is an error of that call. The end of the stream
for unrequested messages is a sign that the server may be gone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from holdfast.config import mask
from holdfast.version import __version__

from .configuration import McpServer


class _Masked(logging.Filter):
    """The HTTP library logs every address, and one may carry a key."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(mask(str(part)) if isinstance(part, httpx2.URL) else part for part in record.args)
        return True


logging.getLogger("httpx2").addFilter(_Masked())

_CONNECT_S = 10.0
_GOODBYE_S = 2.0
_BETWEEN_S = 0.5
"""Between two tries to listen: the SDK waits as long as the server says, which may be not at all."""


class HttpEndpoint:
    """One connection to a server at an address. `suspected` is called when it may be gone."""

    def __init__(self, server: McpServer, largest: int, suspected: Callable[[], None]) -> None:
        self._server, self._largest, self._suspected = server, largest, suspected
        self._refused: int | None = None
        self._next = 0.0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Any]:
        client = httpx2.AsyncClient(
            headers={"user-agent": f"holdfast/{__version__}", **self._server.headers, "accept-encoding": "identity"},
            # How long an answer may take is for the caller to say, and a stream may be silent for hours.
            timeout=httpx2.Timeout(_CONNECT_S, read=None),
            event_hooks={"request": [_hurry, self._pace], "response": [self._bound]},
        )
        assert self._server.url is not None
        async with (
            client,
            streamable_http_client(self._server.url, http_client=client, max_sse_event_size=self._largest) as streams,
        ):
            yield streams

    async def settled(self) -> None:
        """There is nothing to wait for: no program ends here."""

    def ended(self) -> str:
        return "" if self._refused is None else f"it answered with status {self._refused}"

    def words(self) -> str:
        return ""

    async def _pace(self, request: httpx2.Request) -> None:
        if request.method == "GET":
            now = time.monotonic()
            early, self._next = self._next - now, max(now, self._next) + _BETWEEN_S
            await asyncio.sleep(max(0.0, early))

    async def _bound(self, response: httpx2.Response) -> None:
        self._refused = response.status_code if response.status_code >= 400 else None
        method = response.request.method
        unasked = method == "GET" and response.status_code < 400
        stream = response.stream
        if isinstance(stream, httpx2.AsyncByteStream):
            events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
            streaming = events and response.is_success and method != "DELETE"  # others are read as a whole
            packed = response.headers.get("content-encoding", "identity").lower() not in ("", "identity")
            largest = 0 if packed else None if streaming else self._largest
            response.stream = _Bounded(stream, largest, self._suspected if unasked else None)


async def _hurry(request: httpx2.Request) -> None:
    """A goodbye must not wait for a server that is gone."""
    if request.method == "DELETE":
        request.extensions["timeout"] = httpx2.Timeout(_GOODBYE_S).as_dict()


class _Bounded(httpx2.AsyncByteStream):
    """A body of so many bytes at most; None: however many, each event of it is bounded elsewhere."""

    def __init__(self, stream: httpx2.AsyncByteStream, largest: int | None, ended: Callable[[], None] | None) -> None:
        self._stream, self._largest, self._ended = stream, largest, ended

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = 0
        try:
            async for chunk in self._stream:
                total += len(chunk)
                if self._largest is not None and total > self._largest:
                    why = f"it is larger than {self._largest} bytes" if self._largest else "it is packed"
                    raise httpx2.StreamError(f"the answer cannot be read: {why}")
                yield chunk
        finally:
            if self._ended is not None:
                self._ended()

    async def aclose(self) -> None:
        await self._stream.aclose()
