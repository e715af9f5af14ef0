"""The least a lane's input can cost under Anthropic's rules, for one who knows the future.

`optimal` finds the markers and lifetimes of every call, and with `pings` also the keep-alives between them, whose sum
is least. It is a dynamic programme over the entries that can be alive: `places` says where entries may end, `frontier`
and `worth` which states are kept, `bound` which cannot end well; each transition is the rule itself
(`caches.anthropic.decide`). Where many courses stay open, first runs along a few of them give a plan, and its cost
bounds the run along all of them.

Exact under these conditions, which the tests probe by exhaustive search:

- a call that reads takes its longest live entry, or, where entries can be raised (`ttl_raise`), one below it with all
  its markers before the longer one. Missing an entry on purpose by marking more than the lookback beyond it is left
  out: buying the longer lifetime at the first write, or raising, costs less than writing the prefix again;
- a marker is left to read with. Where a call wants a new entry for each of its markers, the sets that reach the entry
  to be read are tried, but no places between two points where later calls leave (with four markers it takes a call that
  four others leave at four places);
- `upgrade_5m_by_1h` is off and a read refreshes its whole prefix, as the facts have it by default;
- a ping reads an entry, and writes none, at the moment it, or a shorter entry on its prefix, would expire. An earlier
  one only gives away time. With a price cliff an entry is not made shorter to be pinged below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from heapq import nsmallest
from itertools import combinations

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import Entries, Entry, Mark, Prompt, decide
from holdfast.errors import HoldfastError
from holdfast.facts import ModelFacts

from ..marker_plans import MarkerPlan, PlannedPing, TimedCall, prices, rolling, spent
from .frontier import Frontier, KeepAlive, PlanStep, SearchState, StepBudget, arrived
from .places import Bound, Tree

MOST_STATES = 50_000
"""Beyond so many open courses the search stops: it happens only where many conversations run at the same time."""

_EASY = 64  # open courses up to which nothing but the search itself is needed
_BEAMS = (4, 32)  # courses in first runs, for a bound
_PER_STATE = 500  # steps for which one more open course is followed: comparing them takes time too
_FAR = 1 << 30  # a lookback without end, for prompts reduced to their places


Lifetimes = tuple[str, ...]


class Optimum(Struct, frozen=True):
    """The least cost in plain input tokens, the markers of each call, and the pings in time order."""

    cost: Decimal
    plan: MarkerPlan
    pings: tuple[PlannedPing, ...] = ()


def optimal(
    calls: Sequence[TimedCall], model: ModelFacts, *, pings: bool = False, max_steps: int | None = None
) -> Optimum:
    """Return the cheapest plan for these calls, which are in the order of their start. With `max_steps` at most that
    many steps are tried before it raises, because prompts that diverge everywhere can take for ever."""
    _check(calls, model)
    if not calls:
        return Optimum(Decimal(0), ())
    best = _Search(calls, model, pings=pings, max_steps=max_steps).run()
    plan, pings_made = _decisions(best.step)
    return Optimum(prices(model).tokens(best.cost), plan, pings_made)


def _check(calls: Sequence[TimedCall], model: ModelFacts) -> None:
    knobs = model.knobs
    if knobs.upgrade_5m_by_1h or knobs.refresh_whole_prefix is False:
        raise HoldfastError(
            f"the optimum for {model.ref} is not defined: set upgrade_5m_by_1h = false and refresh_whole_prefix = true."
        )
    late = next((i for i in range(1, len(calls)) if calls[i].at < calls[i - 1].at), None)
    if late is not None:
        raise HoldfastError(f"call {late + 1} starts before call {late}; give the calls in the order of their start.")


def _decisions(step: PlanStep | None) -> tuple[MarkerPlan, tuple[PlannedPing, ...]]:
    """The decisions from the first to the last: markers per call, and all pings."""
    plan: list[tuple[Mark, ...]] = []
    pings: list[PlannedPing] = []
    while step is not None:
        plan.append(step.marks)
        pings += reversed(step.pings)
        step = step.before
    return tuple(reversed(plan)), tuple(reversed(pings))


class _Search:
    def __init__(
        self, calls: Sequence[TimedCall], model: ModelFacts, *, pings: bool, max_steps: int | None = None
    ) -> None:
        self._budget = StepBudget(float("inf") if max_steps is None else max_steps, len(calls))
        self._most = MOST_STATES if max_steps is None else min(MOST_STATES, max_steps // _PER_STATE)
        self._calls = calls
        self._model = model
        self._far = replace(model, lookback=_FAR)
        self._prices = prices(model)
        self._tree = Tree(calls, self._prices, raises=model.knobs.ttl_raise == "yes")
        self._frontier = Frontier(self._tree, self._budget, pings=pings)
        self._bound = Bound(calls, self._prices, float(model.ttl_seconds("1h") or 0), pings=pings)
        self._here = [{call.prompt.keys[i]: i for i in self._tree.nodes[n]} for n, call in enumerate(calls)]
        self._known = self._enough(pings)
        self._keepalive = KeepAlive(self._tree, self._prices) if pings else None

    def run(self) -> SearchState:
        """Return the optimum. If many courses stay open, runs along a few of them give an upper bound first."""
        if self._follow(min(_EASY, self._most)) is not None:
            for width in _BEAMS:
                self._follow(width, cut=True)
            stopped = self._follow(self._most)
            if stopped is not None:
                raise HoldfastError(
                    f"the optimum of {len(self._calls)} calls has more than {self._most} open courses at call "
                    f"{stopped + 1}; give fewer conversations at a time."
                )
        return self._known

    def _follow(self, width: int, *, cut: bool = False) -> int | None:
        """Follow the courses from the first call to the last, and record the best of them. If more than `width` are
        open, the rest is `cut` off, or it stops and returns the number of that call."""
        states = [SearchState(0)]
        for number in range(len(self._calls)):
            states = self._served(self._ready(states, number), number)
            if len(states) > width:
                if not cut:
                    return number
                states = nsmallest(width, states, key=lambda state: self._least_of(state, number + 1))
        self._known = min((self._known, *states), key=lambda state: state.cost)
        return None

    def _ready(self, states: list[SearchState], number: int) -> list[SearchState]:
        """The states in which a call can begin, after what pings may have kept."""
        at = self._calls[number].at
        if self._keepalive is not None and number:
            states = [
                later for state in states for later in self._keepalive.until(state, at, number, self._limit(number))
            ]
            states = self._frontier.prune(states, number - 1, at)
        ready = (self._warm_state(arrived(state, at), number) for state in states)
        return [state for state in ready if self._least_of(state, number, begins=True) <= self._known.cost]

    def _warm_state(self, state: SearchState, number: int) -> SearchState:
        """The state with the entry that a call finds whatever was done before (`TimedCall.warm`)."""
        warm = self._calls[number].warm
        if warm is None or any(entry.key == warm.key and entry.expires >= warm.expires for entry in state.live):
            return state
        others = [entry for entry in state.live if entry.key != warm.key]
        given = replace(warm, readable=0.0)  # since when matters no more
        return replace(state, live=tuple(sorted((*others, given), key=lambda entry: entry.key)))

    def _limit(self, number: int) -> Callable[[tuple[Entry, ...]], int]:
        """What may have been spent when a call begins, by the entries that are alive."""
        here, most = self._here[number], self._known.cost - self._bound.least[number]
        warm_block = self._warm_block(number)
        return lambda alive: most - self._bound.beyond(number, max((warm_block, *(here.get(e.key, -1) for e in alive))))

    def _warm_block(self, number: int) -> int:
        """The block up to which a call finds everything whatever was done before, -1 for none."""
        warm = self._calls[number].warm
        return -1 if warm is None else self._here[number][warm.key]

    def _served(self, states: list[SearchState], number: int) -> list[SearchState]:
        """The states that a call leads to, but for those that are certainly no better than what is known."""
        places = self._reduced(number, states)
        after = [
            new
            for state in states
            for new in self._options(state, number, places)
            if self._least_of(new, number + 1) <= self._known.cost
        ]
        # Without pings nothing can happen before the next call; with them anything can from now on.
        quiet = self._keepalive is None and number + 1 < len(self._calls)
        return self._frontier.prune(after, number, self._calls[number + 1 if quiet else number].at)

    def _least_of(self, state: SearchState, number: int, *, begins: bool = False) -> int:
        """What a course costs at least in the end. When a call `begins` no ping can come before it."""
        least = state.cost + self._bound.least[number]
        if number == len(self._calls):
            return least
        at, here = self._calls[number].at, self._here[number]
        ways = [self._bound.beyond(number, self._warm_block(number))]
        for entry in (*state.live, *state.pending):
            if entry.key in here and (entry.expires >= at or (self._keepalive is not None and not begins)):
                ping_cost = self._keepalive.least(entry, at) if self._keepalive is not None else 0
                ways.append(self._bound.beyond(number, here[entry.key]) + ping_cost)
        return least + min(ways)

    def _enough(self, pings: bool) -> SearchState:
        """What is certainly enough, and how: dearer courses need not be followed."""
        if pings:
            return _Search(self._calls, self._model, pings=False).run()
        plans = [((),) * len(self._calls), rolling(self._calls, "5m"), rolling(self._calls, "1h")]
        cost, plan = min(((spent(self._calls, plan, self._model), plan) for plan in plans), key=lambda pair: pair[0])
        step: PlanStep | None = None
        for marks in plan:
            step = PlanStep(step, marks)
        return SearchState(cost, step=step)

    def _reduced(self, number: int, states: Sequence[SearchState]) -> _Places:
        """The call's prompt with only the blocks at which some state has an entry or a marker may stand."""
        prompt = self._calls[number].prompt
        keys = {entry.key for state in states for entry in state.live}
        held = [i for i in self._tree.nodes[number] if prompt.keys[i] in keys]
        free, stubs = set(self._tree.places[number]), set(self._tree.stubs[number])
        raised = {i: beyond for i in held if (beyond := self._raising(number, i)) is not None}
        places_used = {*held, *free, *stubs, *raised.values()}
        blocks = sorted(places_used | {len(prompt.blocks) - 1} if prompt.blocks else places_used)
        index = {i: n for n, i in enumerate(blocks)}
        return _Places(
            replace(
                prompt,
                blocks=tuple(prompt.blocks[i] for i in blocks),
                keys=tuple(prompt.keys[i] for i in blocks),
                ends=tuple(prompt.ends[i] for i in blocks),
                marks=(),
            ),
            tuple(blocks),
            {index[i]: ("5m", "1h") if i in free else ("5m",) for i in sorted(free | stubs)},
            {index[i]: index[beyond] for i, beyond in raised.items()},
        )

    def _raising(self, number: int, block: int) -> int | None:
        """The block at which a call can raise an entry, if later ones contain it."""
        beyond = self._tree.after(number, block) if self._tree.raises else None
        if beyond is None or self._tree.kind(self._calls[number].prompt.keys[beyond], number) is None:
            return None
        return beyond

    def _options(self, state: SearchState, number: int, places: _Places) -> Iterator[SearchState]:
        """Every state that one call can lead to."""
        call = self._calls[number]
        live = Entries()
        live.put(state.live, call.at)
        hits = {n: entry.ttl for n, key in enumerate(places.prompt.keys) if (entry := live.find(key, call.at))}
        for marks in _markings(places, hits, self._model.max_markers, low=self._tree.raises):
            self._budget.take()
            here = tuple(Mark(places.blocks[mark.block], mark.ttl) for mark in marks)
            outcome = decide(replace(places.prompt, marks=marks), live, call.at, self._far, explain=False)
            if len(marks) == self._model.max_markers and marks and not self._reads(number, here, live, outcome.read):
                continue
            changed = {entry.key: entry for entry in outcome.refreshed}
            yield SearchState(
                state.cost + self._prices.of(outcome),
                tuple(changed.get(entry.key, entry) for entry in state.live),
                (*state.pending, *(replace(entry, readable=call.first_token_at) for entry in outcome.new)),
                PlanStep(state.step, here, state.pings),
            )

    def _reads(self, number: int, marks: tuple[Mark, ...], live: Entries, read: int) -> bool:
        """Return whether the real lookback reaches as far as the reduced one, with no marker left to read."""
        call = self._calls[number]
        return decide(replace(call.prompt, marks=marks), live, call.at, self._model, explain=False).read == read


