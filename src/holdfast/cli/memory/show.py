"""`holdfast memory show`: one entry in full."""

from __future__ import annotations

from collections.abc import Iterator

import click

from holdfast.cli import tables
from holdfast.cli.tables import printable
from holdfast.memory import project_label

from ..store_options import print_json
from .access import json_option, looking, nothing_stored, one, plain, tenant_option
from .list import EntryShown, shown

_LABEL = 13


@click.command()
@click.argument("id")
@tenant_option
@json_option
def command(id: str, tenant: str | None, json_: bool) -> None:
    """Show one entry in full.

    A forgotten entry is shown too. What it said before is in `holdfast memory history ID`, when it was given to a
    prompt in `holdfast memory why ID`.

    \b
    Examples:
      holdfast memory show k4r9t2w8
      holdfast memory show k4r9t2w8 --json
    """
    with looking(tenant) as view:
        if view is None:
            raise nothing_stored()
        entry = shown(one(view, id))
    if json_:
        print_json(entry)
        return
    for line in lines(entry, tables.width()):
        click.echo(line)


def lines(entry: EntryShown, room: int | None) -> Iterator[str]:
    yield from tables.wrapped(entry.title, room)
    fields = {
        "id": entry.id,
        "category": entry.category,
        "project": project_label(entry.project),
        "confidence": f"{entry.confidence:.2f}",
        "source": entry.source,
        "created": tables.instant(entry.created),
        "updated": tables.instant(entry.updated) if entry.revision > 1 else "",
        "revision": f"{entry.revision:,}",
        "forgotten": "" if entry.forgotten is None else tables.instant(entry.forgotten),
    }
    for name, value in fields.items():
        if value:
            yield from tables.wrapped(f"  {name:{_LABEL}}{printable(value)}", room, indent=" " * (_LABEL + 2))
    if entry.content:
        yield ""
        yield from plain(entry.content)
