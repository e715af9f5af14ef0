"""What a lane of the gateway was given of memory: the exact texts, and where they stand. Pure values.

A text is told in front of a block of the client's, which is known by its digest and by how many of the same came before
it. What stands in a request is told again in the same place, byte for byte; what does not is not.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches.values import Block

from .values import Context, Delta, Known, Stable

VERSION = 1
MOST = 400
"""Deltas that are kept of a lane; of more than these, the oldest of those that stand in no request any more go."""

logger = logging.getLogger(__name__)


class Told(Struct, frozen=True, kw_only=True):
    """A delta, and the block in front of which it stands."""

    block: bytes
    occurrence: int
    text: str
    entries: Known = ()
    why: str = ""


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


class Standing(Struct, frozen=True):
    """Of what a lane was told, what stands in a request: by the number of the block it stands in front of."""

    told: dict[int, tuple[Told, ...]]

    @property
    def count(self) -> int:
        return sum(map(len, self.told.values()))

    def hashes(self, stable: Stable) -> dict[str, str]:
        """What the conversation knows of each entry, as it was last told."""
        known = dict(stable.entries)
        for place in sorted(self.told):
            for each in self.told[place]:
                known.update(each.entries)
        return known

    def lost(self, given: Given) -> dict[str, str]:
        """What was told and stands nowhere any more."""
        known, here = self.hashes(given.stable), {id(each) for told in self.told.values() for each in told}
        gone: dict[str, str] = {}
        for each in given.told:
            if id(each) not in here:
                gone.update(each.entries)
        return {entry: told for entry, told in gone.items() if entry not in known and told}


def standing(given: Given, blocks: Sequence[Block]) -> Standing:
    """Where in these blocks of a client's request something was told before."""
    wanted: dict[tuple[bytes, int], list[Told]] = {}
    for told in given.told:
        wanted.setdefault((told.block, told.occurrence), []).append(told)
    found: dict[int, tuple[Told, ...]] = {}
    if wanted:
        digests, seen = {told.block for told in given.told}, dict[bytes, int]()
        for index, block in enumerate(blocks):
            if block.digest in digests:
                number = seen[block.digest] = seen.get(block.digest, 0) + 1
                if (block.digest, number) in wanted:
                    found[index] = tuple(wanted[block.digest, number])
    return Standing(found)


def with_delta(given: Given, delta: Delta, blocks: Sequence[Block], index: int, here: Standing) -> Given:
    """The same with a delta in front of a block."""
    digest = blocks[index].digest
    number = sum(1 for block in blocks[: index + 1] if block.digest == digest)
    new = Told(block=digest, occurrence=number, text=delta.text, entries=delta.entries, why=delta.why)
    told = given.told
    if len(told) >= MOST:
        stands = {id(each) for several in here.told.values() for each in several}
        gone = [each for each in told if id(each) not in stands][: len(told) - MOST + 1]
        told = tuple(each for each in told if all(each is not other for other in gone))
    return replace(given, told=(*told, new))


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
