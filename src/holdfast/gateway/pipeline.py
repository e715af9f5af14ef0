"""A provider request from its first byte to its last: received, taken through a passage, carried on, passed back.

Everything of ours that fails before the provider is asked lets the client's bytes go on; nothing afterwards is noticed
by the client. An answer that breaks off breaks off for the client too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from holdfast.config.sections import LimitSettings
from holdfast.core.repairs import MOVES
from holdfast.engine.identity import HEADER as CLIENT_HEADER
from holdfast.engine.identity import SDKS, Headers, client_of
from holdfast.engine.passage import RELAYED, Incoming, Passage, Passages, place_of, quietly
from holdfast.serving import readable, send_together
from holdfast.upstream import HttpClient, Response, UpstreamError

from .headers import to_pass_on, to_send
from .problems import RETRY_S, OwnResponse, broken_off, no_answer, problem, send_own, too_many_streams
from .request_reader import GatewayRequest, receive_body
from .runs import Runs

log = logging.getLogger(__name__)

LARGE = 131_072
"""Bytes from which a body is worked on beside the loop, so that other calls do not wait for it."""

THREADS = 2
"""For them, and as many for those that may wait for the store: neither waits for the other."""

REFUSAL = 1_048_576
"""Bytes of a refusal that are read before it is passed on, to see whether something of ours is the reason."""


class OpenStreams:
    """How many calls of each tenant are under way."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._streams: dict[str, int] = {}

    def begin(self, tenant: str) -> bool:
        """Count one call more of a tenant, until its `end`; False where it has as many already as it may."""
        before = self._streams.get(tenant, 0)
        if before >= self._most:
            return False
        self._streams[tenant] = before + 1
        return True

    def end(self, tenant: str) -> None:
        self._streams[tenant] -= 1
        if not self._streams[tenant]:
            del self._streams[tenant]


