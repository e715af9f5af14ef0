"""Questions to the store: breaks, single calls, sessions with their lanes, how well the caches were used.

Of a call the row has the rules' own prediction and markers by the number of their block; the events have the prediction
in the provider's tokens and the markers' paths. Where events are gone, the row is what is left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from holdfast.facts import rates
from holdfast.records import MISSED, Usage
from holdfast.records.events import CachePlanned, CacheVerdict, Envelope, Event
from holdfast.store import Break, Call, Lane, ModelEffectiveness, SessionActivity, Store, is_subscription

from .id_lookup import find
from .results import (
    BreakReport,
    BreakReports,
    CallEvent,
    CallReport,
    Effectiveness,
    Effectivenesses,
    LaneReport,
    PlanReport,
    PredictedUsage,
    RepairReport,
    SentMarker,
    SessionReport,
    SessionReports,
    SessionSummary,
    TimeWindow,
)
from .tally import LAST, Tally, dollars_of, judged, moment, plus, window, without_cache


class _Cure(Struct):
    sentence: str | None = None
    setting: str | None = None


def breaks(
    store: Store,
    *,
    start: int | None = None,
    end: int | None = None,
    tenant: str | None = None,
    session: str | None = None,
    resets: bool = True,
    limit: int = 100,
) -> BreakReports:
    """Breaks of the window, newest first, turns that went past us or without markers and, unless they are not wanted,
    other resets."""
    newest = _newest(store, tenant, session, start, end, limit, resets)
    shown = tuple(_break_report(each, _client(store, each)) for each in newest[:limit])
    return BreakReports(window=window(start, end), breaks=shown, more=len(newest) > limit)


def _newest(
    store: Store, tenant: str | None, session: str | None, start: int | None, end: int | None, limit: int, resets: bool
) -> list[Break]:
    """One more than the limit, if there are so many; resets are left out after they were read."""
    fetch = limit + 1
    while True:
        read = store.breaks(tenant, session=session, start=start, end=end, limit=fetch, newest=True)
        selected = [each for each in read if resets or each.reason is None or each.reason in MISSED]
        if len(selected) > limit or len(read) < fetch:
            return selected
        fetch *= 4


def _break_report(break_: Break, client: str | None) -> BreakReport:
    cure = _cure(break_)
    return BreakReport(
        id=break_.id,
        at=moment(break_.at),
        cause=break_.cause,
        reason=break_.reason,
        tokens=break_.tokens,
        dollars=dollars_of(break_),
        path=break_.path,
        offset=break_.offset,
        owner=break_.owner,
        cure=break_.cure,
        advice=cure.sentence,
        setting=cure.setting,
        call=break_.call,
        lane=break_.lane,
        session=break_.session,
        tenant=break_.tenant,
        client=client,
        model=break_.model,
        subscription=is_subscription(break_.tenant),
    )


def _client(store: Store, break_: Break) -> str | None:
    call = store.call(break_.tenant, break_.call)
    return None if call is None else call.client


def _cure(break_: Break) -> _Cure:
    try:
        return msgspec.json.decode(break_.data or b"{}", type=_Cure)
    except (msgspec.DecodeError, UnicodeDecodeError):  # written by another version
        return _Cure()


_NEAR = 400
"""Events read behind a call's beginning: its own come at once or, for the verdict, when it ends."""

_SHOWN = ("gateway.",)


class _Mark(Struct):
    block: int
    ttl: str


class _Plan(Struct):
    strategy: str
    marks: tuple[_Mark, ...] = ()
    mode: str = ""
    reasons: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


class _Stored(Struct):
    """A call's stored `plan`."""

    plan: _Plan | None = None
    repairs: tuple[RepairReport, ...] = ()
    why: str | None = None


class CallEvents(Struct):
    """The events of one call."""

    planned: CachePlanned | None = None
    verdict: CacheVerdict | None = None
    others: tuple[CallEvent, ...] = ()


def call(store: Store, id: str, *, tenant: str | None = None) -> CallReport:
    """One call by its id or by a beginning that only it has; otherwise an UnknownIdError."""
    match = find(store, id, kind="call", tenant=tenant)
    row = store.call(match.tenant, match.id)
    assert row is not None
    events = store.events(row.tenant, row.session, after=row.id, limit=_NEAR)
    broken = store.breaks(row.tenant, call=row.id)
    return _call_report(row, told(events).get(row.id, CallEvents()), broken)


