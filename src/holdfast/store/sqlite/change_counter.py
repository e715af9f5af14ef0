"""Whether another process has written: a number beside the database that every process moves on when it commits.

Asking the database costs a statement, and while the writer is at work a wait; a number in shared memory costs nothing.
It is changed under the write lock, so it says at once that a commit is under way; that it is done is certain when the
next transaction of our own has begun. What a process that does not keep the number has written is found then too, by
SQLite's own count.
"""

from __future__ import annotations

import logging
import mmap
import os
import struct
from pathlib import Path

logger = logging.getLogger(__name__)

_NUMBER = struct.Struct("<Q")


class ChangeCounter:
    """The number, and how far our own process accounts for it. Without a place for it nothing is ever certain."""

    def __init__(self, path: Path) -> None:
        self._memory: mmap.mmap | None = _shared(path.with_name(path.name + "-turn"))
        self._ours = -1
        self._others = 0

    def others(self) -> int | None:
        """A number that is another one whenever a commit of somebody else has become visible; None while one may be
        under way."""
        others, memory = self._others, self._memory
        if memory is None or _NUMBER.unpack_from(memory)[0] != self._ours:
            return None
        return others

    def advance(self, *, foreign: bool) -> None:
        """Called under the write lock: everything before is visible. `foreign` if SQLite saw others commit."""
        if self._memory is None:
            return
        now = _NUMBER.unpack_from(self._memory)[0]
        if foreign or now != self._ours:
            self._others += 1
        self._ours = (now + 1) % 2**64
        _NUMBER.pack_into(self._memory, 0, self._ours)

    def close(self) -> None:
        memory = self._memory
        self._memory = None
        if memory is not None:
            memory.close()


def _shared(path: Path) -> mmap.mmap | None:
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(file).st_size < _NUMBER.size:
                os.ftruncate(file, _NUMBER.size)
            return mmap.mmap(file, _NUMBER.size)
        finally:
            os.close(file)
    except (OSError, ValueError) as error:
        logger.debug("no shared number at %s (%s): the database is asked instead", path, error)
        return None
