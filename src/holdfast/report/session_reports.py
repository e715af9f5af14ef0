"""Sessions: all of a window in a line each, and one of them with its lanes and calls."""

from __future__ import annotations

from collections import defaultdict

from msgspec.structs import asdict

from holdfast.store import Break, Call, Lane, SessionActivity, Store

from .calls import CallEvents, report, told
from .id_lookup import find
from .results import CallReport, LaneReport, SessionReport, SessionReports, SessionSummary
from .tally import Tally, dollars_of, judged, moment, window, without_cache

_MOST_BREAKS = 100_000


class _Gathered:
    """The calls and breaks of a session, added up in all and by lane."""

    def __init__(self, store: Store, found: SessionActivity, start: int | None = None, end: int | None = None) -> None:
        self.found = found
        self.tally = Tally()
        self.lanes: dict[str, Tally] = defaultdict(Tally)
        self.spans: dict[str, tuple[int, int]] = {}
        self.models: dict[str, dict[str, None]] = defaultdict(dict)
        self.clients: dict[str, None] = {}
        self.ids: list[str] = []
        store.visit_calls(self._add, found.tenant, session=found.session, start=start, end=end)
        self.breaks = store.newest_breaks(found.tenant, session=found.session, start=start, end=end, limit=_MOST_BREAKS)
        for each in self.breaks:
            dollars = dollars_of(each)
            self.tally.add_break(each, dollars)
            self.lanes[each.lane].add_break(each, dollars)

    def _add(self, call: Call) -> None:
        without, saved = without_cache(call), judged(call).saved
        for tally in (self.tally, self.lanes[call.lane]):
            tally.add(call, without=without, saved=saved)
        first, _ = self.spans.get(call.lane, (call.started_at, 0))
        self.spans[call.lane] = (first, call.started_at)
        self.models[call.lane][call.model] = None
        if call.client:
            self.clients[call.client] = None
        self.ids.append(call.id)

    def summary(self, store: Store) -> SessionSummary:
        found = self.found
        row = store.session(found.tenant, found.session)
        models = dict.fromkeys(model for lane in self.models.values() for model in lane)
        return SessionSummary(
            **asdict(self.tally.sums(found.session)),
            tenant=found.tenant,
            client=(row.client if row is not None else None) or next(iter(self.clients), None),
            started=moment(found.first if row is None else min(row.started_at, found.first)),
            last_call=moment(found.last),
            models=tuple(models),
            lanes=len(self.spans),
        )


def sessions(
    store: Store, *, start: int | None = None, end: int | None = None, tenant: str | None = None, limit: int = 100
) -> SessionReports:
    """Sessions with a call in the window, the one used last first; their sums are of the calls in it."""
    found = store.active_sessions(tenant, start=start, end=end, limit=limit + 1)
    shown = tuple(_Gathered(store, each, start, end).summary(store) for each in found[:limit])
    return SessionReports(window=window(start, end), sessions=shown, more=len(found) > limit)


def session(store: Store, id: str, *, tenant: str | None = None, limit: int = 100) -> SessionReport:
    """One session by its id or a beginning that only it has, with its newest calls; otherwise an UnknownIdError."""
    named = find(store, id, kind="session", tenant=tenant)
    found = store.active_sessions(named.tenant, prefix=named.id, limit=1)[0]
    gathered = _Gathered(store, found)
    shown = gathered.ids[max(0, len(gathered.ids) - limit) :]
    return SessionReport(
        session=gathered.summary(store),
        lanes=_lanes(store, gathered),
        calls=_calls(store, gathered, shown),
        left_out=len(gathered.ids) - len(shown),
    )


def spent(store: Store, id: str, *, tenant: str) -> SessionReport | None:
    """What the session of exactly this id has cost, in all and by lane, without its calls; None where it has none."""
    found = store.active_sessions(tenant, prefix=id, limit=1)
    if not found or found[0].session != id:
        return None
    gathered = _Gathered(store, found[0])
    return SessionReport(
        session=gathered.summary(store), lanes=_lanes(store, gathered), calls=(), left_out=len(gathered.ids)
    )


def _lanes(store: Store, gathered: _Gathered) -> tuple[LaneReport, ...]:
    """Lanes that have calls, in the order of their first ones; side requests may have no row of their own."""
    rows: dict[str, Lane] = {row.id: row for row in store.lanes(gathered.found.tenant, gathered.found.session)}
    lanes = []
    for name, (first, last) in sorted(gathered.spans.items(), key=lambda item: item[1]):
        row = rows.get(name)
        lanes.append(
            LaneReport(
                **asdict(gathered.lanes[name].sums(name)),
                model=", ".join(gathered.models[name]),
                agent=None if row is None else row.agent,
                parent=None if row is None else row.parent,
                started=moment(first),
                last_call=moment(last),
                ended=None if row is None or row.ended_at is None else moment(row.ended_at),
            )
        )
    return tuple(lanes)


def _calls(store: Store, gathered: _Gathered, shown: list[str]) -> tuple[CallReport, ...]:
    if not shown:
        return ()
    found = gathered.found
    about = told(store.events(found.tenant, found.session, after=min(shown)))
    broken: dict[str, list[Break]] = defaultdict(list)
    for each in reversed(gathered.breaks):
        broken[each.call].append(each)
    rows = (store.call(found.tenant, id_) for id_ in shown)
    return tuple(report(row, about.get(row.id, CallEvents()), broken[row.id]) for row in rows if row is not None)
