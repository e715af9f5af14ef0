"""What the engine says: rows for the store, events for the bus, break reports for people.

Events are appended to the store with the tenant's name and published as they are; a subscriber cannot delay a request.
Bodies stand in none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import msgspec

from holdfast.core import Finding, Ping, Verdict
from holdfast.core.cures import Cure, case, cure_for, reset_cure
from holdfast.facts import rates
from holdfast.records import ResetReason
from holdfast.records.events import (
    Bus,
    CacheBreak,
    CachePing,
    CacheReset,
    Envelope,
    Event,
    LlmCallStarted,
    Ulids,
)
from holdfast.records.events import texts as ulids
from holdfast.store import Break, Call, LateCall

from . import call_records
from .byte_diff import where
from .call_records import Row, completed, failed, micro, name, reason_of
from .fallible_store import Shelf
from .lane import Lane, PreparedCall
from .owners import owner_of
from .reports import Reports
from .unplanned_calls import Noted
from .worker import Worker


class Teller:
    """Everything that is told about a call."""

    def __init__(self, store: Shelf | None, bus: Bus | None, reports: Reports | None, ids: Ulids) -> None:
        self._store, self._bus, self._reports, self._ids = store, bus, reports, ids
        self._worker = Worker("holdfast-reports")

    def report_to(self, reports: Reports) -> None:
        """Where break reports go, if nobody has said so before."""
        self._reports = self._reports or reports

    def flush(self) -> None:
        """Until every report is written."""
        self._worker.flush()

    # Moments

    def planned(self, prepared: PreparedCall, ids: Sequence[str], row: Row | None = None) -> None:
        """A call before it is sent; `ids` are those of the two events."""
        if self._store is None and self._bus is None:
            return
        found = prepared.core
        known = (
            prepared.call,
            prepared.lane.id,
            found.request.model.ref,
            found.plan,
            prepared.markers,
            int(prepared.edits is not None and prepared.edits.made),
            prepared.preflight,
            prepared.repairs,
        )
        self._tell(prepared, found.outcome.at, ids, call_records.planned, known, row)

    def settled(self, prepared: PreparedCall, verdict: Verdict, now: float, row: Row | None = None) -> Break | None:
        found: Break | None = None
        more: tuple[Event, ...] = ()
        if verdict.finding is not None:
            found, told = self._broken(prepared, verdict.finding, now)
            more = (told,)
        elif verdict.missed is not None:
            lost = verdict.missed
            model = prepared.core.request.model.ref
            more = (self._missed(prepared.lane, prepared.call, model, "unmarked", lost.tokens, lost.dollars, now),)
        if self._store is None and self._bus is None:
            return found
        known = (
            prepared.call,
            prepared.lane.id,
            prepared.core.request.model.ref,
            verdict.usage,
            verdict.predicted,
            verdict.explained,
            verdict.changes,
            more,
        )
        count = 2 + len(verdict.changes) + len(more)
        self._tell(prepared, now, ulids(self._ids.take(count), count), call_records.settled, known, row)
        return found

    def abandoned(
        self, prepared: PreparedCall, now: float, error: str, row: Row | None = None, verdict: Verdict | None = None
    ) -> None:
        """A call without a whole answer; `verdict` where the provider had told what it read."""
        more: tuple[Event, ...] = ()
        if verdict is not None:
            found = () if verdict.finding is None else (self._broken(prepared, verdict.finding, now)[1],)
            more = (*call_records.judged(prepared.call, prepared.lane.id, verdict), *found)
        known = (prepared.call, prepared.core.request.model.ref, error, prepared.estimated, more)
        count = 1 + len(more)
        self._tell(prepared, now, ulids(self._ids.take(count), count), call_records.abandoned, known, row)

    def pinged(self, lane: Lane, call: str, ping: Ping, now: float) -> None:
        self.tell(lane, None, now, CachePing(lane=name(lane.id), call=call, tokens=ping.tokens, cost=ping.cost))

    def noted(self, call: Noted, ended: float, lost: int | None) -> None:
        """A call that was not planned; `lost` are the tokens its lane had cached and paid for again, None for one that
        is not to be listed."""
        lane, model = call.lane, name(call.model)
        self.tell(lane, None, call.started, LlmCallStarted(call=call.call, lane=name(lane.id), model=model))
        if call.status == "settled" and call.usage is not None:
            self.tell(lane, None, ended, completed(call.call, call.model, call.usage))
        else:
            self.tell(lane, None, ended, failed(call.call, call.model, call.error, call.usage))
        if lost is not None:
            price = rates(call.model)
            dollars = Decimal(0) if price is None else lost * (price.input - price.read)
            reset = self._missed(lane, call.call, call.model, "bypassed", lost, dollars, ended)
            self.tell(lane, None, ended, reset)

    def _missed(
        self, lane: Lane, call: str, model: str, reason: ResetReason, tokens: int, dollars: Decimal, at: float
    ) -> CacheReset:
        """A turn that went past us, or without markers: its row; gives its event."""
        cure = reset_cure(reason)
        row = Break(
            tenant=lane.tenant,
            id=self._ids.new(),
            call=call,
            session=lane.session,
            lane=lane.id,
            model=model,
            at=micro(at),
            reason=reason,
            tokens=tokens,
            dollars=dollars,
            cure=cure.name,
            data=msgspec.json.encode(cure),
        )
        if self._store is not None:
            self._store.put_break(row)
        return CacheReset(lane=name(lane.id), reason=reason, call=call, tokens=tokens, dollars=dollars)

    # Breaks

    def _broken(self, prepared: PreparedCall, finding: Finding, now: float) -> tuple[Break, Event]:
        """A break or a reset: its row, its report, its event."""
        lane = prepared.lane
        keep_bodies = self._reports is not None and self._reports.keep_bodies
        found = where(
            prepared.sent, prepared.core.prompt, prepared.earlier, finding.divergence, keep_bodies=keep_bodies
        )
        model, marks = prepared.core.request.model, prepared.core.plan.marks
        told = case(finding, model, path=found.path, before=found.said, after=found.says, marks=marks)
        cure = cure_for(told)
        owner = owner_of(prepared, finding, told, cure)
        row = Break(
            tenant=lane.tenant,
            id=self._ids.new(),
            call=prepared.call,
            session=lane.session,
            lane=lane.id,
            model=prepared.core.request.model.ref,
            at=micro(now),
            cause=finding.cause,
            reason=reason_of(finding.reason),
            tokens=finding.tokens,
            dollars=finding.dollars,
            path=found.path,
            offset=found.offset,
            owner=None if owner is None else name(owner),
            cure=cure.name,
            data=msgspec.json.encode(cure),
        )
        if self._store is not None:
            self._store.put_break(row)
        if self._reports is not None:
            work = partial(self._reports.write, cure=cure, place=found.place, before=found.before, after=found.after)
            if not self._worker.do(partial(work, row, finding)):
                self._reports.lost += 1
        if row.reason is not None:
            reset = CacheReset(
                lane=name(lane.id), reason=row.reason, call=row.call, tokens=row.tokens, dollars=row.dollars
            )
            return row, reset
        return row, _event(row, cure)

    def _tell(
        self,
        prepared: PreparedCall,
        at: float,
        ids: Sequence[str],
        events: Callable[..., tuple[Event, ...]],
        known: tuple[Any, ...],
        row: Row | None,
    ) -> None:
        """Events of a planned call, by their ids, with the call as it stands. They are made of what is known when they
        are written, unless somebody listens."""
        lane = prepared.lane
        if self._store is None or self._bus is not None or row is None:
            self.tell(lane, prepared.turn, at, *events(*known), row=None if row is None else row())
            return
        told = partial(call_records.told, events, known, ids, at, lane.session, prepared.turn)
        self._store.leave_call(LateCall(lane.tenant, prepared.call, row, told, row.effects is None))

    def tell(self, lane: Lane, turn: str | None, at: float, *payloads: Event, row: Call | None = None) -> None:
        """Events of a session, to the store and to the bus; with the call as it stands, where they are of one."""
        if self._store is None and self._bus is None:
            return
        moment, session = micro(at), lane.session
        envelopes = [
            Envelope.of(payload, id=self._ids.new(), at=moment, session=session, turn=turn, actor="system")
            for payload in payloads
        ]
        if self._store is not None and row is not None:
            self._store.put_call(row, envelopes)
        elif self._store is not None:
            self._store.append_events(lane.tenant, envelopes)
        if self._bus is not None:
            for envelope in envelopes:
                self._bus.publish(envelope)


def _event(row: Break, cure: Cure) -> CacheBreak:
    return CacheBreak(
        call=row.call,
        lane=name(row.lane),
        cause=row.cause or "unknown",
        tokens=row.tokens,
        dollars=row.dollars,
        path=None if row.path is None else name(row.path),
        offset=row.offset,
        owner=row.owner,
        cure=name(cure.name),
    )
