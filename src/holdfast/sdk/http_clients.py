"""HTTP clients with the engine inside, for the official SDKs: `Anthropic(http_client=engine.http_client())`.

They are clients of httpx2, which the SDKs are built on, or of httpx, whose interface is the same; synchronous or not. A
call of a provider's API becomes a passage; everything else goes as it is. The requests are sent by an ordinary client
of the same library, so that proxies, certificates and time limits are what they would be without us.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from types import ModuleType
from typing import Any

from holdfast.engine import SideCall
from holdfast.engine.passage import RELAYED, Header, Held, Incoming, Passage, Passages, quiet, without_ours
from holdfast.errors import ArgumentError, HoldfastError, wrong_argument
from holdfast.serving import encodings
from holdfast.wire import COUNTING, DIALECTS, Dialect, dialect_of

_SENDING = frozenset({"verify", "cert", "trust_env", "http1", "http2", "proxy", "mounts", "limits", "transport"})
"""Options of the client that sends; the others belong to the one that the SDK gets."""

BESIDE = "holdfast-beside"
"""The name of the thread for calls besides a request."""

_ANSWER_S, _CONNECT_S = 600.0, 5.0  # timeouts as the SDKs have them
_OF_LENGTH = (b"content-length", b"transfer-encoding")
_REFUSAL = 1_048_576  # bytes of a refusal that are looked into


LIBRARIES = ("httpx2", "httpx")


def library_of(name: str | None) -> ModuleType:
    """httpx2, or httpx where that is all there is."""
    if name is not None and not isinstance(name, str):
        raise wrong_argument("http_client(library=…)", name, "'httpx2' or 'httpx', or leave it out")
    if name is not None and name not in LIBRARIES:
        raise HoldfastError(f"http_client knows no library {name!r}; give 'httpx2' or 'httpx', or leave it out")
    for each in (name,) if name else LIBRARIES:
        try:
            return importlib.import_module(each)
        except ModuleNotFoundError:
            continue
    raise HoldfastError(f"{name or 'httpx2'} is not installed; install it, or an SDK that brings it along.")


def client(passages: Passages, library: str | None, options: Mapping[str, Any]) -> Any:
    """A `Client` of the library, made with `options`."""
    module = library_of(library)
    return _made(module, module.Client, _bound(module, Transport, "BaseTransport"), passages, options)


def async_client(passages: Passages, library: str | None, options: Mapping[str, Any]) -> Any:
    """An `AsyncClient` of the library, made with `options`."""
    module = library_of(library)
    return _made(module, module.AsyncClient, _bound(module, AsyncTransport, "AsyncBaseTransport"), passages, options)


def _made(module: ModuleType, kind: Any, transport: Any, passages: Passages, given: Mapping[str, Any]) -> Any:
    options = dict(given)
    timeout = options.setdefault("timeout", module.Timeout(_ANSWER_S, connect=_CONNECT_S))
    sends = {name: options.pop(name) for name in _SENDING & options.keys()}
    sends.setdefault("limits", module.Limits(max_connections=1000, max_keepalive_connections=100))
    options.setdefault("follow_redirects", True)
    _check_options(kind, options)
    return kind(transport=transport(passages, kind(timeout=timeout, **sends), module), **options)


def _check_options(kind: Any, options: Mapping[str, Any]) -> None:
    known = [*inspect.signature(kind).parameters]
    for name in options:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            meant = f"did you mean {near[0]}?" if near else f"it takes those of {kind.__module__}.{kind.__name__}"
            raise ArgumentError(f"http_client got an unknown option {name!r}; {meant}")


class Stream:
    """A response's bytes on their way, a copy of each piece to the passage. `early` is what had to be read before.

    A piece is read before it is handed on: who stops at the last event does not come back for more.
    """

    def __init__(self, response: Any, passage: Passage, early: bytes | None) -> None:
        self._response, self._passage, self._early = response, passage, early

    def __iter__(self) -> Iterator[bytes]:
        try:
            for chunk in self._response.stream if self._early is None else (self._early,):
                self._passage.feed(chunk)
                yield chunk
        except BaseException as error:
            self._passage.cut(_how(error))
            raise
        self._passage.finish()

    def close(self) -> None:
        try:
            self._response.close()
        finally:
            self._passage.cut()  # of no effect on one that came whole


class AsyncStream:
    """The same, for those who wait."""

    def __init__(self, response: Any, passage: Passage, early: bytes | None) -> None:
        self._response, self._passage, self._early = response, passage, early

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            if self._early is not None:
                self._passage.feed(self._early)
                yield self._early
            else:
                async for chunk in self._response.stream:
                    self._passage.feed(chunk)
                    yield chunk
        except BaseException as error:
            self._passage.cut(_how(error))
            raise
        self._passage.finish()

    async def aclose(self) -> None:
        try:
            await self._response.aclose()
        finally:
            self._passage.cut()


class Transport:
    """Sends with `client` what the engine makes of a request."""

    def __init__(self, passages: Passages, client: Any, library: Any) -> None:
        self._passages, self._client, self._library = passages, client, library

    def handle_request(self, request: Any) -> Any:
        target = _asked(request)
        if target is not None and self._passages.switch.off:
            response = self._send(_relayed(self._library, request))
            return _response(self._library, response, response.stream, told=RELAYED)
        if target is None:
            response = self._send(request)
            return _response(self._library, response, response.stream)
        request.read()
        passage = self._passages.begin(_incoming(request), *target)
        if passage.held is not None:
            return _held(self._library, passage.held)
        early: bytes | None = None
        try:
            response = self._send(_outgoing(self._library, request, passage))
            if response.status_code >= 400 and passage.names_object:
                early = b"".join(response.stream)
                response.close()
                if passage.refused(response.status_code, _plain(response, early)) is not None:
                    response, early = self._send(_outgoing(self._library, request, passage)), None
        except BaseException as error:
            passage.cut(_how(error))
            raise
        passage.answer(response.status_code, response.headers.raw)
        if calls := _beside(self._passages, passage):
            threading.Thread(target=self._side_calls, args=(passage, request, calls), name=BESIDE, daemon=True).start()
        stream = _bound(self._library, Stream, "SyncByteStream")(response, passage, early)
        return _response(self._library, response, stream, passage)

    def _send(self, request: Any) -> Any:
        return self._client.send(request, stream=True, auth=None, follow_redirects=False)

    def _side_calls(self, passage: Passage, request: Any, calls: Sequence[SideCall]) -> None:
        for call in calls:
            status, raw = 0, b""
            with quiet("a call beside the request"):
                answer = self._client.send(_side_request(self._library, request, call))
                status, raw = answer.status_code, answer.content
            _brought_back(self._passages, passage, call, status, raw)

    def close(self) -> None:
        self._client.close()


class AsyncTransport:
    """The same, for those who wait."""

    def __init__(self, passages: Passages, client: Any, library: Any) -> None:
        self._passages, self._client, self._library = passages, client, library
        self._tasks: set[asyncio.Task[None]] = set()

    async def handle_async_request(self, request: Any) -> Any:
        target = _asked(request)
        if target is not None and self._passages.switch.off:
            response = await self._send(_relayed(self._library, request))
            return _response(self._library, response, response.stream, told=RELAYED)
        if target is None:
            response = await self._send(request)
            return _response(self._library, response, response.stream)
        await request.aread()
        passage = await self._enter(_incoming(request), *target)
        if passage.held is not None:
            return _held(self._library, passage.held)
        early: bytes | None = None
        try:
            response = await self._send(_outgoing(self._library, request, passage))
            if response.status_code >= 400 and passage.names_object:
                early = b"".join([chunk async for chunk in response.stream])
                await response.aclose()
                if passage.refused(response.status_code, _plain(response, early)) is not None:
                    response, early = await self._send(_outgoing(self._library, request, passage)), None
        except BaseException as error:
            passage.cut(_how(error))
            raise
        passage.answer(response.status_code, response.headers.raw)
        if calls := _beside(self._passages, passage):
            self._begin(passage, request, calls)
        stream = _bound(self._library, AsyncStream, "AsyncByteStream")(response, passage, early)
        return _response(self._library, response, stream, passage)

    async def _enter(self, incoming: Incoming, dialect: Dialect, model: str) -> Passage:
        """Begin a passage. Where memory may be given it waits for the store, which is nothing for an event loop."""
        if not _waits(self._passages, incoming):
            return self._passages.begin(incoming, dialect, model)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # another kind of loop
            return self._passages.begin(incoming, dialect, model)
        work = loop.run_in_executor(None, self._passages.begin, incoming, dialect, model)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            work.add_done_callback(lambda done: done.result().cut())
            raise

    async def _send(self, request: Any) -> Any:
        return await self._client.send(request, stream=True, auth=None, follow_redirects=False)

    def _begin(self, passage: Passage, request: Any, calls: Sequence[SideCall]) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # another kind of loop, which has no tasks to be left alone
            for call in calls:
                _brought_back(self._passages, passage, call, 0, b"")
            return
        task = loop.create_task(self._side_calls(passage, request, calls))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _side_calls(self, passage: Passage, request: Any, calls: Sequence[SideCall]) -> None:
        for call in calls:
            status, raw = 0, b""
            try:
                with quiet("a call beside the request"):
                    answer = await self._client.send(_side_request(self._library, request, call))
                    status, raw = answer.status_code, answer.content
            finally:  # also when the client is closed meanwhile
                _brought_back(self._passages, passage, call, status, raw)

    async def aclose(self) -> None:
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.aclose()


@cache
def _bound(library: Any, kind: type[Any], base: str) -> type[Any]:
    """A class of ours as one of the library's: it asks for that."""
    return type(kind.__name__, (kind, getattr(library, base)), {})


