"""What the engine says: rows for the store, events for the bus, break reports for people.

Events are appended to the store with the tenant's name and published as they are; a subscriber cannot delay a request.
Bodies stand in none of them.
"""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import cast, get_args

import msgspec
from msgspec import Struct

from holdfast.canonical import Usage
from holdfast.events import Bus, Envelope, Event, ResetReason, Ulids
from holdfast.events.calls import (
    CacheBreak,
    CachePing,
    CachePlanned,
    CacheReset,
    CacheRetentionChanged,
    CacheVerdict,
    LlmCallCompleted,
    LlmCallFailed,
    LlmCallStarted,
)
from holdfast.facts import rates
from holdfast.prefix.breaks import Finding
from holdfast.prefix.core import Verdict
from holdfast.prefix.cures import Cure, case, cure_for
from holdfast.prefix.divergence import Place, place
from holdfast.prefix.keepalive import Ping
from holdfast.store import Break, Call
from holdfast.store.rows import CallStatus
from holdfast.wire import DIALECTS, Body, rewrite
from holdfast.wire.body import Splice

from .behind import Behind
from .noting import Noted
from .owners import owner_of
from .reports import Reports
from .shelf import Shelf
from .values import Lane, Prepared

REASONS = frozenset(get_args(ResetReason))
_NAME = 256


