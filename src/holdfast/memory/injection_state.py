"""The memory injected into a lane of the gateway: the exact texts, and their places.

A text is inserted before a block of the client's, which is identified by its digest and by how many equal blocks
precede it. A text whose block is in the request is inserted again in the same place, byte for byte; any other is not. A
request may continue the provider's stored state (`previous_response_id`), which contains all earlier texts.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from itertools import takewhile
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import Block
from holdfast.engine import Lane
from holdfast.lru import LRU

from .entries import ContextBlock, Delta, Known, StableBlock

VERSION = 1
MOST = 64
"""Deltas kept of a lane: all are read with every request. A further one replaces the oldest that is present no more;
where all are present, none is added."""

logger = logging.getLogger(__name__)
MOST_LANES = 2_000
"""Lanes a process remembers."""


class ToldDelta(Struct, frozen=True, kw_only=True):
    """A delta, and the block that it precedes; `after` names what its request continued."""

    block: bytes
    occurrence: int
    after: str = ""
    text: str
    entries: Known = ()


class LaneMemory(Struct, frozen=True, kw_only=True):
    """All memory of a lane. Its stable block never changes. `started`: the first query was searched."""

    version: int = VERSION
    stable: StableBlock = StableBlock()
    context: ContextBlock = ContextBlock()
    told: tuple[ToldDelta, ...] = ()
    started: bool = False
    late: bool = False
    """Its system text was sent without memory, or has no place for any, and does not change."""
    project: str | None = None
    placement: Literal["deltas", "blocks"] = "deltas"
    joined: bool = False
    """One system text, where there could be blocks."""

    @property
    def is_empty(self) -> bool:
        return not (self.stable.text or self.context.text or self.told)


class RecentLane(Struct):
    """What a process remembers of a lane besides the store. It saves work, and may be lost."""

    messages: bytes | None = None
    """The digests of the message blocks in its client's last request."""
    after: str = ""
    """The response or conversation at the provider that its last request continued."""
    memory: LaneMemory | None = None
    """The memory sent with its last request."""
    late: LaneMemory | None = None
    """The same if the store was late and may hold memory that was never sent."""
    changed: str | None = None
    """The call with which its context block became another one, until the provider accepts a later call."""
    refresh: bool = False
    """Its last request did not fit. Lost with the process, and set again by the next request that does not fit."""


class RecentLanes:
    """The lanes that were used most recently. Safe for threads."""

    def __init__(self) -> None:
        self._lanes: LRU[tuple[str, str], RecentLane] = LRU(MOST_LANES)
        self._lock = threading.Lock()

    def of(self, lane: Lane) -> RecentLane:
        key = (lane.tenant, lane.id)
        with self._lock:
            recent = self._lanes.get(key)
            if recent is None:
                recent = self._lanes[key] = RecentLane()
            return recent

    def peek(self, lane: Lane) -> RecentLane | None:
        """The lane if it is remembered, without counting as use."""
        with self._lock:
            return self._lanes.peek((lane.tenant, lane.id))


class PresentDeltas(Struct, frozen=True):
    """The deltas of a lane that are present in a request, by the number of the block behind them. `before` are those at
    the provider, before the request."""

    told: dict[int, tuple[ToldDelta, ...]]
    before: tuple[ToldDelta, ...] = ()

    @property
    def all(self) -> list[ToldDelta]:
        return [*self.before, *(each for place in sorted(self.told) for each in self.told[place])]

    @property
    def count(self) -> int:
        return len(self.all)

    @property
    def is_full(self) -> bool:
        """Whether no further delta may be added."""
        return self.count >= MOST

    def hashes(self, stable: StableBlock) -> dict[str, str]:
        """Return the latest hash of each entry in the conversation."""
        hashes = dict(stable.entries)
        for each in self.all:
            hashes.update(each.entries)
        return hashes

    def lost(self, memory: LaneMemory) -> dict[str, str]:
        """Return the injected entries that the conversation no longer contains."""
        hashes, present = self.hashes(memory.stable), {id(each) for each in self.all}
        gone: dict[str, str] = {}
        for each in memory.told:
            if id(each) not in present:
                gone.update(each.entries)
        return {entry: hash_ for entry, hash_ in gone.items() if entry not in hashes and hash_}


def present_deltas(
    memory: LaneMemory, blocks: Sequence[Block], after: str = "", *, forks: bool = False
) -> PresentDeltas:
    """The deltas present in these blocks of a client's request, which continues `after`. If several requests may
    continue the same (it `forks`), the deltas of another branch, and all later ones, are elsewhere."""
    by_place: dict[tuple[bytes, int], list[ToldDelta]] = {}
    for delta in memory.told:
        if not after or delta.after == after:
            by_place.setdefault((delta.block, delta.occurrence), []).append(delta)
    by_block: dict[int, tuple[ToldDelta, ...]] = {}
    if by_place:
        digests, seen = {delta.block for delta in memory.told}, dict[bytes, int]()
        for index, block in enumerate(blocks):
            if block.digest in digests:
                number = seen[block.digest] = seen.get(block.digest, 0) + 1
                if (block.digest, number) in by_place:
                    by_block[index] = tuple(by_place[block.digest, number])
    if not after:
        return PresentDeltas(by_block)
    present = {id(each) for deltas in by_block.values() for each in deltas}
    others = [delta for delta in memory.told if id(delta) not in present]
    return PresentDeltas(by_block, tuple(takewhile(lambda delta: not forks or delta.after != after, others)))


def with_delta(
    memory: LaneMemory, delta: Delta, blocks: Sequence[Block], index: int, present: PresentDeltas, after: str = ""
) -> LaneMemory:
    """The memory with a delta in front of a block."""
    digest = blocks[index].digest
    number = sum(1 for block in blocks[: index + 1] if block.digest == digest)
    new = ToldDelta(block=digest, occurrence=number, after=after, text=delta.text, entries=delta.entries)
    stands = {id(each) for each in present.all}
    gone = [id(each) for each in memory.told if id(each) not in stands][: max(0, len(memory.told) - MOST + 1)]
    return replace(memory, told=(*(each for each in memory.told if id(each) not in gone), new))


def encode(memory: LaneMemory) -> bytes:
    return msgspec.msgpack.encode(memory)


def decode(data: bytes) -> LaneMemory | None:
    """The stored memory; None where it cannot be read, which counts as none."""
    try:
        memory = msgspec.msgpack.decode(data, type=LaneMemory)
    except msgspec.DecodeError as error:
        logger.warning("a lane goes on without its memory, which cannot be read: %s", error)
        return None
    return memory if memory.version == VERSION else None
