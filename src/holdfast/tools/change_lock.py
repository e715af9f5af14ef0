"""Taking turns to change things: one call at a time, also across the agents that share a lock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar


class LoopLock:
    """A lock for whichever event loop runs: a program that is not asynchronous runs each turn in a loop of its own, and
    asyncio's lock would fail in the second one that has to wait for it."""

    def __init__(self) -> None:
        self._locks: dict[asyncio.AbstractEventLoop, asyncio.Lock] = {}

    def _here(self) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        if loop not in self._locks:
            self._locks = {each: lock for each, lock in self._locks.items() if not each.is_closed()}
        return self._locks.setdefault(loop, asyncio.Lock())

    async def __aenter__(self) -> None:
        await self._here().acquire()

    async def __aexit__(self, *_: object) -> None:
        self._here().release()


Lock = asyncio.Lock | LoopLock


class _Turn:
    """Somebody's turn to change things; what he calls meanwhile has turns inside it."""

    def __init__(self, lock: Lock) -> None:
        self.lock, self.inner, self.goes_on = lock, asyncio.Lock(), True


_turn: ContextVar[_Turn | None] = ContextVar("holdfast_tools_turn", default=None)


@asynccontextmanager
async def alone(lock: Lock) -> AsyncIterator[None]:
    """Hold the lock. A call that makes calls itself, such as one that delegates, would wait for itself: calls inside it
    use an inner lock."""
    outer = _turn.get()
    nested = outer is not None and outer.lock is lock and outer.goes_on
    async with outer.inner if outer is not None and nested else lock:
        turn = _Turn(lock)
        token = _turn.set(turn)
        try:
            yield
        finally:
            turn.goes_on = False
            _turn.reset(token)
