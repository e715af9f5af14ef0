"""What is done beside the calls, with their clients' own credentials: cached contents (Gemini), keep-alive pings.

A lane's credential stays in memory, only while something may be done for the lane, and at most an hour after its last
call. No request ever waits for a chore. Old rows of the store go here too.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct

from holdfast.config import Settings
from holdfast.engine import DuePing, EngineCore, Lane, SideCall
from holdfast.engine.passage import place_of
from holdfast.errors import HoldfastError
from holdfast.store import Store
from holdfast.version import __version__
from holdfast.wire import DIALECTS

from .headers import to_send
from .relay import FAILURES, Relay, Unreachable
from .request_reader import Call
from .retention import AGENT, Retention
from .routes import Route

log = logging.getLogger(__name__)

IDLE_S = 3_600.0
MOST_LANES = 1_000
TICK_S = 15.0
LARGEST = 4_194_304
_DAY_S = 86_400.0

_KEPT = (
    b"authorization",
    b"x-api-key",
    b"x-goog-api-key",
    b"x-goog-user-project",
    b"anthropic-version",
    b"anthropic-beta",
    b"content-type",
)
"""Headers that a chore is sent with: who pays, and how the request is to be read. It does not pass for the client."""


class Known(Struct):
    """A lane that something may be done for. Never stored, never shown."""

    lane: Lane
    route: Route
    query: str
    headers: list[tuple[bytes, bytes]]
    seen: float


class Chores:
    """What is to be done, and who it is done for. Lives in the gateway's loop."""

    def __init__(
        self,
        engine: EngineCore,
        settings: Callable[[str], Settings],
        relay: Relay,
        *,
        store: Store | None = None,
        clock: Callable[[], float] = time.time,
        off: Callable[[], bool] = lambda: False,
        retention: Retention | None = None,
    ) -> None:
        self._off, self._retention = off, retention
        self._engine, self._settings, self._relay = engine, settings, relay
        self._store, self._clock = store, clock
        self._known: OrderedDict[tuple[str, str], Known] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._pruned = 0.0

    def start(self) -> None:
        self._begin(self._for_ever())

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._known.clear()

    def seen(self, call: Call) -> None:
        """A call is over: what it asked to be done is begun, and its lane remembered if more may come."""
        passage = call.passage
        if passage is None or passage.prepared is None:
            return
        lane, before = passage.prepared.lane, passage.prepared.before
        cache = self._settings(lane.agent).cache
        dialect = call.route.dialect
        wanted = (
            cache.gemini.enabled
            if dialect is DIALECTS["gemini"]
            else cache.keepalive.enabled and dialect is DIALECTS["anthropic"]
        )
        if not wanted:
            return
        if not 200 <= call.status < 300:  # what was refused once is not asked for in other words
            for each in before:
                self._engine.chore_done(lane, each, 0, b"", now=self._clock())
            return
        known = Known(lane, call.route, call.query, _kept(call), self._clock())
        self._known[lane.tenant, lane.id] = known
        self._known.move_to_end((lane.tenant, lane.id))
        if len(self._known) > MOST_LANES:
            self._known.popitem(last=False)
        for each in before:
            self._begin(self._do(known, each))

    @property
    def under_way(self) -> int:
        """How many chores have begun and are not over."""
        return len(self._tasks) - 1

    async def _for_ever(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            try:
                await self.round()
            except Exception as error:  # noqa: BLE001  the next round is tried all the same
                log.warning("chores failed: %s", place_of(error))

    async def round(self) -> None:
        """Everything that is due now."""
        now = self._clock()
        if not self._off():
            self._due(now)
        await self._prune(now)

    def _due(self, now: float) -> None:
        for key in [key for key, known in self._known.items() if now - known.seen > IDLE_S]:
            del self._known[key]
        agents: set[tuple[str, str]] = set()
        for known in list(self._known.values()):
            agent = (known.lane.tenant, known.lane.agent)
            if known.route.dialect is DIALECTS["gemini"] and agent not in agents:  # objects belong to an agent
                agents.add(agent)
                for each in self._engine.chores(known.lane, now=now):
                    self._begin(self._do(known, each))
        lanes = [known.lane for known in self._known.values() if known.route.dialect is DIALECTS["anthropic"]]
        for due in self._engine.pings(lanes, now=now):
            self._begin(self._ping(self._known[due.lane.tenant, due.lane.id], due))

    async def _do(self, known: Known, call: SideCall) -> None:
        """A call for cached contents; whatever comes of it is brought back."""
        send, upstream = call.send, known.route.upstream
        query = urlencode(send.query)
        if (key := _key(known.query)) is not None:
            query = f"{query}&{key}" if query else key
        path = upstream.path(send.path)
        status, raw = await self._send(known, send.method, path, query, send.body)
        self._engine.chore_done(known.lane, call, status, raw, now=self._clock())

    async def _ping(self, known: Known, due: DuePing) -> None:
        status, raw = await self._send(known, "POST", known.route.path, known.query, due.raw)
        tap = known.route.style.tap()
        if 200 <= status < 300:
            tap.feed(raw)
            tap.close()
        usage = tap.usage
        if usage is None:
            error = f"HTTP {status}" if status else "no answer"
            self._engine.ping_failed(due, now=self._clock(), error=error)
        else:
            self._engine.pinged(due, usage, now=self._clock())

    async def _send(self, known: Known, method: str, path: str, query: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of an answer; status 0 where there is none."""
        try:
            response = await self._relay.send(known.route.upstream, method, path, query, known.headers, body)
            try:
                raw = await response.content.read(LARGEST)
                while not response.content.at_eof() and len(raw) < LARGEST:
                    raw += await response.content.read(LARGEST)
                return response.status, raw
            finally:
                response.close()
        except (Unreachable, *FAILURES):
            return 0, b""

    async def _prune(self, now: float) -> None:
        """What is older than `store.retention` allows, once a day."""
        if self._store is None or self._retention is None or now - self._pruned < _DAY_S:
            return
        self._pruned = now
        try:
            await asyncio.to_thread(self._remove, self._store, self._retention, now)
        except (HoldfastError, OSError) as problem:
            log.warning("what is old stays for now: %s", problem)

    def _remove(self, store: Store, retention: Retention, now: float) -> None:
        before = retention.cutoff(store, now)
        if before is None:
            return
        self._engine.let_go(before / 1_000_000)
        store.prune(before, keep=retention.kept(), keep_client=AGENT)
        store.give_back()

    def _begin(self, chore: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(chore)
        self._tasks.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("a chore failed: %s", place_of(error))


def _kept(call: Call) -> list[tuple[bytes, bytes]]:
    kept = [each for each in to_send(call.headers, call.first, verbatim=False) if each[0] in _KEPT]
    return [*kept, (b"accept-encoding", b"identity"), (b"user-agent", f"holdfast/{__version__}".encode())]


def _key(query: str) -> str | None:
    """The credential in a query, as it stands there."""
    return next((part for part in query.split("&") if part.startswith("key=")), None)