class Pipeline:
    """What all requests of a gateway share."""

    def __init__(
        self,
        passages: Passages,
        client: HttpClient,
        limits: LimitSettings,
        runs: Runs,
        on_end: Callable[[GatewayRequest], None],
    ) -> None:
        """`on_end` is called with each finished request."""
        self._passages, self._client, self._limits, self._runs = passages, client, limits, runs
        self._on_end = on_end
        self._streams = OpenStreams(limits.streams_per_tenant)
        self._beside = ThreadPoolExecutor(THREADS, thread_name_prefix="holdfast-prepare")
        self._waiting = ThreadPoolExecutor(THREADS, thread_name_prefix="holdfast-wait")

    async def close(self) -> None:
        """End the threads and the connections to providers."""
        for threads in (self._beside, self._waiting):
            await asyncio.to_thread(threads.shutdown)
        await self._client.close()

    async def serve(self, call: GatewayRequest) -> None:
        """Answer a request. If its client leaves, everything for it ends at once."""
        task = asyncio.current_task()
        assert task is not None

        def leave() -> None:
            call.left = True
            task.cancel()

        call.connection.on_leave = call.leave = leave
        try:
            response = await self._answer(call)
            if response is not None:
                await _send_own(call, response)
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
                quietly(call.passage.cut, "" if call.left else "the gateway ended")
            quietly(self._on_end, call)

    async def _fail(self, call: GatewayRequest) -> None:
        """The end of a request that something of ours broke."""
        call.unwatch()
        if call.status:
            await call.connection.reset()
            return
        message = "something in the gateway failed; its log says where. Try again, or go to the provider directly."
        await _send_own(call, problem(call.route.style, 500, message, close=True))

    async def _answer(self, call: GatewayRequest) -> OwnResponse | None:
        """Pass a provider's answer on; or give one of ours."""
        body = await receive_body(call, self._limits)
        if isinstance(body, OwnResponse):
            return body
        call.connection.watch()
        dialect = call.route.dialect
        if dialect is None:
            return await self._carry(call, body)
        tenant = quietly(self._passages.identities.tenant, call.first, call.query) or ""
        if not self._streams.begin(tenant):
            return too_many_streams(call.route.style, self._limits)
        try:
            if self._passages.switch.off:
                call.relayed = True
                return await self._carry(call, body)
            call.passage = await self._begin(call, body, tenant or None)
            if call.passage is not None and (held := call.passage.held) is not None:
                return OwnResponse(held.status, (*held.headers, (b"content-length", b"%d" % len(held.body))), held.body)
            return await self._carry(call, body)
        finally:
            self._streams.end(tenant)

    async def _begin(self, call: GatewayRequest, body: bytes, tenant: str | None) -> Passage | None:
        """Our part before the request goes out; None lets it go as it came."""
        route, dialect = call.route, call.route.dialect
        assert dialect is not None
        headers, project = tuple(call.headers), self._runs.directory(call.run)
        first = self._named(call)
        incoming = Incoming(call.method, route.path, call.query, headers, body, first, tenant, project)
        # for what is put into it to be durable
        waits = self._passages.settings.cache.repair in MOVES or self._passages.remembers(tenant)
        large = len(body) >= LARGE or "content-encoding" in call.first  # who knows what it unpacks to
        if not large and not waits:
            return quietly(self._passages.begin, incoming, dialect, route.model)
        beside = asyncio.get_running_loop().run_in_executor(
            self._beside if large else self._waiting,
            lambda: quietly(self._passages.begin, incoming, dialect, route.model),
        )
        try:
            return await asyncio.shield(beside)
        except asyncio.CancelledError:
            beside.add_done_callback(_cut)
            raise

    def _named(self, call: GatewayRequest) -> Headers:
        """The headers that say who asks; of a client that goes by the name of its SDK, what `holdfast run` started."""
        started = self._runs.client(call.run)
        if not started or CLIENT_HEADER in call.first or client_of(call.first) not in SDKS:
            return call.first
        return {**call.first, CLIENT_HEADER: started}

    async def _carry(self, call: GatewayRequest, body: bytes) -> OwnResponse | None:
        """Forward the request; `body`, as received, is sent if nothing was changed."""
        passage = call.passage
        raw, verbatim = (body, True) if passage is None or passage.verbatim else (passage.raw, False)
        try:
            response = await self._ask(call, raw, verbatim)
            early = b""
            if passage is not None and response.status >= 400 and passage.names_object:
                early = await _beginning(response)
                text = readable(early, response.headers.get("content-encoding"), REFUSAL)
                instead = quietly(passage.refused, response.status, text)
                if instead is not None:
                    response.close()
                    response, early = await self._ask(call, instead, False), b""
        except UpstreamError as error:
            status, message = no_answer(call.route.upstream, error, self._limits)
            if passage is not None:
                quietly(passage.cut, message)
            return problem(call.route.style, status, message, retry_after=RETRY_S)
        try:
            await self._pass_on(call, response, early)
        except BaseException:
            response.close()
            raise
        return None

    async def _ask(self, call: GatewayRequest, raw: bytes, verbatim: bool) -> Response:
        route = call.route
        headers = to_send(call.headers, call.first, verbatim=verbatim)
        target = f"{route.path}?{call.query}" if call.query or call.marked else route.path
        return await self._client.send(route.upstream, call.method, target, headers, raw)

    async def _pass_on(self, call: GatewayRequest, response: Response, early: bytes) -> None:
        """The answer as it comes, chunk by chunk; a copy of each is read when the client has it."""
        passage = call.passage
        headers = to_pass_on(response.raw_headers, response.status)
        if passage is not None:
            headers += quietly(passage.response_headers) or []
        elif call.relayed and self._passages.settings.gateway.headers:
            headers += RELAYED
        start = {"type": "http.response.start", "status": response.status, "headers": headers}
        waits = bool(early) or response.has_come()  # it goes with the first of the body, which is here
        if not waits:
            call.status = response.status
            await call.send(start)
        if passage is not None:
            quietly(passage.answer, response.status, response.raw_headers)
        try:
            more = True
            while more:
                chunk, early = (early, b"") if early else (await response.read_any(), b"")
                more = not response.at_eof()
                body = {"type": "http.response.body", "body": chunk, "more_body": more}
                call.status = response.status
                await (send_together(call.send, start, body) if waits else call.send(body))
                waits = False
                if passage is not None:
                    quietly(passage.feed, chunk)
        except UpstreamError as error:
            await self._break_off(call, response, error)
            return
        call.unwatch()  # it has everything
        if passage is not None:
            if passage.bypass is None or len(passage.raw) < LARGE:
                quietly(passage.finish)
            else:  # what went past us is read only now
                await asyncio.get_running_loop().run_in_executor(self._beside, quietly, passage.finish)

    async def _break_off(self, call: GatewayRequest, response: Response, error: UpstreamError) -> None:
        """The provider broke off: the client gets what had come, and then a reset, never a polite end."""
        rest = await response.rest()
        if rest:
            await call.send({"type": "http.response.body", "body": rest, "more_body": True})
        if call.passage is not None:
            quietly(call.passage.feed, rest)
            quietly(call.passage.cut, broken_off(call.route.upstream, error, self._limits))
        response.close()
        call.unwatch()
        await call.connection.reset()


async def _send_own(call: GatewayRequest, response: OwnResponse) -> None:
    call.status = response.status
    await send_own(call.send, response)


def _cut(beside: asyncio.Future[Passage | None]) -> None:
    """A request that was prepared for a client who has left: it was not sent."""
    if not beside.cancelled() and (passage := beside.result()) is not None:
        quietly(passage.cut, "the client left before it was sent")


async def _beginning(response: Response) -> bytes:
    """Read a refusal as far as needed. A broken connection shows when the response is passed on."""
    pieces: list[bytes] = []
    try:
        while not response.at_eof() and sum(map(len, pieces)) < REFUSAL:
            pieces.append(await response.read_any())
    except UpstreamError:
        pass
    except BaseException:
        response.close()
        raise
    return b"".join(pieces)
