"""A simulator as a provider in the same process: what would come over a connection, without one.

Carries out the same plans as the server, faults included. On a virtual clock nothing waits: the clock moves instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Protocol
from urllib.parse import unquote

from holdfast.wire import Unreachable, path_of, wire_model

from . import checks
from .clock import VirtualClock
from .messages import HttpRequest
from .provider import Exchange, Simulator
from .steps import Abort, Began, EndResponse, SendBytes, StartResponse, Step, Wait, plan

_KEYS = {
    "anthropic": {"x-api-key": "simulated", "anthropic-version": "2023-06-01"},
    "gemini": {"x-goog-api-key": "simulated"},
}
_BEARER = {"authorization": "Bearer simulated"}


class RequestLike(Protocol):
    """A request as somebody sends it; `model` is `provider:name`."""

    @property
    def dialect(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def raw(self) -> bytes: ...
    @property
    def session(self) -> str: ...


class SideRequestLike(Protocol):
    """A call besides the requests."""

    @property
    def dialect(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def query(self) -> Mapping[str, str]: ...
    @property
    def raw(self) -> bytes: ...


class Simulated:
    """A provider without sockets. What breaks a connection there is `Unreachable` here."""

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator

    @asynccontextmanager
    async def open(self, request: RequestLike) -> AsyncIterator[SimulatedAnswer]:
        exchange = self.simulator.begin(_call(request))
        try:
            answer = SimulatedAnswer(self.simulator, exchange)
            await answer.start()
            yield answer
        finally:
            exchange.abandon()  # of no effect on one that is finished

    async def send(self, request: SideRequestLike) -> tuple[int, bytes]:
        """A call beside the requests, such as one for cached contents."""
        await asyncio.sleep(0)  # others have their turn, as they have with a connection
        headers = _KEYS.get(request.dialect, _BEARER)
        answer = self.simulator.answer(HttpRequest(request.method, request.path, headers, request.query, request.raw))
        return answer.status, answer.body

    async def close(self) -> None:
        """There is nothing to end."""


class SimulatedAnswer:
    """An answer on its way: each step of its plan is carried out when somebody waits for what it brings."""

    status = 0
    headers: Mapping[str, str] = {}

    def __init__(self, simulator: Simulator, exchange: Exchange) -> None:
        self._simulator = simulator
        self._exchange = exchange
        self._began = False
        self._steps: Iterator[Step] = iter(
            plan(
                exchange.answer,
                exchange.fault,
                dialect=exchange.record.dialect or "anthropic",
                first_token_delay=exchange.first_token_delay,
                chunk_delay=exchange.chunk_delay,
            )
        )

    async def start(self) -> None:
        """As far as status and headers."""
        for step in self._steps:
            if isinstance(step, Wait):
                await self._wait(step.seconds)
            elif isinstance(step, StartResponse):
                record = self._exchange.record
                named = checks.id_headers(record.dialect, f"req_sim{record.number:012d}")
                self.status, self.headers = step.status, dict((*named, *step.headers))
                return

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        await asyncio.sleep(0)  # others have their turn between two chunks, as they have with a connection
        for step in self._steps:
            if isinstance(step, Wait):
                await self._wait(step.seconds)
            elif isinstance(step, Began):
                self._began = True
                self._exchange.first_token()
            elif isinstance(step, Abort):
                self._exchange.abandon()
                raise Unreachable("the simulator broke off in the middle of its answer.")
            elif isinstance(step, SendBytes) and step.data:
                return step.data
            elif isinstance(step, EndResponse):
                whole = step.whole and (self._began or self.status >= 400)
                (self._exchange.finish if whole else self._exchange.abandon)()
        raise StopAsyncIteration

    async def _wait(self, seconds: float) -> None:
        clock = self._simulator.clock
        if isinstance(clock, VirtualClock):
            clock.advance(seconds)
            await asyncio.sleep(0)
        else:
            await asyncio.sleep(seconds)


def _call(request: RequestLike) -> HttpRequest:
    path, query = path_of(request.dialect, wire_model(request.model))
    headers = dict(_KEYS.get(request.dialect, _BEARER))
    if request.session:
        headers["x-session-id"] = request.session
    return HttpRequest("POST", unquote(path), headers, query, request.raw)
