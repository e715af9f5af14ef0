"""What a contender has paid so far, added up request by request.

A tally is of one model, or of several: then only dollars can be added up and compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Context, Decimal
from math import ceil

from msgspec.structs import replace

from holdfast.core import Verdict
from holdfast.facts import ModelFacts, rates
from holdfast.records import Usage

from .marker_plans import WholePrices, prices
from .playback import PlayedRequest
from .results import BILLED, RECORDED, BreakCount, Kind, Result, SessionResult, Spread, price_of

_EXACT = Context(prec=60)
_NO_RESET = ("ttl_expired", "likely_server_side")  # lost for another reason than that the prefix changed


class ContenderTally:
    """The requests of one contender on one model, or on several (None); `least` is the optimum of the same requests, in
    the units of `prices`, and `least_dollars` in dollars, None where there is none."""

    def __init__(self, model: ModelFacts | None) -> None:
        self._model = model
        self._prices: WholePrices | None = None if model is None else prices(model)
        self.requests = self.input = self.read = self.output = 0
        self.units = 0
        self.writes: Counter[str] = Counter()
        self.dollars: Decimal | None = Decimal(0)
        self.output_dollars: Decimal | None = Decimal(0)
        self.breaks = self.resets = self.surprises = 0
        self.causes: Counter[str] = Counter()
        self._tokens = Decimal(0)
        self.least: int | None = 0
        self.least_dollars: Decimal | None = Decimal(0)

    def add(self, played: PlayedRequest) -> None:
        self.pay(played.billed)
        self._judge(played.verdict, played.turn.reset)

    def pay(self, billed: Usage) -> None:
        """Count a request with only its bill known."""
        assert self._prices is not None
        self.requests += 1
        self.input += billed.input
        self.read += billed.read
        self.output += billed.output
        for ttl, tokens in billed.writes:
            self.writes[ttl] += tokens
        self.units += self._prices.of_usage(billed)
        self._pay(billed)

    def joined(self, *others: ContenderTally | None) -> ContenderTally:
        """This one with what others have counted."""
        for other in others:
            if other is None:
                continue
            for name in ("requests", "input", "read", "output", "units", "breaks", "resets", "surprises"):
                setattr(self, name, getattr(self, name) + getattr(other, name))
            self._tokens += other.cost
            self.writes.update(other.writes)
            self.causes.update(other.causes)
            self.dollars = _sum(self.dollars, other.dollars)
            self.output_dollars = _sum(self.output_dollars, other.output_dollars)
            self.least = None if self.least is None or other.least is None else self.least + other.least
            self.least_dollars = _sum(self.least_dollars, other.least_dollars)
        return self

    def compare(self, optimum: ContenderTally | None) -> None:
        """Remember what the optimum of the same requests costs."""
        self.least = None if optimum is None else optimum.units
        self.least_dollars = None if optimum is None else optimum.dollars

    @property
    def cost(self) -> Decimal:
        """The input of all requests, in plain input tokens; those of several models are added up."""
        return self._tokens if self._prices is None else self._prices.tokens(self.units)

    @property
    def over_optimal(self) -> float | None:
        if self._prices is not None:
            return self.units / self.least if self.least else None
        return _ratio(self.dollars, self.least_dollars)

    def over(self, other: ContenderTally) -> float | None:
        """What this costs over what another one does for the same requests."""
        if self._prices is not None:
            return self.units / other.units if other.units else None
        return _ratio(self.dollars, other.dollars)

    def result(self, name: str, kind: Kind) -> Result:
        prompt = self.input + self.read + self.writes.total()
        return Result(
            model=RECORDED if self._model is None else self._model.ref,
            strategy=name,
            kind=kind,
            requests=self.requests,
            input=self.input,
            read=self.read,
            writes={ttl: tokens for ttl, tokens in sorted(self.writes.items()) if tokens},
            output=self.output,
            cost_tokens=self.cost,
            cost_usd=self.dollars,
            output_usd=self.output_dollars,
            over_optimal=self.over_optimal,
            hit_rate=self.read / prompt if prompt else None,
            breaks=self.breaks,
            resets=self.resets,
            causes=tuple(
                BreakCount(cause, count) for cause, count in sorted(self.causes.items(), key=lambda c: (-c[1], c[0]))
            ),
            surprises=self.surprises,
        )

    def _pay(self, billed: Usage) -> None:
        assert self._model is not None
        price = rates(self._model.ref, prompt_tokens=billed.prompt)
        if price is None or self.dollars is None or self.output_dollars is None:
            self.dollars = self.output_dollars = None
            return
        add = _EXACT.fma
        dollars = add(billed.read, price.read, add(billed.input, price.input, self.dollars))
        for ttl, tokens in billed.writes:
            dollars = add(tokens, price.write(ttl), dollars)
        self.dollars = dollars
        self.output_dollars = add(billed.output, price.output, self.output_dollars)

    def _judge(self, verdict: Verdict, reset: str | None) -> None:
        """Count a break as a reset if the trace has one, although the engine was not informed."""
        self.surprises += not verdict.explained
        finding = verdict.finding
        if finding is None:
            return
        cause = finding.cause or "unknown"
        if finding.reason is not None or (reset is not None and not cause.startswith(_NO_RESET)):
            self.resets += 1
            return
        self.breaks += 1
        self.causes[cause] += 1


def _ratio(one: Decimal | None, other: Decimal | None) -> float | None:
    return float(one / other) if one is not None and other else None


def _sum(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    return None if one is None or other is None else _EXACT.add(one, other)


DEARER = 1.001
"""Times the bill beyond which a session counts as dearer: sizes of blocks are rebuilt, within less than that."""


def with_spread(results: Sequence[Result], sessions: Sequence[SessionResult]) -> Iterator[Result]:
    """Yield the results with the spread and bills of their sessions."""
    by_row: dict[tuple[str, str], list[SessionResult]] = {}
    for each in sessions:
        by_row.setdefault((each.model, each.strategy), []).append(each)
    for result in results:
        own_sessions = by_row.get((result.model, result.strategy), [])
        over_billed, dearer = _bill(own_sessions) if result.strategy != BILLED else (None, None)
        yield replace(
            result, sessions=len(own_sessions), spread=_spread(own_sessions), over_billed=over_billed, dearer=dearer
        )


def quantile(values: Sequence[float], share: float) -> float:
    """The least of the values that so many of them do not exceed."""
    return sorted(values)[max(0, ceil(share * len(values)) - 1)]


def _spread(sessions: Sequence[SessionResult]) -> Spread | None:
    ratios = [each.over_optimal for each in sessions if each.over_optimal is not None]
    if not ratios:
        return None
    return Spread(
        sessions=len(ratios), p50=quantile(ratios, 0.5), p90=quantile(ratios, 0.9), worst=quantile(ratios, 1.0)
    )


def _bill(sessions: Sequence[SessionResult]) -> tuple[float | None, float | None]:
    """The cost over the bill of all sessions that have one, and the share of them that cost more than that."""
    paid = billed = 0.0
    dearer = count = 0
    for each in sessions:
        if each.over_billed is None:
            continue
        paid += float(price_of(each))
        billed += float(price_of(each)) / each.over_billed
        dearer += each.over_billed > DEARER
        count += 1
    return (paid / billed, dearer / count) if count and billed else (None, None)
