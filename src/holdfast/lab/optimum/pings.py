"""Keep-alive pings between two calls: which entries to keep, and the cheapest way to do it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, product
from math import ceil

from msgspec.structs import replace

from holdfast.caches import Entry

from ..timed_prompts import Ping, WholePrices
from .frontier import Entries, SearchState, begun
from .places import Tree


class KeepAlive:
    def __init__(self, tree: Tree, prices: WholePrices) -> None:
        self._tree = tree
        self._prices = prices

    def until(
        self, state: SearchState, end: float, number: int, limit: Callable[[Entries], int]
    ) -> Iterator[SearchState]:
        """The states that pings before call `number`, which starts at `end`, can lead to.

        They cost no more than the limit for the entries that are alive then.
        """
        yield state
        entries = (*state.live, *state.pending)
        dying = [e for e in entries if e.expires < end and self._tree.next_use(e, number - 1) is not None]
        lasting = tuple(e for e in entries if e.expires >= end)
        for size in range(1, len(dying) + 1):
            for kept in combinations(dying, size):
                most = limit((*lasting, *kept))
                if state.cost + max(self.least(entry, end) for entry in kept) <= most:
                    yield from self._keep({entry.key for entry in kept}, state, end, most)

    def _keep(self, keys: set[bytes], state: SearchState, end: float, limit: int) -> Iterator[SearchState]:
        """Ping so that all of these are alive at the end: whenever one is due, it or a longer one is read."""
        courses: dict[tuple[Entries, Entries], tuple[int, tuple[Ping, ...]]] = {
            (state.live, state.pending): (state.cost, ())
        }
        while courses:
            ahead: dict[tuple[Entries, Entries], tuple[int, tuple[Ping, ...]]] = {}
            for (live, pending), (cost, pings) in courses.items():
                due = min(entry.expires for entry in (*live, *pending) if entry.key in keys)
                if due >= end:
                    yield SearchState(cost, live, pending, state.step, pings)
                    continue
                for entries, chosen in self._pinged(keys, *begun(live, pending, due), due):
                    dearer = cost + sum(self._price(entry) for entry in chosen)
                    known = ahead.get(entries)
                    if known is not None and known[0] <= dearer:
                        continue
                    left = max(self.least(entry, end) for each in entries for entry in each if entry.key in keys)
                    if dearer + left <= limit:
                        told = tuple(Ping(due, *self._tree.home[entry.key], entry.tokens) for entry in chosen)
                        ahead[entries] = (dearer, pings + told)
            courses = ahead

    def least(self, entry: Entry, end: float) -> int:
        """What it costs at least to keep an entry until then."""
        return max(0, ceil((end - entry.expires) / entry.seconds)) * self._price(entry)

    def _price(self, entry: Entry) -> int:
        return entry.tokens * self._prices.read * self._prices.factor(entry.tokens)

    def _pinged(
        self, keys: set[bytes], live: Entries, pending: Entries, due: float
    ) -> Iterator[tuple[tuple[Entries, Entries], Entries]]:
        """Each way to save what is due now: every such entry is read, or a longer one that is to be kept too."""
        wanted = [entry for entry in live if entry.key in keys]
        dying = [entry for entry in wanted if entry.expires == due]
        ends = [
            one
            for one in dying
            if not any(one is not other and self._tree.extends(other.key, one.key) for other in dying)
        ]
        choices = [[entry for entry in wanted if self._tree.extends(entry.key, one.key)] for one in ends]
        for chosen in dict.fromkeys(tuple(sorted(set(each), key=lambda e: e.key)) for each in product(*choices)):
            yield (tuple(self._refresh(entry, chosen, due) for entry in live), pending), chosen

    def _refresh(self, entry: Entry, chosen: Entries, now: float) -> Entry:
        """A10: a read keeps every live entry on its prefix for the lifetime it was written with."""
        if any(self._tree.extends(each.key, entry.key) for each in chosen):
            return replace(entry, expires=max(entry.expires, now + entry.seconds))
        return entry
