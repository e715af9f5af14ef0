"""Adding calls and breaks up, exactly: the one place where tokens and dollars become sums."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from msgspec.structs import replace

from holdfast.facts import rates
from holdfast.records import MISSED, Usage
from holdfast.store import (
    EXACT,
    BillPart,
    Break,
    Call,
    StoredVerdict,
    effectiveness,
    has_estimate,
    is_subscription,
    read_verdict,
)

from .results import Sums, TimeWindow

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

LAST = 253_402_300_799_999_999
"""The last microsecond of the year 9999: the end of a window that has none."""


def moment(at: int) -> datetime:
    """Microseconds as a datetime; what lies beyond the years it knows is its first or last moment."""
    try:
        return _EPOCH + timedelta(microseconds=at)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if at > 0 else datetime.min.replace(tzinfo=UTC)


def window(start: int | None, end: int | None) -> TimeWindow:
    return TimeWindow(None if start is None else moment(start), None if end is None else moment(end))


OURS = "holdfast"
"""The client of calls that Holdfast's own agent made. There is no client alone to compare them with."""


def judged(call: Call) -> StoredVerdict:
    verdict = read_verdict(call.verdict)
    return replace(verdict, saved=None) if call.client == OURS else verdict


def is_estimated(call: Call) -> bool:
    """Return whether a call's usage is partly estimated: its answer was cut off, or is still arriving."""
    return has_estimate(call.verdict)


def without_cache(call: Call) -> Decimal | None:
    """What a call would have cost if every token of its prompt had been billed as plain input; a ping would not have
    been sent. None where no price is known."""
    usage = call.usage
    if usage is None or usage.cost is None:
        return None
    return Decimal(0) if call.kind == "ping" else plain_cost(usage, call.model, call.started_at, usage.prompt)


def plain_cost(usage: Usage, model: str, at: int, size: int) -> Decimal | None:
    """All tokens of prompts of about this size at the plain input price, and the output."""
    price = rates(model, moment(at), size)
    if price is None:
        return None
    return EXACT.fma(price.input, usage.prompt, EXACT.multiply(price.output, usage.output))


def dollars_of(break_: Break) -> Decimal | None:
    """What a break cost; None where no price is known, which is stored as 0."""
    if break_.tokens and not break_.dollars and rates(break_.model, moment(break_.at)) is None:
        return None
    return break_.dollars


def plus(sum_: Decimal | None, more: Decimal | None) -> Decimal | None:
    """Add the amounts that are known."""
    if sum_ is None or more is None:
        return more if sum_ is None else sum_
    return EXACT.add(sum_, more)


