"""The search states of the optimum, and which of them can be forgotten.

A state is what a course of decisions has led to: its cost so far and the entries it holds. The rules for forgetting
keep the search exact; each says why.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches.values import Entry, Mark

from .calls import Call, Ping

Entries = tuple[Entry, ...]

Kind = tuple[int, int]
"""Which later calls contain a prefix: the next one, and how many. Two prefixes of one call that agree have the same."""


class Step(Struct, frozen=True, gc=False):
    """The markers of a call, the pings that came before it, and the step before that."""

    before: Step | None
    marks: tuple[Mark, ...] = ()
    pings: tuple[Ping, ...] = ()


class State(Struct, frozen=True, gc=False):
    """`live` can be read now and is sorted by key; `pending` can be read from its `readable` on."""

    cost: int
    live: Entries = ()
    pending: Entries = ()
    step: Step | None = None
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


def arrived(state: State, now: float) -> State:
    """The state when a call starts."""
    live, pending = begun(state.live, state.pending, now)
    return replace(state, live=live, pending=pending)


class Tree:
    """The prefixes at which an entry can be worth having, and the calls that contain each.

    All prefixes of a call that the same later calls contain are worth the same per token, and every cost is linear in
    their length: the best is the longest one that can carry a marker, or none. So a call has one place for each point
    where a later call leaves it.
    """

    def __init__(self, calls: Sequence[Call], floor: int) -> None:
        self.calls = calls
        self.places: list[tuple[int, ...]] = _places(calls, floor)
        nodes = {call.prompt.keys[i] for call, found in zip(calls, self.places, strict=True) for i in found}
        self.nodes: list[tuple[int, ...]] = []
        self.home: dict[bytes, tuple[int, int]] = {}
        self._readers: dict[bytes, list[int]] = {key: [] for key in nodes}
        for number, call in enumerate(calls):
            here = tuple(i for i, key in enumerate(call.prompt.keys) if key in nodes)
            self.nodes.append(here)
            for i in here:
                self._readers[call.prompt.keys[i]].append(number)
                self.home.setdefault(call.prompt.keys[i], (number, i))
        self._lines: dict[bytes, frozenset[bytes]] = {}

    def kind(self, key: bytes, after: int) -> Kind | None:
        """The calls after this one that contain the prefix; None if there are none."""
        readers = self._readers[key]
        first = bisect_right(readers, after)
        return None if first == len(readers) else (readers[first], len(readers) - first)

    def next_use(self, entry: Entry, after: int) -> float | None:
        """When a call after this one could first read the entry, if it lived so long."""
        readers = self._readers[entry.key]
        for number in readers[bisect_right(readers, after) :]:
            if self.calls[number].at >= entry.readable:
                return self.calls[number].at
        return None

    def extends(self, longer: bytes, shorter: bytes) -> bool:
        """Whether one place's prefix begins with the other's."""
        line = self._lines.get(longer)
        if line is None:
            call, end = self.home[longer]
            line = frozenset(self.calls[call].prompt.keys[i] for i in self.nodes[call] if i <= end)
            self._lines[longer] = line
        return shorter in line


def _places(calls: Sequence[Call], floor: int) -> list[tuple[int, ...]]:
    """For each call the blocks at whose end later calls leave it, moved back to where a marker may stand."""
    later: dict[bytes, int] = {}
    places: list[tuple[int, ...]] = []
    for call in reversed(calls):
        prompt = call.prompt
        found: set[int] = set()
        best = -1
        shared = [later.get(key, 0) for key in prompt.keys] + [0]
        for i, block in enumerate(prompt.blocks):
            if block.markable and prompt.ends[i] >= floor:
                best = i
            if shared[i] > shared[i + 1] and best >= 0:
                found.add(best)
        places.append(tuple(sorted(found)))
        for key in prompt.keys:
            later[key] = later.get(key, 0) + 1
    return places[::-1]


class Frontier:
    """The states worth going on with after a call."""

    def __init__(self, tree: Tree, *, pings: bool) -> None:
        self._tree = tree
        self._pings = pings

    def prune(self, states: Iterable[State], after: int, now: float) -> list[State]:
        """What is left of the states when `after` has been served and nothing before `now` can come."""
        kinds: dict[bytes, Kind | None] = {}

        def kind(key: bytes) -> Kind | None:
            if key not in kinds:
                kinds[key] = self._tree.kind(key, after)
            return kinds[key]

        best: dict[tuple[tuple[Entry, ...], tuple[Entry, ...]], State] = {}
        for state in states:
            if not self._pings:  # nothing can happen before the next call
                state = arrived(state, now)
            kept = self._useful(state, after, now, kind)
            known = best.get((kept.live, kept.pending))
            if known is None or kept.cost < known.cost:
                best[kept.live, kept.pending] = kept
        left = sorted(best.values(), key=lambda state: (state.cost, -len(state.live) - len(state.pending)))
        return _without_dominated(_on_the_hull(left, kind), kind, now)

    def _useful(self, state: State, after: int, now: float, kind: Callable[[bytes], Kind | None]) -> State:
        """The state without entries that nobody will read, or that another entry of it replaces."""
        entries = [entry for entry in (*state.live, *state.pending) if self._read_later(entry, after)]
        kept: list[Entry] = []
        for i, entry in enumerate(entries):
            others = (*entries[:i], *entries[i + 1 :])
            if not any(
                _covers(other, entry, kind, now) and not (_covers(entry, other, kind, now) and other not in kept)
                for other in others
            ):
                kept.append(entry)
        if len(kept) == len(state.live) + len(state.pending):
            return state
        left = set(kept)
        return replace(
            state,
            live=tuple(entry for entry in state.live if entry in left),
            pending=tuple(entry for entry in state.pending if entry in left),
        )

    def _read_later(self, entry: Entry, after: int) -> bool:
        use = self._tree.next_use(entry, after)
        return use is not None and entry.readable <= entry.expires and (self._pings or use <= entry.expires)


def _covers(one: Entry, other: Entry, kind: Callable[[bytes], Kind | None], now: float) -> bool:
    """Whether having the one is at least as good as having the other.

    The same calls contain both, and the one is at least as long, lives at least as long and is readable in time.
    """
    return (
        one.tokens >= other.tokens
        and one.expires >= other.expires
        and one.seconds >= other.seconds
        and one.readable <= max(other.readable, now)
        and kind(one.key) == kind(other.key)
    )


def _without_dominated(states: Sequence[State], kind: Callable[[bytes], Kind | None], now: float) -> list[State]:
    """Drop a state if one that costs no more has an entry at least as good for each of its entries."""
    kept: list[State] = []
    for state in states:  # cheapest first
        wanted = (*state.live, *state.pending)
        if not any(
            all(any(_covers(one, other, kind, now) for one in (*better.live, *better.pending)) for other in wanted)
            for better in kept
        ):
            kept.append(state)
    return kept


def _on_the_hull(states: Sequence[State], kind: Callable[[bytes], Kind | None]) -> list[State]:
    """Drop a state between two others that differ from it in the length of one entry only.

    What is still to be paid is, as a function of that length, the least of straight lines (one for each course of
    decisions), hence concave: if the cost so far is no lower than between its neighbours, one of them is as good.
    No entry counts as length zero.
    """
    whole = {(state.live, state.pending): state for state in states}
    dropped: set[int] = set()
    groups: dict[object, list[tuple[int, int, State]]] = {}
    for state in states:
        for pending, entries in enumerate((state.live, state.pending)):
            for i, entry in enumerate(entries):
                rest = (*entries[:i], *entries[i + 1 :])
                shape = (kind(entry.key), entry.seconds, entry.expires, entry.readable)
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


def _above_hull(points: list[tuple[int, int, State]]) -> list[State]:
    """The points that do not lie strictly below the line between points on either side of them."""
    points.sort(key=lambda point: (point[0], point[1]))
    hull: list[tuple[int, int, State]] = []
    above: list[State] = []
    for point in points:
        while len(hull) > 1 and _over(hull[-2], hull[-1], point):
            above.append(hull.pop()[2])
        hull.append(point)
    return above


def _over(left: tuple[int, int, State], middle: tuple[int, int, State], right: tuple[int, int, State]) -> bool:
    run, rise = right[0] - left[0], right[1] - left[1]
    return run > 0 and (middle[1] - left[1]) * run >= rise * (middle[0] - left[0])
