"""What is done between calls, with their clients' own credentials: cached contents (Gemini), keep-alive pings.

A lane's credential stays in memory, only while something may be done for the lane, and at most an hour after its last
call. No request ever waits for a chore. Old rows of the store are removed here too.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct

from holdfast.config import Settings
from holdfast.engine import DuePing, EngineCore, Lane, SideCall
from holdfast.engine.passage import place_of
from holdfast.errors import HoldfastError
from holdfast.lru import LRU
from holdfast.store import Store
from holdfast.upstream import HttpClient, UpstreamError
from holdfast.version import __version__
from holdfast.wire import DIALECTS

from .headers import to_send
from .request_reader import GatewayRequest
from .retention import AGENT, RetentionPeriod
from .routes import ProviderRoute

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


class ChoreLane(Struct):
    """A lane that something may be done for, with its credential. Never stored, never shown."""

    lane: Lane
    route: ProviderRoute
    query: str
    headers: list[tuple[bytes, bytes]]
    called: float  # when its last call ended


class Chores:
    """What is to be done, and who it is done for. Lives in the gateway's loop."""

    def __init__(
        self,
        engine: EngineCore,
        settings: Callable[[str], Settings],
        client: HttpClient,
        *,
        store: Store | None = None,
        clock: Callable[[], float] = time.time,
        off: Callable[[], bool] = lambda: False,
        retention: RetentionPeriod | None = None,
    ) -> None:
        self._off, self._retention = off, retention
        self._engine, self._settings, self._client = engine, settings, client
        self._store, self._clock = store, clock
        self.lanes: LRU[tuple[str, str], ChoreLane] = LRU(MOST_LANES)
        self._tasks: set[asyncio.Task[None]] = set()
        self._pruned = 0.0

    def start(self) -> None:
        self.begin(self._run())

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.lanes.clear()

    def note(self, call: GatewayRequest) -> None:
        """Start the chores of a finished call, and remember its lane if more may follow."""
        passage = call.passage
        if passage is None or passage.prepared is None:
            return
        lane, before = passage.prepared.lane, passage.prepared.before
        cache = self._settings(lane.agent).cache
        dialect = call.route.dialect
        has_chores = (
            cache.gemini.enabled
            if dialect is DIALECTS["gemini"]
            else cache.keepalive.enabled and dialect is DIALECTS["anthropic"]
        )
        if not has_chores:
            return
        if not 200 <= call.status < 300:  # what was refused once is not asked for in other words
            for each in before:
                self._engine.chore_done(lane, each, 0, b"", now=self._clock())
            return
        entry = ChoreLane(lane, call.route, call.query, _headers(call), self._clock())
        self.lanes[lane.tenant, lane.id] = entry
        for each in before:
            self.begin(self._send_side_call(entry, each))

    @property
    def under_way(self) -> int:
        """How many chores have begun and are not over."""
        return len(self._tasks) - 1

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            try:
                await self.run_due()
            except Exception as error:  # noqa: BLE001  the next round is tried all the same
                log.warning("chores failed: %s", place_of(error))

    async def run_due(self) -> None:
        """Do everything that is due now."""
        now = self._clock()
        if not self._off():
            self._begin_due(now)
        await self._prune(now)

    def _begin_due(self, now: float) -> None:
        for key in [key for key, entry in self.lanes.items() if now - entry.called > IDLE_S]:
            del self.lanes[key]
        entries = list(self.lanes.values())
        agents: set[tuple[str, str]] = set()
        for entry in entries:
            agent = (entry.lane.tenant, entry.lane.agent)
            if entry.route.dialect is DIALECTS["gemini"] and agent not in agents:  # objects belong to an agent
                agents.add(agent)
                for each in self._engine.chores(entry.lane, now=now):
                    self.begin(self._send_side_call(entry, each))
        pinged = {(e.lane.tenant, e.lane.id): e for e in entries if e.route.dialect is DIALECTS["anthropic"]}
        for due in self._engine.pings([entry.lane for entry in pinged.values()], now=now):
            self.begin(self._ping(pinged[due.lane.tenant, due.lane.id], due))

    async def _send_side_call(self, entry: ChoreLane, call: SideCall) -> None:
        """Send a call for cached contents; the engine learns whatever comes of it."""
        send = call.send
        query = "&".join(each for each in (urlencode(send.query), _key(entry.query)) if each)
        status, raw = await self._send(entry, send.method, entry.route.upstream.path(send.path), query, send.body)
        self._engine.chore_done(entry.lane, call, status, raw, now=self._clock())

    async def _ping(self, entry: ChoreLane, due: DuePing) -> None:
        status, raw = await self._send(entry, "POST", entry.route.path, entry.query, due.raw)
        tap = entry.route.style.tap()
        if 200 <= status < 300:
            tap.feed(raw)
            tap.close()
        usage = tap.usage
        if usage is None:
            error = f"HTTP {status}" if status else "no answer"
            self._engine.ping_failed(due, now=self._clock(), error=error)
        else:
            self._engine.pinged(due, usage, now=self._clock())

    async def _send(self, entry: ChoreLane, method: str, path: str, query: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of an answer; status 0 where there is none."""
        target = f"{path}?{query}" if query else path
        try:
            response = await self._client.send(entry.route.upstream, method, target, entry.headers, body)
            try:
                return response.status, await response.read(LARGEST)
            finally:
                response.close()
        except UpstreamError:
            return 0, b""

    async def _prune(self, now: float) -> None:
        """Remove what is older than `store.retention` allows, once a day."""
        if self._store is None or self._retention is None or now - self._pruned < _DAY_S:
            return
        self._pruned = now
        try:
            await asyncio.to_thread(self._remove, self._store, self._retention, now)
        except (HoldfastError, OSError) as problem:
            log.warning("what is old stays for now: %s", problem)

    def _remove(self, store: Store, retention: RetentionPeriod, now: float) -> None:
        before = retention.cutoff(store, now)
        if before is None:
            return
        self._engine.let_go(before / 1_000_000)
        store.prune(before, keep=retention.agent_sessions(), keep_client=AGENT)
        store.give_back()

    def begin(self, chore: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(chore)
        self._tasks.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("a chore failed: %s", place_of(error))


def _headers(call: GatewayRequest) -> list[tuple[bytes, bytes]]:
    client = [each for each in to_send(call.headers, call.first, verbatim=False) if each[0] in _KEPT]
    return [*client, (b"accept-encoding", b"identity"), (b"user-agent", f"holdfast/{__version__}".encode())]


def _key(query: str) -> str:
    """The credential in a query, as it stands there; empty where there is none."""
    return next((part for part in query.split("&") if part.startswith("key=")), "")
