"""Gemini's cached contents in the agent: makes the calls that the engine asks for besides its requests.

The engine decides what to create, refresh and delete (`cache.gemini`). The calls run concurrently with the requests,
and their results go back to the engine; no request waits for one or fails because of one. Objects in use are refreshed
while their sessions are open, and deleted when these are closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.engine import EngineCore, Lane, PreparedCall, SideCall
from holdfast.engine.passage import quiet
from holdfast.errors import HoldfastError
from holdfast.tools import dialect_of_model

from .contract import Provider, SideProvider, SideRequest, Unreachable

if TYPE_CHECKING:
    from .session import Session

TICK_S = 15.0
"""Seconds between two checks of what is due."""
CALL_S = 120.0
"""Timeout in seconds of a call besides the requests."""
RELEASE_S = 5.0
"""Seconds in which a session that is closed lets go of its objects; what is left then, the provider lets expire."""

log = logging.getLogger(__name__)


class SessionCachedContents:
    """The calls of all sessions of one `Sessions`. Lives in the loops that these are used in."""

    def __init__(self, engine: EngineCore, provider: Provider, clock: Callable[[], float]) -> None:
        self.provider = provider
        self._engine, self._clock = engine, clock
        self._lanes: dict[str, Lane] = {}
        """Lanes of open sessions that have, or may soon have, an object."""
        self._tasks: dict[asyncio.Task[None], str] = {}
        """Calls under way, and the lane that each is made for."""
        self._ticker: asyncio.Task[None] | None = None
        self._warned = False

    @property
    def under_way(self) -> int:
        """How many requests have calls beside them that are not over."""
        return len(self._tasks)

    # Around a request

    def begin(self, prepared: PreparedCall) -> None:
        """The request was accepted: what it asked for is done now, beside it."""
        calls, prepared.before = prepared.before, ()
        if not calls and prepared.use is None:
            return
        lane = prepared.lane
        self._lanes[lane.id] = lane
        if calls:
            task = asyncio.create_task(self._carry_out(lane, calls))
            self._tasks[task] = lane.id
            task.add_done_callback(self._done)
        if self._ticker is None or self._ticker.done() or self._ticker.get_loop() is not asyncio.get_running_loop():
            self._ticker = asyncio.create_task(self._tick())

    def drop(self, prepared: PreparedCall) -> None:
        """The request was not accepted: what it asked for is left undone, and may be asked for again."""
        calls, prepared.before = prepared.before, ()
        for call in calls:
            with quiet("a call beside the request"):
                self._engine.chore_dropped(prepared.lane, call)

    def forgotten(self, prepared: PreparedCall, status: int, raw: bytes) -> bool:
        """Whether a request was refused because the provider does not know the object it names: `prepared.raw` is then
        the whole request."""
        if prepared.use is None:
            return False
        with quiet("a refused request"):
            return self._engine.gone(prepared, status, raw, now=self._clock()) is not None
        return False

    # Between requests

    async def round(self) -> None:
        """Do everything due now: refresh used objects at their half life, delete unused ones."""
        agents = {(lane.tenant, lane.agent): lane for lane in self._lanes.values()}  # objects belong to an agent
        for lane in agents.values():
            await self._carry_out(lane, self._engine.chores(lane, now=self._clock()))

    async def _tick(self) -> None:
        while self._lanes:
            await asyncio.sleep(TICK_S)
            with quiet("cached contents"):
                await self.round()

    # When a session is closed

    async def release(self, session: Session) -> None:
        """The session is closed: delete the objects that no other one needs. A creation under way is waited for,
        because nobody else knows its name."""
        if not session.settings.cache.gemini.enabled:
            return
        models = [model for model in session.resets.used if dialect_of_model(model) == "gemini"]
        lanes = {lane.id: lane for lane in map(session.lane_of, models)}
        for id_ in lanes:
            self._lanes.pop(id_, None)
        loop = asyncio.get_running_loop()
        mine = {task for task, id_ in self._tasks.items() if id_ in lanes and task.get_loop() is loop}
        if mine:
            _, late = await asyncio.wait(mine, timeout=RELEASE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        with quiet("deleting cached contents"):
            async with asyncio.timeout(RELEASE_S):
                for lane in lanes.values():
                    await self._carry_out(lane, self._engine.release_contents(lane, now=self._clock()))
        if not self._lanes and self._ticker is not None and not self._ticker.get_loop().is_closed():
            self._ticker.cancel()

    # A call

    async def _carry_out(self, lane: Lane, calls: tuple[SideCall, ...]) -> None:
        """One after the other: what makes room comes before what takes it."""
        waiting = list(calls)
        try:
            while waiting:
                status, raw = await self._send(waiting[0])
                self._bring_back(lane, waiting.pop(0), status, raw)
        finally:  # also where the loop ends meanwhile
            for call in waiting:
                self._bring_back(lane, call, 0, b"")

    async def _send(self, call: SideCall) -> tuple[int, bytes]:
        """Status and body of an answer; status 0 where there is none."""
        if not isinstance(self.provider, SideProvider):
            if not self._warned:
                self._warned = True
                log.warning(
                    "cache.gemini.enabled has no effect: %s has no method `send` for calls beside the requests.",
                    type(self.provider).__name__,
                )
            return 0, b""
        send = call.send
        request = SideRequest(
            dialect="gemini", method=send.method, path=send.path, query=dict(send.query), raw=send.body
        )
        with quiet("a call beside the request"):
            try:
                async with asyncio.timeout(CALL_S):
                    return await self.provider.send(request)
            except (Unreachable, HoldfastError, TimeoutError):
                return 0, b""
        return 0, b""

    def _bring_back(self, lane: Lane, call: SideCall, status: int, raw: bytes) -> None:
        with quiet("an answer beside the request"):
            self._engine.chore_done(lane, call, status, raw, now=self._clock())

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled():
            task.exception()  # heard: all that may be raised was logged
