"""`holdfast memory search`: what an agent finds with `recall`, and how well it fits."""

from __future__ import annotations

import click
from msgspec import Struct

from holdfast.cli import tables
from holdfast.cli.tables import Column, printable
from holdfast.memory import project_label
from holdfast.tools import mend

from ..store_options import json_option, limit_option, print_json
from .access import NO_MODEL, category_options, scope, scope_options, searching, tenant_option
from .list import EntryShown, shown

_LEAST = 0.005
"""The lowest score shown: a word in more than half of all entries has hardly any weight."""


class SearchMatch(Struct, frozen=True, kw_only=True):
    """`score` is how well the entry fits, 1 for the best; it is ranked by this times its confidence."""

    score: float
    entry: EntryShown


class EntryMatches(Struct, frozen=True, kw_only=True):
    """Matches, best first. `vectors` if meanings were compared as well as words; if not, `words_only` is the reason."""

    query: str
    vectors: bool
    words_only: str
    matches: tuple[SearchMatch, ...]


@click.command()
@click.argument("words", metavar="QUERY", nargs=-1, required=True)
@limit_option(5, "entries")
@tenant_option
@scope_options
@category_options
@json_option
def command(
    words: tuple[str, ...],
    limit: int,
    tenant: str | None,
    project: str | None,
    everywhere: bool,
    all_projects: bool,
    categories: tuple[str, ...],
    excluded: tuple[str, ...],
    json_: bool,
) -> None:
    """Search what is remembered, as an agent's `recall` does.

    SCORE is how well an entry fits, 1 for the best; the order is that of SCORE times CONFIDENCE. Below stands whether
    meanings were compared too (vectors), or words alone.

    \b
    Examples:
      holdfast memory search deploy to staging
      holdfast memory search indentation --exclude-category preference --limit 3
      holdfast memory search tests --all-projects --json
    """
    if not " ".join(words).strip():
        raise click.UsageError("QUERY has no words; `holdfast memory list` lists all entries.")
    query = mend(" ".join(words))
    projects = scope(project, everywhere, all_projects)
    words_only, matches = NO_MODEL, []
    with searching(tenant, project) as view:
        if view is not None:
            words_only = view.words_only
            matches = view.knowledge.search(
                query, limit=limit, projects=projects, categories=categories, exclude_categories=excluded
            )
    hits = tuple(
        SearchMatch(score=round(hit.score, 4), entry=shown(hit.entry)) for hit in matches if hit.score >= _LEAST
    )
    if json_:
        print_json(EntryMatches(query=query, vectors=not words_only, words_only=words_only, matches=hits))
        return
    _print(query, hits, tables.width(), words_only)


def _print(query: str, hits: tuple[SearchMatch, ...], room: int | None, words_only: str) -> None:
    how = "Words and meanings (vectors) were compared."
    if words_only:
        how = f"Words were compared and no meanings (vectors): {words_only.rstrip('.')}."
    if not hits:
        text = f"No entry fits {printable(query)[:200]!r}. {how} `holdfast memory list` lists what there is."
        click.echo("\n".join(tables.wrapped(text, room)))
        return
    columns = (
        Column("SCORE", 2, right=True),
        Column("ID", 0),
        Column("CATEGORY", 3, least=10),
        Column("PROJECT", 4, least=12, tail=True),
        Column("CONFIDENCE", 5, right=True),
        Column("TITLE", 1, least=16),
    )
    cells = (
        (
            f"{each.score:.2f}",
            each.entry.id,
            each.entry.category,
            project_label(each.entry.project),
            f"{each.entry.confidence:.2f}",
            each.entry.title,
        )
        for each in hits
    )
    tables.show(tables.table(columns, cells, room))
    click.echo("")
    click.echo("\n".join(tables.wrapped(f"{how} `holdfast memory show ID` shows one.", room)))
