"""Keep-alive pings for conversations that wait for their user.

The engine decides whether one pays and when it is due (`cache.keepalive`); here they are sent, with the provider and
the key of the conversation. No request waits for a ping, and a failed one has no consequence.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from holdfast.engine import DuePing
from holdfast.errors import HoldfastError
from holdfast.wire import DIALECTS, Unreachable

from .contract import OutgoingRequest
from .requests import named

if TYPE_CHECKING:
    from .session import Session
    from .sessions import Sessions

TICK_S = 15.0
"""Seconds between two looks at the conversations that are open."""

logger = logging.getLogger(__name__)


class KeepaliveLoop:
    """Looks after the open conversations of a workspace, from the first one that asks for it until `stop`."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, in the loop that runs here, unless it has begun."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._for_ever())

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def round(self) -> None:
        """Every ping that is due now. Sub-agents have nobody to wait for.

        Each is asked for when it is sent, and not before: while another one is under way, a session may be closed,
        begin a turn or go to another model.
        """
        for session in self._sessions.open_sessions():
            if session.waiting:
                for due in session.engine.pings([session.lane], now=session.clock()):
                    await self._ping(session, due)

    async def _for_ever(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            try:
                await self.round()
            except Exception:
                logger.exception("keep-alive pings failed")

    async def _ping(self, session: Session, due: DuePing) -> None:
        request = OutgoingRequest(dialect=session.dialect, model=named(session.model), raw=due.raw, session=session.id)
        tap, status = DIALECTS[session.dialect].tap(), 0
        try:
            async with session.provider.open(request) as answer:
                status = answer.status
                async for chunk in answer:
                    tap.feed(chunk)
            tap.close()
        except (Unreachable, HoldfastError):
            status = 0
        except BaseException:
            session.engine.ping_failed(due, now=session.clock(), error="cut off")
            raise
        usage = tap.usage if 200 <= status < 300 else None
        if usage is None:
            error = f"HTTP {status}" if status else "no answer"
            session.engine.ping_failed(due, now=session.clock(), error=error)
        else:
            session.engine.pinged(due, usage, now=session.clock())
