"""`holdfast memory forget`: entries that nobody is given any more."""

from __future__ import annotations

import click

from holdfast.cli import tables
from holdfast.cli.tables import printable
from holdfast.errors import HoldfastError
from holdfast.memory import KnowledgeEntry

from ..store_options import confirmed
from .access import MOST_NAMED, changing, counted_entries, listed, named, tenant_option


@click.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--erase", is_flag=True, help="Remove for good, with the history; this cannot be undone.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@tenant_option
def command(ids: tuple[str, ...], erase: bool, yes: bool, tenant: str | None) -> None:
    """Forget entries, so that no prompt gets them.

    A forgotten entry stays in the store with its history, and `holdfast memory restore ID` brings it back; with --erase
    nothing of it stays there. Conversations that were told of it get word that it was withdrawn; what they were sent
    before stays as it was sent. In the stable block that new sessions begin with, a preference, or the title of another
    entry, stands for up to an hour more: that a preference was withdrawn they are told at once, or, with
    memory.placement = "blocks", not before that hour is over. --erase removes that block too. If one ID is wrong, none
    is forgotten.

    \b
    Examples:
      holdfast memory forget k4r9t2w8
      holdfast memory forget k4r9t2w8 k7m3x0ab --yes
      holdfast memory forget k4r9t2w8 --erase
    """
    with changing(tenant) as view:
        entries = named(view, ids)
        if not erase:
            _check(entries)
        if not yes:
            _ask(entries, erase=erase)
        if erase:
            view.knowledge.erase(*(entry.id for entry in entries))
        for entry in () if erase else entries:
            view.knowledge.forget(entry.id)
    tables.say(_said(entries, erase=erase))


def _said(entries: list[KnowledgeEntry], *, erase: bool) -> str:
    number, it = counted_entries(len(entries)), "it" if len(entries) == 1 else "them"
    if erase:
        return f"Erased {number} for good. Sessions that were told of {it} keep their logs."
    if len(entries) > MOST_NAMED:
        return f"Forgot {number}. `holdfast memory list --forgotten` lists, `holdfast memory restore ID...` takes back."
    ids = " ".join(entry.id for entry in entries)
    return f"Forgot {number}. `holdfast memory restore {ids}` takes {it} back."


def _check(entries: list[KnowledgeEntry]) -> None:
    forgotten = [entry.id for entry in entries if entry.forgotten_at is not None]
    if forgotten:
        verb = "is" if len(forgotten) == 1 else "are"
        raise HoldfastError(f"{listed(forgotten)} {verb} forgotten already; --erase removes for good")


def _ask(entries: list[KnowledgeEntry], *, erase: bool) -> None:
    for entry in entries[:MOST_NAMED]:
        click.echo(printable(f"  {entry.id}  {entry.title}"), err=True)
    if len(entries) > MOST_NAMED:
        click.echo(f"  and {len(entries) - MOST_NAMED:,} more", err=True)
    question = "Erase this for good" if erase else "Forget this"
    question += f" ({counted_entries(len(entries))})?" if len(entries) > 1 else "?"
    confirmed(question, "nothing was forgotten")


@click.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@tenant_option
def restore(ids: tuple[str, ...], tenant: str | None) -> None:
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
