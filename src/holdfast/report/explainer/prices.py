"""What a request cost and where the money went, in exact decimals, at the prices of its day; what markers would
have saved where there were none.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Context, Decimal

from holdfast.core import cost_of
from holdfast.facts import SERVICES, ModelFacts, Rates, Tiers, tiers
from holdfast.records import UNSPLIT, Usage

from ..logs.usage import AUTO
from .results import Money

SHORT, LONG = "5m", "1h"
EXACT = Context(prec=60)
ZERO = Decimal(0)
DATED = 1_262_304_000.0
"""Seconds since 1970 from which on a time is a date (2010); below it, a log counts on a clock of its own."""

_DAY = 86_400
_LAST = 253_402_300_799  # the last second that a datetime knows
_DAYS = 4_096  # days and models whose prices are remembered

_add, _fma, _times = EXACT.add, EXACT.fma, EXACT.multiply


class DatedPrices:
    """Rates by model and day. `versions` names the price lists used. `tier` is the service tier of requests without one
    in their log; `unlisted` are models without a listed price of it, priced as standard."""

    def __init__(self, tier: str = "") -> None:
        self._now = datetime.now(UTC)
        self._tiers: dict[tuple[str, int, str], Tiers] = {}
        self.tier = tier
        self.unlisted: dict[str, None] = {}
        self._known: dict[Rates | None, Rates | None] = {}
        self.versions: set[str] = set()

    def rates(self, model: str, at: float | None, prompt: int, named_tier: str = "") -> Rates | None:
        """The rates of a request; those of today where its log has no date, and of the tier that it `named_tier`."""
        tier = self.tier if named_tier in ("", AUTO) else named_tier if named_tier in SERVICES else ""
        day = -1 if at is None or not DATED <= at <= _LAST else int(at) // _DAY
        price_tiers = self._tiers.get((model, day, tier))
        if price_tiers is None:
            if len(self._tiers) >= _DAYS:
                self._tiers.clear()
            moment = self._now if day < 0 else datetime.fromtimestamp(day * _DAY, UTC)
            price_tiers = self._listed(model, moment, tier)
            # The same prices are the same object whatever the day, by which a session finds its bill.
            same = tuple(self._known.setdefault(each, each) for each in price_tiers.rates)
            price_tiers = self._tiers[model, day, tier] = Tiers(price_tiers.steps, same)
            self.versions.update(each.version for each in price_tiers.rates if each is not None)
        return price_tiers.of(prompt)

    def _listed(self, model: str, moment: datetime, tier: str) -> Tiers:
        if tier:
            price_tiers = tiers(model, moment, service=tier)
            if any(each is not None for each in price_tiers.rates):
                return price_tiers
            if tier == self.tier:
                self.unlisted[model] = None
        return tiers(model, moment)


class TokenBill:
    """Tokens that were billed at the same rates (None: at none that are known), as whole numbers; dollars are made of
    them when they are asked for, which is exact and quicker than a sum for each request. `sells` if both lifetimes can
    be had; `short_read` and `long_read` are what would have been read if all had been written for five minutes, or for
    an hour."""

    __slots__ = (
        *("input", "long", "long_read", "others", "output", "rates", "read", "requests", "sells", "short"),
        "short_read",
    )

    def __init__(self, rates: Rates | None, sells: bool) -> None:
        self.rates, self.sells = rates, sells
        self.requests = self.input = self.read = self.short = self.long = self.output = 0
        self.others: dict[str, int] | None = None  # written for other lifetimes
        self.short_read = self.long_read = 0

    def add(self, usage: Usage) -> None:
        self.requests += 1
        self.input += usage.input
        self.read += usage.read
        self.output += usage.output
        for ttl, tokens in usage.writes:
            if ttl == SHORT:
                self.short += tokens
            elif ttl == LONG:
                self.long += tokens
            else:
                self.others = self.others or {}
                self.others[ttl] = self.others.get(ttl, 0) + tokens

    def was_long(self, tokens: int) -> None:
        """Count tokens written with an unknown lifetime as written for an hour."""
        assert self.others is not None
        self.others[UNSPLIT] -= tokens
        self.long += tokens

    @property
    def other(self) -> int:
        return sum(self.others.values()) if self.others else 0

    @property
    def covered(self) -> int:
        return self.read + self.short + self.long + self.other

    def money(self) -> Money:
        """Where it went, if nothing was lost."""
        rates = self.rates
        if rates is None:
            return Money()
        growth = _times(self.short, rates.write(SHORT)) if self.short else ZERO
        if self.long:
            growth = _fma(self.long, rates.write(LONG), growth)
        for ttl, tokens in (self.others or {}).items():
            growth = _fma(tokens, rates.write(ttl), growth)
        return Money(
            reads=_times(self.read, rates.read),
            growth=growth,
            input=_times(self.input, rates.input),
            output=_times(self.output, rates.output),
        )


class LostTokens:
    """The tokens moved by breaks and resets: from new ones or plain input to those billed again."""

    __slots__ = ("growth", "input", "reads", "resets", "rewritten")

    def __init__(self) -> None:
        self.reads = self.growth = self.rewritten = self.resets = self.input = ZERO

    def add(self, lost: int, usage: Usage, rates: Rates, *, reset: bool) -> Decimal:
        """Return what a request's lost tokens cost beyond a read, which remains among the reads."""
        extra = cost_of(lost, usage, rates)
        wrote = min(lost, usage.written)
        plain = min(lost - wrote, usage.input)
        of_input = _times(plain, rates.input)
        beyond_read = _add(of_input, -_times(plain, rates.read))
        self.input = _add(self.input, -of_input)
        self.growth = _add(self.growth, -_fma(wrote, rates.read, _add(extra, -beyond_read)))
        self.reads = _fma(wrote + plain, rates.read, self.reads)
        if reset:
            self.resets = _add(self.resets, extra)
        else:
            self.rewritten = _add(self.rewritten, extra)
        return extra

    def money(self) -> Money:
        return Money(
            reads=self.reads,
            growth=self.growth,
            rewritten=self.rewritten,
            resets=self.resets,
            input=self.input,
        )


