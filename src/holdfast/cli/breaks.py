"""`holdfast breaks`: what broke the cache, what it cost, what to do."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import click
from msgspec.structs import replace

from holdfast import report
from holdfast.cli.repair_words import or_set, sentence
from holdfast.cli.tables import STARRED, Column, cut, dollars, printable
from holdfast.config import load_config
from holdfast.engine import WORDS_MASKED, Reports
from holdfast.records import MISSED
from holdfast.report import BreakReport, BreakReports
from holdfast.report.explainer import CATALOGUE, others, with_others
from holdfast.wording import counted

from . import completion, tables
from .store_options import (
    in_window,
    limit_option,
    looking,
    nothing_yet,
    print_json,
    session_of,
    window_options,
)

COLUMNS = (
    Column("WHEN", 0),
    Column("CAUSE", 1, least=15),
    Column("WHERE", 4, least=14, always=False),
    Column("TOKENS", 3, right=True),
    Column("COST", 2, right=True),
    Column("CURE", 7, least=10),
    Column("SESSION", 6),
    Column("CALL", 3),
    Column("CLIENT", 8, least=8),
    Column("MODEL", 9, least=27),
    Column("OWNER", 10, always=False),
    Column("TENANT", 11, always=False),
)


@click.command()
@click.option("--session", metavar="ID", shell_complete=completion.sessions, help="Only of this session.")
@click.option("--resets", is_flag=True, help="Resets too: breaks that have a reason.")
@window_options
@limit_option(20, "breaks")
def command(
    session: str | None,
    resets: bool,
    since: int | None,
    until: int | None,
    tenant: str | None,
    json_: bool,
    limit: int,
) -> None:
    """List what broke the cache, what it cost, what to do.

    The newest comes first. WHERE is the path of the block that changed and the first byte that differs, COST what the
    lost tokens were billed beyond the price of reading them. Turns that went past Holdfast (bypassed), and those whose
    conversation was left without markers until then (unmarked), are listed with what they cost more for that.
    Below, every cure once, the dearest first; then, where `store.keep_bodies` is set, what changed.

    \b
    Examples:
      holdfast breaks
      holdfast breaks --since 7d --limit 100
      holdfast breaks --session 5f0c7c1e --resets --json
    """
    with looking(since, until) as store:
        if store is None:
            breaks = BreakReports(window=report.window(since, until), breaks=())
        else:
            tenant, session = session_of(store, tenant, session)
            breaks = report.breaks(
                store, start=since, end=until, tenant=tenant, session=session, resets=resets, limit=limit
            )
            level = load_config().settings.cache.repair
            repairs = report.repair_savings(store, level, start=since, end=until, tenant=tenant, session=session)
            breaks = replace(breaks, breaks=with_changes(breaks.breaks), repairs=repairs)
    if json_:
        print_json(breaks)
    elif store is None:
        click.echo(nothing_yet())
    elif not breaks.breaks:
        click.echo(f"Nothing broke the cache{in_window(since, until)}.")
    else:
        _print(breaks)
    if breaks.repairs is not None and not json_:
        tables.say(sentence(breaks.repairs))


def _print(reports: BreakReports) -> None:
    room = tables.width()
    calls = tables.short_ids(each.call for each in reports.breaks)
    sessions = tables.short_ids(each.session for each in reports.breaks)
    tenants = tables.several(each.tenant for each in reports.breaks)
    tables.show(tables.table(COLUMNS, [_row(each, calls, sessions, tenants) for each in reports.breaks], room))
    click.echo("")
    tables.show(cures(reports.breaks, room))
    tables.show(_changed(reports.breaks, calls, room))
    lost, missed = _sum(reports.breaks), sum(each.reason in MISSED for each in reports.breaks)
    resets = sum(each.reason is not None for each in reports.breaks) - missed
    number = counted(len(reports.breaks) - resets - missed, "break")
    number += f", {counted(missed, 'turn')} past Holdfast or without markers" if missed else ""
    number += f" and {counted(resets, 'reset')}" if resets else ""
    more = ", the newest; --limit shows more" if reports.more else ""
    listed = f" {STARRED}" if any(each.subscription for each in reports.breaks) else ""
    tables.show(tables.wrapped(f"{number}: {dollars(lost)}{more}.{listed} `holdfast show CALL` shows one call.", room))


def _changed(breaks: tuple[BreakReport, ...], calls: dict[str, str], room: int | None) -> Iterator[str]:
    """What changed, where words of prompts are kept; a blank line behind it."""
    readable = [each for each in breaks if shown_words(each)]
    if not readable:
        return
    yield "What changed:"
    for each in readable:
        for line in change_lines(each):
            yield from tables.wrapped(f"  {calls[each.call]} {each.path}: {line}", room, indent="    ")
    yield ""


def _row(
    each: BreakReport, calls: dict[str, str], sessions: dict[str, str], tenants: dict[str, str]
) -> tuple[str, ...]:
    return (
        tables.day(each.at),
        what(each),
        where(each),
        tables.count(each.tokens),
        dollars(each.dollars) + "*" * each.subscription,
        each.cure if curable(each) and each.cure else "-",
        sessions[each.session],
        calls[each.call],
        each.client or "-",
        each.model,
        each.owner or "-",
        tenants.get(each.tenant, "-"),
    )


def what(each: BreakReport) -> str:
    if each.reason in MISSED:
        return each.reason or ""
    return each.cause or "unknown" if each.reason is None else f"reset: {each.reason}"


def curable(each: BreakReport) -> bool:
    """Most resets are wanted; the cure of such a one has the name of its reason."""
    return each.reason is None or each.cure not in (None, each.reason)


def where(each: BreakReport) -> str:
    if each.path is None:
        return "-"
    return each.path if each.offset is None else f"{each.path} @{each.offset:,}"


def cures(breaks: tuple[BreakReport, ...], room: int | None) -> Iterator[str]:
    """Yield the advice for each cure once, the most expensive first, followed by a blank line."""
    by_cure: dict[str, list[BreakReport]] = {}
    for each in breaks:
        if each.advice and curable(each):
            by_cure.setdefault(each.cure or "", []).append(each)
    if not by_cure:
        return
    yield "What to do:"
    for name, those in sorted(by_cure.items(), key=lambda item: -(_sum(item[1]) or Decimal(0))):
        newest = those[0]
        kind = "break" if newest.reason is None else "turn" if newest.reason in MISSED else "reset"
        cost = f"{counted(len(those), kind)}, {dollars(_sum(those))}"
        first = newest.advice or ""
        advice = with_others(first, others(first, (each.advice or "" for each in those[1:])))
        yield from tables.wrapped(f"  {name} ({cost}): {advice}{or_set(newest.setting)}", room, indent="    ")
    yield from tables.wrapped(f"  {CATALOGUE}", room, indent="    ")
    yield ""


def _sum(breaks: tuple[BreakReport, ...] | list[BreakReport]) -> Decimal | None:
    costs = [each.dollars for each in breaks if each.dollars is not None]
    return sum(costs, Decimal(0)) if costs else None


_MOST = 8
"""Changes of one break that are printed; its report has up to 20."""

_WIDEST = 300
"""Characters of a piece that are printed."""


def with_changes(breaks: tuple[BreakReport, ...]) -> tuple[BreakReport, ...]:
    """Add the changes from their reports to the breaks."""
    reports = Reports.configured(load_config())
    return tuple(_with_changes(each, reports) for each in breaks)


def _with_changes(each: BreakReport, reports: Reports) -> BreakReport:
    report = reports.read(each.id, each.at)
    return each if report is None else replace(each, changes=report.changes, masked=report.masked or report.note)


def change_lines(each: BreakReport) -> Iterator[str]:
    """Yield a line for each change, and one for what is not shown."""
    for change in each.changes[:_MOST]:
        yield f"byte {change.at:,} of the block: {_quoted(change.removed)} became {_quoted(change.added)}"
    if len(each.changes) > _MOST:
        yield f"and {len(each.changes) - _MOST} more; --json lists them."
    if each.masked is not None:
        yield each.masked


def shown_words(each: BreakReport) -> bool:
    """Whether its changes are there to be read."""
    return bool(each.changes) and each.masked != WORDS_MASKED


def _quoted(text: str) -> str:
    if not text:
        return "nothing"
    words = printable(text)
    return f'"{words if len(words) <= _WIDEST else cut(words, _WIDEST)}"'
