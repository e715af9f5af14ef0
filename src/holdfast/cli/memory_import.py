"""`holdfast memory import`: a Markdown file of entries, taken over whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from msgspec import Struct

from holdfast.cli import tables
from holdfast.cli.asking import print_json
from holdfast.cli.memory_found import (
    Memories,
    changing,
    json_option,
    looking,
    memories,
    project_option,
    tenant_option,
)
from holdfast.cli.memory_history import differences
from holdfast.cli.memory_texts import read
from holdfast.cli.tables import printable
from holdfast.config import load_here
from holdfast.memory.markdown import Imported, Planned, import_, planned
from holdfast.memory.values import KnowledgeEntry
from holdfast.store import open_store


class ImportShown(Struct, frozen=True, kw_only=True):
    """What became of the entries of a file, by id; with `dry_run` what would have become of them."""

    dry_run: bool
    added: tuple[str, ...]
    changed: tuple[str, ...]
    restored: tuple[str, ...]
    unchanged: tuple[str, ...]


@click.command()
@click.argument("file")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--source", metavar="NAME", default="import", show_default=True, help="Who or what says so.")
@tenant_option
@project_option
@json_option
def command(file: str, dry_run: bool, source: str, tenant: str | None, project: str | None, json_: bool) -> None:
    """Take over the entries of a Markdown file.

    All of them are, or nothing if one is wrong. `-` reads standard input. The form is that of `holdfast memory export`.
    An entry whose id is known is changed where it differs, and restored if it was forgotten; one without an id is
    added. Entries that are not in the file stay as they are. Those that name no project belong to the current one.

    \b
    Examples:
      holdfast memory import notes.md --dry-run
      holdfast memory import notes.md
      ssh elsewhere holdfast memory export | holdfast memory import -
    """
    text = read(file)
    if dry_run:
        with _looking(tenant, project) as found:
            plan = planned(found.knowledge, text, source=source)
            changes = list(_changes(plan, {entry.id: entry for entry in found.every()}))
        done = plan.imported
    else:
        changes = []
        with changing(tenant, project, new=True) as found:
            done = import_(found.knowledge, text, source=source)
    if json_:
        print_json(_shown(done, dry_run=dry_run))
        return
    for line in (*changes, *_summary(done, dry_run=dry_run)):
        click.echo(line)


@contextmanager
def _looking(tenant: str | None, project: str | None) -> Iterator[Memories]:
    """What is there, to be read; an empty store where there is none."""
    with looking(tenant, project) as found:
        if found is not None:
            yield found
            return
    with TemporaryDirectory(prefix="holdfast-") as place, open_store(Path(place) / "empty.db") as store:
        yield memories(load_here(), store, None, project)


def _shown(done: Imported, *, dry_run: bool) -> ImportShown:
    return ImportShown(
        dry_run=dry_run,
        added=done.added,
        changed=done.changed,
        restored=done.restored,
        unchanged=done.unchanged,
    )


def _changes(plan: Planned, known: Mapping[str, KnowledgeEntry]) -> Iterator[str]:
    """Every entry that would be written, and what would be different."""
    for entry, _ in plan.drafts:
        before = known.get(entry.id)
        if before is None:
            yield printable(f"add: {entry.title}")
            continue
        yield printable(f"{'restore' if before.forgotten_at is not None else 'change'} {entry.id}: {entry.title}")
        yield from (f"  {line}" for line in differences(before, entry))


def _summary(done: Imported, *, dry_run: bool) -> list[str]:
    numbers = {"added": done.added, "changed": done.changed, "restored": done.restored, "unchanged": done.unchanged}
    said = ", ".join(f"{len(ids):,} {name}" for name, ids in numbers.items() if ids) or "the file has no entry"
    text = f"Nothing was changed (--dry-run); it would be: {said}." if dry_run else f"Imported: {said}."
    return tables.wrapped(text, tables.width())