class Teller:
    """Everything that is told about a call."""

    def __init__(self, store: Shelf | None, bus: Bus | None, reports: Reports | None, ids: Ulids) -> None:
        self._store, self._bus, self._reports, self._ids = store, bus, reports, ids
        self._keep_bodies = reports is not None and reports.keep_bodies
        self._behind = Behind("holdfast-reports")

    def flush(self) -> None:
        """Until every report is written."""
        self._behind.flush()

    # Rows

    def row(
        self,
        prepared: Prepared,
        status: CallStatus,
        *,
        now: float | None = None,
        verdict: Verdict | None = None,
        error: str = "",
        chain: bytes | None = None,
    ) -> Call:
        found, lane = prepared.core, prepared.lane
        known = prepared.written
        if known is None or known[0] is not found.outcome:  # it is written three times, and rarely foreseen anew
            plan = msgspec.json.encode({"plan": found.plan, "repairs": prepared.repairs})
            known = prepared.written = found.outcome, plan, msgspec.json.encode(found.outcome.usage())
        _, plan, prediction = known
        return Call(
            tenant=lane.tenant,
            id=prepared.call,
            session=lane.session,
            lane=lane.id,
            model=found.asked.model.ref,
            started_at=_micro(found.outcome.at),
            status=status,
            client=lane.client or None,
            first_token_at=None if found.first_token is None else _micro(found.first_token),
            ended_at=None if now is None else _micro(now),
            usage=None if verdict is None else verdict.usage,
            reset=_reason(found.expectation.reset),
            error=error or None,
            plan=plan,
            prediction=prediction,
            verdict=None if verdict is None else _judged(verdict),
            chain=chain,
        )

    # Moments

    def planned(self, prepared: Prepared, row: Call | None = None) -> None:
        found, lane, flight = prepared.core, prepared.lane, prepared.preflight
        self._tell(
            prepared,
            found.outcome.at,
            LlmCallStarted(call=prepared.call, lane=_name(lane.id), model=_name(found.asked.model.ref)),
            CachePlanned(
                call=prepared.call,
                lane=_name(lane.id),
                strategy=found.plan.strategy,
                markers=tuple((_name(path), _name(ttl)) for path, ttl in prepared.markers),
                edits=int(prepared.edits is not None and prepared.edits.made),
                predicted_read=flight.read,
                predicted_written=flight.written,
                predicted_input=flight.input,
                reasons=tuple(_name(reason) for reason in found.plan.reasons),
                repairs=tuple(
                    (each.name, _name(each.path), each.saved_tokens, each.applied) for each in prepared.repairs
                ),
            ),
            row=row,
        )

    def settled(self, prepared: Prepared, verdict: Verdict, now: float, row: Call | None = None) -> Break | None:
        usage, predicted, lane = verdict.usage, verdict.predicted, prepared.lane
        events: list[Event] = [
            _completed(prepared.call, prepared.core.asked.model.ref, usage),
            CacheVerdict(
                call=prepared.call,
                predicted_read=predicted.read,
                actual_read=usage.read,
                predicted_written=predicted.written,
                actual_written=usage.written,
                explained=verdict.explained,
            ),
        ]
        for change in verdict.changes:
            events.append(
                CacheRetentionChanged(
                    lane=_name(lane.id),
                    zone=change.zone,
                    before=change.before,
                    after=change.after,
                    why=_name(change.why),
                )
            )
        found = None
        if verdict.finding is not None:
            found, told = self._broken(prepared, verdict.finding, now)
            events.append(told)
        self._tell(prepared, now, *events, row=row)
        return found

    def abandoned(self, prepared: Prepared, now: float, error: str, row: Call | None = None) -> None:
        model = _name(prepared.core.asked.model.ref)
        failed = LlmCallFailed(call=prepared.call, model=model, error=_name(error or "abandoned"), abandoned=not error)
        self._tell(prepared, now, failed, row=row)

    def pinged(self, lane: Lane, call: str, ping: Ping, now: float) -> None:
        self.tell(lane, None, now, CachePing(lane=_name(lane.id), call=call, tokens=ping.tokens, cost=ping.cost))

    def noted(self, call: Noted, lost: int) -> None:
        """A call that was not planned; `lost` are the tokens its lane had cached and paid for again."""
        lane, model = call.lane, _name(call.model)
        self.tell(lane, None, call.started, LlmCallStarted(call=call.call, lane=_name(lane.id), model=model))
        if call.status == "settled" and call.usage is not None:
            self.tell(lane, None, call.ended, _completed(call.call, call.model, call.usage))
        else:
            error, left = _name(call.error or "abandoned"), not call.error
            self.tell(lane, None, call.ended, LlmCallFailed(call=call.call, model=model, error=error, abandoned=left))
        price = rates(call.model) if lost else None
        if lost:
            dollars = Decimal(0) if price is None else lost * (price.input - price.read)
            row = Break(
                tenant=lane.tenant,
                id=self._ids.new(),
                call=call.call,
                session=lane.session,
                lane=lane.id,
                model=call.model,
                at=_micro(call.ended),
                reason="bypassed",
                tokens=lost,
                dollars=dollars,
            )
            if self._store is not None:
                self._store.put_break(row)
            reset = CacheReset(lane=_name(lane.id), reason="bypassed", call=call.call, tokens=lost, dollars=dollars)
            self.tell(lane, None, call.ended, reset)

    # Breaks

    def _broken(self, prepared: Prepared, finding: Finding, now: float) -> tuple[Break, Event]:
        """A break or a reset: its row, its report, its event."""
        lane = prepared.lane
        found = _where(prepared, finding, self._keep_bodies)
        model, marks = prepared.core.asked.model, prepared.core.plan.marks
        cure = cure_for(case(finding, model, path=found.path, before=found.said, after=found.says, marks=marks))
        row = Break(
            tenant=lane.tenant,
            id=self._ids.new(),
            call=prepared.call,
            session=lane.session,
            lane=lane.id,
            model=prepared.core.asked.model.ref,
            at=_micro(now),
            cause=finding.cause,
            reason=_reason(finding.reason),
            tokens=finding.tokens,
            dollars=finding.dollars,
            path=found.path,
            offset=found.offset,
            owner=_name(owner) if (owner := owner_of(prepared, finding)) is not None else None,
            cure=cure.name,
            data=msgspec.json.encode(cure),
        )
        if self._store is not None:
            self._store.put_break(row)
        if self._reports is not None:
            work = partial(self._reports.write, cure=cure, place=found.place, before=found.before, after=found.after)
            if not self._behind.do(partial(work, row, finding)):
                self._reports.lost += 1
        if row.reason is not None:
            reset = CacheReset(
                lane=_name(lane.id), reason=row.reason, call=row.call, tokens=row.tokens, dollars=row.dollars
            )
            return row, reset
        return row, _event(row, cure)

    def _tell(self, prepared: Prepared, at: float, *payloads: Event, row: Call | None = None) -> None:
        self.tell(prepared.lane, prepared.turn, at, *payloads, row=row)

    def tell(self, lane: Lane, turn: str | None, at: float, *payloads: Event, row: Call | None = None) -> None:
        """Events of a session, to the store and to the bus; with the call as it stands, where they are of one."""
        if self._store is None and self._bus is None:
            return
        moment, session = _micro(at), lane.session
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


