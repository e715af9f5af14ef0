"""The sums of whole hours that a bill is made of: which of them are asked for, and what they cost without a cache.

A zone's days may begin within an hour, and a window may; the calls of such hours are asked for one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo
from decimal import Decimal
from enum import Enum
from typing import Final

from holdfast.facts import Rates, Tiers, changes_between, tiers
from holdfast.store import DAY, EXACT, HOUR, SIZES, BillExtent, BillPart, BillQuestion, hour_of

from .tally import moment

Span = tuple[int, int]

_US = 1_000_000
_STEPS = frozenset((-1, *SIZES))


def question(
    extent: BillExtent,
    prices: PartPrices,
    start: int | None,
    end: int | None,
    tenant: str | None,
    zone: tzinfo | None,
) -> tuple[BillQuestion, list[Span]]:
    """What to ask the store, and the spans whose calls are to be visited."""
    first = extent.first if start is None else max(extent.first, hour_of(start + HOUR - 1))
    last = extent.last + DAY if end is None else min(extent.last + DAY, hour_of(end))
    stretches, within = _stretches(first, last, zone)
    hourly, sized = prices.odd(extent)
    asked = BillQuestion(tenant, start, end, tuple(stretches), hourly, sized)
    return asked, [*_edges(start, end), *within]


def _edges(start: int | None, end: int | None) -> Iterator[Span]:
    """The parts of hours at both ends of a window."""
    if start is not None and end is not None and hour_of(start + HOUR - 1) > hour_of(end):
        yield start, end
        return
    if start is not None and start % HOUR:
        yield start, hour_of(start + HOUR - 1)
    if end is not None and end % HOUR:
        yield hour_of(end), end


def _stretches(first: int, last: int, zone: tzinfo | None) -> tuple[list[tuple[int, int, int]], list[Span]]:
    """Stretches of whole hours in which a zone is the same time ahead of UTC, and the hours that lie in two days."""
    stretches: list[tuple[int, int, int]] = []
    within: list[Span] = []
    hour = first
    while hour < last:
        offset = _offset(hour, zone)
        if _offset(hour + HOUR - 1, zone) != offset:  # clocks are changed within it
            within.append((hour, hour + HOUR))
            hour += HOUR
            continue
        if (hour + offset) % DAY > DAY - HOUR:
            within.append((hour, hour + HOUR))  # the store leaves it out
        if stretches and stretches[-1][1] == hour and stretches[-1][2] == offset:
            stretches[-1] = (stretches[-1][0], hour + HOUR, offset)
        else:
            stretches.append((hour, hour + HOUR, offset))
        hour += HOUR
    return stretches, within


def _offset(at: int, zone: tzinfo | None) -> int:
    ahead = moment(at).astimezone(zone).utcoffset()
    return 0 if ahead is None else round(ahead.total_seconds() * _US)


def day_of(number: int) -> str:
    """A day by its number since 1970."""
    return moment(number * DAY).date().isoformat()


class Uneven(Enum):
    """The calls of one part have several prices."""

    UNEVEN = 1


UNEVEN: Final = Uneven.UNEVEN


def plain_cost_of(part: BillPart, rates: Rates | None) -> Decimal | None:
    """As `tally.without_cache` says of each of the calls."""
    if part.kind == "ping" and part.priced:
        return Decimal(0)
    if rates is None:
        return None
    prompt = part.input + part.read + part.written
    return EXACT.fma(rates.input, prompt, EXACT.multiply(rates.output, part.output))


class PartPrices:
    """The price of each part, at its time and size."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int | None], Tiers | None] = {}
        self._rates: dict[tuple[str, int, int | None], Rates | Uneven | None] = {}
        self._plain: set[str] = set()
        self._first = 0

    def odd(self, extent: BillExtent) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The models whose price changes within the extent, and those with other prices for large prompts."""
        self._first = extent.first
        start, end = moment(extent.first), moment(extent.last + DAY)
        dated = {model for model in extent.models if changes_between(model, start, end)}
        self._plain = {model for model in extent.models if model not in dated and self._tiers(model, None) is not None}
        hourly = set(extent.models) - self._plain
        sized = [model for model in extent.models if model in hourly or len(tiers(model, start).steps) > 1]
        return tuple(hourly), tuple(sized)

    def of(self, part: BillPart) -> Rates | Uneven | None:
        """The rates of all calls of a part; None where none are known. The calls of an uneven part are to be added up
        one by one."""
        if not part.priced:
            return None
        key = part.model, part.size, None if part.model in self._plain else part.hour
        if key not in self._rates:
            known = self._tiers(part.model, part.hour)
            self._rates[key] = UNEVEN if known is None else known.of(part.size + 1)
        return self._rates[key]

    def _tiers(self, model: str, hour: int | None) -> Tiers | None:
        """The prices of an hour; None where they change within it, or at sizes that the sums are not kept apart at."""
        key = (model, None if model in self._plain else hour)
        if key not in self._known:
            start, end = (self._first,) * 2 if key[1] is None else (key[1], key[1] + HOUR - 1)
            found = tiers(model, moment(start))
            even = _STEPS.issuperset(found.steps) and (start == end or tiers(model, moment(end)) == found)
            self._known[key] = found if even else None
        return self._known[key]
