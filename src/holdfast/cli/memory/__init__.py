"""`holdfast memory`: what is known for longer than a session."""

from __future__ import annotations

import click

from ..lazy_group import LazyGroup

JOBS = {
    "list": "list",
    "show": "list:show",
    "search": "search",
    "add": "edit:add_command",
    "edit": "edit",
    "forget": "forget",
    "restore": "forget:restore",
    "history": "history",
    "why": "why",
    "export": "transfer:export",
    "import": "transfer:import_entries",
}


@click.group(
    cls=LazyGroup, modules={job: f"{__package__}.{place}" for job, place in JOBS.items()}, invoke_without_command=True
)
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
