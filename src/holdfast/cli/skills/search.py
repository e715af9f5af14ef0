"""`holdfast skills search`: what an agent finds with `skill_search`."""

from __future__ import annotations

import click
from msgspec import Struct

from holdfast.cli import tables
from holdfast.cli.tables import printable
from holdfast.skills import listed
from holdfast.tools import mend

from ..store_options import print_json
from .access import find
from .list import SkillShown, lines, shown


class SkillMatches(Struct, frozen=True, kw_only=True):
    """Best first. `left_out` counts those beyond the limit."""

    query: str
    skills: tuple[SkillShown, ...]
    left_out: int


@click.command()
@click.argument("words", nargs=-1, required=True)
@click.option(
    "--limit", default=10, show_default=True, type=click.IntRange(1, 50), help="At most so many skills, as for agents."
)
@click.option("--json", "json_", is_flag=True, help="Print JSON.")
def command(words: tuple[str, ...], limit: int, json_: bool) -> None:
    """Search skills as an agent does.

    This is the search of the tool skill_search, in names and descriptions. A word in the name counts twice as much as
    one in the description; the best comes first.

    \b
    Examples:
      holdfast skills search pdf
      holdfast skills search fill forms --limit 3
    """
    query = " ".join(words)
    installed = find()
    every = installed.skills.search(query, limit=len(installed.skills))
    skills, more = every[:limit], max(0, len(every) - limit)
    if json_:
        names = listed(installed.skills, installed.config.settings.skills)
        print_json(SkillMatches(query=mend(query), skills=tuple(shown(each, names) for each in skills), left_out=more))
    elif not skills:
        click.echo(f"No skills match {printable(query)!r}. `holdfast skills list` lists all.")
    else:
        for line in lines(installed, skills, tables.width()):
            click.echo(line)
        if more:
            click.echo(f"\nAnd {more:,} more beyond --limit {limit}.")
