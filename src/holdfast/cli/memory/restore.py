"""`holdfast memory restore`: what was forgotten counts again."""

from __future__ import annotations

import click

from holdfast.cli.tables import printable
from holdfast.errors import HoldfastError

from .access import changing, listed, named, tenant_option


@click.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@tenant_option
def command(ids: tuple[str, ...], tenant: str | None) -> None:
    """Take forgotten entries back, as they were.

    `holdfast memory list --forgotten` lists them. What was erased cannot be restored.

    \b
    Examples:
      holdfast memory restore k4r9t2w8
    """
    with changing(tenant) as view:
        entries = named(view, ids)
        current = [entry.id for entry in entries if entry.forgotten_at is None]
        if current:
            verb = "is" if len(current) == 1 else "are"
            raise HoldfastError(f"{listed(current)} {verb} not forgotten; nothing was restored")
        for entry in entries:
            view.knowledge.restore(entry.id, source="user")
            click.echo(printable(f"Restored {entry.id}: {entry.title}"))
