"""Timed prompts of one model and the effect of marker plans on them: the common ground of every comparison.

A `TimedCall` is a request as the cache sees it, with its times; a plan gives each call its markers. The cache rules
themselves compute a plan's cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import AnthropicCache, Entry, Mark, Outcome, Prompt
from holdfast.facts import ModelFacts
from holdfast.records import Usage

MarkerPlan = tuple[tuple[Mark, ...], ...]
"""The markers of each call, in the order of the calls."""


class TimedCall(Struct, frozen=True):
    """One request: when it starts, when its answer begins, and its prompt; markers in the prompt are ignored."""

    at: float
    first_token_at: float
    prompt: Prompt
    warm: Entry | None = None
    """An entry on its prefix that somebody else has left behind and that is alive when it starts."""


class PlannedPing(Struct, frozen=True):
    """A keep-alive: at this time the prefix of `calls[call]` up to `block` is read and nothing is answered."""

    at: float
    call: int
    block: int
    tokens: int


class WholePrices(Struct, frozen=True):
    """A model's multipliers as whole numbers, so that sums are exact: `unit` is one plain input token.

    A request of more than `cliff_above` prompt tokens costs `over` instead of `under` times its parts.
    """

    unit: int
    read: int
    writes: dict[str, int]
    cliff_above: int | None = None
    under: int = 1
    over: int = 1

    def of(self, outcome: Outcome) -> int:
        """Return the price of a request's input."""
        return self._cost(outcome) * self.factor(outcome.prompt.tokens)

    def of_usage(self, usage: Usage) -> int:
        """Return the price of a billed usage."""
        return self._cost(usage) * self.factor(usage.prompt)

    def _cost(self, parts: Outcome | Usage) -> int:
        return parts.read * self.read + parts.input * self.unit + sum(t * self.writes[ttl] for ttl, t in parts.writes)

    def factor(self, tokens: int) -> int:
        """The factor on a whole request with so many prompt tokens."""
        return self.over if self.cliff_above is not None and tokens > self.cliff_above else self.under

    def tokens(self, cost: int) -> Decimal:
        """A cost in plain input tokens."""
        return Decimal(cost) / (self.unit * self.under)


def prices(model: ModelFacts) -> WholePrices:
    """The multipliers of a model over their common denominator."""
    unit = _whole(model.read, *(share for _, share in model.writes))
    writes = {ttl: int(share * unit) for ttl, share in model.writes}
    if model.cliff is None:
        return WholePrices(unit, int(model.read * unit), writes)
    under = _whole(model.cliff.factor)
    over = int(model.cliff.factor * under)
    return WholePrices(unit, int(model.read * unit), writes, model.cliff.above, under, over)


def _whole(*figures: Decimal) -> int:
    """The power of ten that makes all of these whole."""
    unit = 1
    while any(figure * unit % 1 for figure in figures):
        unit *= 10
    return unit


def outcomes(
    calls: Sequence[TimedCall], plan: MarkerPlan, model: ModelFacts, pings: Sequence[PlannedPing] = ()
) -> list[Outcome]:
    """What the cache makes of each call under a plan, and after them of each ping, in their order."""
    cache = AnthropicCache(model)
    waiting: list[tuple[float, int]] = []  # calls whose answer has not begun
    of_calls: list[Outcome] = []
    of_pings: list[Outcome] = []
    order = sorted(range(len(pings)), key=lambda index: pings[index].at)
    for number, call in enumerate(calls):
        while order and pings[order[0]].at < call.at:
            ping = pings[order.pop(0)]
            _begin_answers(cache, of_calls, waiting, ping.at)
            of_pings.append(cache.begin(_prefix(calls, ping), ping.at))
        _begin_answers(cache, of_calls, waiting, call.at)
        if call.warm is not None:
            cache.first_token(Outcome(call.prompt, call.at, 0, 0, new=(call.warm,)), call.at)
        of_calls.append(cache.begin(replace(call.prompt, marks=plan[number]), call.at))
        waiting.append((call.first_token_at, number))
    return of_calls + of_pings


def cost(calls: Sequence[TimedCall], plan: MarkerPlan, model: ModelFacts, pings: Sequence[PlannedPing] = ()) -> Decimal:
    """The input of all calls and pings under a plan, in plain input tokens."""
    return prices(model).tokens(spent(calls, plan, model, pings))


def spent(calls: Sequence[TimedCall], plan: MarkerPlan, model: ModelFacts, pings: Sequence[PlannedPing] = ()) -> int:
    """The same in the units of `prices`."""
    price = prices(model)
    return sum(price.of(outcome) for outcome in outcomes(calls, plan, model, pings))


def rolling(calls: Sequence[TimedCall], ttl: str) -> MarkerPlan:
    """What automatic caching gives: the last tool, the last system block and the last block that can carry a marker."""
    return tuple(tuple(Mark(block, ttl) for block in sorted(set(_last_of_sections(call.prompt)))) for call in calls)


def _last_of_sections(prompt: Prompt) -> list[int]:
    last: dict[str, int] = {}
    for index, block in enumerate(prompt.blocks):
        if block.markable:
            last[block.section] = index
    return list(last.values())


def _prefix(calls: Sequence[TimedCall], ping: PlannedPing) -> Prompt:
    whole, end = calls[ping.call].prompt, ping.block + 1
    return replace(
        whole, blocks=whole.blocks[:end], keys=whole.keys[:end], ends=whole.ends[:end], marks=(Mark(ping.block, "5m"),)
    )


def _begin_answers(
    cache: AnthropicCache, of_calls: list[Outcome], waiting: list[tuple[float, int]], now: float
) -> None:
    """Every answer that has begun by now, in the order in which they began."""
    waiting.sort()
    while waiting and waiting[0][0] <= now:
        at, number = waiting.pop(0)
        cache.first_token(of_calls[number], at)
