"""One call as a page: what it was, what was planned, predicted and billed, what broke."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from holdfast.cli import tables
from holdfast.cli.break_changes import change_lines
from holdfast.cli.breaks import what, where
from holdfast.cli.repair_words import or_set
from holdfast.cli.subscriptions import AT_LIST_PRICE
from holdfast.cli.tables import cost, dollars
from holdfast.report import BreakReport, CallReport, Marker, PlanReport, RepairReport
from holdfast.store import ShownEntry

_LABEL = 13


def call_lines(call: CallReport, memory: Sequence[ShownEntry], room: int | None) -> Iterator[str]:
    for label, text in (*_facts(call), *_memory(memory)):
        first, *others = tables.wrapped(f"{label:{_LABEL}}{text}", room, indent=" " * _LABEL)
        yield first
        yield from others


def _facts(call: CallReport) -> Iterator[tuple[str, str]]:
    yield "Call", call.id
    yield "Session", call.session
    yield "Lane", call.lane
    yield "Client", call.client or "not known"
    yield "Model", call.model
    yield "Tenant", call.tenant
    yield "Started", _times(call)
    status = call.status + (f": {call.error}" if call.error else "")
    yield "Status", status if call.kind == "request" else f"{call.kind}, {status}"
    if call.why:
        yield "Why", call.why
    yield from _bill(call)
    if call.plan is not None:
        yield from _plan(call.plan)
    if call.reset is not None:
        yield "Reset", call.reset
    for each in call.breaks:
        yield from _break(each)
    for event in call.events:
        details = ", ".join(f"{name} {value}" for name, value in event.data.items() if value is not None)
        yield "Event", f"{event.type}: {details}" if details else event.type


def _memory(memory: Sequence[ShownEntry]) -> Iterator[tuple[str, str]]:
    """What was put into the lane up to the end of the call. It is sent again from then on, until a compaction or a
    change takes it away."""
    places: dict[str, dict[str, None]] = {}
    for each in memory:
        places.setdefault(each.place + " block" * (each.place in ("stable", "context")), {})[each.entry] = None
    if places:
        placed = "; ".join(f"{place} {', '.join(ids)}" for place, ids in places.items())
        yield "Memory", f"put into this lane by then: {placed}"


def _times(call: CallReport) -> str:
    def after(at: datetime | None, words: str) -> str:
        return "" if at is None else f", {words} {(at - call.started).total_seconds():.2f} s"

    return (
        tables.instant(call.started) + after(call.first_token, "first token after") + after(call.ended, "ended after")
    )


def _bill(call: CallReport) -> Iterator[tuple[str, str]]:
    predicted, used = call.predicted, call.usage
    if predicted is not None:
        yield "Predicted", f"read {predicted.read:,}, written {predicted.written:,}, input {predicted.input:,}"
    if used is None:
        most = f"; at most {dollars(call.possible)}, if the provider had begun" if call.possible else ""
        yield "Billed", f"not known{most}"
        return
    written = " + ".join(f"{tokens:,} for {ttl}" for ttl, tokens in used.writes) or "0"
    estimated = " (in part estimated)" if call.estimated else ""
    yield "Billed", f"read {used.read:,}, written {written}, input {used.input:,}, output {used.output:,}{estimated}"
    if call.explained is not None:
        yield "Verdict", "as predicted" if call.explained else "not as predicted"
    if used.cost is None:
        yield "Cost", "price unknown"
        return
    without = f"; without a cache {dollars(call.without_cache)}" if call.without_cache is not None else ""
    listed = f" {AT_LIST_PRICE}" if call.subscription else ""
    version = used.price_version or "prices of an unknown version"
    yield "Cost", f"{cost(used.cost, 0, call.estimated)}{listed}{without} ({version})"
    if call.saved is not None:
        nothing = "" if call.saved else "nothing; it was "
        yield "Saved", f"{nothing}{tables.saving(call.saved)} the client alone would have paid"


def _plan(plan: PlanReport) -> Iterator[tuple[str, str]]:
    yield "Strategy", plan.strategy + (f", mode {plan.mode}" if plan.mode else "")
    yield "Markers", "; ".join(map(_marker, plan.markers)) or "none"
    if plan.edits:
        yield "Edits", f"{plan.edits:,} made"
    for reason in plan.reasons:
        yield "Reason", reason
    for reason in plan.dropped:
        yield "Dropped", reason
    for repair in plan.repairs:
        yield "Repaired" if repair.applied else "Suggested", _repair(repair)


def _marker(marker: Marker) -> str:
    place = marker.path if marker.path is not None else f"block {marker.block}"
    return f"{place} for {marker.ttl}" if marker.ttl else place


def _repair(repair: RepairReport) -> str:
    why = f": {repair.why}" if repair.why else ""
    return f"{repair.name} at {repair.path}{why} ({repair.saved_tokens:,} tokens)"


def _break(each: BreakReport) -> Iterator[tuple[str, str]]:
    place = f" at {where(each)}" if each.path is not None else ""
    owner = f" of {each.owner}" if each.owner else ""
    listed = f" {AT_LIST_PRICE}" if each.subscription else ""
    yield "Break", f"{what(each)}{place}{owner}: {each.tokens:,} tokens lost, {dollars(each.dollars)}{listed}"
    yield from (("Changed", line) for line in change_lines(each))
    if each.advice:
        yield "Cure", f"{each.cure}: {each.advice}{or_set(each.setting)}"
