"""What a request cost and where the money went, in exact decimals, at the prices of its day."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Context, Decimal

from holdfast.canonical import Usage
from holdfast.facts import Rates, Tiers, tiers
from holdfast.prefix.breaks import cost_of

from .values import Money

EXACT = Context(prec=60)
ZERO = Decimal(0)
DATED = 1_262_304_000.0
"""Seconds since 1970 from which on a time is a date (2010); below it, a log counts on a clock of its own."""

_DAY = 86_400
_LAST = 253_402_300_799  # the last second that a datetime knows
_DAYS = 4_096  # days and models whose prices are remembered

_add, _fma, _times = EXACT.add, EXACT.fma, EXACT.multiply


class Prices:
    """Rates by model and day. `versions` names the price lists that were used."""

    def __init__(self) -> None:
        self._now = datetime.now(UTC)
        self._tiers: dict[tuple[str, int], Tiers] = {}
        self.versions: set[str] = set()

    def rates(self, model: str, at: float | None, prompt: int) -> Rates | None:
        """The rates of a request; those of today where its log has no date."""
        day = -1 if at is None or not DATED <= at <= _LAST else int(at) // _DAY
        found = self._tiers.get((model, day))
        if found is None:
            if len(self._tiers) >= _DAYS:
                self._tiers.clear()
            moment = self._now if day < 0 else datetime.fromtimestamp(day * _DAY, UTC)
            found = self._tiers[model, day] = tiers(model, moment)
            self.versions.update(each.version for each in found.rates if each is not None)
        return found.of(prompt)


class Spent:
    """Where the money went; all parts together are what was billed."""

    __slots__ = ("growth", "input", "output", "reads", "resets", "rewritten")

    def __init__(self) -> None:
        self.reads = self.growth = self.rewritten = self.resets = self.input = self.output = ZERO

    def add(self, usage: Usage, rates: Rates) -> None:
        """A request that read all it could."""
        self.reads = _fma(usage.read, rates.read, self.reads)
        self.growth = _add(self.growth, written_cost(usage, rates))
        self.input = _fma(usage.input, rates.input, self.input)
        self.output = _fma(usage.output, rates.output, self.output)

    def shift(self, lost: int, usage: Usage, rates: Rates, *, reset: bool) -> Decimal:
        """Of a request that was added: what its lost tokens cost beyond a read, which is left among the reads."""
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
            output=self.output,
        )


def request_cost(usage: Usage, rates: Rates) -> Decimal:
    """What a request was billed."""
    cost = _fma(usage.read, rates.read, _times(usage.input, rates.input))
    return _add(_fma(usage.output, rates.output, cost), written_cost(usage, rates))


def written_cost(usage: Usage, rates: Rates) -> Decimal:
    cost = ZERO
    for ttl, tokens in usage.writes:
        cost = _fma(tokens, rates.write(ttl), cost)
    return cost


def plus(known: Decimal | None, more: Decimal | None) -> Decimal | None:
    """A sum of what is known."""
    if known is None or more is None:
        return more if known is None else known
    return _add(known, more)


def moneys(parts: list[Money]) -> Money:
    """All of them together."""
    total = Money()
    for part in parts:
        total = Money(
            reads=_add(total.reads, part.reads),
            growth=_add(total.growth, part.growth),
            rewritten=_add(total.rewritten, part.rewritten),
            resets=_add(total.resets, part.resets),
            input=_add(total.input, part.input),
            output=_add(total.output, part.output),
        )
    return total
