"""`holdfast show`: one session with its lanes and calls, or one call with everything that is known of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import click
from msgspec.structs import replace

from holdfast import report
from holdfast.cli import tables
from holdfast.cli.bill import sentences
from holdfast.cli.breaks import change_lines, cures, what, where, with_changes
from holdfast.cli.repair_words import or_set
from holdfast.cli.tables import AT_LIST_PRICE, STARRED, Column, cost, dollars
from holdfast.engine.identity import LOCAL
from holdfast.errors import HoldfastError
from holdfast.report import BreakReport, CallReport, LaneReport, PlanReport, RepairReport, SentMarker, SessionReport
from holdfast.store import ShownEntry, Store
from holdfast.wording import counted

from . import completion
from .store_options import json_option, limit_option, looking, nothing_yet, print_json, whose

LANES = (
    Column("LANE", 0, least=12),
    Column("MODEL", 3, least=27),
    Column("CALLS", 1, right=True),
    Column("PROMPT", 5, right=True),
    Column("HIT", 2, right=True),
    Column("COST", 2, right=True),
    Column("BREAKS", 4, right=True),
    Column("AGENT", 6, least=8, always=False),
    Column("STARTED FROM", 7, least=12, always=False),
)

CALLS = (
    Column("CALL", 0),
    Column("TIME", 2),
    Column("EXPECTED", 3, right=True),
    Column("READ", 1, right=True),
    Column("WRITTEN", 4, right=True),
    Column("INPUT", 6, right=True),
    Column("COST", 5, right=True),
    Column("NOTE", 1, least=12, always=False),
    Column("MARKERS", 8, least=7),
    Column("OUTPUT", 9, right=True),
    Column("LANE", 7, least=8, always=False),
)


@click.command()
@click.argument("id_", metavar="[SESSION|CALL]", required=False, shell_complete=completion.sessions)
@click.option("--tenant", metavar="ID", help="Whose, where several tenants have the same id.")
@json_option
@limit_option(50, "calls of a session, the newest")
def command(id_: str | None, tenant: str | None, json_: bool, limit: int) -> None:
    """Show one session or one call.

    The beginning of an id is enough if no other begins with it; without one, the session used last is shown. A lane
    is one line of conversation in a session: of one agent, on one model. Of each call, EXPECTED is what it was
    predicted to read from the cache, READ what it read, WRITTEN what it wrote to it and INPUT what was billed in
    full.

    \b
    Examples:
      holdfast show
      holdfast show 5f0c7c1e
      holdfast show 01KA3ZJ9QW --json
    """
    with looking() as store:
        if store is None:
            raise HoldfastError(nothing_yet())
        item = _find(store, id_, whose(store, tenant), limit)
        memory = _memory(store, item) if isinstance(item, CallReport) else []
    if json_:
        print_json(item)
        return
    room = tables.width()
    tables.show(_session_lines(item, room) if isinstance(item, SessionReport) else call_lines(item, memory, room))


def _find(store: Store, id_: str | None, tenant: str | None, limit: int) -> SessionReport | CallReport:
    if id_ is None:
        newest = store.active_sessions(tenant, limit=1)
        if not newest:
            raise HoldfastError("no session has any call yet; `holdfast serve` or `holdfast run -- CLIENT` makes some")
        return report.session(store, newest[0].session, tenant=newest[0].tenant, limit=limit)
    match = report.find(store, tables.uncut(id_), tenant=tenant)
    if match.kind == "call":
        call = report.call(store, match.id, tenant=match.tenant)
        return replace(call, breaks=with_changes(call.breaks))
    return report.session(store, match.id, tenant=match.tenant, limit=limit)


def _memory(store: Store, call: CallReport) -> list[ShownEntry]:
    until = datetime.now(UTC) if call.ended is None else call.ended
    at = round(until.timestamp() * 1_000_000)
    # With `memory.inject_as = "local"` clients are shown what this machine's user knows.
    return [
        each
        for tenant in sorted({call.tenant, LOCAL})
        for each in store.shown_to(tenant, call.session, call.lane, until=at)
    ]


def _session_lines(session: SessionReport, room: int | None) -> Iterator[str]:
    whole = session.session
    client = f" of {whole.client}" if whole.client else ""
    yield from tables.wrapped(f"Session {whole.id}{client}", room)
    period = f"{tables.instant(whole.started)} to {tables.instant(whole.last_call)}"
    read = f"; {tables.share(whole.hit_rate)} of {counted(whole.prompt_tokens, 'prompt token')} read from the cache"
    yield from tables.wrapped(f"{period}{read if whole.prompt_tokens else ''}.", room)
    for sentence in sentences(whole):
        yield from tables.wrapped(sentence, room)
    names = _lane_names(session)
    yield ""
    yield from tables.table(LANES, [_lane(each, names) for each in session.lanes], room)
    yield ""
    short = tables.short_ids(each.id for each in session.calls)
    yield from tables.table(CALLS, [_call(each, short, names) for each in session.calls], room)
    yield ""
    if whole.list_price is not None:
        yield from tables.wrapped(STARRED, room)
    yield from cures(tuple(each for call in session.calls for each in call.breaks), room)
    if session.left_out:
        older = counted(session.left_out, "older call")
        yield from tables.wrapped(f"{older} left out; --limit shows more.", room)
    yield from tables.wrapped("`holdfast show CALL` shows one call.", room)


def _lane_names(session: SessionReport) -> dict[str, str]:
    """Lanes without the name of the session, where they begin with it."""
    prefix = f"{session.session.id}/"
    return {lane.id or "": (lane.id or "").removeprefix(prefix) for lane in session.lanes}


def _lane(each: LaneReport, names: dict[str, str]) -> tuple[str, ...]:
    return (
        names[each.id or ""],
        each.model,
        tables.count(each.calls),
        tables.count(each.prompt_tokens),
        tables.share(each.hit_rate),
        tables.cost(each.cost, each.unpriced, each.estimated, at_list=each.list_price is not None),
        tables.count(each.breaks),
        each.agent or "-",
        names.get(each.parent or "", each.parent) or "-",
    )


def _call(each: CallReport, short: dict[str, str], names: dict[str, str]) -> tuple[str, ...]:
    used = each.usage
    return (
        short[each.id],
        each.started.astimezone().strftime("%H:%M:%S"),
        "-" if each.predicted is None else tables.count(each.predicted.read),
        "-" if used is None else tables.count(used.read),
        "-" if used is None else tables.count(used.written),
        "-" if used is None else tables.count(used.input),
        "-"
        if used is None
        else tables.cost(used.cost, int(used.cost is None), each.estimated, at_list=each.subscription),
        note(each),
        " ".join(marker.ttl for marker in each.plan.markers) or "-" if each.plan is not None else "-",
        "-" if used is None else tables.count(used.output),
        names[each.lane] if len(names) > 1 else "-",
    )


def note(each: CallReport) -> str:
    """Return what is unusual about a call."""
    words = [] if each.kind == "request" else [f"{each.kind}: {each.why}" if each.why else each.kind]
    if each.status != "settled":
        words.append(f"{each.status}: {each.error}" if each.error else each.status)
    words += [f"{what(one)} {tables.dollars(one.dollars)}" for one in each.breaks]
    if each.reset is not None and all(one.reason != each.reset for one in each.breaks):
        words.append(f"reset: {each.reset}")
    if each.explained is False and not each.breaks:
        words.append("not as predicted")
    repaired = sum(repair.applied for repair in each.plan.repairs) if each.plan is not None else 0
    if repaired:
        words.append(counted(repaired, "repair"))
    return "; ".join(words)


_LABEL = 13


def call_lines(call: CallReport, memory: Sequence[ShownEntry], room: int | None) -> Iterator[str]:
    for label, text in (*_facts(call), *_memory_lines(memory)):
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


def _memory_lines(memory: Sequence[ShownEntry]) -> Iterator[tuple[str, str]]:
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


def _marker(marker: SentMarker) -> str:
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