def _held(library: Any, held: Held) -> Any:
    return library.Response(held.status, headers=list(held.headers), content=held.body)


def _asked(request: Any) -> tuple[Dialect, str] | None:
    """The dialect and model of a call to plan; None for everything else."""
    path = request.url.path
    route = dialect_of(path) if request.method == "POST" and not path.endswith(COUNTING) else None
    if route is None:
        return None
    routed = request.url.host == "openrouter.ai" or request.url.host.endswith(".openrouter.ai")
    return (DIALECTS["openrouter"], "") if routed and route[0].name == "openai_chat" else route


def _incoming(request: Any) -> Incoming:
    return Incoming(
        method=request.method,
        path=request.url.path,
        query=request.url.query.decode("latin-1"),
        headers=tuple(request.headers.raw),
        body=request.content,
    )


def _waits(passages: Passages, incoming: Incoming) -> bool:
    """Return whether a request may get memory, by the settings of the agent that it names or the general ones."""
    if passages.remembering is None:
        return False
    named = incoming.named().get("x-holdfast-agent", "")
    return any(passages.engine.settings(agent).memory.inject for agent in {"", named})


def _outgoing(library: Any, request: Any, passage: Passage) -> Any:
    """The request with the body that the passage makes of it."""
    dropped = _OF_LENGTH if passage.verbatim else (*_OF_LENGTH, b"content-encoding")
    headers = [each for each in without_ours(request.headers.raw) if each[0].lower() not in dropped]
    headers.append((b"Content-Length", b"%d" % len(passage.raw)))
    return library.Request(
        request.method, request.url, headers=headers, content=passage.raw, extensions=request.extensions
    )


