"""`holdfast skills usage`: which skills were loaded, why, and what stood in prompts without ever being asked for."""

from __future__ import annotations

from collections.abc import Iterator

import click

from holdfast import report
from holdfast.cli import tables
from holdfast.cli.tables import Column
from holdfast.config import load_config
from holdfast.report import SkillUsage, SkillUsages

from ..store_options import in_window, looking, print_json, whose, window_options

COLUMNS = (
    Column("SKILL", 0, least=12),
    Column("LOADS", 2, right=True),
    Column("PRELOADED", 1, right=True),
    Column("ASKED FOR", 1, right=True),
    Column("ON DEMAND", 1, right=True),
    Column("TOKENS", 3, right=True),
    Column("SESSIONS", 4, right=True),
    Column("LAST", 5),
)

STORED = "The program of an agent stores what it loads: ToolHost(store=...), see docs/skills.md."


@click.command()
@window_options
def command(since: int | None, until: int | None, tenant: str | None, json_: bool) -> None:
    """Show which skills were loaded, and why.

    PRELOADED counts bodies that stood in the prompt from the start of a session, ASKED FOR in how many of these
    sessions the agent wanted to load that skill, ON DEMAND bodies that were loaded because the agent asked. TOKENS are
    estimated, of all bodies together. The skill that took most comes first.

    \b
    Examples:
      holdfast skills usage
      holdfast skills usage --since 7d
      holdfast skills usage --since 2026-11-01 --json
    """
    with looking(since, until) as store:
        owner = None if store is None else whose(store, tenant, events=True)
        usages = report.skills(store, start=since, end=until, tenant=owner)
    if json_:
        print_json(usages)
    elif store is None:
        tables.say(f"Nothing is stored yet in {load_config().settings.store.url}. {STORED}")
    elif not usages.skills:
        tables.say(f"No skill was loaded{in_window(since, until)}. {STORED}")
    else:
        tables.show(_lines(usages, tables.width()))


def _lines(usages: SkillUsages, room: int | None) -> Iterator[str]:
    rows = [_row(each.skill or "", each) for each in usages.skills]
    yield from tables.table(COLUMNS, [*rows, _row("total", usages.total)], room)
    yield ""
    total = usages.total
    if total.referenced_share is None:
        yield from tables.wrapped("No body was preloaded: all were loaded because the agent asked.", room)
        return
    share = tables.share(total.referenced_share)
    yield from tables.wrapped(
        f"Preloaded bodies: {total.preloaded:,}, of which the agent asked for {total.referenced:,} ({share}).", room
    )
    if usages.never_referenced:
        names = ", ".join(usages.never_referenced)
        yield from tables.wrapped(f"Preloaded and never asked for: {names}.", room, indent="  ")


def _row(name: str, each: SkillUsage) -> tuple[str, ...]:
    return (
        name,
        tables.count(sum(each.loads.values())),
        tables.count(each.loads["always"]),
        tables.count(each.referenced) if each.preloaded else "-",
        tables.count(each.loads["on_demand"]),
        tables.count(sum(each.tokens.values())),
        tables.count(each.sessions),
        "-" if each.last is None else tables.day(each.last),
    )