def total(money: Money) -> Decimal:
    cost = ZERO
    for name in Money.__struct_fields__:
        cost = _add(cost, getattr(money, name))
    return cost


def plus(amount: Decimal | None, more: Decimal | None) -> Decimal | None:
    """Add the amounts that are known."""
    if amount is None or more is None:
        return more if amount is None else amount
    return _add(amount, more)


def moneys(parts: Iterable[Money]) -> Money:
    """All of them together."""
    whole: Money | None = None
    for part in parts:
        if whole is None:
            whole = part
            continue
        whole = Money(
            reads=_add(whole.reads, part.reads),
            growth=_add(whole.growth, part.growth),
            rewritten=_add(whole.rewritten, part.rewritten),
            resets=_add(whole.resets, part.resets),
            input=_add(whole.input, part.input),
            output=_add(whole.output, part.output),
        )
    return whole or Money()


def is_unmarked(usage: Usage, model: ModelFacts, body: bytes | None) -> bool:
    """Whether a request neither read nor wrote although it was long enough (A6, A9), and its body, if it is known, has
    no marker either."""
    if model.caching != "explicit" or usage.input < model.floor or usage.read or usage.writes:
        return False
    return body is None or (model.marker or "").encode() not in body


class UnmarkedRequests:
    """The requests of a lane without markers."""

    __slots__ = ("prompt", "requests", "saves")

    def __init__(self) -> None:
        self.requests = 0
        self.prompt = 0
        self.saves: Decimal = ZERO

    def add(self, usage: Usage, model: ModelFacts, rates: Rates, gap: float | None, shared: float | None) -> None:
        """Add a request. `shared` is the part of the prompt that is unchanged, if known from the bytes."""
        alive = gap is None or gap <= (model.ttl_seconds(SHORT) or 0)
        before = self.prompt if shared is None else min(self.prompt, round(usage.prompt * shared))
        read = min(before, usage.prompt) if alive else 0
        cheaper = EXACT.multiply(read, EXACT.subtract(rates.input, rates.read))
        dearer = EXACT.multiply(usage.prompt - read, EXACT.subtract(rates.write(SHORT), rates.input))
        self.saves = EXACT.add(self.saves, EXACT.subtract(cheaper, dearer))
        self.requests += 1
        self.prompt = usage.prompt

    def plus(self, other: UnmarkedRequests) -> UnmarkedRequests:
        """Add the counts of two lanes."""
        self.requests += other.requests
        self.saves = EXACT.add(self.saves, other.saves)
        return self
