"""Which cache entries are as good as which others, once a call has been served.

Sets of entries are bits of whole numbers here: a search compares millions of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from holdfast.caches import Entry

from .places import Kind, Tree


class Demand(Struct, frozen=True):
    """What another state must have to be as good as one that has `held`."""

    held: int
    covers: tuple[int, ...]
    """For each of its entries those of which one is needed."""
    bars: int
    """Those of which none may be there."""

    def met_by(self, other: int) -> bool:
        return not other & self.bars and all(other & cover for cover in self.covers)


class Worth:
    """The comparison of all entries that some state has."""

    def __init__(self, tree: Tree, entries: Sequence[Entry], after: int, now: float) -> None:
        self._tree = tree
        self._after = after
        self._now = now
        self._kinds = {key: tree.kind(key, after) for key in {entry.key for entry in entries}}
        self._bits = {entry: 1 << n for n, entry in enumerate(entries)}
        self._coverers = {one: self._all(other for other in entries if self._covers(other, one)) for one in entries}
        self._barrers = {one: self._all(other for other in entries if self._bars(other, one)) for one in entries}
        self._same_key: dict[bytes, int] = {}
        for entry, bit in self._bits.items():
            self._same_key[entry.key] = self._same_key.get(entry.key, 0) | bit

    def kind(self, key: bytes) -> Kind | None:
        return self._kinds[key]

    def linear(self, entry: Entry) -> bool:
        """Whether only the length of an entry counts, not where it ends: it is never raised."""
        return not self._tree.raises or entry.ttl == "1h"

    def needed(self, entries: Sequence[Entry]) -> set[Entry]:
        """The entries that no other of them replaces."""
        left = held = self._all(entries)
        for entry in entries:  # of two that replace each other the later one stays
            bit = self._bits[entry]
            if left & self._coverers[entry] & ~bit:
                left &= ~bit
        return set(entries) if left == held else {entry for entry in entries if self._bits[entry] & left}

    def demand(self, entries: Sequence[Entry]) -> Demand:
        bars = known = 0
        for entry in entries:
            bars |= self._barrers[entry]
            known |= self._same_key[entry.key]
        return Demand(self._all(entries), tuple(self._coverers[entry] for entry in entries), bars & ~known)

    def _all(self, entries: Iterable[Entry]) -> int:
        bits = 0
        for entry in entries:
            bits |= self._bits[entry]
        return bits

    def _covers(self, one: Entry, other: Entry) -> bool:
        """Whether having the one is at least as good as having the other.

        The same calls contain both, and the one is at least as long, lives at least as long and is readable in time;
        and if it may have to be raised, that costs no more than the length makes good.
        """
        return (
            one.tokens >= other.tokens
            and one.expires >= other.expires
            and one.seconds >= other.seconds
            and one.readable <= max(other.readable, self._now)
            and self._kinds[one.key] == self._kinds[other.key]
            and self._raised_as_well(one, other)
        )

    def _bars(self, one: Entry, other: Entry) -> bool:
        """Whether the one, where only it is there, keeps a call from raising as cheaply as the other can be raised.

        A call that marks beyond a live entry reads it, and raises from where it ends.
        """
        return (
            not self.linear(other)
            and one.key != other.key
            and self._tree.extends(one.key, other.key)
            and not (self._kinds[one.key] == self._kinds[other.key] and self._raised_as_well(one, other))
        )

    def _raised_as_well(self, one: Entry, other: Entry) -> bool:
        if one.key == other.key or self.linear(one):
            return True
        step, short_step = (self._tree.step(entry.key, self._after) for entry in (one, other))
        return short_step is not None and self._tree.cheaper(one.tokens, step, other.tokens, short_step)
