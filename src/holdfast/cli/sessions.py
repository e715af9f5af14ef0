"""`holdfast sessions`: what went through, a line for each session."""

from __future__ import annotations

import click

from holdfast import report
from holdfast.cli import tables
from holdfast.cli.tables import STARRED, Column, dollars
from holdfast.report import SessionReports, SessionSummary
from holdfast.wording import counted

from .store_options import (
    in_window,
    limit_option,
    looking,
    nothing_yet,
    print_json,
    whose,
    window_options,
)

COLUMNS = (
    Column("SESSION", 0),
    Column("CLIENT", 2, least=8),
    Column("LAST CALL", 1),
    Column("CALLS", 3, right=True),
    Column("PROMPT", 8, right=True),
    Column("HIT", 4, right=True),
    Column("COST", 5, right=True),
    Column("BREAKS", 6, right=True),
    Column("LOST", 7, right=True),
    Column("MISSED", 8, right=True, always=False),
    Column("NO CACHE", 9, right=True),
    Column("LANES", 11, right=True),
    Column("MODELS", 10, least=20),
    Column("STARTED", 12),
    Column("TENANT", 1, always=False),
)


@click.command()
@window_options
@limit_option(20, "sessions")
def command(since: int | None, until: int | None, tenant: str | None, json_: bool, limit: int) -> None:
    """List sessions: calls, hit rate, cost, breaks.

    The session used last comes first. PROMPT is all prompt tokens, HIT the share of them that was read from the
    cache, LOST what breaks cost, MISSED what turns cost more that went past Holdfast or without markers, NO CACHE what
    the same tokens would have cost without one.

    \b
    Examples:
      holdfast sessions
      holdfast sessions --since 7d --limit 50
      holdfast sessions --since 2026-11-01 --json
    """
    with looking(since, until) as store:
        if store is None:
            reports = SessionReports(window=report.window(since, until), sessions=())
        else:
            tenant = whose(store, tenant)
            reports = report.sessions(store, start=since, end=until, tenant=tenant, limit=limit)
    if json_:
        print_json(reports)
    elif store is None:
        click.echo(nothing_yet())
    elif not reports.sessions:
        click.echo(f"No session has a call{in_window(since, until)}.")
    else:
        _print(reports)


def _print(reports: SessionReports) -> None:
    room = tables.width()
    short, tenants = (
        tables.short_ids(each.id or "" for each in reports.sessions),
        tables.several(each.tenant for each in reports.sessions),
    )
    tables.show(tables.table(COLUMNS, [_row(each, short, tenants) for each in reports.sessions], room))
    shown = counted(len(reports.sessions), "session")
    more = ", the newest; --limit shows more" if reports.more else ""
    unpriced = sum(each.unpriced for each in reports.sessions)
    unknown = f" The price of {counted(unpriced, 'call')} is unknown." if unpriced else ""
    click.echo("")
    listed = f" {STARRED}" if any(each.list_price is not None for each in reports.sessions) else ""
    tables.show(tables.wrapped(f"{shown}{more}.{unknown}{listed} `holdfast show SESSION` shows one.", room))


def _row(each: SessionSummary, short: dict[str, str], tenants: dict[str, str]) -> tuple[str, ...]:
    return (
        short[each.id or ""],
        each.client or "-",
        tables.day(each.last_call),
        tables.count(each.calls),
        tables.count(each.prompt_tokens),
        tables.share(each.hit_rate),
        tables.cost(each.cost, each.unpriced, each.estimated, at_list=each.list_price is not None),
        tables.count(each.breaks),
        dollars(each.break_cost) if each.breaks else "-",
        dollars(each.missed_cost) if each.missed else "-",
        dollars(each.without_cache) if each.cost is not None else "-",
        tables.count(each.lanes),
        ", ".join(each.models),
        tables.day(each.started),
        tenants.get(each.tenant, "-"),
    )
