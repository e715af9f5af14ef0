"""`holdfast show`: one session with its lanes and calls, or one call with everything that is known of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import click
from msgspec.structs import replace

from holdfast import report
from holdfast.cli.bill import sentences
from holdfast.cli.break_changes import with_changes
from holdfast.cli.breaks import cures, what
from holdfast.cli.show_call import call_lines
from holdfast.cli.subscriptions import STARRED
from holdfast.cli.tables import Column, counted
from holdfast.engine.identity import LOCAL
from holdfast.errors import HoldfastError
from holdfast.report import CallReport, LaneReport, SessionReport
from holdfast.store import ShownEntry, Store

from . import completions, tables
from .store_options import limit_option, looking, nothing_yet, print_json, whose

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
@click.argument("id_", metavar="[SESSION|CALL]", required=False, shell_complete=completions.sessions)
@click.option("--tenant", metavar="ID", help="Whose, where several tenants have the same id.")
@click.option("--json", "json_", is_flag=True, help="Print JSON.")
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
    for line in _session_lines(item, room) if isinstance(item, SessionReport) else call_lines(item, memory, room):
        click.echo(line)


def _find(store: Store, id_: str | None, tenant: str | None, limit: int) -> SessionReport | CallReport:
    if id_ is None:
        newest = store.active_sessions(tenant, limit=1)
        if not newest:
            raise HoldfastError("no session has any call yet; `holdfast serve` or `holdfast run -- CLIENT` makes some")
        return report.session(store, newest[0].session, tenant=newest[0].tenant, limit=limit)
    named = report.find(store, tables.uncut(id_), tenant=tenant)
    if named.kind == "call":
        call = report.call(store, named.id, tenant=named.tenant)
        return replace(call, breaks=with_changes(call.breaks))
    return report.session(store, named.id, tenant=named.tenant, limit=limit)


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
    read = (
        f"; {tables.share(whole.hit_rate)} of {tables.counted(whole.prompt_tokens, 'prompt token')} read from the cache"
    )
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
    """What is not as usual about a call."""
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
