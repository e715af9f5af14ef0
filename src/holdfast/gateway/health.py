"""What `/healthz` says of the store. Requests pass whatever it says.

Looked at when somebody asks, beside the loop and at most every two seconds; all pages are read at most once a minute,
and for a large store so seldom that it takes no more than a sixtieth of the time. Nothing here is done for a request.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.store import Store

LOOK_S = 2.0
WHOLE_S = 60.0
SHARE = 60
"""Reading all pages takes at most this part of the time."""
PATIENCE_S = 1.0
"""What an answer waits for them to be read; a large store is told of the next time."""


class StoreHealth:
    """`trouble` is why there is no store."""

    def __init__(self, store: Store | None, trouble: str = "") -> None:
        self._store = store
        self._reason: str | None = None if store is not None else (trouble or "nothing is stored")
        self._damage: str | None = None
        self._looked = self._next_whole = float("-inf")
        self._lock: asyncio.Lock | None = None
        self._reading: asyncio.Task[None] | None = None

    async def reason(self) -> str | None:
        """Why the store does not do what it should; None where it does."""
        if self._store is None:
            return self._reason
        self._lock = self._lock or asyncio.Lock()
        async with self._lock:
            if time.monotonic() - self._looked >= LOOK_S:
                self._reason = await asyncio.to_thread(_problem, self._store, False)
                self._looked = time.monotonic()
            if self._reading is None and time.monotonic() >= self._next_whole and self._reason is None:
                self._reading = asyncio.create_task(self._read_whole(self._store))
        if self._reading is not None and self._reason is None:
            await asyncio.wait((self._reading,), timeout=PATIENCE_S)
        return self._reason or self._damage

    async def _read_whole(self, store: Store) -> None:
        began = time.monotonic()
        try:
            self._damage = await asyncio.to_thread(_problem, store, True)
        finally:
            took = time.monotonic() - began
            self._next_whole = time.monotonic() + max(WHOLE_S, took * SHARE)
            self._reading = None


def _problem(store: Store, whole: bool) -> str | None:
    try:
        store.check(whole=whole)
    except HoldfastError as problem:
        return without_directories(str(problem), store.path)
    return None


def without_directories(text: str, path: Path) -> str:
    """Everybody may ask, and where this user's files are is nobody's business."""
    return text.replace(f"{path.parent}/", "")