class Tally:
    """Sums that grow."""

    def __init__(self) -> None:
        self.calls = self.unanswered = self.estimated = self.unpriced = 0
        self.breaks = self.break_tokens = self.resets = self.reset_tokens = self.missed = 0
        self.cost: Decimal | None = None
        self.possible: Decimal | None = None
        self.without: Decimal | None = None
        self.saved: Decimal | None = None
        self.break_cost: Decimal | None = None
        self.reset_cost: Decimal | None = None
        self.list_price: Decimal | None = None
        self.missed_cost: Decimal | None = None
        self._kinds: Counter[str] = Counter()
        self._input = self._read = self._written = self._output = 0

    def add(self, call: Call, *, without: Decimal | None, saved: Decimal | None) -> None:
        if call.usage is None:
            self.add_unanswered(call.kind, judged(call).possible)
            return
        if call.kind != "request":
            self._kinds[call.kind] += 1
        self.estimated += is_estimated(call)
        self.add_usage(1, call.usage, without, call.tenant)
        self.saved = plus(self.saved, saved)

    def add_part(self, part: BillPart, without: Decimal | None) -> None:
        """Answered calls that were added up already, all of them priced or none."""
        if part.kind != "request":
            self._kinds[part.kind] += part.calls
        self.calls += part.calls
        self.estimated += part.estimated
        self._input += part.input
        self._read += part.read
        self._written += part.written
        self._output += part.output
        if part.priced:
            self._add_cost(part.cost, without, part.tenant)
        else:
            self.unpriced += part.calls
        if part.client != OURS:
            self.saved = plus(self.saved, part.saved)

    def add_unanswered(self, kind: str, possible: Decimal | None) -> None:
        if kind != "request":
            self._kinds[kind] += 1
        self.calls += 1
        self.unanswered += 1
        self.possible = plus(self.possible, possible)

    def add_usage(self, calls: int, usage: Usage, without: Decimal | None, tenant: str) -> None:
        """Calls that were answered, with all their tokens."""
        self.calls += calls
        self._input += usage.input
        self._read += usage.read
        self._written += usage.written
        self._output += usage.output
        if usage.cost is None:
            self.unpriced += calls
        else:
            self._add_cost(usage.cost, without, tenant)

    def _add_cost(self, cost: Decimal | None, without: Decimal | None, tenant: str) -> None:
        self.cost = plus(self.cost, cost)
        self.without = plus(self.without, cost if without is None else without)
        if is_subscription(tenant):
            self.list_price = plus(self.list_price, cost)

    def add_break(self, break_: Break, dollars: Decimal | None) -> None:
        if break_.reason is None:
            self.breaks += 1
            self.break_tokens += break_.tokens
            self.break_cost = plus(self.break_cost, dollars)
        elif break_.reason in MISSED:
            self.missed += 1
            self.missed_cost = plus(self.missed_cost, dollars)
        else:
            self.resets += 1
            self.reset_tokens += break_.tokens
            self.reset_cost = plus(self.reset_cost, dollars)

    def merge(self, other: Tally) -> None:
        """Written out: a bill of many sessions does this fifty thousand times."""
        self.calls += other.calls
        self.unanswered += other.unanswered
        self.estimated += other.estimated
        self.unpriced += other.unpriced
        self._input += other._input
        self._read += other._read
        self._written += other._written
        self._output += other._output
        self.cost = plus(self.cost, other.cost)
        self.without = plus(self.without, other.without)
        self.saved = plus(self.saved, other.saved)
        self.possible = plus(self.possible, other.possible)
        self.list_price = plus(self.list_price, other.list_price)
        if other.breaks or other.resets or other.missed:
            self.breaks += other.breaks
            self.break_tokens += other.break_tokens
            self.break_cost = plus(self.break_cost, other.break_cost)
            self.resets += other.resets
            self.reset_tokens += other.reset_tokens
            self.reset_cost = plus(self.reset_cost, other.reset_cost)
            self.missed += other.missed
            self.missed_cost = plus(self.missed_cost, other.missed_cost)
        for kind, count in other._kinds.items():
            self._kinds[kind] += count

    def sums(self, id: str | None = None) -> Sums:
        tokens = self._input, self._read, self._written, self._output
        shares = effectiveness(None, (self.calls, *tokens), Decimal(0))
        return Sums(
            id=id,
            calls=self.calls,
            unanswered=self.unanswered,
            estimated=self.estimated,
            possible=self.possible,
            kinds=dict(sorted(self._kinds.items())),
            uncached_tokens=shares.uncached_tokens,
            cached_tokens=shares.cached_tokens,
            creation_tokens=shares.creation_tokens,
            output_tokens=shares.output_tokens,
            hit_rate=shares.hit_rate,
            cache_write_share=shares.cache_write_share,
            cost=self.cost,
            unpriced=self.unpriced,
            without_cache=self.without,
            saved=self.saved,
            breaks=self.breaks,
            break_tokens=self.break_tokens,
            break_cost=self.break_cost,
            resets=self.resets,
            reset_tokens=self.reset_tokens,
            reset_cost=self.reset_cost,
            list_price=self.list_price,
            missed=self.missed,
            missed_cost=self.missed_cost,
        )
