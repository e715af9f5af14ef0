"""What a lane of the gateway was given of memory: the exact texts, and where they stand.

A text is told in front of a block of the client's, which is identified by its digest and by how many equal blocks
precede it. A text whose block is in the request is told again in the same place, byte for byte; any other is not. A
request may continue what is at the provider (`previous_response_id`): then all that was told before stands there.
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

from .entries import Context, Delta, Known, Stable

VERSION = 1
MOST = 64
"""Deltas that are kept of a lane: all are read with every request. For another one the oldest goes that stands in the
request no more; where all of them stand there, none comes."""

logger = logging.getLogger(__name__)
MOST_LANES = 2_000
"""Lanes a process remembers."""


class Told(Struct, frozen=True, kw_only=True):
    """A delta, and the block in front of which it stands; `after` is what its request named as said before."""

    block: bytes
    occurrence: int
    after: str = ""
    text: str
    entries: Known = ()


class Given(Struct, frozen=True, kw_only=True):
    """All a lane was given. Its stable block never changes. `started`: what its first words bring up was looked for."""

    version: int = VERSION
    stable: Stable = Stable()
    context: Context = Context()
    told: tuple[Told, ...] = ()
    started: bool = False
    late: bool = False
    """Its system text was sent without memory, or has no place for any, and stays so."""
    project: str | None = None
    placement: Literal["deltas", "blocks"] = "deltas"
    joined: bool = False
    """One system text, where there could be blocks."""

    @property
    def is_empty(self) -> bool:
        return not (self.stable.text or self.context.text or self.told)


class RecentLane(Struct):
    """What a process remembers of a lane beside what is stored. It saves work, and may be lost."""

    messages: bytes | None = None
    """The digests of the message blocks that its client sent last."""
    after: str = ""
    """The response or conversation at the provider that its last request continued."""
    given: Given | None = None
    """The memory that went with its last request."""
    late: Given | None = None
    """The same where the store did not keep up and may hold what was never sent."""
    changed: str | None = None
    """The call with which its context block became another one, until the provider accepts a later call."""
    refresh: bool = False
    """Its last request did not fit. Lost with the process, and set again by the next request that does not fit."""


class RecentLanes:
    """The lanes that were used most recently. Safe for threads."""

    def __init__(self, most: int = MOST_LANES) -> None:
        self._lanes: LRU[tuple[str, str], RecentLane] = LRU(most)
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


class Standing(Struct, frozen=True):
    """Of what a lane was told, what stands in a request: by the number of the block it stands in front of. `before` is
    what stands at the provider, before the request."""

    told: dict[int, tuple[Told, ...]]
    before: tuple[Told, ...] = ()

    @property
    def all(self) -> list[Told]:
        return [*self.before, *(each for place in sorted(self.told) for each in self.told[place])]

    @property
    def count(self) -> int:
        return len(self.all)

    @property
    def is_full(self) -> bool:
        """Whether nothing more can be told."""
        return self.count >= MOST

    def hashes(self, stable: Stable) -> dict[str, str]:
        """What the conversation knows of each entry, as it was last told."""
        known = dict(stable.entries)
        for each in self.all:
            known.update(each.entries)
        return known

    def lost(self, given: Given) -> dict[str, str]:
        """What was told and stands nowhere any more."""
        known, here = self.hashes(given.stable), {id(each) for each in self.all}
        gone: dict[str, str] = {}
        for each in given.told:
            if id(each) not in here:
                gone.update(each.entries)
        return {entry: told for entry, told in gone.items() if entry not in known and told}


def standing(given: Given, blocks: Sequence[Block], after: str = "", *, forks: bool = False) -> Standing:
    """Where in these blocks of a client's request, which goes on `after` something, something was told before. Where
    several may go on after the same (it `forks`), what another of them was told, and all since, stands elsewhere."""
    wanted: dict[tuple[bytes, int], list[Told]] = {}
    for told in given.told:
        if not after or told.after == after:
            wanted.setdefault((told.block, told.occurrence), []).append(told)
    found: dict[int, tuple[Told, ...]] = {}
    if wanted:
        digests, seen = {told.block for told in given.told}, dict[bytes, int]()
        for index, block in enumerate(blocks):
            if block.digest in digests:
                number = seen[block.digest] = seen.get(block.digest, 0) + 1
                if (block.digest, number) in wanted:
                    found[index] = tuple(wanted[block.digest, number])
    if not after:
        return Standing(found)
    here = {id(each) for several in found.values() for each in several}
    others = [told for told in given.told if id(told) not in here]
    return Standing(found, tuple(takewhile(lambda told: not forks or told.after != after, others)))


def with_delta(
    given: Given, delta: Delta, blocks: Sequence[Block], index: int, here: Standing, after: str = ""
) -> Given:
    """The same with a delta in front of a block."""
    digest = blocks[index].digest
    number = sum(1 for block in blocks[: index + 1] if block.digest == digest)
    new = Told(block=digest, occurrence=number, after=after, text=delta.text, entries=delta.entries)
    stands = {id(each) for each in here.all}
    gone = [id(each) for each in given.told if id(each) not in stands][: max(0, len(given.told) - MOST + 1)]
    return replace(given, told=(*(each for each in given.told if id(each) not in gone), new))


def encode(given: Given) -> bytes:
    return msgspec.msgpack.encode(given)


def decode(data: bytes) -> Given | None:
    """What was kept; None where it cannot be read, which is as if the lane had been given nothing."""
    try:
        given = msgspec.msgpack.decode(data, type=Given)
    except msgspec.DecodeError as error:
        logger.warning("a lane goes on without its memory, which cannot be read: %s", error)
        return None
    return given if given.version == VERSION else None