def _relayed(library: Any, request: Any) -> Any:
    """The request as it came, without what is meant for us."""
    return library.Request(
        request.method,
        request.url,
        headers=without_ours(request.headers.raw),
        stream=request.stream,
        extensions=request.extensions,
    )


def _response(
    library: Any, response: Any, stream: Any, passage: Passage | None = None, told: Sequence[Header] = ()
) -> Any:
    told = told if passage is None else passage.response_headers()
    return library.Response(
        response.status_code, headers=[*response.headers.raw, *told], stream=stream, extensions=response.extensions
    )


def _beside(passages: Passages, passage: Passage) -> Sequence[SideCall]:
    """Return the calls to make besides a request: its own, and those due for its agent's objects, since no gateway
    makes them here."""
    prepared = passage.prepared
    if prepared is None or (not prepared.before and prepared.use is None):
        return ()
    calls = list(prepared.before)
    with quiet("cached contents"):
        commands = {call.command for call in calls}
        due = passages.engine.chores(passage.lane, now=passages.clock())
        calls += [call for call in due if call.command not in commands]
    return calls


def _side_request(library: Any, request: Any, call: SideCall) -> Any:
    """A call beside the request, to the same server with the same credential."""
    dropped = (*_OF_LENGTH, b"content-encoding")
    headers = [each for each in without_ours(request.headers.raw) if each[0].lower() not in dropped]
    query = {**dict(request.url.params), **call.send.query}
    query.pop("alt", None)
    version = request.url.path.rpartition("/models/")[0]
    url = request.url.copy_with(path=version.rpartition("/")[0] + call.send.path, params=query)
    return library.Request(
        call.send.method, url, headers=headers, content=call.send.body, extensions=request.extensions
    )


def _brought_back(passages: Passages, passage: Passage, call: SideCall, status: int, raw: bytes) -> None:
    with quiet("an answer beside the request"):
        passages.engine.chore_done(passage.lane, call, status, raw, now=passages.clock())


def _plain(response: Any, raw: bytes) -> bytes:
    return encodings.readable(raw, response.headers.get("content-encoding"), _REFUSAL)


def _how(error: BaseException) -> str:
    """Return the error text for a broken call, empty if the client cancelled it."""
    return type(error).__name__ if isinstance(error, Exception) else ""
