"""First bytes, bounded. What is lost here is either durable elsewhere or forgotten with a reason."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any

LIMIT = 12_000_000
_OVERHEAD = 150  # of an entry: key, node, object

Load = Callable[[bytes], bytes | None]


class ByteMemory:
    """Bytes by digest, the least used leave first. `load` reads back what was made durable.

    Not safe for threads by itself: the caller holds a lock.
    """

    def __init__(self, limit: int = LIMIT, *, load: Load | None = None) -> None:
        self._limit, self._load = limit, load
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()
        self._size = 0
        self.read: OrderedDict[bytes, Any] = OrderedDict()
        """A place for values that were put together from what is kept, by their name."""

    def __len__(self) -> int:
        return self._size

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
        found = None if self._load is None else self._load(key)
        if found is not None:
            self.put(key, found)
        return found

    def put(self, key: bytes, data: bytes) -> None:
        if self.touch(key):
            return
        self._kept[key] = data
        self._size += len(data) + _OVERHEAD
        while self._size > self._limit and self._kept:
            _, dropped = self._kept.popitem(last=False)
            self._size -= len(dropped) + _OVERHEAD

    def keep(self, data: bytes) -> bytes:
        """Remember a text by its own digest, which is returned."""
        key = sha256(data).digest()
        self.put(key, data)
        return key
