"""The bill: what was paid, for what, and what it would have been without a cache, without breaks, without us.

Calls are added up one by one. Where they are no longer stored (retention, deleted sessions) the hourly sums say what
was paid by model and day; what those calls would have cost without a cache is reckoned from their average size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from datetime import UTC, tzinfo
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import asdict, replace

from holdfast.canonical import Usage
from holdfast.store import Break, Call, CallHour, Store
from holdfast.store.rollups import HOUR, hour_of

from .tally import LAST, Tally, dollars_of, judged, moment, plain_cost, window, without_cache
from .values import Bill, SessionSums, Sums

_MOST_BREAKS = 1_000_000

K = TypeVar("K", bound=Hashable)


class _Left:
    """What an hour's sums hold beyond the calls that are still stored."""

    def __init__(self, hour: CallHour) -> None:
        self.calls, self.input, self.read, self.output = hour.calls, hour.input, hour.read, hour.output
        self.writes, self.cost = dict(hour.writes), hour.cost

    def take(self, usage: Usage) -> None:
        self.calls -= 1
        self.input -= usage.input
        self.read -= usage.read
        self.output -= usage.output
        for ttl, tokens in usage.writes:
            self.writes[ttl] = self.writes.get(ttl, 0) - tokens
        self.cost -= usage.cost or Decimal(0)

    def usage(self) -> Usage:
        writes = tuple(sorted((ttl, tokens) for ttl, tokens in self.writes.items() if tokens > 0))
        return Usage(
            input=max(self.input, 0),
            read=max(self.read, 0),
            output=max(self.output, 0),
            writes=writes,
            cost=max(self.cost, Decimal(0)),
        )


class _Key(NamedTuple):
    """What calls have in common that are added up together; None is not known any more."""

    tenant: str
    model: str
    day: str
    session: str | None = None
    client: str | None = None
    kind: str | None = None


class _Adding:
    """Adds up once what has everything in common, and those sums in every way that is asked for."""

    def __init__(self, zone: tzinfo | None, hours: Iterable[CallHour], broken: Iterable[Break]) -> None:
        self._parts: defaultdict[_Key, Tally] = defaultdict(Tally)
        self._zone = zone
        self._left = {(hour.hour, hour.tenant, hour.model): _Left(hour) for hour in hours}
        self._broken: dict[tuple[str, str], Call | None] = {(each.tenant, each.call): None for each in broken}

    def call(self, call: Call) -> None:
        without, saved = without_cache(call), judged(call).saved
        key = _Key(call.tenant, call.model, self._day(call.started_at), call.session, call.client, call.kind)
        self._parts[key].add(call, without=without, saved=saved)
        left = self._left.get((hour_of(call.started_at), call.tenant, call.model))
        if left is not None and call.usage is not None:
            left.take(call.usage)
        if (call.tenant, call.id) in self._broken:
            self._broken[call.tenant, call.id] = call

    def found(self, each: Break) -> None:
        call = self._broken[each.tenant, each.call]
        client, kind = (None, None) if call is None else (call.client, call.kind)
        key = _Key(each.tenant, each.model, self._day(each.at), each.session, client, kind)
        self._parts[key].add_break(each, dollars_of(each))

    def gone(self) -> None:
        """What is left of the sums: calls that are no longer stored."""
        for (hour, tenant, model), left in self._left.items():
            if left.calls <= 0:
                continue
            usage = left.usage()
            without = plain_cost(usage, model, hour, usage.prompt // left.calls)
            known = usage if without is not None or usage.cost else replace(usage, cost=None)
            self._parts[_Key(tenant, model, self._day(hour))].add_usage(left.calls, known, without, tenant)

    def by(self, common: Callable[[_Key], K]) -> dict[K, Tally]:
        groups: defaultdict[K, Tally] = defaultdict(Tally)
        for key, part in self._parts.items():
            groups[common(key)].merge(part)
        return groups

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
    # The sums first: what is answered meanwhile is then in the calls alone, and never taken for gone.
    last = LAST if end is None else end
    hours = store.call_hours(start or 0, last, tenant) if session is None and calls is None else []
    broken = store.newest_breaks(tenant, session=session, start=start, end=end, limit=_MOST_BREAKS)
    if calls is not None:
        broken = [each for each in broken if each.call in calls]
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
    return Bill(
        window=window(start, end),
        zone="local" if zone is None else str(zone),
        total=adding.by(lambda key: None).get(None, Tally()).sums(),
        models=_dearest(adding.by(lambda key: key.model)),
        sessions=_by_session(adding.by(lambda key: (key.tenant, key.session))),
        clients=_dearest(adding.by(lambda key: key.client)),
        days=tuple(tally.sums(day) for day, tally in sorted(adding.by(lambda key: key.day).items())),
        kinds=_dearest(adding.by(lambda key: key.kind)),
    )


def _dearest(groups: Mapping[Any, Tally]) -> tuple[Sums, ...]:
    return tuple(sorted((tally.sums(name) for name, tally in groups.items()), key=_dear))


def _by_session(groups: Mapping[tuple[str, str | None], Tally]) -> tuple[SessionSums, ...]:
    found = (SessionSums(**asdict(tally.sums(id_)), tenant=tenant) for (tenant, id_), tally in groups.items())
    return tuple(sorted(found, key=_dear))


def _dear(sums: Sums) -> tuple[Decimal, int, str]:
    """Sorts the dearest first; without a price the largest."""
    return -(sums.cost or Decimal(0)), -sums.prompt_tokens, sums.id or ""