def told(events: Sequence[Envelope]) -> dict[str, CallEvents]:
    """Group events by their call."""
    by_call: dict[str, CallEvents] = {}
    for event in events:
        payload = event.payload
        name = getattr(payload, "call", None)
        if not isinstance(name, str):
            continue
        about = by_call.setdefault(name, CallEvents())
        if isinstance(payload, CachePlanned):
            about.planned = payload
        elif isinstance(payload, CacheVerdict):
            about.verdict = payload
        elif payload.type.startswith(_SHOWN):
            about.others = (*about.others, CallEvent(moment(event.at), payload.type, _data(payload)))
    return by_call


def _call_report(row: Call, events: CallEvents, broken: Sequence[Break]) -> CallReport:
    stored, verdict = _stored(row), judged(row)
    return CallReport(
        id=row.id,
        tenant=row.tenant,
        session=row.session,
        lane=row.lane,
        client=row.client,
        model=row.model,
        kind=row.kind,
        status=row.status,
        started=moment(row.started_at),
        first_token=None if row.first_token_at is None else moment(row.first_token_at),
        ended=None if row.ended_at is None else moment(row.ended_at),
        plan=_plan(stored, events.planned),
        predicted=_predicted(row, events),
        usage=row.usage,
        estimated=verdict.estimated,
        possible=verdict.possible,
        without_cache=without_cache(row),
        explained=verdict.explained,
        saved=verdict.saved,
        reset=row.reset,
        breaks=tuple(_break_report(each, row.client) for each in broken),
        events=events.others,
        error=row.error,
        why=stored.why,
        subscription=is_subscription(row.tenant),
    )


def _plan(stored: _Stored, planned: CachePlanned | None) -> PlanReport | None:
    plan = stored.plan
    if plan is None:
        return None
    blocks = [mark.block for mark in plan.marks]
    markers = tuple(SentMarker(None, mark.ttl, mark.block) for mark in plan.marks)
    if planned is not None and len(planned.markers) == len(blocks):
        pairs = zip(planned.markers, blocks, strict=True)
        markers = tuple(SentMarker(path, ttl, block) for (path, ttl), block in pairs)
    return PlanReport(
        strategy=plan.strategy,
        markers=markers,
        edits=0 if planned is None else planned.edits,
        mode=plan.mode,
        reasons=plan.reasons,
        dropped=plan.dropped,
        repairs=stored.repairs,
    )


def _predicted(row: Call, events: CallEvents) -> PredictedUsage | None:
    planned, verdict = events.planned, events.verdict
    usage = _usage(row)
    if planned is not None:
        read, written, fresh = planned.predicted_read, planned.predicted_written, planned.predicted_input
    elif usage is not None:
        read, written, fresh = usage.read, usage.written, usage.input
    else:
        return None
    if verdict is not None:  # the provider's tokens are known better by then
        read, written = verdict.predicted_read, verdict.predicted_written
    return PredictedUsage(read, written, fresh)


def _usage(row: Call) -> Usage | None:
    try:
        return None if row.prediction is None else msgspec.json.decode(row.prediction, type=Usage)
    except (msgspec.DecodeError, UnicodeDecodeError):  # written by another version
        return None


def _stored(row: Call) -> _Stored:
    try:
        return _Stored() if row.plan is None else msgspec.json.decode(row.plan, type=_Stored)
    except (msgspec.DecodeError, UnicodeDecodeError):  # written by another version
        return _Stored()


def _data(payload: Event) -> dict[str, object]:
    data: dict[str, object] = msgspec.to_builtins(payload)
    return {name: value for name, value in data.items() if name not in ("call", "type")}


_MOST_BREAKS = 100_000


class _Gathered:
    """The calls and breaks of a session, added up in all and by lane."""

    def __init__(
        self, store: Store, activity: SessionActivity, start: int | None = None, end: int | None = None
    ) -> None:
        self.found = activity
        self.tally = Tally()
        self.lanes: dict[str, Tally] = defaultdict(Tally)
        self.spans: dict[str, tuple[int, int]] = {}
        self.models: dict[str, dict[str, None]] = defaultdict(dict)
        self.clients: dict[str, None] = {}
        self.ids: list[str] = []
        store.visit_calls(self._add, activity.tenant, session=activity.session, start=start, end=end)
        self.breaks = store.breaks(
            activity.tenant, session=activity.session, start=start, end=end, limit=_MOST_BREAKS, newest=True
        )
        for each in self.breaks:
            dollars = dollars_of(each)
            self.lanes[each.lane].add_break(each, dollars)
        for tally in self.lanes.values():
            self.tally.merge(tally)

    def _add(self, call: Call) -> None:
        without, saved = without_cache(call), judged(call).saved
        self.lanes[call.lane].add(call, without=without, saved=saved)
        first, _ = self.spans.get(call.lane, (call.started_at, 0))
        self.spans[call.lane] = (first, call.started_at)
        self.models[call.lane][call.model] = None
        if call.client:
            self.clients[call.client] = None
        self.ids.append(call.id)

    def summary(self, store: Store) -> SessionSummary:
        activity = self.found
        row = store.session(activity.tenant, activity.session)
        models = dict.fromkeys(model for lane in self.models.values() for model in lane)
        return SessionSummary(
            **asdict(self.tally.sums(activity.session)),
            tenant=activity.tenant,
            client=(row.client if row is not None else None) or next(iter(self.clients), None),
            started=moment(activity.first if row is None else min(row.started_at, activity.first)),
            last_call=moment(activity.last),
            models=tuple(models),
            lanes=len(self.spans),
        )


