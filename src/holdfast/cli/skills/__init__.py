"""`holdfast skills`: what skills there are, what they cost, whether they are right. One file for each thing to do."""

from __future__ import annotations

import click

from ..lazy_group import LazyGroup

JOBS = {
    "list": "list",
    "show": "show",
    "search": "list:search",
    "validate": "validate",
    "new": "new",
    "usage": "usage",
}


@click.group(
    cls=LazyGroup, modules={job: f"{__package__}.{place}" for job, place in JOBS.items()}, invoke_without_command=True
)
@click.pass_context
def command(ctx: click.Context) -> None:
    """List, check and write skills, and see which of them are used.

    A skill is a directory with a file SKILL.md: a name, a description, and instructions that an agent loads when it
    needs them (the format of agentskills.io). Skills are found in the directories of `skills.roots`: by default
    HOLDFAST_HOME/skills and .holdfast/skills of the current directory, which wins. Alone this command lists them.

    \b
    Examples:
      holdfast skills
      holdfast skills new code-review
      holdfast skills validate .holdfast/skills
      holdfast skills usage --since 7d
    """
    if ctx.invoked_subcommand is None:
        from .list import command as list_

        ctx.invoke(list_)
