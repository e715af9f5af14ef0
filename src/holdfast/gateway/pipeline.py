"""A provider request from its first byte to its last: received, taken through a passage, carried on, passed back.

Everything of ours that fails before the provider is asked lets the client's bytes go on; nothing afterwards is noticed
by the client. An answer that breaks off breaks off for the client too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

import aiohttp

from holdfast.config.sections.serving import Limits
from holdfast.transport import Incoming, Passage, Passages
from holdfast.transport.encodings import decoded
from holdfast.transport.encodings import named as encoding_of

from .headers import to_pass_on, to_send
from .limits import RETRY_S, Load, too_many_streams
from .problems import Answer, place_of, problem
from .receiving import Call, receive_body
from .relay import FAILURES, Relay, Unreachable, rest_of

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger(__name__)

LARGE = 131_072
"""Bytes from which a body is worked on beside the loop, so that other calls do not wait for it."""

THREADS = 2
REFUSAL = 1_048_576
"""Bytes of a refusal that are read before it is passed on, to see whether something of ours is the reason."""


class Pipeline:
    """What all requests of a gateway share."""

    def __init__(
        self,
        passages: Passages,
        relay: Relay,
        limits: Limits,
        load: Load,
        on_done: Callable[[Call], None],
    ) -> None:
        self._passages, self._relay, self._limits, self._load = passages, relay, limits, load
        self._on_done = on_done
        self._beside = ThreadPoolExecutor(THREADS, thread_name_prefix="holdfast-prepare")

    async def close(self) -> None:
        await asyncio.to_thread(self._beside.shutdown)

    async def serve(self, call: Call) -> None:
        """Answer a request. If its client leaves, everything for it ends at once."""
        task = asyncio.current_task()
        assert task is not None

        def leave() -> None:
            call.left = True
            task.cancel()

        call.connection.on_leave = call.leave = leave
        try:
            answer = await self._answer(call)
            if answer is not None:
                await say(call, answer)
        except asyncio.CancelledError:
            if not call.left:  # the gateway ends, and this must not look like an end of the answer
                call.unwatch()
                await call.connection.reset()
        except Exception as error:  # noqa: BLE001  a fault of ours; its words may be the client's, and are not told
            log.error("a request failed: %s", place_of(error))
            await self._fail(call)
        finally:
            call.unwatch()
            call.leave = None  # each holds the other, and with it the bodies, until the garbage collector comes
            if call.passage is not None:  # of no effect on one that is finished
                _quietly(call.passage.cut, "" if call.left else "the gateway ended")
            _quietly(self._on_done, call)

    async def _fail(self, call: Call) -> None:
        """The end of a request that something of ours broke."""
        call.unwatch()
        if call.status:
            await call.connection.reset()
            return
        said = "something in the gateway failed; its log says where. Try again, or go to the provider directly."
        await say(call, problem(call.route.style, 500, said, close=True))

    async def _answer(self, call: Call) -> Answer | None:
        """Pass a provider's answer on; or give one of ours."""
        body = await receive_body(call, self._limits)
        if isinstance(body, Answer):
            return body
        call.connection.watch()
        dialect = call.route.dialect
        if dialect is None:
            return await self._carry(call, body)
        tenant = _quietly(self._passages.identities.tenant, call.first, call.query)
        with self._load.stream(tenant or "") as allowed:
            if not allowed:
                return too_many_streams(call.route.style, self._limits)
            call.passage = await self._begin(call, body)
            if call.passage is not None and (held := call.passage.held) is not None:
                return Answer(held.status, (*held.headers, (b"content-length", b"%d" % len(held.body))), held.body)
            return await self._carry(call, body)

    async def _begin(self, call: Call, body: bytes) -> Passage | None:
        """Our part before the request goes out; None lets it go as it came."""
        route, dialect = call.route, call.route.dialect
        assert dialect is not None
        incoming = Incoming(call.method, route.path, call.query, tuple(call.headers), body)
        waits = self._passages.settings.cache.repair == "on"  # for what it inserts to be durable
        if len(body) < LARGE and not waits and "content-encoding" not in call.first:  # who knows what it unpacks to
            return _quietly(self._passages.begin, incoming, dialect, route.model)
        beside = asyncio.get_running_loop().run_in_executor(
            self._beside, lambda: _quietly(self._passages.begin, incoming, dialect, route.model)
        )
        try:
            return await asyncio.shield(beside)
        except asyncio.CancelledError:
            beside.add_done_callback(_cut)
            raise

    async def _carry(self, call: Call, body: bytes) -> Answer | None:
        passage = call.passage
        raw, verbatim = (body, True) if passage is None else (passage.raw, passage.verbatim)
        try:
            response = await self._ask(call, raw, verbatim)
            early = b""
            if passage is not None and response.status >= 400 and _names_object(passage):
                early = await _beginning(response)
                instead = _quietly(passage.refused, response.status, _plain(response, early))
                if instead is not None:
                    response.close()
                    response, early = await self._ask(call, instead, False), b""
        except Unreachable as problem_:
            if passage is not None:
                _quietly(passage.cut, str(problem_))
            return problem(call.route.style, problem_.status, str(problem_), retry_after=RETRY_S)
        try:
            await self._pass_on(call, response, early)
        except BaseException:
            response.close()
            raise
        return None

    async def _ask(self, call: Call, raw: bytes, verbatim: bool) -> aiohttp.ClientResponse:
        route = call.route
        headers = to_send(call.headers, call.first, verbatim=verbatim)
        path = f"{route.path}?" if call.marked else route.path
        return await self._relay.send(route.upstream, call.method, path, call.query, headers, raw)

    async def _pass_on(self, call: Call, response: aiohttp.ClientResponse, early: bytes) -> None:
        """The answer as it comes, chunk by chunk; a copy of each is read when the client has it."""
        passage, send, content = call.passage, call.send, response.content
        headers = to_pass_on(response.raw_headers)
        if passage is not None:
            headers += _quietly(passage.response_headers) or []
        call.status = response.status
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        if passage is not None:
            _quietly(passage.answer, response.status, response.raw_headers)
        try:
            more = True
            while more:
                chunk, early = (early, b"") if early else (await content.readany(), b"")
                more = not content.at_eof()
                await send({"type": "http.response.body", "body": chunk, "more_body": more})
                if passage is not None:
                    _quietly(passage.feed, chunk)
        except FAILURES as error:
            await self._break_off(call, response, error)
            return
        call.unwatch()  # it has everything
        if passage is not None:
            await asyncio.sleep(0)  # the last bytes are written before we work on
            if passage.bypass is None or len(passage.raw) < LARGE:
                _quietly(passage.finish)
            else:  # what went past us is read only now
                await asyncio.get_running_loop().run_in_executor(self._beside, _quietly, passage.finish)

    async def _break_off(self, call: Call, response: aiohttp.ClientResponse, error: Exception) -> None:
        """The provider broke off: the client gets what had come, and then a reset, never a polite end."""
        rest = await rest_of(response)
        if rest:
            await call.send({"type": "http.response.body", "body": rest, "more_body": True})
        if call.passage is not None:
            _quietly(call.passage.feed, rest)
            _quietly(call.passage.cut, self._relay.broken(call.route.upstream, error))
        response.close()
        call.unwatch()
        await call.connection.reset()


