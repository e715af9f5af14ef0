"""The bill: what was paid, for what, and what it would have been without a cache, without breaks, without us.

Calls are added up one by one, or, if there are many, taken from the sums of whole hours (`bill_hours`): both give the
same. For calls no longer stored (retention, deleted sessions) the hourly sums have what was paid by model and day;
their cost without a cache is estimated from their average size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from datetime import UTC, tzinfo
from decimal import Decimal
from enum import Enum
from typing import Any, Final, NamedTuple, TypeVar

from msgspec.structs import asdict, replace

from holdfast.facts import Rates, Tiers, changes_between, tiers
from holdfast.records import UNSPLIT, Usage
from holdfast.store import (
    DAY,
    EXACT,
    HOUR,
    SIZES,
    BillExtent,
    BillPart,
    BillQuestion,
    BillSums,
    Break,
    Call,
    CallHour,
    Store,
    hour_of,
)

from .results import Bill, SessionSums, Sums
from .tally import LAST, Tally, dollars_of, judged, moment, plain_cost, window, without_cache

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
    """Return the query for the store and the spans in which single calls have to be read."""
    first = extent.first if start is None else max(extent.first, hour_of(start + HOUR - 1))
    last = extent.last + DAY if end is None else min(extent.last + DAY, hour_of(end))
    stretches, within = _stretches(first, last, zone)
    hourly, sized = prices.odd(extent)
    bill_question = BillQuestion(tenant, start, end, tuple(stretches), hourly, sized)
    return bill_question, [*_edges(start, end), *within]


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
    """Return the cost without a cache, by the rules of `tally.without_cache` for single calls."""
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
            rates_by_size = self._tiers(part.model, part.hour)
            self._rates[key] = UNEVEN if rates_by_size is None else rates_by_size.of(part.size + 1)
        return self._rates[key]

    def _tiers(self, model: str, hour: int | None) -> Tiers | None:
        """The prices of an hour; None where they change within it, or at sizes that the sums are not kept apart at."""
        key = (model, None if model in self._plain else hour)
        if key not in self._known:
            start, end = (self._first,) * 2 if key[1] is None else (key[1], key[1] + HOUR - 1)
            price_tiers = tiers(model, moment(start))
            even = _STEPS.issuperset(price_tiers.steps) and (start == end or tiers(model, moment(end)) == price_tiers)
            self._known[key] = price_tiers if even else None
        return self._known[key]


_MOST_BREAKS = 1_000_000

K = TypeVar("K", bound=Hashable)


class _Left:
    """What an hour's sums hold beyond the calls that are still stored."""

    def __init__(self, calls: int, input: int, read: int, written: int, output: int, cost: Decimal) -> None:
        self.calls, self.input, self.read, self.written, self.output = calls, input, read, written, output
        self.cost = cost

    def take(self, usage: Usage) -> None:
        """A call that is still stored."""
        self.calls -= 1
        self.input -= usage.input
        self.read -= usage.read
        self.written -= usage.written
        self.output -= usage.output
        self.cost = EXACT.subtract(self.cost, usage.cost or Decimal(0))

    def usage(self) -> Usage:
        return Usage(
            input=max(self.input, 0),
            read=max(self.read, 0),
            output=max(self.output, 0),
            writes=((UNSPLIT, self.written),) if self.written > 0 else (),
            cost=max(self.cost, Decimal(0)),
        )


def _left(hour: CallHour) -> _Left:
    written = sum(tokens for _, tokens in hour.writes)
    return _Left(hour.calls, hour.input, hour.read, written, hour.output, hour.cost)


class _Key(NamedTuple):
    """What calls have in common that are added up together, apart from their session; None is not known any more."""

    model: str
    day: str
    client: str | None = None
    kind: str | None = None


Session = tuple[str, str | None]
"""Tenant and id; None where it is not known any more."""


