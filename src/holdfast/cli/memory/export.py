"""`holdfast memory export`: entries as Markdown, to be read, edited, kept and imported."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.tables import printable
from holdfast.memory import exported

from .access import category_options, counted_entries, looking, scope, scope_options, tenant_option
from .texts import STANDARD, write


@click.command()
@click.argument("file", default=STANDARD)
@tenant_option
@scope_options
@category_options
def command(
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