class _Places(Struct, frozen=True):
    """A prompt reduced to its places: which block each is, and for which lifetimes a new entry may be worth its price.

    `raised` has for the places of entries those where they can be raised.
    """

    prompt: Prompt
    blocks: tuple[int, ...]
    free: dict[int, Lifetimes]
    raised: dict[int, int]

    def between(self, base: int, above: int | None, hits: Mapping[int, str]) -> list[tuple[int, Lifetimes]]:
        """Where a call that reads the entry at `base` may write, if it has to stay before `above`."""
        free = dict(self.free)
        if hits.get(base) == "5m" and base in self.raised:
            free[self.raised[base]] = (*free.get(self.raised[base], ()), "1h")
        return sorted((n, ttls) for n, ttls in free.items() if n > base and (above is None or n < above))


def _markings(places: _Places, hits: Mapping[int, str], most: int, *, low: bool) -> Iterator[tuple[Mark, ...]]:
    """The sets of markers that differ in what they read or write.

    A marker on the entry to be read costs nothing and makes the lookback reach it; only where all markers are needed
    for new entries is it left out. To read less than the longest live entry all markers stay before the longer one: it
    pays only where the shorter one can be raised (`low`).
    """
    if not hits:
        yield ()
    ways = list(zip((-1, *hits), (*hits, None), strict=True))
    for base, above in ways if low else ways[-1:]:
        beyond = places.between(base, above, hits)
        for size in range(0 if above is None and base >= 0 else 1, min(most, len(beyond)) + 1):
            spare = base >= 0 and size < most
            for chosen in combinations(beyond, size):
                for long in range(size + 1):
                    ttls = ["1h"] * long + ["5m"] * (size - long)
                    if all(ttl in allowed for ttl, (_, allowed) in zip(ttls, chosen, strict=True)):
                        new = tuple(Mark(n, ttl) for ttl, (n, _) in zip(ttls, chosen, strict=True))
                        yield (Mark(base, "1h" if long else "5m"), *new) if spare else new