class _Adding:
    """Adds up once what has everything in common, and those sums in every way that is asked for."""

    def __init__(self, zone: tzinfo | None, hours: Iterable[CallHour], broken: Iterable[Break]) -> None:
        self.parts: defaultdict[_Key, Tally] = defaultdict(Tally)
        self.sessions: defaultdict[Session, Tally] = defaultdict(Tally)
        self._zone = zone
        self._left = {(hour.hour, hour.tenant, hour.model): _left(hour) for hour in hours}
        self._broken: dict[tuple[str, str], tuple[str | None, str] | None]
        self._broken = {(each.tenant, each.call): None for each in broken}

    def call(self, call: Call) -> None:
        without, saved = without_cache(call), judged(call).saved
        key = _Key(call.model, self._day(call.started_at), call.client, call.kind)
        for tally in (self.parts[key], self.sessions[call.tenant, call.session]):
            tally.add(call, without=without, saved=saved)
        left = self._left.get((hour_of(call.started_at), call.tenant, call.model))
        if left is not None and call.usage is not None:
            left.take(call.usage)
        if (call.tenant, call.id) in self._broken:
            self._broken[call.tenant, call.id] = call.client, call.kind

    def ended(self, call: Call) -> None:
        """A call that is neither unanswered nor pending: those were added with the sums."""
        if call.usage is not None and call.status != "pending":
            self.call(call)

    def sums(self, bill_sums: BillSums, prices: PartPrices) -> set[tuple[int, str]]:
        """Calls that were added up by the hour; those without usage one by one. Gives hours and models whose answered
        calls have several prices: they are left out."""
        days: dict[int, str] = {}
        uneven: set[tuple[int, str]] = set()
        parts, sessions = self.parts, self.sessions
        for part in bill_sums.parts:
            rates = prices.of(part)
            if rates is UNEVEN:
                uneven.add((part.hour, part.model))
                continue
            day = days.get(part.day) or days.setdefault(part.day, day_of(part.day))
            without = plain_cost_of(part, rates)
            parts[_Key(part.model, day, part.client, part.kind)].add_part(part, without)
            sessions[part.tenant, part.session].add_part(part, without)
        for each in bill_sums.unanswered:
            key = _Key(each.model, self._day(each.started_at), each.client, each.kind)
            parts[key].add_unanswered(each.kind, each.possible)
            sessions[each.tenant, each.session].add_unanswered(each.kind, each.possible)
        for gone in bill_sums.gone:
            self._left[gone[:3]] = _Left(*gone[3:])
        for call in bill_sums.pending:
            self.call(call)
        self._broken.update(bill_sums.callers)
        return uneven

    def found(self, each: Break) -> None:
        client, kind = self._broken[each.tenant, each.call] or (None, None)
        dollars = dollars_of(each)
        self.parts[_Key(each.model, self._day(each.at), client, kind)].add_break(each, dollars)
        self.sessions[each.tenant, each.session].add_break(each, dollars)

    def gone(self) -> None:
        """What is left of the sums: calls that are no longer stored."""
        for (hour, tenant, model), left in self._left.items():
            if left.calls <= 0:
                continue
            usage = left.usage()
            without = plain_cost(usage, model, hour, usage.prompt // left.calls)
            priced = usage if without is not None or usage.cost else replace(usage, cost=None)
            for tally in (self.parts[_Key(model, self._day(hour))], self.sessions[tenant, None]):
                tally.add_usage(left.calls, priced, without, tenant)

    def _day(self, at: int) -> str:
        return moment(at).astimezone(self._zone).date().isoformat()


def bill(
    store: Store,
    *,
    start: int | None = None,
    end: int | None = None,
    tenant: str | None = None,
    session: str | None = None,
    calls: Collection[str] | None = None,
    zone: tzinfo | None = UTC,
) -> Bill:
    """Return the bill of the calls in the window, of one session, or with these ids.

    `zone` is the zone in which days begin; None: this machine's.
    """
    last = LAST if end is None else end
    extent = store.bill_extent() if session is None and calls is None else None
    broken = store.breaks(tenant, session=session, start=start, end=end, limit=_MOST_BREAKS, newest=True)
    if calls is not None:
        broken = [each for each in broken if each.call in calls]
    if extent is not None:
        adding = _summed(store, extent, start, end, tenant, zone, broken)
    else:
        # The sums first: what is answered meanwhile is then in the calls alone, and never taken for gone.
        hours = store.call_hours(start or 0, last, tenant) if session is None and calls is None else []
        adding = _Adding(zone, (hour for hour in hours if hour.hour + HOUR <= last), broken)
        if calls is None:
            store.visit_calls(adding.call, tenant, session=session, start=start, end=end)
        else:
            for row in (store.call(tenant, id_) for id_ in dict.fromkeys(calls)):
                if row is not None:
                    adding.call(row)
    for each in broken:
        adding.found(each)
    adding.gone()
    few = _merged(
        adding.parts, lambda key: _Key(key.model, "", key.client, key.kind)
    )  # all days together: much less to add up again
    return Bill(
        window=window(start, end),
        zone="local" if zone is None else str(zone),
        total=_merged(few, lambda key: None).get(None, Tally()).sums(),
        models=_dearest(_merged(few, lambda key: key.model)),
        sessions=_by_session(adding.sessions),
        clients=_dearest(_merged(few, lambda key: key.client)),
        days=tuple(tally.sums(day) for day, tally in sorted(_merged(adding.parts, lambda key: key.day).items())),
        kinds=_dearest(_merged(few, lambda key: key.kind)),
    )


def _merged(parts: Mapping[_Key, Tally], common: Callable[[_Key], K]) -> dict[K, Tally]:
    groups: defaultdict[K, Tally] = defaultdict(Tally)
    for key, part in parts.items():
        groups[common(key)].merge(part)
    return groups


def _summed(
    store: Store,
    extent: BillExtent,
    start: int | None,
    end: int | None,
    tenant: str | None,
    zone: tzinfo | None,
    broken: Collection[Break],
) -> _Adding:
    """Whole hours from their sums, the rest call by call."""
    prices, adding = PartPrices(), _Adding(zone, (), broken)
    bill_question, edges = question(extent, prices, start, end, tenant, zone)
    uneven = adding.sums(store.bill_sums(bill_question), prices)
    for first, last in edges:
        store.visit_calls(adding.ended, tenant, start=first, end=last)

    def visit(call: Call) -> None:
        if (hour_of(call.started_at), call.model) in uneven and call.usage is not None and call.usage.cost is not None:
            adding.ended(call)

    for hour in sorted({hour for hour, _ in uneven}):
        store.visit_calls(visit, tenant, start=hour, end=hour + HOUR)
    return adding


def _dearest(groups: Mapping[Any, Tally]) -> tuple[Sums, ...]:
    return tuple(sorted((tally.sums(name) for name, tally in groups.items()), key=_dear))


def _by_session(groups: Mapping[tuple[str, str | None], Tally]) -> tuple[SessionSums, ...]:
    session_sums = (SessionSums(**asdict(tally.sums(id_)), tenant=tenant) for (tenant, id_), tally in groups.items())
    return tuple(sorted(session_sums, key=_dear))


def _dear(sums: Sums) -> tuple[Decimal, int, str]:
    """Sorts the dearest first; without a price the largest."""
    return -(sums.cost or Decimal(0)), -sums.prompt_tokens, sums.id or ""
