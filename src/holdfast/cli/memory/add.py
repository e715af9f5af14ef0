"""`holdfast memory add`: one more thing to remember."""

from __future__ import annotations

import re

import click

from holdfast.cli import tables
from holdfast.cli.tables import printable
from holdfast.errors import HoldfastError
from holdfast.memory import CATEGORIES, EVERYWHERE, PREFERENCE, KnowledgeEntry, project_label

from ..store_options import print_json
from .access import changing, json_option, project_option, tenant_option
from .list import shown
from .texts import STANDARD, can_edit, drafting, read

_HELP = """

<!-- holdfast memory add: write above what is to be remembered under this title, in Markdown. Saved empty, nothing is
added. This comment is taken out. -->
"""
_COMMENT = re.compile(r"\n*<!-- holdfast memory add:.*?-->\n?", re.DOTALL)
_NOTHING = "there is no text to remember; give one as CONTENT, or - for standard input"


@click.command()
@click.argument("title")
@click.argument("content", required=False)
@click.option(
    "--category",
    metavar="NAME",
    default=CATEGORIES[0],
    show_default=True,
    help=f"What it is: {', '.join(CATEGORIES)}, or a word of your own.",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1),
    default=1.0,
    show_default=True,
    help="How sure it is, from 0 to 1; counts when entries are ranked.",
)
@click.option("--everywhere", is_flag=True, help="It holds in every project, not only in this one.")
@click.option("--source", metavar="NAME", default="user", show_default=True, help="Who or what says so.")
@tenant_option
@project_option
@json_option
def command(
    title: str,
    content: str | None,
    category: str,
    confidence: float,
    everywhere: bool,
    source: str,
    tenant: str | None,
    project: str | None,
    json_: bool,
) -> None:
    """Remember something.

    TITLE says it in a few words, CONTENT has the rest. `-` reads CONTENT from standard input. Without CONTENT your
    editor ($VISUAL, $EDITOR) is opened in a terminal, and elsewhere standard input is read. Entries of the category
    preference stand in the stable block at the head of every session; all others are given where they fit.

    \b
    Examples:
      holdfast memory add "Tests run with make test" "CI runs the same target."
      holdfast memory add "Answers are brief" "One sentence is enough." --category preference --everywhere
      git log -5 | holdfast memory add "Last changes" - --confidence 0.5
    """
    if everywhere and project is not None:
        raise click.UsageError("--everywhere and --project exclude one another; choose one.")

    def add(text: str) -> tuple[KnowledgeEntry, str]:
        text = _COMMENT.sub("", text)
        if not text.strip():
            raise HoldfastError(_NOTHING)
        with changing(tenant, project, new=True) as view:
            if (there := view.knowledge.saying(title, text)) is not None:
                raise HoldfastError(
                    f"{there.id} says this already ({there.category}, {_place(there)}); "
                    f"`holdfast memory edit {there.id}` changes it. Nothing was added"
                )
            made = view.knowledge.add(
                title, text, category=category, everywhere=everywhere, confidence=confidence, source=source
            )
            return made, view.config.settings.memory.placement

    if content is None and can_edit():
        with drafting(_HELP, "memory", "give it as `holdfast memory add TITLE - < FILE`") as draft:
            entry, placement = add(draft.edited())
    else:
        entry, placement = add(read(STANDARD) if content in (None, STANDARD) else str(content))
    if json_:
        print_json(shown(entry))
        return
    for line in tables.wrapped(f"Added {entry.id}: {entry.title}{_where(entry, placement)}", tables.width()):
        click.echo(line)


def _where(entry: KnowledgeEntry, placement: str) -> str:
    """Where it counts; of a preference also from when on: with `blocks` it waits for the end of a pin."""
    when = ""
    if entry.category == PREFERENCE:
        when = f"; new sessions have it {'within the hour' if placement == 'blocks' else 'from now on'}"
    return f" ({entry.category}, {_place(entry)}{when})"


def _place(entry: KnowledgeEntry) -> str:
    return EVERYWHERE if entry.project is None else f"in {printable(project_label(entry.project))}"
