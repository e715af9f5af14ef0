"""Calls as they are stored, and their events.

What takes time to encode is handed to the store as values: of a call that is over before it was written only the last
row is encoded. They do not change and hold no body and no prompt: a store that is behind must not fill the memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from holdfast.core import Verdict
from holdfast.facts import price
from holdfast.records import RESET_REASONS, ResetReason, Usage
from holdfast.records.events import (
    CachePlanned,
    CacheRetentionChanged,
    CacheVerdict,
    Event,
    LlmCallCompleted,
    LlmCallFailed,
    LlmCallStarted,
)
from holdfast.store import Call, CallDraft, CallStatus, EventRow

from .lane import Lane, PreparedCall, Saving
from .pool_effects import effect_of

ESTIMATED = b'{"estimated":true}'
"""The verdict of a call with an estimated usage and no other data."""
_NAME = 256


def row_of(
    prepared: PreparedCall,
    status: CallStatus,
    now: float | None = None,
    verdict: Verdict | None = None,
    error: str = "",
) -> CallDraft:
    """Return the stored form of a planned call as it stands. Once its answer began, that includes its effects on the
    pools, and those it would have had without us: it refreshed what it read even if it was never answered whole."""
    planned, lane, usage = prepared.core, prepared.lane, prepared.estimated if verdict is None else verdict.usage
    model, began, predicted, effects = planned.request.model.ref, planned.first_token, planned.outcome, None
    if began is not None or now is not None:
        sent, alone = (predicted, planned.alone) if verdict is None else (verdict.outcome, verdict.alone)
        effects = effect_of(predicted, sent, began), effect_of(planned.alone, alone, began)
    written = [(ttl, tokens) for ttl, tokens in predicted.writes if tokens]
    prediction = Usage(input=predicted.input, read=predicted.read, writes=tuple(sorted(written)))
    if usage is None and status == "abandoned":
        stored_verdict = possible(prediction, model)
    else:
        stored_verdict = _verdict(verdict, prepared.estimated is not None, prepared.repairs_save)
    call = Call(
        tenant=lane.tenant,
        id=prepared.call,
        session=lane.session,
        lane=lane.id,
        model=model,
        started_at=micro(predicted.at),
        status=status,
        client=lane.client or None,
        first_token_at=None if began is None else micro(began),
        ended_at=None if now is None else micro(now),
        usage=usage if usage is None or usage.price_version else price(usage, model),
        reset=reason_of(planned.expectation.reset),
        error=error or None,
        verdict=stored_verdict,
    )
    return CallDraft(call, {"plan": planned.plan, "repairs": prepared.repairs}, prediction, effects)


class UnplannedCall(Struct, frozen=True, kw_only=True):
    """A side request, or a call that went out past us: a row and two events, which change no lane. Times are seconds
    since 1970."""

    id: str
    lane: Lane
    kind: str
    """`side` or `bypassed`."""
    model: str
    """Provider and name, as in `anthropic:claude-opus-5-5`."""
    started: float
    ended: float | None
    """None while the call is under way."""
    first_token: float | None = None
    usage: Usage | None = None
    estimated: bool = False
    """The answer was cut: a part of the usage is an estimate."""
    error: str = ""
    why: str = ""
    """Why it was not planned."""

    @property
    def status(self) -> CallStatus:
        if self.ended is None:
            return "pending"
        if self.error:
            return "failed"
        return "abandoned" if self.usage is None or self.estimated else "settled"

    def row(self) -> Call:
        return Call(
            tenant=self.lane.tenant,
            id=self.id,
            session=self.lane.session,
            lane=self.lane.id,
            model=self.model,
            started_at=micro(self.started),
            status=self.status,
            kind=self.kind,
            client=self.lane.client or None,
            first_token_at=None if self.first_token is None else micro(self.first_token),
            ended_at=None if self.ended is None else micro(self.ended),
            usage=self.usage,
            reset="bypassed" if self.kind == "bypassed" else None,
            error=self.error or None,
            plan=msgspec.json.encode({"why": self.why}) if self.why else None,
            verdict=ESTIMATED if self.estimated and self.usage is not None else None,
        )


def event_rows(
    events: Sequence[Event], ids: Sequence[str], at: float, session: str, turn: str | None
) -> tuple[EventRow, ...]:
    """Events as the store takes them, under ids that were taken when they happened.

    They are of our own making and not checked one by one: what came from outside stands in the row too, which is
    checked when both are written."""
    moment = micro(at)
    return tuple(
        [
            (session, ulid, moment, turn, None, each.type, "system", each.sensitivity, each)
            for ulid, each in zip(ids, events, strict=True)
        ]
    )


def planned(prepared: PreparedCall) -> tuple[Event, ...]:
    """The events of a call before it is sent."""
    call, lane, plan, flight = prepared.call, name(prepared.lane.id), prepared.core.plan, prepared.preflight
    planned = CachePlanned(
        call=call,
        lane=lane,
        strategy=plan.strategy,
        markers=tuple([(name(path), name(ttl)) for path, ttl in prepared.markers]),
        edits=int(prepared.edits is not None and prepared.edits.made),
        predicted_read=flight.read,
        predicted_written=flight.written,
        predicted_input=flight.input,
        reasons=tuple([name(reason) for reason in plan.reasons]),
        repairs=tuple([(each.name, name(each.path), each.saved_tokens, each.applied) for each in prepared.repairs]),
    )
    return LlmCallStarted(call=call, lane=lane, model=name(prepared.core.request.model.ref)), planned


def settled(prepared: PreparedCall, verdict: Verdict, more: tuple[Event, ...]) -> tuple[Event, ...]:
    """The events of a call that was answered: two, one for each change, and what was found in it."""
    model, lane = prepared.core.request.model.ref, prepared.lane.id
    return completed(prepared.call, model, verdict.usage), *judged(prepared.call, lane, verdict), *more


def judged(call: str, lane: str, verdict: Verdict) -> tuple[Event, ...]:
    """The events of a verdict."""
    predicted, usage = verdict.predicted, verdict.usage
    compared = CacheVerdict(
        call=call,
        predicted_read=predicted.read,
        actual_read=usage.read,
        predicted_written=predicted.written,
        actual_written=usage.written,
        explained=verdict.explained,
    )
    changed = [
        CacheRetentionChanged(lane=name(lane), zone=each.zone, before=each.before, after=each.after, why=name(each.why))
        for each in verdict.changes
    ]
    return compared, *changed


def abandoned(
    call: str, model: str, error: str, usage: Usage | None = None, more: tuple[Event, ...] = ()
) -> tuple[Event, ...]:
    """The events of a call that has no answer, or not all of it; `error` if it failed."""
    return failed(call, model, error, usage), *more


def failed(call: str, model: str, error: str, usage: Usage | None = None) -> LlmCallFailed:
    """Return the event of a failed call. `usage` is what was billed nevertheless, if known."""
    used = usage or Usage()
    return LlmCallFailed(
        call=call,
        model=name(model),
        error=name(error or "abandoned"),
        abandoned=not error,
        input=used.input,
        read=used.read,
        writes=used.writes,
        output=used.output,
        cost=used.cost,
    )


def completed(call: str, model: str, usage: Usage) -> LlmCallCompleted:
    return LlmCallCompleted(
        call=call,
        model=name(model),
        input=usage.input,
        read=usage.read,
        writes=usage.writes,
        output=usage.output,
        cost=usage.cost,
        price_version=usage.price_version,
    )


def _verdict(verdict: Verdict | None, estimated: bool, repairs: Saving | None) -> bytes | None:
    """Return the stored form of a verdict: whether it was predicted, the dollars saved against the client alone,
    whether the usage is an estimate, and what repairs would have saved."""
    if verdict is None:
        return ESTIMATED if estimated else None
    more = b',"estimated":true' if estimated else b""
    if repairs is not None:
        more += b',"repairs":"%.9f","exact":%b' % (repairs.dollars, b"true" if repairs.exact else b"false")
    return b'{"explained":%b,"saved":"%.9f"%b}' % (b"true" if verdict.explained else b"false", verdict.saved, more)


def possible(predicted: Usage, model: str) -> bytes | None:
    """The verdict of a call that was given up before its answer began: the most that may have been billed for it."""
    cost = price(predicted, model).cost
    return None if cost is None else b'{"possible":"%b"}' % str(cost).encode()


def reason_of(reason: str | None) -> ResetReason | None:
    return reason if reason in RESET_REASONS else None


def name(text: str) -> str:
    """A name as events take it: short, and of whole characters."""
    if len(text) <= _NAME and text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()[:_NAME]


def micro(at: float) -> int:
    return round(at * 1_000_000)
