"""`holdfast memory`: what is known for longer than a session. One file for each thing to do."""

from __future__ import annotations

import click

from ..lazy_group import LazyGroup

JOBS = ("list", "show", "search", "add", "edit", "forget", "restore", "history", "why", "export", "import")
MODULES = {job: f"{__package__}.{'import_' if job == 'import' else job}" for job in JOBS}


@click.group(cls=LazyGroup, modules=MODULES, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """List, search and change what is remembered, and see why an entry was shown.

    An entry has a category, a title, a text and a confidence, and belongs to one project or to all. Agents of Holdfast
    are given entries and write their own; clients of the gateway are given them where memory.inject says so. Alone this
    command lists those of the current directory.

    \b
    Examples:
      holdfast memory
      holdfast memory add "Answers are brief" "One sentence where one is enough." --category preference
      holdfast memory search deploy
      holdfast memory export notes.md
    """
    if ctx.invoked_subcommand is None:
        from .list import command as list_

        ctx.invoke(list_)
