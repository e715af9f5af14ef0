"""What is done to a store as a whole, beside the requests: looking whether it is well, removing what is old, giving
room back.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from . import health, reads, removals, retention, rollups, space, writes
from .blobs import BlobFiles
from .rows import Pruned
from .writer import Write

T = TypeVar("T")

_CHECK_S = 10.0
_GIVE_BACK_S = 1.0


class Maintenance:
    """For a store whose writes are functions of a transaction and whose reads are functions of a connection."""

    _blobs: BlobFiles

    @property
    def path(self) -> Path:
        raise NotImplementedError

    def _write(self, write: Write[T], *, rows: int = 1) -> Future[T]:
        raise NotImplementedError

    def _read(self, question: Callable[..., T], *values: Any) -> T:
        raise NotImplementedError

    def trouble(self) -> Exception | None:
        raise NotImplementedError

    def check(self, *, whole: bool = False) -> None:
        now, before = time.time_ns() // 1_000, self.trouble()
        self.put_mark(health.SEEN, now).result(_CHECK_S)
        health.look(self.path, self._blobs, now, whole=whole)
        if before is not None:  # there may be room for a mark and not for a call
            raise before

    def put_mark(self, name: str, at: int) -> Future[None]:
        return self._write(partial(writes.put_mark, name, at))

    def marks(self) -> dict[str, int]:
        return self._read(reads.marks)

    def prune(
        self,
        before: int,
        *,
        keep: Iterable[str] = (),
        keep_client: str | None = None,
        progress: Callable[[str, int], None] = lambda _what, _count: None,
    ) -> Pruned:
        before = rollups.hour_of(before)
        kept = self._read(lambda connection: retention.kept_sessions(keep, keep_client, connection))
        self._write(partial(retention.begin, before)).result()
        gone = {
            name: self._steps(partial(retention.rows_step, name, before, kept), partial(progress, name))
            for name in retention.TABLES
        }
        lanes = self._steps(partial(retention.lanes_step, before, kept), partial(progress, "lanes"))
        sessions = self._steps(partial(retention.sessions_step, before, kept), partial(progress, "sessions"))
        self._write(partial(retention.rest, before, kept)).result()
        blobs = self._write(removals.sweep_blobs).result()
        return Pruned(
            before=before,
            calls=gone["calls"],
            breaks=gone["breaks"],
            events=gone["events"],
            sessions=sessions,
            lanes=lanes,
            blobs=blobs,
        )

    def would_prune(self, before: int, *, keep: Iterable[str] = (), keep_client: str | None = None) -> Pruned:
        before = rollups.hour_of(before)

        def ask(connection: sqlite3.Connection) -> dict[str, int]:
            return retention.count(connection, before, retention.kept_sessions(keep, keep_client, connection))

        found = self._read(ask)
        found.pop("shown")
        return Pruned(before=before, blobs=0, **found)

    def gives_back(self) -> bool:
        """Whether pages can be given back one by one: not in a store of 0.1.0 that was never written anew."""
        return self._read(space.is_incremental)

    def give_back(self) -> None:
        """Give the room of what was removed back to the disk, as far as that holds nobody up."""
        if self.gives_back():
            self._steps(space.free_step)
            space.shrink(self.path, busy_timeout=_GIVE_BACK_S)
        elif self.path.stat().st_size <= space.SMALL:
            space.vacuum(self.path, busy_timeout=_GIVE_BACK_S)

    def _steps(self, step: Write[int], progress: Callable[[int], None] = lambda _count: None) -> int:
        total = 0
        while removed := self._write(step, rows=retention.STEP).result():
            total += removed
            progress(total)
        return total
