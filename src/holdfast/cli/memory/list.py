"""`holdfast memory list`: the entries of this project, one line each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import click
from msgspec import Struct

from holdfast.cli import tables
from holdfast.cli.tables import Column, printable
from holdfast.engine.identity import LOCAL
from holdfast.memory import KnowledgeEntry, KnowledgeFilter, project_label, utc_time
from holdfast.store import Projects

from ..store_options import json_option, print_json
from .access import (
    MemoryView,
    category_options,
    counted_entries,
    looking,
    nothing_stored,
    one,
    plain,
    scope,
    scope_options,
    tenant_option,
    unstored,
)

EXAMPLE = '  holdfast memory add "Tests run with make test" "CI runs the same target."'
"""Shown if there is nothing to list."""


class EntryShown(Struct, frozen=True, kw_only=True):
    """One entry for programs; `project` is null where it holds in every project."""

    id: str
    category: str
    title: str
    content: str
    project: str | None
    confidence: float
    source: str
    created: datetime
    updated: datetime
    revision: int
    forgotten: datetime | None


class EntryListing(Struct, frozen=True, kw_only=True):
    """`project` is the one that was looked from; `elsewhere` counts what other projects have beside these."""

    tenant: str
    project: str | None
    entries: tuple[EntryShown, ...]
    elsewhere: int


@click.command()
@tenant_option
@scope_options
@category_options
@click.option("--forgotten", is_flag=True, help="Forgotten ones too.")
@json_option
def command(
    tenant: str | None = None,
    project: str | None = None,
    everywhere: bool = False,
    all_projects: bool = False,
    categories: tuple[str, ...] = (),
    excluded: tuple[str, ...] = (),
    forgotten: bool = False,
    json_: bool = False,
) -> None:
    """List what is remembered.

    These are the entries of this project, and those that hold in every project. CONFIDENCE, from 0 to 1, counts when
    entries are ranked. Entries of other tenants are never shown.

    \b
    Examples:
      holdfast memory list
      holdfast memory list --category gotcha --category decision
      holdfast memory list --all-projects --forgotten --json
    """
    projects = scope(project, everywhere, all_projects)
    with looking(tenant, project) as view:
        if view is None:
            listing = EntryListing(tenant=LOCAL, project=unstored(project), entries=(), elsewhere=0)
        else:
            listing = _listing(view, projects, categories, excluded, forgotten)
    if json_:
        print_json(listing)
        return
    narrowed = bool(categories or excluded or projects == "cross")
    tables.show(_lines(listing, tables.width(), narrowed=narrowed, many=all_projects))


def shown(entry: KnowledgeEntry) -> EntryShown:
    return EntryShown(
        id=entry.id,
        category=entry.category,
        title=entry.title,
        content=entry.content,
        project=entry.project,
        confidence=entry.confidence,
        source=entry.source,
        created=utc_time(entry.created_at),
        updated=utc_time(entry.updated_at),
        revision=entry.revision,
        forgotten=None if entry.forgotten_at is None else utc_time(entry.forgotten_at),
    )


def rows(entries: Sequence[EntryShown], room: int | None) -> Iterator[str]:
    """A table of entries."""
    columns = (
        Column("ID", 0),
        Column("CATEGORY", 2, least=10),
        Column("PROJECT", 5, least=12, tail=True),
        Column("CONFIDENCE", 4, right=True),
        Column("UPDATED", 3),
        Column("FORGOTTEN", 3, always=False),
        Column("TITLE", 1, least=16),
    )
    cells = (
        (
            each.id,
            each.category,
            project_label(each.project),
            f"{each.confidence:.2f}",
            tables.day(each.updated),
            "" if each.forgotten is None else tables.day(each.forgotten),
            each.title,
        )
        for each in entries
    )
    yield from tables.table(columns, cells, room)


def _listing(
    view: MemoryView, projects: Projects, categories: Sequence[str], excluded: Sequence[str], forgotten: bool
) -> EntryListing:
    knowledge = view.knowledge
    entries = knowledge.entries(
        projects=view.seen(projects), categories=categories, exclude_categories=excluded, forgotten=forgotten
    )
    every, own = (
        {id_ for id_, _ in knowledge.store.knowledge_revisions(knowledge.tenant, among)}
        for among in (KnowledgeFilter(projects="all"), KnowledgeFilter(project=view.project))
    )
    return EntryListing(
        tenant=knowledge.tenant,
        project=view.project,
        entries=tuple(map(shown, entries)),
        elsewhere=len(every - own - {entry.id for entry in entries}),
    )


def _lines(listing: EntryListing, room: int | None, *, narrowed: bool, many: bool) -> Iterator[str]:
    if listing.entries:
        yield from rows(listing.entries, room)
        yield ""
        number = counted_entries(len(listing.entries))
        yield from tables.wrapped(f"{number}.{_elsewhere(listing, many)} `holdfast memory show ID` shows one.", room)
        return
    if narrowed:
        yield from tables.wrapped(f"No entry is of this kind.{_elsewhere(listing, many)}", room)
        return
    of_tenant = "" if listing.tenant == LOCAL else f" for {listing.tenant}"
    where = "" if many or listing.project is None else f" in {project_label(listing.project)} or in every project"
    yield from tables.wrapped(f"Nothing is remembered{of_tenant}{where}.{_elsewhere(listing, many)}", room)
    if listing.tenant == LOCAL:
        yield from tables.wrapped("To remember something in this project, or with --everywhere in all of them:", room)
        yield EXAMPLE
    else:
        yield from tables.wrapped("To remember something for this tenant:", room)
        yield printable(f"{EXAMPLE} --everywhere --tenant {listing.tenant}")


def _elsewhere(listing: EntryListing, many: bool) -> str:
    if many or not listing.elsewhere:
        return ""
    more = "1 more belongs" if listing.elsewhere == 1 else f"{listing.elsewhere:,} more belong"
    return f" {more} to other projects; --all-projects lists {'it' if listing.elsewhere == 1 else 'them'}."


_LABEL = 13


@click.command()
@click.argument("id")
@tenant_option
@json_option
def show(id: str, tenant: str | None, json_: bool) -> None:
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
    tables.show(lines(entry, tables.width()))


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
