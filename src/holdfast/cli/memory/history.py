"""`holdfast memory history`: the versions of an entry, with time and author."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise

import click
from msgspec import Struct

from holdfast.cli import tables
from holdfast.cli.tables import printable
from holdfast.memory import project_label, utc_time
from holdfast.store import KnowledgeEntry, KnowledgeRevision

from ..store_options import json_option, print_json
from .access import looking, nothing_stored, one, plain, tenant_option
from .list import EntryShown, shown

_FIRST_LINE = re.compile("@@ -[01][ ,]")
"""What differs begins at the beginning, which need not be said."""
_DONE = {"add": "added", "edit": "edited", "forget": "forgotten", "restore": "restored", "import": "imported"}


class RevisionShown(Struct, frozen=True, kw_only=True):
    """An entry as it was from `at` on."""

    at: datetime
    operation: str
    by: str
    entry: EntryShown


class EntryHistory(Struct, frozen=True, kw_only=True):
    """Oldest first."""

    id: str
    revisions: tuple[RevisionShown, ...]


@click.command()
@click.argument("id")
@tenant_option
@json_option
def command(id: str, tenant: str | None, json_: bool) -> None:
    """Show what an entry has said, from the first to the last.

    Each change stands with its date, by whom it was made, and what differs: lines with `-` were taken out, lines with
    `+` put in.

    \b
    Examples:
      holdfast memory history k4r9t2w8
      holdfast memory history k4r9t2w8 --json
    """
    with looking(tenant) as view:
        if view is None:
            raise nothing_stored()
        revisions = view.knowledge.history(one(view, id).id)
    if json_:
        every = (
            RevisionShown(at=utc_time(each.at), operation=each.operation, by=each.by, entry=shown(each.entry))
            for each in revisions
        )
        print_json(EntryHistory(id=revisions[-1].entry.id, revisions=tuple(every)))
        return
    tables.show(_lines(revisions))


def _lines(revisions: list[KnowledgeRevision]) -> Iterator[str]:
    first = revisions[0]
    yield _head(first)
    yield from ("  " + line for line in _whole(first))
    for before, after in pairwise(revisions):
        yield ""
        yield _head(after, restored=before.entry.forgotten_at is not None and after.entry.forgotten_at is None)
        yield from ("  " + line for line in differences(before.entry, after.entry))


def _head(revision: KnowledgeRevision, *, restored: bool = False) -> str:
    """Return a revision's heading. `restored` marks an import that restored a forgotten entry."""
    operation = "restored" if restored else _DONE.get(revision.operation, revision.operation)
    by = f" by {revision.by}" if revision.by else ""
    return printable(f"Revision {revision.entry.revision}: {operation} {tables.instant(utc_time(revision.at))}{by}")


def _whole(revision: KnowledgeRevision) -> Iterator[str]:
    for name, value in _fields(revision.entry).items():
        yield printable(f"{name}: {value}")
    yield from plain(revision.entry.content)


def differences(before: KnowledgeEntry, after: KnowledgeEntry) -> Iterator[str]:
    """The lines that are different, those that were with `-`, those that are with `+`."""
    old, new = _fields(before), _fields(after)
    for name, value in new.items():
        if old[name] != value:
            yield printable(f"- {name}: {old[name]}")
            yield printable(f"+ {name}: {value}")
    lines = difflib.unified_diff(list(plain(before.content)), list(plain(after.content)), lineterm="")
    for number, line in enumerate(lines):
        if number > 1 and not _FIRST_LINE.match(line):  # not the names of two files
            yield line if line.startswith("@@") else f"{line[0]} {line[1:]}".rstrip()


def _fields(entry: KnowledgeEntry) -> dict[str, str]:
    return {
        "title": entry.title,
        "category": entry.category,
        "project": project_label(entry.project),
        "confidence": f"{entry.confidence:g}",
    }
