"""The search states of the optimum, and which of them can be forgotten.

A state is what a course of decisions has led to: its cost so far and the entries it holds. The rules for forgetting
keep the search exact; each says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import Entry, Mark
from holdfast.errors import HoldfastError

from ..timed_prompts import Ping
from .places import Tree
from .worth import Worth

Entries = tuple[Entry, ...]

_COMPARED = 1 / 500  # of a step, for two states that are compared


class PlanStep(Struct, frozen=True, gc=False):
    """The markers of a call, the pings that came before it, and the step before that."""

    before: PlanStep | None
    marks: tuple[Mark, ...] = ()
    pings: tuple[Ping, ...] = ()


class SearchState(Struct, frozen=True, gc=False):
    """`live` can be read now and is sorted by key; `pending` can be read from its `readable` on."""

    cost: int
    live: Entries = ()
    pending: Entries = ()
    step: PlanStep | None = None
    pings: tuple[Ping, ...] = ()
    """Since the last call."""


def begun(live: Entries, pending: Entries, now: float) -> tuple[Entries, Entries]:
    """The entries once the answers that begin by now have made theirs readable (A11)."""
    by_key = {entry.key: entry for entry in live}
    for entry in sorted((e for e in pending if e.readable <= now), key=lambda e: e.readable):
        known = by_key.get(entry.key)
        if known is None or known.expires < entry.expires:
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

    def __init__(self, tree: Tree, patience: StepBudget, *, pings: bool) -> None:
        self._tree = tree
        self._patience = patience
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
        kept: list[SearchState] = []
        held: list[int] = []
        for state in states:  # cheapest first
            self._patience.take(len(held) * _COMPARED)
            demand = worth.demand((*state.live, *state.pending))
            if not any(demand.met_by(better) for better in held):
                kept.append(state)
                held.append(demand.held)
        return kept

    def _read_later(self, entry: Entry, after: int) -> bool:
        use = self._tree.next_use(entry, after)
        return use is not None and entry.readable <= entry.expires and (self._pings or use <= entry.expires)


def _keep(
    best: dict[tuple[Entries, Entries], SearchState], state: SearchState, live: Entries, pending: Entries
) -> None:
    """The cheapest state with these entries."""
    known = best.get((live, pending))
    if known is None or state.cost < known.cost:
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