def sessions(
    store: Store, *, start: int | None = None, end: int | None = None, tenant: str | None = None, limit: int = 100
) -> SessionReports:
    """Sessions with a call in the window, the one used last first; their sums are of the calls in it."""
    activities = store.active_sessions(tenant, start=start, end=end, limit=limit + 1)
    shown = tuple(_Gathered(store, each, start, end).summary(store) for each in activities[:limit])
    return SessionReports(window=window(start, end), sessions=shown, more=len(activities) > limit)


def session(store: Store, id: str, *, tenant: str | None = None, limit: int = 100) -> SessionReport:
    """One session by its id or a beginning that only it has, with its newest calls; otherwise an UnknownIdError."""
    match = find(store, id, kind="session", tenant=tenant)
    activity = store.active_sessions(match.tenant, prefix=match.id, limit=1)[0]
    gathered = _Gathered(store, activity)
    shown = gathered.ids[max(0, len(gathered.ids) - limit) :]
    return SessionReport(
        session=gathered.summary(store),
        lanes=_lanes(store, gathered),
        calls=_calls(store, gathered, shown),
        left_out=len(gathered.ids) - len(shown),
    )


def spent(store: Store, id: str, *, tenant: str) -> SessionReport | None:
    """What the session of exactly this id has cost, in all and by lane, without its calls; None where it has none."""
    activities = store.active_sessions(tenant, prefix=id, limit=1)
    if not activities or activities[0].session != id:
        return None
    gathered = _Gathered(store, activities[0])
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
    activity = gathered.found
    about = told(store.events(activity.tenant, activity.session, after=min(shown)))
    broken: dict[str, list[Break]] = defaultdict(list)
    for each in reversed(gathered.breaks):
        broken[each.call].append(each)
    rows = (store.call(activity.tenant, id_) for id_ in shown)
    return tuple(_call_report(row, about.get(row.id, CallEvents()), broken[row.id]) for row in rows if row is not None)


def cache_effectiveness(
    store: Store, *, start: int | None = None, end: int | None = None, tenant: str | None = None
) -> Effectivenesses:
    """Calls that started in the window and were answered."""
    effectiveness = store.cache_effectiveness(0 if start is None else start, LAST if end is None else end, tenant)
    listed = _at_list_price(store, effectiveness.start, effectiveness.end, tenant)
    models = tuple(_of(each, _cost(each), listed.get(each.model)) for each in effectiveness.models)
    priced: Decimal | None = None
    for model in models:
        priced = plus(priced, model.cost)
    covered = TimeWindow(
        None if start is None else moment(effectiveness.start), None if end is None else moment(effectiveness.end)
    )
    return Effectivenesses(window=covered, models=models, total=_of(effectiveness.total, priced, listed.get(None)))


def _at_list_price(store: Store, start: int, end: int, tenant: str | None) -> dict[str | None, Decimal]:
    """What subscriptions' logins would have cost, by model and in all."""
    by_model: dict[str | None, Decimal] = {}
    for name in store.tenants() if tenant is None else [tenant]:
        if is_subscription(name):
            of_tenant = store.cache_effectiveness(start, end, name)
            for each in (*of_tenant.models, of_tenant.total):
                if each.call_count:
                    by_model[each.model] = plus(by_model.get(each.model), each.cost) or Decimal(0)
    return by_model


def _cost(each: ModelEffectiveness) -> Decimal | None:
    """None where no price is known: the sums count that as nothing."""
    used = each.uncached_tokens + each.cached_tokens + each.creation_tokens + each.output_tokens
    if used and not each.cost and each.model is not None and rates(each.model) is None:
        return None
    return each.cost


def _of(each: ModelEffectiveness, cost: Decimal | None, listed: Decimal | None) -> Effectiveness:
    return Effectiveness(**asdict(each) | {"cost": cost, "list_price": listed})
