"""Adding calls and breaks up, exactly: the one place where tokens and dollars become sums."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal

import msgspec
from msgspec import Struct

from holdfast.canonical import Usage
from holdfast.facts import rates
from holdfast.identity import is_subscription
from holdfast.store import Break, Call
from holdfast.store.rollups import effectiveness

from .values import Sums, Window

_EXACT = Context(prec=60)
"""Wide enough that a sum of dollars is never rounded, whatever the caller's context."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

LAST = 253_402_300_799_999_999
"""The last microsecond of the year 9999: the end of a window that has none."""


MISSED = frozenset({"bypassed", "unmarked"})
"""Reasons of resets nobody wanted: turns that went past us, or without markers because of law 7."""


class Judged(Struct, frozen=True):
    """What a verdict says, as far as it was stored; `estimated`: a part of the usage is an estimate. `possible` is the
    most that may have been billed for a call that was given up before its answer began."""

    explained: bool | None = None
    saved: Decimal | None = None
    estimated: bool = False
    possible: Decimal | None = None


def moment(at: int) -> datetime:
    """Microseconds as a datetime; what lies beyond the years it knows is its first or last moment."""
    try:
        return _EPOCH + timedelta(microseconds=at)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if at > 0 else datetime.min.replace(tzinfo=UTC)


def window(start: int | None, end: int | None) -> Window:
    return Window(None if start is None else moment(start), None if end is None else moment(end))


OURS = "holdfast"
"""The client of calls that Holdfast's own agent made. There is no client alone to compare them with."""


def judged(call: Call) -> Judged:
    try:
        found = msgspec.json.decode(call.verdict or b"{}", type=Judged, strict=False)
        return msgspec.structs.replace(found, saved=None) if call.client == OURS else found
    except (msgspec.DecodeError, UnicodeDecodeError):  # written by another version
        return Judged()


def is_estimated(call: Call) -> bool:
    """Whether a part of a call's usage is an estimate: its answer was cut, or still comes."""
    return call.verdict is not None and b'"estimated":true' in call.verdict


def without_cache(call: Call) -> Decimal | None:
    """What a call would have cost if every token of its prompt had been billed as plain input; a ping would not have
    been sent. None where no price is known."""
    usage = call.usage
    if usage is None or usage.cost is None:
        return None
    return Decimal(0) if call.kind == "ping" else plain_cost(usage, call.model, call.started_at, usage.prompt)


def plain_cost(usage: Usage, model: str, at: int, size: int) -> Decimal | None:
    """All tokens of prompts of about this size at the plain input price, and the output."""
    found = rates(model, moment(at), size)
    if found is None:
        return None
    return _EXACT.fma(found.input, usage.prompt, _EXACT.multiply(found.output, usage.output))


def dollars_of(found: Break) -> Decimal | None:
    """What a break cost; None where no price is known, which is stored as 0."""
    if found.tokens and not found.dollars and rates(found.model, moment(found.at)) is None:
        return None
    return found.dollars


def plus(sum_: Decimal | None, more: Decimal | None) -> Decimal | None:
    """A sum of what is known."""
    if sum_ is None or more is None:
        return more if sum_ is None else sum_
    return _EXACT.add(sum_, more)


_TOKENS = ("_input", "_read", "_written", "_output")
_COUNTS = (
    "calls",
    "unanswered",
    "estimated",
    "unpriced",
    "breaks",
    "break_tokens",
    "resets",
    "reset_tokens",
    "missed",
    *_TOKENS,
)
_DOLLARS = ("cost", "possible", "without", "saved", "break_cost", "reset_cost", "missed_cost", "list_price")


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
        if call.kind != "request":
            self._kinds[call.kind] += 1
        if call.usage is None:
            self.calls += 1
            self.unanswered += 1
            self.possible = plus(self.possible, judged(call).possible)
        else:
            self.estimated += is_estimated(call)
            self.add_usage(1, call.usage, without, call.tenant)
            self.saved = plus(self.saved, saved)

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
            self.cost = plus(self.cost, usage.cost)
            if is_subscription(tenant):
                self.list_price = plus(self.list_price, usage.cost)
            self.without = plus(self.without, usage.cost if without is None else without)

    def add_break(self, found: Break, dollars: Decimal | None) -> None:
        if found.reason is None:
            self.breaks += 1
            self.break_tokens += found.tokens
            self.break_cost = plus(self.break_cost, dollars)
        elif found.reason in MISSED:
            self.missed += 1
            self.missed_cost = plus(self.missed_cost, dollars)
        else:
            self.resets += 1
            self.reset_tokens += found.tokens
            self.reset_cost = plus(self.reset_cost, dollars)

    def merge(self, other: Tally) -> None:
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in _DOLLARS:
            setattr(self, name, plus(getattr(self, name), getattr(other, name)))
        self._kinds.update(other._kinds)

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
