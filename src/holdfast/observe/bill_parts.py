"""The sums of whole hours that a bill is made of: which of them are asked for, and what they cost without a cache.

A zone's days may begin within an hour, and a window may; the calls of such hours are asked for one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, tzinfo
from decimal import Decimal

from holdfast.facts import Tiers, changes_between, tiers
from holdfast.store.bill_sums import DAY, HOUR, SIZES
from holdfast.store.rollups import hour_of
from holdfast.store.rows import BillExtent, BillPart, BillQuestion

from .tally import EXACT, moment

Span = tuple[int, int]

_US = 1_000_000
_STEPS = frozenset((-1, *SIZES))


class UnevenError(Exception):
    """The calls of one part have several prices: they are to be added up one by one."""


def question(
    extent: BillExtent,
    prices: Prices,
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


class Prices:
    """What parts would have cost without a cache, each at the price of its time and size."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int | None], Tiers] = {}
        self._plain: set[str] = set()

    def odd(self, extent: BillExtent) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The models whose price changes within the extent, and those with other prices for large prompts."""
        start, end = moment(extent.first), moment(extent.last + DAY)
        dated = {model for model in extent.models if changes_between(model, start, end)}
        self._plain = set(extent.models) - dated
        sized = [model for model in extent.models if model in dated or len(self._tiers(model, extent.first).steps) > 1]
        return tuple(dated), tuple(sized)

    def without_cache(self, part: BillPart) -> Decimal | None:
        """As `tally.without_cache` says of each of the calls."""
        if not part.priced:
            return None
        if part.kind == "ping":
            return Decimal(0)
        found = self._tiers(part.model, part.hour).of(part.size + 1)
        if found is None:
            return None
        prompt = part.input + part.read + part.written
        return EXACT.fma(found.input, prompt, EXACT.multiply(found.output, part.output))

    def _tiers(self, model: str, hour: int) -> Tiers:
        dated = model not in self._plain
        key = (model, hour if dated else None)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _checked(model, moment(hour), moment(hour + HOUR - 1) if dated else None)
        return known


def _checked(model: str, start: datetime, end: datetime | None) -> Tiers:
    found = tiers(model, start)
    if not _STEPS.issuperset(found.steps) or (end is not None and tiers(model, end) != found):
        raise UnevenError(model)
    return found
