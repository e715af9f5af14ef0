"""Everything known of one call: its row, and what its session's events say beyond it.

The row has the rules' own prediction and markers by the number of their block; the events have the prediction in the
provider's tokens and the markers' paths. Where events are gone, the row is what is left.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from holdfast.records import Usage
from holdfast.records.events import CachePlanned, CacheVerdict, Envelope, Event
from holdfast.store import Break, Call, Store, is_subscription

from . import break_reports
from .id_lookup import find
from .results import CallEvent, CallReport, Marker, PlanReport, PredictedUsage, RepairReport
from .tally import judged, moment, without_cache

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
    """What stands in a call's `plan`."""

    plan: _Plan | None = None
    repairs: tuple[RepairReport, ...] = ()
    why: str | None = None


class CallEvents(Struct):
    """What events say of one call."""

    planned: CachePlanned | None = None
    verdict: CacheVerdict | None = None
    others: tuple[CallEvent, ...] = ()


def call(store: Store, id: str, *, tenant: str | None = None) -> CallReport:
    """One call by its id or by a beginning that only it has; otherwise an UnknownIdError."""
    named = find(store, id, kind="call", tenant=tenant)
    row = store.call(named.tenant, named.id)
    assert row is not None
    events = store.events(row.tenant, row.session, after=row.id, limit=_NEAR)
    broken = store.breaks(row.tenant, call=row.id)
    return report(row, told(events).get(row.id, CallEvents()), broken)


def told(events: Sequence[Envelope]) -> dict[str, CallEvents]:
    """Events by the call they speak of."""
    found: dict[str, CallEvents] = {}
    for event in events:
        payload = event.payload
        name = getattr(payload, "call", None)
        if not isinstance(name, str):
            continue
        about = found.setdefault(name, CallEvents())
        if isinstance(payload, CachePlanned):
            about.planned = payload
        elif isinstance(payload, CacheVerdict):
            about.verdict = payload
        elif payload.type.startswith(_SHOWN):
            about.others = (*about.others, CallEvent(moment(event.at), payload.type, _data(payload)))
    return found


def report(row: Call, told: CallEvents, broken: Sequence[Break]) -> CallReport:
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
        plan=_plan(stored, told.planned),
        predicted=_predicted(row, told),
        usage=row.usage,
        estimated=verdict.estimated,
        possible=verdict.possible,
        without_cache=without_cache(row),
        explained=verdict.explained,
        saved=verdict.saved,
        reset=row.reset,
        breaks=tuple(break_reports.report(each, row.client) for each in broken),
        events=told.others,
        error=row.error,
        why=stored.why,
        subscription=is_subscription(row.tenant),
    )


def _plan(stored: _Stored, planned: CachePlanned | None) -> PlanReport | None:
    plan = stored.plan
    if plan is None:
        return None
    blocks = [mark.block for mark in plan.marks]
    markers = tuple(Marker(None, mark.ttl, mark.block) for mark in plan.marks)
    if planned is not None and len(planned.markers) == len(blocks):
        pairs = zip(planned.markers, blocks, strict=True)
        markers = tuple(Marker(path, ttl, block) for (path, ttl), block in pairs)
    return PlanReport(
        strategy=plan.strategy,
        markers=markers,
        edits=0 if planned is None else planned.edits,
        mode=plan.mode,
        reasons=plan.reasons,
        dropped=plan.dropped,
        repairs=stored.repairs,
    )


def _predicted(row: Call, told: CallEvents) -> PredictedUsage | None:
    planned, verdict = told.planned, told.verdict
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
    found: dict[str, object] = msgspec.to_builtins(payload)
    return {name: value for name, value in found.items() if name not in ("call", "type")}
