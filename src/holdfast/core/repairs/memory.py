"""First bytes, bounded. What is lost here is either durable elsewhere or forgotten with a reason."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any

from holdfast.lru import LRU

LIMIT = 12_000_000
_OVERHEAD = 150  # of an entry: key, node, object
_PERIODS = 8
MOST_READ = 64
"""Values kept as they were put together, so that a lane that goes on does not do it at every turn."""
_MOST_WHOLE = 4_096
_BORDER = b"border"
"""The key of no entry; the entries before it were not used in this period."""

Load = Callable[[bytes], bytes | None]


class ByteMemory:
    """Bytes by digest; the least recently used are evicted. `load` reads back what was made durable.

    Bytes of a lane are used at every request; marking that once in a period is enough. A period ends when an eighth of
    the memory was added, and before anything used in it would be evicted. Not thread-safe: the caller holds a lock.
    """

    def __init__(self, limit: int = LIMIT, *, load: Load | None = None) -> None:
        self._limit, self._load = limit, load
        self._kept: OrderedDict[bytes, bytes] = OrderedDict({_BORDER: b""})
        self._size = self._added = 0
        self.period = 0
        self.whole: dict[bytes, list[int]] = {}
        """Names of what was found complete in this period, and so still is, with their details."""
        self.read: LRU[bytes, Any] = LRU(MOST_READ)
        """A place for values that were put together from what is kept, by their name."""

    def __len__(self) -> int:
        return self._size

    def __contains__(self, key: bytes) -> bool:
        return key in self._kept

    def found_whole(self, name: bytes, period: int, note: list[int] | None = None) -> None:
        """All that goes by this name was used since the period of this number began."""
        if period == self.period:
            if len(self.whole) >= _MOST_WHOLE:
                self.whole.clear()
            self.whole[name] = note or []

    def touch(self, key: bytes) -> bool:
        """Whether it is here; it counts as used."""
        if key not in self._kept:
            return False
        self._kept.move_to_end(key)
        return True

    def missing(self, keys: Iterable[bytes]) -> list[int]:
        """Which of them are not here, by their place; the others count as used."""
        use, places = self._kept.move_to_end, []
        for place, key in enumerate(keys):
            try:
                use(key)
            except KeyError:
                places.append(place)
        return places

    def touch_all(self, keys: Iterable[bytes]) -> bool:
        """Whether all of them are here; as far as they are, they count as used."""
        return not self.missing(keys)

    def get(self, key: bytes) -> bytes | None:
        if self.touch(key):
            return self._kept[key]
        data = None if self._load is None else self._load(key)
        if data is not None:
            self.put(key, data)
        return data

    def put(self, key: bytes, data: bytes) -> None:
        if self.touch(key):
            return
        self._kept[key] = data
        size = len(data) + _OVERHEAD
        self._size += size
        self._added += size
        if self._added * _PERIODS > self._limit:
            self._begin_period()
        while self._size > self._limit:
            key, dropped = self._kept.popitem(last=False)
            if key == _BORDER:
                self._begin_period()
            else:
                self._size -= len(dropped) + _OVERHEAD

    def keep(self, data: bytes) -> bytes:
        """Remember a text by its own digest, which is returned."""
        key = sha256(data).digest()
        self.put(key, data)
        return key

    def _begin_period(self) -> None:
        self.period, self._added = self.period + 1, 0
        self.whole.clear()
        self._kept[_BORDER] = b""
        self._kept.move_to_end(_BORDER)
