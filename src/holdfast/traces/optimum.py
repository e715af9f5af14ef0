"""The least a lane's input can cost under Anthropic's rules, for one who knows the future.

`optimal` finds the markers and lifetimes of every call, and with `pings` also the keep-alives between them, whose sum
is least. It is a dynamic programme over the entries that can be alive (`frontier` says which states are kept), and each
transition is the rule itself (`caches.anthropic.decide`).

Exact under these conditions, which the tests probe by exhaustive search:

- a call that reads takes its longest live entry, or one below it with all its markers before the longer one. Missing an
  entry on purpose by marking more than the lookback beyond it is left out: buying the longer lifetime at the first
  write costs less than writing the prefix again;
- a marker is left to read with. Where a call wants a new entry for each of its markers, the sets that reach the entry
  to be read are tried, but no places between two points where later calls leave (with four markers it takes a call that
  four others leave at four places);
- `ttl_raise` and `upgrade_5m_by_1h` are off and a read refreshes its whole prefix, as the facts have it by default;
- a ping reads an entry at the moment it, or a shorter entry on its prefix, would expire. An earlier one only gives away
  time. With a price cliff an entry is not made shorter to be pinged below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import combinations

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches.anthropic import decide
from holdfast.caches.entries import Entries
from holdfast.caches.values import Mark, Prompt
from holdfast.errors import HoldfastError
from holdfast.facts import ModelFacts

from .calls import Call, Ping, Plan, Prices, prices, rolling, spent
from .frontier import Frontier, State, Step, Tree, arrived
from .keepalive import KeepAlive

MOST_STATES = 50_000
"""Beyond so many open courses the search stops: it happens only where many conversations run at the same time."""

_FAR = 1 << 30  # a lookback without end, for prompts reduced to their places


class Optimum(Struct, frozen=True):
    """The least cost in plain input tokens, the markers of each call, and the pings in time order."""

    cost: Decimal
    plan: Plan
    pings: tuple[Ping, ...] = ()


def optimal(calls: Sequence[Call], model: ModelFacts, *, pings: bool = False) -> Optimum:
    """The cheapest plan for these calls, which are in the order of their start."""
    _check(calls, model)
    if not calls:
        return Optimum(Decimal(0), ())
    found = _Search(calls, model, pings=pings).run()
    plan, kept = _told(found.step)
    return Optimum(prices(model).tokens(found.cost), plan, kept)


def _check(calls: Sequence[Call], model: ModelFacts) -> None:
    knobs = model.knobs
    if knobs.ttl_raise == "yes" or knobs.upgrade_5m_by_1h or knobs.refresh_whole_prefix is False:
        raise HoldfastError(
            f"the optimum for {model.ref} is not defined: set ttl_raise = no, upgrade_5m_by_1h = false and "
            "refresh_whole_prefix = true."
        )
    late = next((i for i in range(1, len(calls)) if calls[i].at < calls[i - 1].at), None)
    if late is not None:
        raise HoldfastError(f"call {late + 1} starts before call {late}; give the calls in the order of their start.")


def _told(step: Step | None) -> tuple[Plan, tuple[Ping, ...]]:
    """The decisions from the first to the last: markers per call, and all pings."""
    plan: list[tuple[Mark, ...]] = []
    pings: list[Ping] = []
    while step is not None:
        plan.append(step.marks)
        pings += reversed(step.pings)
        step = step.before
    return tuple(reversed(plan)), tuple(reversed(pings))


class _Search:
    def __init__(self, calls: Sequence[Call], model: ModelFacts, *, pings: bool) -> None:
        self._calls = calls
        self._model = model
        self._far = replace(model, lookback=_FAR)
        self._prices = prices(model)
        self._tree = Tree(calls, model.floor)
        self._frontier = Frontier(self._tree, pings=pings)
        self._least = _least(calls, self._prices)
        self._known = self._enough(pings)
        self._bound = self._known.cost
        self._keepalive = KeepAlive(self._tree, self._prices) if pings else None

    def run(self) -> State:
        states = [State(0)]
        for number, call in enumerate(self._calls):
            if self._keepalive is not None and number:
                limit = self._bound - self._least[number]
                states = [kept for state in states for kept in self._keepalive.until(state, call.at, number, limit)]
                states = self._frontier.prune(states, number - 1, call.at)
            ready = [arrived(state, call.at) for state in states]
            places = self._reduced(number, ready)
            after = [
                new
                for state in ready
                for new in self._options(state, number, places)
                if new.cost + self._least[number + 1] <= self._bound
            ]
            # Without pings nothing can happen before the next call; with them anything can from now on.
            quiet = self._keepalive is None and number + 1 < len(self._calls)
            after = self._frontier.prune(after, number, self._calls[number + 1].at if quiet else call.at)
            states = after
            if len(states) > MOST_STATES:
                raise HoldfastError(
                    f"the optimum of {len(self._calls)} calls has more than {MOST_STATES} open courses at call "
                    f"{number + 1}; give fewer conversations at a time."
                )
        return min((self._known, *states), key=lambda state: state.cost)

    def _enough(self, pings: bool) -> State:
        """What is certainly enough, and how: dearer courses need not be followed."""
        if pings:
            return _Search(self._calls, self._model, pings=False).run()
        plans = [((),) * len(self._calls), rolling(self._calls, "5m"), rolling(self._calls, "1h")]
        known, plan = min(((spent(self._calls, plan, self._model), plan) for plan in plans), key=lambda pair: pair[0])
        step: Step | None = None
        for marks in plan:
            step = Step(step, marks)
        return State(known, step=step)

    def _reduced(self, number: int, states: Sequence[State]) -> _Places:
        """The call's prompt with only the blocks at which some state has an entry or a marker may stand."""
        prompt = self._calls[number].prompt
        keys = {entry.key for state in states for entry in state.live}
        wanted = {i for i in self._tree.nodes[number] if prompt.keys[i] in keys} | set(self._tree.places[number])
        blocks = sorted(wanted | {len(prompt.blocks) - 1} if prompt.blocks else wanted)
        return _Places(
            replace(
                prompt,
                blocks=tuple(prompt.blocks[i] for i in blocks),
                keys=tuple(prompt.keys[i] for i in blocks),
                ends=tuple(prompt.ends[i] for i in blocks),
                marks=(),
            ),
            tuple(blocks),
            tuple(n for n, i in enumerate(blocks) if i in set(self._tree.places[number])),
        )

    def _options(self, state: State, number: int, places: _Places) -> Iterator[State]:
        """Every state that one call can lead to."""
        call = self._calls[number]
        live = Entries()
        live.put(state.live, call.at)
        hits = [n for n, key in enumerate(places.prompt.keys) if live.find(key, call.at) is not None]
        for marks in _markings(places.free, hits, self._model.max_markers):
            here = tuple(Mark(places.blocks[mark.block], mark.ttl) for mark in marks)
            outcome = decide(replace(places.prompt, marks=marks), live, call.at, self._far)
            if len(marks) == self._model.max_markers and marks and not self._reads(number, here, live, outcome.read):
                continue
            changed = {entry.key: entry for entry in outcome.refreshed}
            yield State(
                state.cost + self._prices.of(outcome),
                tuple(changed.get(entry.key, entry) for entry in state.live),
                (*state.pending, *(replace(entry, readable=call.first_token_at) for entry in outcome.new)),
                Step(state.step, here, state.pings),
            )

    def _reads(self, number: int, marks: tuple[Mark, ...], live: Entries, read: int) -> bool:
        """Whether the real lookback reaches as far as the reduced one; only with no marker left to read is it asked."""
        call = self._calls[number]
        return decide(replace(call.prompt, marks=marks), live, call.at, self._model).read == read