async def say(call: Call, answer: Answer) -> None:
    """Give an answer of ours."""
    call.status = answer.status
    await call.send({"type": "http.response.start", "status": answer.status, "headers": list(answer.headers)})
    await call.send({"type": "http.response.body", "body": answer.body, "more_body": False})


def _quietly(do: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T | None:
    """The boundary of law 8: whatever of ours fails, the client's call goes on. Only the kind of error is told: its
    words may be the client's."""
    try:
        return do(*arguments, **named)
    except Exception as error:  # noqa: BLE001
        log.warning("%s failed: %s; the client's call goes on", getattr(do, "__name__", "a part"), place_of(error))
        return None


def _cut(beside: asyncio.Future[Passage | None]) -> None:
    """A request that was prepared for a client who has left."""
    if not beside.cancelled() and (passage := beside.result()) is not None:
        _quietly(passage.cut)


def _names_object(passage: Passage) -> bool:
    return passage.prepared is not None and passage.prepared.use is not None


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    """What a refusal says, as far as it is needed. If it breaks off, that shows when it is passed on."""
    pieces: list[bytes] = []
    try:
        while not response.content.at_eof() and sum(map(len, pieces)) < REFUSAL:
            pieces.append(await response.content.readany())
    except FAILURES:
        pass
    return b"".join(pieces)


def _plain(response: aiohttp.ClientResponse, raw: bytes) -> bytes:
    found = decoded(raw, encoding_of(response.headers.get("content-encoding")), REFUSAL)
    return raw if found is None else found
