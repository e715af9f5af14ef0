"""The search states of the optimum, and which of them can be dropped.

A state is the result of a course of decisions: its cost so far and its entries. The rules for dropping keep the search
exact; each has its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, product
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import Entry, Mark
from holdfast.errors import HoldfastError

from ..marker_plans import PlannedPing, WholePrices
from .places import Kind, Tree


class Demand(Struct, frozen=True):
    """What another state must have to be as good as one that has `held`."""

    held: int
    covers: tuple[int, ...]
    """For each of its entries those of which one is needed."""
    bars: int
    """Those of which none may be alive."""

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
        bars = same_keys = 0
        for entry in entries:
            bars |= self._barrers[entry]
            same_keys |= self._same_key[entry.key]
        return Demand(self._all(entries), tuple(self._coverers[entry] for entry in entries), bars & ~same_keys)

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


Entries = tuple[Entry, ...]

_COMPARED = 1 / 500  # of a step, for two states that are compared


class PlanStep(Struct, frozen=True, gc=False):
    """The markers of a call, the pings that came before it, and the step before that."""

    before: PlanStep | None
    marks: tuple[Mark, ...] = ()
    pings: tuple[PlannedPing, ...] = ()


class SearchState(Struct, frozen=True, gc=False):
    """`live` can be read now and is sorted by key; `pending` can be read from its `readable` on."""

    cost: int
    live: Entries = ()
    pending: Entries = ()
    step: PlanStep | None = None
    pings: tuple[PlannedPing, ...] = ()
    """Since the last call."""


def begun(live: Entries, pending: Entries, now: float) -> tuple[Entries, Entries]:
    """The entries once the answers that begin by now have made theirs readable (A11)."""
    by_key = {entry.key: entry for entry in live}
    for entry in sorted((e for e in pending if e.readable <= now), key=lambda e: e.readable):
        earlier = by_key.get(entry.key)
        if earlier is None or earlier.expires < entry.expires:
            by_key[entry.key] = replace(entry, readable=0.0)  # since when matters no more
    return (
        tuple(sorted((e for e in by_key.values() if e.expires >= now), key=lambda e: e.key)),
        tuple(e for e in pending if e.readable > now),
    )


def arrived(state: SearchState, now: float) -> SearchState:
    """The state when a call starts."""
    live, pending = begun(state.live, state.pending, now)
    return replace(state, live=live, pending=pending)


class StepBudget:
    """How many steps a search of so many calls may still take."""

    def __init__(self, steps: float, calls: int) -> None:
        self._left, self._calls = steps, calls

    def take(self, steps: float = 1) -> None:
        self._left -= steps
        if self._left < 0:
            raise HoldfastError(
                f"the optimum of {self._calls} calls takes too many steps; give fewer or calmer conversations."
            )


class Frontier:
    """The states worth going on with after a call."""

    def __init__(self, tree: Tree, budget: StepBudget, *, pings: bool) -> None:
        self._tree = tree
        self._budget = budget
        self._pings = pings

    def prune(self, states: Iterable[SearchState], after: int, now: float) -> list[SearchState]:
        """What is left of the states when `after` has been served and nothing before `now` can come."""
        if not self._pings:  # nothing can happen before the next call
            states = [arrived(state, now) for state in states]
        useful: dict[Entry, bool] = {}
        cheapest: dict[tuple[Entries, Entries], SearchState] = {}
        for state in states:
            for entry in (*state.live, *state.pending):
                if entry not in useful:
                    useful[entry] = self._read_later(entry, after)
            live = tuple(entry for entry in state.live if useful[entry])
            pending = tuple(entry for entry in state.pending if useful[entry])
            _keep(cheapest, state, live, pending)
        worth = Worth(self._tree, [entry for entry, read in useful.items() if read], after, now)
        best: dict[tuple[Entries, Entries], SearchState] = {}
        for (live, pending), state in cheapest.items():
            needed = worth.needed((*live, *pending))
            _keep(best, state, tuple(e for e in live if e in needed), tuple(e for e in pending if e in needed))
        left = sorted(best.values(), key=lambda state: (state.cost, -len(state.live) - len(state.pending)))
        return self._without_dominated(_on_the_hull(left, worth), worth)

    def _without_dominated(self, states: Sequence[SearchState], worth: Worth) -> list[SearchState]:
        """Drop a state if one that costs no more has an entry at least as good for each of its entries."""
        best: list[SearchState] = []
        held: list[int] = []
        for state in states:  # cheapest first
            self._budget.take(len(held) * _COMPARED)
            demand = worth.demand((*state.live, *state.pending))
            if not any(demand.met_by(better) for better in held):
                best.append(state)
                held.append(demand.held)
        return best

    def _read_later(self, entry: Entry, after: int) -> bool:
        use = self._tree.next_use(entry, after)
        return use is not None and entry.readable <= entry.expires and (self._pings or use <= entry.expires)


def _keep(
    best: dict[tuple[Entries, Entries], SearchState], state: SearchState, live: Entries, pending: Entries
) -> None:
    """The cheapest state with these entries."""
    cheapest = best.get((live, pending))
    if cheapest is None or state.cost < cheapest.cost:
        best[live, pending] = replace(state, live=live, pending=pending)


def _on_the_hull(states: Sequence[SearchState], worth: Worth) -> list[SearchState]:
    """Drop a state between two others that differ from it in the length of one entry only.

    What is still to be paid is, as a function of that length, the least of straight lines (one for each course of
    decisions), hence concave: if the cost so far is no lower than between its neighbours, one of them is as good.
    No entry counts as length zero. An entry that may be raised is no such case: where it ends decides what that costs.
    """
    whole = {(state.live, state.pending): state for state in states}
    dropped: set[int] = set()
    groups: dict[object, list[tuple[int, int, SearchState]]] = {}
    for state in states:
        for pending, entries in enumerate((state.live, state.pending)):
            for i, entry in enumerate(entries):
                if not worth.linear(entry):
                    continue
                rest = (*entries[:i], *entries[i + 1 :])
                shape = (worth.kind(entry.key), entry.seconds, entry.expires, entry.readable)
                others = (state.live, rest) if pending else (rest, state.pending)
                group = groups.setdefault((pending, shape, others), [])
                if not group and (bare := whole.get(others)) is not None:
                    group.append((0, bare.cost, bare))
                group.append((entry.tokens, state.cost, state))
    numbers = {id(state): number for number, state in enumerate(states)}
    for group in groups.values():
        if len(group) > 2:
            dropped.update(numbers[id(state)] for state in _above_hull(group))
    return [state for number, state in enumerate(states) if number not in dropped]


def _above_hull(points: list[tuple[int, int, SearchState]]) -> list[SearchState]:
    """The points that do not lie strictly below the line between points on either side of them."""
    points.sort(key=lambda point: (point[0], point[1]))
    hull: list[tuple[int, int, SearchState]] = []
    above: list[SearchState] = []
    for point in points:
        while len(hull) > 1 and _over(hull[-2], hull[-1], point):
            above.append(hull.pop()[2])
        hull.append(point)
    return above


def _over(
    left: tuple[int, int, SearchState], middle: tuple[int, int, SearchState], right: tuple[int, int, SearchState]
) -> bool:
    run, rise = right[0] - left[0], right[1] - left[1]
    return run > 0 and (middle[1] - left[1]) * run >= rise * (middle[0] - left[0])


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
            for saved in combinations(dying, size):
                most = limit((*lasting, *saved))
                if state.cost + max(self.least(entry, end) for entry in saved) <= most:
                    yield from self._keep({entry.key for entry in saved}, state, end, most)

    def _keep(self, keys: set[bytes], state: SearchState, end: float, limit: int) -> Iterator[SearchState]:
        """Ping so that all of these are alive at the end: whenever one is due, it or a longer one is read."""
        courses: dict[tuple[Entries, Entries], tuple[int, tuple[PlannedPing, ...]]] = {
            (state.live, state.pending): (state.cost, ())
        }
        while courses:
            ahead: dict[tuple[Entries, Entries], tuple[int, tuple[PlannedPing, ...]]] = {}
            for (live, pending), (cost, pings) in courses.items():
                due = min(entry.expires for entry in (*live, *pending) if entry.key in keys)
                if due >= end:
                    yield SearchState(cost, live, pending, state.step, pings)
                    continue
                for entries, chosen in self._pinged(keys, *begun(live, pending, due), due):
                    dearer = cost + sum(self._price(entry) for entry in chosen)
                    cheapest = ahead.get(entries)
                    if cheapest is not None and cheapest[0] <= dearer:
                        continue
                    left = max(self.least(entry, end) for each in entries for entry in each if entry.key in keys)
                    if dearer + left <= limit:
                        due_pings = tuple(
                            PlannedPing(due, *self._tree.home[entry.key], entry.tokens) for entry in chosen
                        )
                        ahead[entries] = (dearer, pings + due_pings)
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
        to_keep = [entry for entry in live if entry.key in keys]
        dying = [entry for entry in to_keep if entry.expires == due]
        ends = [
            one
            for one in dying
            if not any(one is not other and self._tree.extends(other.key, one.key) for other in dying)
        ]
        choices = [[entry for entry in to_keep if self._tree.extends(entry.key, one.key)] for one in ends]
        for chosen in dict.fromkeys(tuple(sorted(set(each), key=lambda e: e.key)) for each in product(*choices)):
            yield (tuple(self._refresh(entry, chosen, due) for entry in live), pending), chosen

    def _refresh(self, entry: Entry, chosen: Entries, now: float) -> Entry:
        """A10: a read keeps every live entry on its prefix for the lifetime it was written with."""
        if any(self._tree.extends(each.key, entry.key) for each in chosen):
            return replace(entry, expires=max(entry.expires, now + entry.seconds))
        return entry
