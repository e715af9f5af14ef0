"""Blocks by the digest of their bytes: what reading one anew would give, in as few bytes as possible.

Counting the tokens of a block takes fifty times as long as hashing it, so a reader remembers a great many of them; most
are plain and fit into sixty bytes. The least recently used half goes when there are too many.
"""

from __future__ import annotations

from struct import Struct as Packing
from threading import Lock
from typing import Generic, TypeVar

from holdfast.caches import Block, Section

T = TypeVar("T")

_PACKED = Packing("<16sIiH")  # digest, tokens, message, shape
_MOST_SHAPES = 65_535
LONGEST_NAME = 200
"""Characters of names that clients choose (roles, kinds, models) where they are kept by number and not by weight."""


class BlockCache(Generic[T]):
    """Two generations of packed blocks, and beside them those that are more than a plain block, by their weight. Safe
    for threads."""

    def __init__(self, most: int, *, heavy: int) -> None:
        self._half, self._heavy = max(1, most // 2), heavy
        self._young: dict[bytes, bytes] = {}
        self._old: dict[bytes, bytes] = {}
        self._shapes: dict[tuple[Section, str, str, bool], int] = {}
        self._by_number: list[tuple[Section, str, str, bool]] = []
        self._others: dict[bytes, tuple[T, int]] = {}
        self._weight = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._young) + len(self._old) + len(self._others)

    def plain(self, key: bytes) -> Block | None:
        packed = self._young.get(key)
        if packed is None:
            packed = self._old.get(key)
            if packed is None:
                return None
            with self._lock:
                self._add(key, packed)
        digest, tokens, message, shape = _PACKED.unpack(packed)
        section, kind, role, markable = self._by_number[shape]
        return Block(section, kind, role, message, digest, tokens, markable)

    def other(self, key: bytes) -> T | None:
        if key not in self._others:
            return None
        with self._lock:
            entry = self._others.pop(key, None)
            if entry is None:
                return None
            self._others[key] = entry
            return entry[0]

    def keep(self, key: bytes, block: Block) -> bool:
        """Remember a plain block; False if it cannot be packed."""
        kind, role, digest, tokens = block.kind, block.role, block.digest, block.tokens
        if block.ids or len(digest) != 16 or not 0 <= tokens < 2**32 or len(kind) + len(role) > LONGEST_NAME:
            return False
        shape = block.section, kind, role, block.markable
        with self._lock:
            number = self._shapes.get(shape)
            if number is None:
                if len(self._by_number) >= _MOST_SHAPES:  # made-up kinds and roles without end
                    return False
                number = len(self._by_number)
                self._by_number.append(shape)
                self._shapes[shape] = number
            self._add(key, _PACKED.pack(digest, tokens, block.message, number))
        return True

    def keep_other(self, key: bytes, value: T, weight: int) -> None:
        with self._lock:
            before = self._others.pop(key, None)
            self._others[key] = value, weight
            self._weight += weight - (0 if before is None else before[1])
            while self._weight > self._heavy and len(self._others) > 1:
                first = next(iter(self._others))
                self._weight -= self._others.pop(first)[1]

    def _add(self, key: bytes, packed: bytes) -> None:
        if len(self._young) >= self._half:
            self._old, self._young = self._young, {}
        self._old.pop(key, None)
        self._young[key] = packed
