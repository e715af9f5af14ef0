"""Recording transports of httpx2 and httpx: what an SDK sends in this process, without a socket."""

from __future__ import annotations

import re
import time
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

from msgspec.structs import replace

from holdfast.sdk import library_of
from holdfast.simulator import HttpRequest

from .recorder import Recorder

_versioned = re.compile(r"/v1(?:beta|alpha)?/.*", re.DOTALL).search


class Transport:
    """Keeps what is sent. Somebody else's transport answers, or the recorder's simulator: at once and whole, a stream
    with all of its events."""

    def __init__(self, recorder: Recorder, inner: Any, library: Any) -> None:
        self._recorder, self._inner, self._library = recorder, inner, library

    def handle_request(self, request: Any) -> Any:
        body = request.read()
        if self._inner is None:
            return self._answer(request, body)
        self._recorder.keep(_call(request, body), at=time.time())
        return self._inner.handle_request(request)

    async def handle_async_request(self, request: Any) -> Any:
        body = await request.aread()
        if self._inner is None:
            return self._answer(request, body)
        self._recorder.keep(_call(request, body), at=time.time())
        return await self._inner.handle_async_request(request)

    def _answer(self, request: Any, body: bytes) -> Any:
        call = _call(request, body)
        answer = self._recorder.simulator.answer(replace(call, path=_of_provider(call.path)))
        content = answer.body if answer.chunks is None else b"".join(answer.chunks)
        return self._library.Response(answer.status, headers=list(answer.headers), content=content)

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()

    async def aclose(self) -> None:
        if self._inner is not None:
            await self._inner.aclose()


def transport(recorder: Recorder, inner: Any, library: str | None) -> Any:
    found = library_of(library or _library_of(inner))
    return _bound(found)(recorder, inner, found)


def http_client(recorder: Recorder, inner: Any, asynchronous: bool, library: str | None) -> Any:
    found = library_of(library or _library_of(inner))
    kind = found.AsyncClient if asynchronous else found.Client
    return kind(transport=_bound(found)(recorder, inner, found))


@cache
def _bound(library: Any) -> type[Any]:
    """The transport as one of the library's, of both kinds: it asks for that."""
    return type("RecordingTransport", (Transport, library.BaseTransport, library.AsyncBaseTransport), {})


def _call(request: Any, body: bytes) -> HttpRequest:
    headers = {name.lower(): value for name, value in request.headers.items()}
    query = dict(parse_qsl(request.url.query.decode("latin-1")))
    return HttpRequest(request.method, request.url.path, headers, query, body)


def _of_provider(path: str) -> str:
    """A path as the provider knows it: in front of it there may be whatever the SDK's base URL has, such as a proxy's
    part or that of the test's own server."""
    found = _versioned(path)
    return path if found is None else found[0]


def _library_of(inner: Any) -> str | None:
    """The library that a transport belongs to."""
    names = [each.__module__.partition(".")[0] for each in type(inner).__mro__]
    return next((name for name in names if name in ("httpx2", "httpx")), None)
