"""A mapping of bounded size that evicts the least recently used items."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, ItemsView, Iterator, MutableMapping, ValuesView
from typing import TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


class LRU(MutableMapping[K, V]):
    """At most `capacity` entries, or entries of that total size where `size_of` measures them, and then at most
    `most_entries` of them.

    Reading with `[]` or `get` and writing count as use; `peek`, `in` and iteration (least recently used first) do not.
    `on_evict` is called with every entry that is evicted, not with one that is deleted or replaced. An entry that is
    larger than the capacity on its own is evicted at once, unless `keep_newest`. Not synchronised: callers that share
    one hold a lock.
    """

    __slots__ = ("_capacity", "_entries", "_least", "_most", "_on_evict", "_size_of", "peek", "size")

    def __init__(
        self,
        capacity: int,
        *,
        size_of: Callable[[V], int] | None = None,
        most_entries: int | None = None,
        keep_newest: bool = False,
        on_evict: Callable[[K, V], None] | None = None,
    ) -> None:
        self._capacity = capacity
        self._size_of = size_of
        most = capacity if size_of is None else most_entries
        self._most = sys.maxsize if most is None else most
        self._least = int(keep_newest)
        self._on_evict = on_evict
        self._entries: OrderedDict[K, V] = OrderedDict()
        self.size = 0  # total of `size_of`; 0 without
        self.peek: Callable[[K], V | None] = self._entries.get  # the value, without counting as use

    def __getitem__(self, key: K) -> V:
        value = self._entries[key]
        self._entries.move_to_end(key)
        return value

    @overload
    def get(self, key: K, default: None = None) -> V | None: ...
    @overload
    def get(self, key: K, default: V) -> V: ...
    @overload
    def get(self, key: K, default: D) -> V | D: ...
    def get(self, key: K, default: object = None) -> object:
        if key not in self._entries:
            return default
        self._entries.move_to_end(key)
        return self._entries[key]

    def __setitem__(self, key: K, value: V) -> None:
        entries, size_of = self._entries, self._size_of
        if key in entries:
            if size_of is not None:
                self.size -= size_of(entries[key])
            entries.move_to_end(key)
        entries[key] = value
        if size_of is not None:
            self.size += size_of(value)
        while (self.size > self._capacity or len(entries) > self._most) and len(entries) > self._least:
            self.evict()

    def __delitem__(self, key: K) -> None:
        value = self._entries.pop(key)
        if self._size_of is not None:
            self.size -= self._size_of(value)

    def evict(self) -> tuple[K, V]:
        """Drops the least recently used entry and returns it; KeyError if there is none."""
        key, value = self._entries.popitem(last=False)
        if self._size_of is not None:
            self.size -= self._size_of(value)
        if self._on_evict is not None:
            self._on_evict(key, value)
        return key, value

    def demote(self, key: K) -> None:
        """Makes an entry the next one to be evicted."""
        self._entries.move_to_end(key, last=False)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def items(self) -> ItemsView[K, V]:
        return self._entries.items()

    def values(self) -> ValuesView[V]:
        return self._entries.values()
