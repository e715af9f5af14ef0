"""The bill: what was paid, for what, and what it would have been without a cache, without breaks, without us.

Calls are added up one by one, or, where there are many, taken from the sums of whole hours (`bill_hours`): both say the
same. Where they are no longer stored (retention, deleted sessions) the hourly sums say what was paid by model and day;
what those calls would have cost without a cache is reckoned from their average size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from datetime import UTC, tzinfo
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import asdict, replace

from holdfast.records import UNSPLIT, Usage
from holdfast.store import EXACT, HOUR, BillExtent, BillSums, Break, Call, CallHour, Store, hour_of

from .bill_parts import UNEVEN, PartPrices, day_of, plain_cost_of, question
from .results import Bill, SessionSums, Sums
from .tally import LAST, Tally, dollars_of, judged, moment, plain_cost, window, without_cache

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

    def sums(self, found: BillSums, prices: PartPrices) -> set[tuple[int, str]]:
        """Calls that were added up by the hour; those without usage one by one. Gives hours and models whose answered
        calls have several prices: they are left out."""
        days: dict[int, str] = {}
        uneven: set[tuple[int, str]] = set()
        parts, sessions = self.parts, self.sessions
        for part in found.parts:
            rates = prices.of(part)
            if rates is UNEVEN:
                uneven.add((part.hour, part.model))
                continue
            day = days.get(part.day) or days.setdefault(part.day, day_of(part.day))
            without = plain_cost_of(part, rates)
            parts[_Key(part.model, day, part.client, part.kind)].add_part(part, without)
            sessions[part.tenant, part.session].add_part(part, without)
        for each in found.unanswered:
            key = _Key(each.model, self._day(each.started_at), each.client, each.kind)
            parts[key].add_unanswered(each.kind, each.possible)
            sessions[each.tenant, each.session].add_unanswered(each.kind, each.possible)
        for gone in found.gone:
            self._left[gone[:3]] = _Left(*gone[3:])
        for call in found.pending:
            self.call(call)
        self._broken.update(found.callers)
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
            known = usage if without is not None or usage.cost else replace(usage, cost=None)
            for tally in (self.parts[_Key(model, self._day(hour))], self.sessions[tenant, None]):
                tally.add_usage(left.calls, known, without, tenant)

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
    """What the calls of the window cost, or those of one session, or those with these ids.

    `zone` says where days begin; None: in this machine's time.
    """
    last = LAST if end is None else end
    extent = store.bill_extent() if session is None and calls is None else None
    broken = store.newest_breaks(tenant, session=session, start=start, end=end, limit=_MOST_BREAKS)
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
    asked, edges = question(extent, prices, start, end, tenant, zone)
    uneven = adding.sums(store.bill_sums(asked), prices)
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
    found = (SessionSums(**asdict(tally.sums(id_)), tenant=tenant) for (tenant, id_), tally in groups.items())
    return tuple(sorted(found, key=_dear))


def _dear(sums: Sums) -> tuple[Decimal, int, str]:
    """Sorts the dearest first; without a price the largest."""
    return -(sums.cost or Decimal(0)), -sums.prompt_tokens, sums.id or ""
