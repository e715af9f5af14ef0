"""Where a cache keeps its entries: bounded, oldest use first, dead ones swept away as time passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from .prompts import Entry

CAPACITY = 200_000
"""Entries kept; beyond it the least recently used goes, as in any cache of finite size."""


class Entries:
    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._by_key: dict[bytes, Entry] = {}  # in order of use, the oldest first; the same object for ever
        self._sweep_at = min(capacity, 1_024)
        self.changes = 0
        """Moves on with every change, so that what was decided before can be recognised as still true."""
        self.get: Callable[[bytes], Entry | None] = self._by_key.get
        """The entry, dead or alive. A long prompt asks for every one of its blocks: the search stays in C."""
        self._known: tuple[Sequence[bytes], int, tuple[Entry, ...]] = ((), -1, ())

    def __len__(self) -> int:
        return len(self._by_key)

    def find(self, key: bytes, now: float) -> Entry | None:
        """The entry if it can be read now."""
        entry = self._by_key.get(key)
        return entry if entry is not None and entry.readable <= now <= entry.expires else None

    def known(self, keys: Sequence[bytes]) -> tuple[Entry, ...]:
        """The entries of these prefixes, dead or alive, in their order.

        One request asks several times at one moment: the last answer holds until anything changes."""
        asked, changes, answer = self._known
        if asked is not keys or changes != self.changes:
            # few of many keys have one, so the search stays in C
            answer = tuple(filter(None, map(self._by_key.get, keys)))
            self._known = keys, self.changes, answer
        return answer

    def put(self, entries: Iterable[Entry], now: float) -> None:
        """Keep these as the most recently used ones."""
        self.changes += 1
        by_key = self._by_key
        for entry in entries:
            key = entry.key
            by_key.pop(key, None)
            by_key[key] = entry
        if len(by_key) > self._sweep_at:
            self._sweep(now)

    def drop(self, key: bytes) -> None:
        self.changes += 1
        self._by_key.pop(key, None)

    def live(self, now: float) -> list[Entry]:
        return [entry for entry in self._by_key.values() if entry.live(now)]

    def _sweep(self, now: float) -> None:
        """Forget the dead. The next sweep comes when as many again have been added: constant work per entry."""
        live = [(key, entry) for key, entry in self._by_key.items() if entry.expires >= now]
        if len(live) > self._capacity:  # down to nine tenths, so that a full cache is not swept at every write
            live = live[-(self._capacity * 9 // 10) :]
        self._by_key.clear()
        self._by_key.update(live)
        self._sweep_at = min(self._capacity, max(1_024, 2 * len(self._by_key)))
