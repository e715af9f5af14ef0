"""Planned calls and what is told of them, made when they are written.

A request hands over what it knows; the row and the events are made of it for many calls at once, and of a call that is
over before it was written only the last row. What is handed over does not change and holds no body and no prompt: a
store that is behind must not fill the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.core import Effect, Plan, Preflight, RetentionChange, Verdict
from holdfast.core.repairs import Repair
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
    encode_payload,
)
from holdfast.store import Call, CallStatus, EventRow

from .lane import Lane, PreparedCall
from .pool_effects import effect_of, effects_of
from .repairs.saving import Saving

ESTIMATED = b'{"estimated":true}'
"""The verdict of a call whose usage is an estimate, and of which nothing else is known."""
_NAME = 256
_encode = msgspec.json.Encoder().encode


class Row(Struct, frozen=True, kw_only=True, gc=False):
    """A call as it stands. `foreseen` are input, read and written tokens; `effects` what it did to the pools and what
    it would have done without us. A usage is `estimated` as long as the answer has not come whole."""

    lane: Lane
    call: str
    model: str
    status: CallStatus
    at: float
    plan: Plan
    repairs: tuple[Repair, ...]
    foreseen: tuple[int, int, tuple[tuple[str, int], ...]]
    reset: str | None
    first_token: float | None = None
    ended: float | None = None
    usage: Usage | None = None
    judged: tuple[bool, float] | None = None
    estimated: bool = False
    repairs_save: Saving | None = None
    error: str = ""
    effects: tuple[Effect, Effect] | None = None

    def __call__(self) -> Call:
        lane, (input_, read, writes) = self.lane, self.foreseen
        predicted = Usage(input=input_, read=read, writes=_by_ttl(writes))
        unanswered = self.usage is None and self.status == "abandoned"
        return Call(
            tenant=lane.tenant,
            id=self.call,
            session=lane.session,
            lane=lane.id,
            model=self.model,
            started_at=micro(self.at),
            status=self.status,
            client=lane.client or None,
            first_token_at=None if self.first_token is None else micro(self.first_token),
            ended_at=None if self.ended is None else micro(self.ended),
            usage=self.usage if self.usage is None or self.usage.price_version else price(self.usage, self.model),
            reset=reason_of(self.reset),
            error=self.error or None,
            plan=_encode({"plan": self.plan, "repairs": self.repairs}),
            prediction=_encode(predicted),
            verdict=possible(predicted, self.model) if unanswered else self._verdict(),
            chain=None if self.effects is None else effects_of(*self.effects),
        )

    def _verdict(self) -> bytes | None:
        return _verdict(self.judged, self.estimated, self.repairs_save)


def row_of(
    prepared: PreparedCall,
    status: CallStatus,
    now: float | None = None,
    verdict: Verdict | None = None,
    error: str = "",
) -> Row:
    """A planned call as it stands, with what it did to the pools once it began to be answered: it refreshed what it
    read even if it was never answered whole."""
    found, began = prepared.core, prepared.core.first_token
    foreseen, effects = found.outcome, None
    if began is not None or now is not None:
        sent, alone = (foreseen, found.alone) if verdict is None else (verdict.outcome, verdict.alone)
        effects = effect_of(foreseen, sent, began), effect_of(found.alone, alone, began)
    return Row(
        lane=prepared.lane,
        call=prepared.call,
        model=found.request.model.ref,
        status=status,
        at=foreseen.at,
        plan=found.plan,
        repairs=prepared.repairs,
        foreseen=(foreseen.input, foreseen.read, foreseen.writes),
        reset=found.expectation.reset,
        first_token=began,
        ended=now,
        usage=prepared.estimated if verdict is None else verdict.usage,
        estimated=prepared.estimated is not None,
        judged=None if verdict is None else (verdict.explained, verdict.saved),
        repairs_save=prepared.repairs_save if verdict is not None else None,
        error=error,
        effects=effects,
    )


def told(
    events: Callable[..., Sequence[Event]],
    known: tuple[Any, ...],
    ids: Sequence[str],
    at: float,
    session: str,
    turn: str | None,
) -> list[EventRow]:
    """Events as they are stored, made of what is `known`. Their ids were taken when they happened.

    They are of our own making and not checked one by one: what came from outside stands in the row too, which is
    checked when both are written."""
    moment = micro(at)
    return [
        (session, ulid, moment, turn, None, each.type, "system", each.sensitivity, encode_payload(each))
        for ulid, each in zip(ids, events(*known), strict=True)
    ]


def planned(
    call: str,
    lane: str,
    model: str,
    plan: Plan,
    markers: tuple[tuple[str, str], ...],
    edits: int,
    flight: Preflight,
    repairs: tuple[Repair, ...],
) -> tuple[Event, ...]:
    """What is told of a call before it is sent."""
    lane = name(lane)
    planned = CachePlanned(
        call=call,
        lane=lane,
        strategy=plan.strategy,
        markers=tuple([(name(path), name(ttl)) for path, ttl in markers]),
        edits=edits,
        predicted_read=flight.read,
        predicted_written=flight.written,
        predicted_input=flight.input,
        reasons=tuple([name(reason) for reason in plan.reasons]),
        repairs=tuple([(each.name, name(each.path), each.saved_tokens, each.applied) for each in repairs]),
    )
    return LlmCallStarted(call=call, lane=lane, model=name(model)), planned


def settled(
    call: str,
    lane: str,
    model: str,
    usage: Usage,
    predicted: Usage,
    explained: bool,
    changes: tuple[RetentionChange, ...],
    more: tuple[Event, ...],
) -> tuple[Event, ...]:
    """What is told of a call that was answered: two events, one for each change, and what was found in it."""
    return completed(call, model, usage), *_compared(call, lane, usage, predicted, explained, changes), *more


def judged(call: str, lane: str, verdict: Verdict) -> tuple[Event, ...]:
    """What a verdict says of a call whose answer was cut."""
    return _compared(call, lane, verdict.usage, verdict.predicted, verdict.explained, verdict.changes)


def _compared(
    call: str, lane: str, usage: Usage, predicted: Usage, explained: bool, changes: tuple[RetentionChange, ...]
) -> tuple[Event, ...]:
    verdict = CacheVerdict(
        call=call,
        predicted_read=predicted.read,
        actual_read=usage.read,
        predicted_written=predicted.written,
        actual_written=usage.written,
        explained=explained,
    )
    changed = [
        CacheRetentionChanged(lane=name(lane), zone=each.zone, before=each.before, after=each.after, why=name(each.why))
        for each in changes
    ]
    return verdict, *changed


def abandoned(
    call: str, model: str, error: str, usage: Usage | None = None, more: tuple[Event, ...] = ()
) -> tuple[Event, ...]:
    """What is told of a call that has no answer, or not all of it; `error` if it failed."""
    return failed(call, model, error, usage), *more


def failed(call: str, model: str, error: str, usage: Usage | None = None) -> LlmCallFailed:
    """`usage` is what was billed all the same, as far as is known."""
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


def _verdict(judged: tuple[bool, float] | None, estimated: bool, repairs: Saving | None = None) -> bytes | None:
    """What is stored of a verdict: whether it was foreseen, and the dollars saved against the client alone; whether the
    usage is an estimate; and what repairs would have saved."""
    if judged is None:
        return ESTIMATED if estimated else None
    more = b',"estimated":true' if estimated else b""
    if repairs is not None:
        more += b',"repairs":"%.9f","exact":%b' % (repairs.dollars, b"true" if repairs.exact else b"false")
    return b'{"explained":%b,"saved":"%.9f"%b}' % (b"true" if judged[0] else b"false", judged[1], more)


def possible(predicted: Usage, model: str) -> bytes | None:
    """The verdict of a call that was given up before its answer began: the most that may have been billed for it."""
    cost = price(predicted, model).cost
    return None if cost is None else b'{"possible":"%b"}' % str(cost).encode()


def _by_ttl(writes: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted([(ttl, tokens) for ttl, tokens in writes if tokens]))


def reason_of(reason: str | None) -> ResetReason | None:
    return reason if reason in RESET_REASONS else None


def name(text: str) -> str:
    """A name as events take it: short, and of whole characters."""
    if len(text) <= _NAME and text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()[:_NAME]


def micro(at: float) -> int:
    return round(at * 1_000_000)
