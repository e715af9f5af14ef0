"""`holdfast memory export`: entries as Markdown, to be read, edited, kept and imported."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from msgspec import Struct

from holdfast.cli import tables
from holdfast.cli.tables import printable
from holdfast.config import load_config
from holdfast.memory import (
    Imported,
    KnowledgeEntry,
    Planned,
    exported,
    import_,
    parsed,
    planned,
    project_label,
    utc_time,
)
from holdfast.store import open_store

from ..store_options import json_option, print_json
from .access import (
    MemoryView,
    category_options,
    changing,
    counted_entries,
    looking,
    memories,
    project_option,
    scope,
    scope_options,
    tenant_option,
)
from .history import differences
from .texts import STANDARD, read, write


@click.command()
@click.argument("file", default=STANDARD)
@tenant_option
@scope_options
@category_options
def export(
    file: str,
    tenant: str | None,
    project: str | None,
    everywhere: bool,
    all_projects: bool,
    categories: tuple[str, ...],
    excluded: tuple[str, ...],
) -> None:
    """Write entries as Markdown.

    They go to FILE, or to standard output. A FILE that is there is replaced. `holdfast memory import` reads it again:
    unchanged it changes nothing, edited it changes the entries, also on another machine. Forgotten entries are left
    out.

    \b
    Examples:
      holdfast memory export
      holdfast memory export notes.md --all-projects
      holdfast memory export --category decision > decisions.md
    """
    projects = scope(project, everywhere, all_projects)
    with looking(tenant, project) as view:
        entries = (
            []
            if view is None
            else view.knowledge.entries(
                projects=view.seen(projects), categories=categories, exclude_categories=excluded
            )
        )
    write(exported(entries), file)
    if file != STANDARD:
        elsewhere = not Path(file).is_file()  # it may be standard output by another name
        click.echo(f"Wrote {counted_entries(len(entries))} to {printable(file)}.", err=elsewhere)
    elif not entries:
        click.echo("holdfast: no entry is of this kind here; --all-projects exports those of all projects", err=True)


class ImportShown(Struct, frozen=True, kw_only=True):
    """What became of the entries of a file, by id; with `dry_run` what would have become of them: null is one that has
    no id yet, and `newer` are those that were changed after what the file has of them, which need `--force`."""

    dry_run: bool
    added: tuple[str | None, ...]
    changed: tuple[str, ...]
    restored: tuple[str, ...]
    unchanged: tuple[str, ...]
    newer: tuple[str, ...]


@click.command()
@click.argument("file")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--force", is_flag=True, help="Also over entries that were changed after the file was written.")
@click.option("--source", metavar="NAME", default="import", show_default=True, help="Who or what says so.")
@tenant_option
@project_option
@json_option
def import_entries(
    file: str, dry_run: bool, force: bool, source: str, tenant: str | None, project: str | None, json_: bool
) -> None:
    """Take over the entries of a Markdown file.

    All of them are, or nothing if one is wrong. `-` reads standard input. The form is that of `holdfast memory export`.
    An entry whose id is known is changed where it differs, and restored if it was forgotten; one without an id is
    added. Entries that are not in the file stay as they are. Those that name no project belong to the current one.
    Where an entry was changed or forgotten after the time that the file has for it (`updated`), nothing is imported
    without --force.

    \b
    Examples:
      holdfast memory import notes.md --dry-run
      holdfast memory import notes.md
      ssh elsewhere holdfast memory export | holdfast memory import -
    """
    text = read(file)
    if dry_run:
        with _looking(tenant, project) as view:
            plan = planned(view.knowledge, text, source=source)
            changes = list(_changes(plan, {entry.id: entry for entry in view.every()}))
        imported, newer = plan.imported, plan.newer
    else:
        changes, newer = [], ()
        with changing(tenant, project, new=True) as view:
            imported = import_(view.knowledge, text, source=source, force=force)
    if json_:
        ids = {section.id for section in parsed(text)} if dry_run else {*imported.added}
        print_json(_shown(imported, ids, newer, dry_run=dry_run))
        return
    tables.show((*changes, *_summary(imported, newer, dry_run=dry_run, force=force)))


@contextmanager
def _looking(tenant: str | None, project: str | None) -> Iterator[MemoryView]:
    """What is there, to be read; an empty store where there is none."""
    with looking(tenant, project) as view:
        if view is not None:
            yield view
            return
    with TemporaryDirectory(prefix="holdfast-") as place, open_store(Path(place) / "empty.db") as store:
        yield memories(load_config(), store, None, project)


def _shown(imported: Imported, ids: Container[str | None], newer: tuple[str, ...], *, dry_run: bool) -> ImportShown:
    return ImportShown(
        dry_run=dry_run,
        added=tuple(each if each in ids else None for each in imported.added),
        changed=imported.changed,
        restored=imported.restored,
        unchanged=imported.unchanged,
        newer=newer,
    )


def _changes(plan: Planned, entries: Mapping[str, KnowledgeEntry]) -> Iterator[str]:
    """Every entry that would be written, and what would be different."""
    for entry, _ in plan.drafts:
        before = entries.get(entry.id)
        if before is None:
            yield printable(f"add: {entry.title} ({project_label(entry.project)})")
            continue
        late = f" (changed here {tables.instant(utc_time(before.updated_at))}, after the file)"
        verb = "restore" if before.forgotten_at is not None else "change"
        yield printable(f"{verb} {entry.id}: {entry.title}{late if entry.id in plan.newer else ''}")
        yield from (f"  {line}" for line in differences(before, entry))


def _summary(imported: Imported, newer: Sequence[str], *, dry_run: bool, force: bool) -> list[str]:
    numbers = {
        "added": imported.added,
        "changed": imported.changed,
        "restored": imported.restored,
        "unchanged": imported.unchanged,
    }
    counts = ", ".join(f"{len(ids):,} {name}" for name, ids in numbers.items() if ids) or "the file has no entry"
    text = f"Nothing was changed (--dry-run); it would be: {counts}." if dry_run else f"Imported: {counts}."
    if newer and not force:
        text += f" {counted_entries(len(newer))} changed after the file was written: that needs --force."
    return tables.wrapped(text, tables.width())