class _Places(Struct, frozen=True):
    """A prompt reduced to its places: which block each is, and where new entries may be worth their price."""

    prompt: Prompt
    blocks: tuple[int, ...]
    free: tuple[int, ...]


def _least(calls: Sequence[Call], price: Prices) -> list[int]:
    """What the calls from each on cost at least: seen tokens are read, new ones paid in full."""
    seen: set[bytes] = set()
    costs: list[int] = []
    for call in calls:
        prompt = call.prompt
        known = max((end for key, end in zip(prompt.keys, prompt.ends, strict=True) if key in seen), default=0)
        costs.append((known * price.read + (prompt.tokens - known) * price.unit) * price.factor(prompt.tokens))
        seen.update(prompt.keys)
    total = [0]
    for each in reversed(costs):
        total.append(total[-1] + each)
    return total[::-1]


def _markings(free: Sequence[int], hits: Sequence[int], most: int) -> Iterator[tuple[Mark, ...]]:
    """The sets of markers that differ in what they read or write.

    A marker on the entry to be read costs nothing and makes the lookback reach it; only where all markers are needed
    for new entries is it left out. To read less than the longest live entry all markers stay before the longer one.
    """
    if not hits:
        yield ()
    for base, above in zip((-1, *hits), (*hits, None), strict=True):
        beyond = [n for n in free if n > base and (above is None or n < above)]
        for size in range(0 if above is None and base >= 0 else 1, min(most, len(beyond)) + 1):
            spare = base >= 0 and size < most
            for chosen in combinations(beyond, size):
                for long in range(size + 1):
                    new = tuple(Mark(n, "1h" if rank < long else "5m") for rank, n in enumerate(chosen))
                    yield (Mark(base, "1h" if long else "5m"), *new) if spare else new
