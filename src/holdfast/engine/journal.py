"""The engine's output: rows for the store, events for the bus, break reports for people.

Events are appended to the store with the tenant's name and published unchanged; a subscriber cannot delay a request.
None of them contains bodies.

`owner_of` names the owner of a divergent block, as far as a request shows it: host, tools, the skills' index, a skill
or a tool by its name, user, assistant.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from holdfast.core import Finding, Ping, Verdict, is_result
from holdfast.core.cures import Case, Cure, case, cure_for, reset_cure, skill_owner
from holdfast.facts import rates
from holdfast.records import ResetReason, ToolUse
from holdfast.records.events import Bus, CacheBreak, CachePing, CacheReset, Envelope, Event, LlmCallStarted, Ulids
from holdfast.records.events import texts as ulids
from holdfast.store import Break, CallDraft
from holdfast.store import operations as op
from holdfast.wire import DIALECTS, Body

from . import call_records
from .byte_diff import locate
from .call_records import UnplannedCall, completed, failed, micro, name, reason_of
from .fallible_store import FallibleStore
from .lane import Lane, PreparedCall
from .worker import Worker

if TYPE_CHECKING:
    from .reports import Reports

_answers = re.compile(rb'"(?:tool_use_id|tool_call_id|call_id)"\s*:\s*"([^"\\]{1,256})"').search
_response = re.compile(rb'"function_?[Rr]esponse"\s*:\s*\{[^{}]*?"name"\s*:\s*"([^"\\]{1,128})"').search


def owner_of(prepared: PreparedCall, finding: Finding, told: Case, cure: Cure) -> str | None:
    """Return the owner of the diverging block; `told` and `cure` tell owners of a system text apart."""
    divergence, prompt = finding.divergence, prepared.core.prompt
    if (skills := skill_owner(told, cure)) is not None:
        return skills
    if divergence is not None and divergence.setting is not None:
        return "host"
    if divergence is None or divergence.block >= len(prompt.blocks):
        return None
    block = prompt.blocks[divergence.block]
    if block.section != "messages":
        return "tools" if block.section == "tools" else "host"
    if not is_result(block.kind, block.role):
        return block.role or "user"
    name = _tool(prepared.sent, prompt.place(divergence.block))
    return "tool" if name is None else f"tool:{name}"


def _tool(body: Body, index: int) -> str | None:
    """The name of the tool that a result is of: from the call that it answers."""
    span = body.blocks[index]
    text = body.text(span) + b"".join(body.raw[start:end] for start, end in span.context)
    if (named := _response(text)) is not None:
        return named[1].decode("utf-8", "replace")
    answered = _answers(text)
    if answered is None:
        return None
    call = answered[1].decode("utf-8", "replace")
    blocks = (block for message in DIALECTS[body.dialect].decode(body).messages for block in message.content)
    return next((block.name for block in blocks if isinstance(block, ToolUse) and block.id == call), None)


class CallJournal:
    """Rows, events and reports of calls."""

    def __init__(self, store: FallibleStore | None, bus: Bus | None, reports: Reports | None, ids: Ulids) -> None:
        self._store, self._bus, self._reports, self._ids = store, bus, reports, ids
        self._worker = Worker("holdfast-reports")

    def report_to(self, reports: Reports) -> None:
        """Set the directory for break reports unless one is set already."""
        self._reports = self._reports or reports

    def flush(self) -> None:
        """Until every report is written."""
        self._worker.flush()

    # Moments

    def planned(self, prepared: PreparedCall, ids: Sequence[str], row: CallDraft | None = None) -> None:
        """A call before it is sent; `ids` are those of the two events."""
        if self._store is None and self._bus is None:
            return
        self._record(prepared, prepared.core.outcome.at, ids, call_records.planned(prepared), row)

    def settled(
        self, prepared: PreparedCall, verdict: Verdict, now: float, row: CallDraft | None = None
    ) -> Break | None:
        break_: Break | None = None
        more: tuple[Event, ...] = ()
        if verdict.finding is not None:
            break_, event = self._broken(prepared, verdict.finding, now)
            more = (event,)
        elif verdict.missed is not None:
            lost = verdict.missed
            model = prepared.core.request.model.ref
            more = (self._missed(prepared.lane, prepared.call, model, "unmarked", lost.tokens, lost.dollars, now),)
        if self._store is not None or self._bus is not None:
            events = call_records.settled(prepared, verdict, more)
            self._record(prepared, now, ulids(self._ids.take(len(events)), len(events)), events, row)
        return break_

    def abandoned(
        self,
        prepared: PreparedCall,
        now: float,
        error: str,
        row: CallDraft | None = None,
        verdict: Verdict | None = None,
    ) -> None:
        """A call without a whole answer; `verdict` where the provider had told what it read."""
        more: tuple[Event, ...] = ()
        if verdict is not None:
            broken = () if verdict.finding is None else (self._broken(prepared, verdict.finding, now)[1],)
            more = (*call_records.judged(prepared.call, prepared.lane.id, verdict), *broken)
        events = call_records.abandoned(prepared.call, prepared.core.request.model.ref, error, prepared.estimated, more)
        self._record(prepared, now, ulids(self._ids.take(len(events)), len(events)), events, row)

    def pinged(self, lane: Lane, call: str, ping: Ping, now: float) -> None:
        self.emit(lane, None, now, CachePing(lane=name(lane.id), call=call, tokens=ping.tokens, cost=ping.cost))

    def unplanned(self, call: UnplannedCall, ended: float, lost: int | None) -> None:
        """A call that was not planned. `lost` are the tokens that its lane had cached and paid for again; None if the
        loss is not to be listed."""
        lane, model = call.lane, name(call.model)
        self.emit(lane, None, call.started, LlmCallStarted(call=call.id, lane=name(lane.id), model=model))
        if call.status == "settled" and call.usage is not None:
            self.emit(lane, None, ended, completed(call.id, call.model, call.usage))
        else:
            self.emit(lane, None, ended, failed(call.id, call.model, call.error, call.usage))
        if lost is not None:
            price = rates(call.model)
            dollars = Decimal(0) if price is None else lost * (price.input - price.read)
            reset = self._missed(lane, call.id, call.model, "bypassed", lost, dollars, ended)
            self.emit(lane, None, ended, reset)

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
            self._store.write(op.PutBreak(row))
        return CacheReset(lane=name(lane.id), reason=reason, call=call, tokens=tokens, dollars=dollars)

    # Breaks

    def _broken(self, prepared: PreparedCall, finding: Finding, now: float) -> tuple[Break, Event]:
        """A break or a reset: its row, its report, its event."""
        lane = prepared.lane
        keep_bodies = self._reports is not None and self._reports.keep_bodies
        difference = locate(
            prepared.sent, prepared.core.prompt, prepared.earlier, finding.divergence, keep_bodies=keep_bodies
        )
        model, marks = prepared.core.request.model, prepared.core.plan.marks
        cure_case = case(
            finding,
            model,
            path=difference.path,
            before=difference.content_before,
            after=difference.content_after,
            marks=marks,
        )
        cure = cure_for(cure_case)
        owner = owner_of(prepared, finding, cure_case, cure)
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
            path=difference.path,
            offset=difference.offset,
            owner=None if owner is None else name(owner),
            cure=cure.name,
            data=msgspec.json.encode(cure),
        )
        if self._store is not None:
            self._store.write(op.PutBreak(row))
        if (reports := self._reports) is not None:
            written = self._worker.do(partial(reports.write, row, finding, cure=cure, difference=difference))
            reports.lost += not written
        if row.reason is not None:
            reset = CacheReset(
                lane=name(lane.id), reason=row.reason, call=row.call, tokens=row.tokens, dollars=row.dollars
            )
            return row, reset
        return row, _event(row, cure)

    def _record(
        self, prepared: PreparedCall, at: float, ids: Sequence[str], events: tuple[Event, ...], row: CallDraft | None
    ) -> None:
        """Events of a planned call, by their ids, with the call as it stands."""
        lane, turn = prepared.lane, prepared.turn
        if self._store is not None and row is not None:
            rows = call_records.event_rows(events, ids, at, lane.session, turn)
            self._store.post(op.PutCall(row, rows, first=row.chain is None))
        elif self._store is not None:
            self._store.write(op.AppendEvents.of(lane.tenant, self._envelopes(lane, turn, at, events, ids)))
        if self._bus is not None:
            for envelope in self._envelopes(lane, turn, at, events, ids):
                self._bus.publish(envelope)

    def emit(self, lane: Lane, turn: str | None, at: float, *payloads: Event) -> None:
        """Events of a session, to the store and to the bus."""
        if self._store is None and self._bus is None:
            return
        envelopes = self._envelopes(lane, turn, at, payloads, [self._ids.new() for _ in payloads])
        if self._store is not None:
            self._store.write(op.AppendEvents.of(lane.tenant, envelopes))
        if self._bus is not None:
            for envelope in envelopes:
                self._bus.publish(envelope)

    @staticmethod
    def _envelopes(
        lane: Lane, turn: str | None, at: float, payloads: Sequence[Event], ids: Sequence[str]
    ) -> list[Envelope]:
        moment = micro(at)
        return [
            Envelope.of(payload, id=ulid, at=moment, session=lane.session, turn=turn, actor="system")
            for payload, ulid in zip(payloads, ids, strict=True)
        ]


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
