"""Remembers what was given during a run, within bounds, so that copies are not given again."""

from __future__ import annotations

REMEMBERED = 500_000


class RecentHashes:
    """Hashes of what was given, the latest half million: enough for copies, which clients make of recent sessions."""

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most // 2
        self._new: set[int] = set()
        self._old: set[int] = set()

    def first_time(self, *name: object) -> bool:
        key = hash(name)
        if key in self._new or key in self._old:
            return False
        self._new.add(key)
        if len(self._new) >= self._most:
            self._old, self._new = self._new, set()
        return True