def _completed(call: str, model: str, usage: Usage) -> LlmCallCompleted:
    return LlmCallCompleted(
        call=call,
        model=_name(model),
        input=usage.input,
        read=usage.read,
        writes=usage.writes,
        output=usage.output,
        cost=usage.cost,
        price_version=usage.price_version,
    )


def _event(row: Break, cure: Cure) -> CacheBreak:
    return CacheBreak(
        call=row.call,
        lane=_name(row.lane),
        cause=row.cause or "unknown",
        tokens=row.tokens,
        dollars=row.dollars,
        path=None if row.path is None else _name(row.path),
        offset=row.offset,
        owner=row.owner,
        cure=_name(cure.name),
    )


class _Where(Struct, frozen=True):
    """The first divergence in the body: path, byte offset, the two texts that were compared there and, for the cures,
    what the block said and says."""

    path: str | None = None
    offset: int | None = None
    before: bytes | None = None
    after: bytes | None = None
    said: bytes | None = None
    says: bytes | None = None
    place: Place | None = None


def _where(prepared: Prepared, finding: Finding, keep_bodies: bool) -> _Where:
    divergence = finding.divergence
    if divergence is None:
        return _Where()
    if divergence.setting is not None:
        return _Where(divergence.setting)
    body, prompt, earlier = prepared.sent, prepared.core.prompt, prepared.earlier
    if divergence.block >= len(prompt.blocks):
        return _Where(f"{divergence.section} (end)", len(body.raw))
    dialect = DIALECTS[body.dialect]
    number = prompt.origin[divergence.block] if prompt.origin else divergence.block
    span, says = body.blocks[number], dialect.content(body, number)
    old = None if earlier is None else _at(earlier, span.path)
    if earlier is None or old is None:
        return _Where(span.path, span.start, None, body.text(span), None, says)
    before, after, start, cuts = _compared(earlier, old, body, number)
    at = place(before, after, keep_bodies=keep_bodies)
    offset = start + (0 if at is None else at.offset)
    for cut in cuts:
        offset += cut.end - cut.start if cut.start <= offset else 0
    return _Where(span.path, offset, before, after, dialect.content(earlier, old), says, at)


def _compared(earlier: Body, old: int, body: Body, new: int) -> tuple[bytes, bytes, int, list[Splice]]:
    """Two versions of a block to be compared byte for byte, where the second begins, and what was cut out of it.

    Texts are compared by their literals: one may be a string and the other a block of its own. Everything else is
    compared without markers, which move on with every turn.
    """
    spans = rewrite.text_span(earlier, old), rewrite.text_span(body, new)
    if spans[0] is not None and spans[1] is not None:
        before, after = earlier.raw[slice(*spans[0])], body.raw[slice(*spans[1])]
        if before != after:
            return before, after, spans[1][0], []
    dialect = DIALECTS[body.dialect]
    before, _ = rewrite.unmarked(earlier, old, [m.at for m in dialect.markers(earlier, (old,)) if m.block == old])
    after, cuts = rewrite.unmarked(body, new, [m.at for m in dialect.markers(body, (new,)) if m.block == new])
    return before, after, body.blocks[new].start, cuts


def _at(body: Body, path: str) -> int | None:
    """The block at this path."""
    return next((index for index, span in enumerate(body.blocks) if span.path == path), None)


def _judged(verdict: Verdict) -> bytes:
    """What is stored of a verdict: whether it was foreseen, and the dollars saved against the client alone."""
    return msgspec.json.encode({"explained": verdict.explained, "saved": f"{verdict.saved:.9f}"})


def _reason(reason: str | None) -> ResetReason | None:
    return cast(ResetReason, reason) if reason in REASONS else None


def _name(text: str) -> str:
    """A name as events take it: short, and of whole characters."""
    if len(text) <= _NAME and text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()[:_NAME]


def _micro(at: float) -> int:
    return round(at * 1_000_000)
