"""`holdfast memory edit`: say something else, with options or in the editor."""

from __future__ import annotations

import re
from typing import Any

import click

from holdfast.cli import tables
from holdfast.cli.tables import printable
from holdfast.errors import HoldfastError
from holdfast.memory import (
    CATEGORIES,
    EVERYWHERE,
    PREFERENCE,
    KnowledgeEntry,
    UnchangedError,
    exported,
    parsed,
    project_label,
)

from ..store_options import json_option, print_json
from .access import changing, looking, nothing_stored, one, project_option, tenant_option
from .history import differences
from .list import shown
from .texts import STANDARD, can_edit, drafting, read


@click.command()
@click.argument("id")
@click.option("--title", metavar="TEXT", help="Another title.")
@click.option("--content", metavar="TEXT", help="Another text; - reads it from standard input.")
@click.option("--category", metavar="NAME", help="Another category.")
@click.option("--confidence", type=click.FloatRange(0, 1), help="How sure it is, from 0 to 1.")
@click.option("--everywhere", is_flag=True, help="It holds in every project.")
@click.option("--project", metavar="PATH|NAME", help="It belongs to this project: a directory, or a name.")
@click.option("--source", metavar="NAME", default="user", show_default=True, help="Who or what says so.")
@tenant_option
@json_option
def command(
    id: str,
    title: str | None,
    content: str | None,
    category: str | None,
    confidence: float | None,
    everywhere: bool,
    project: str | None,
    source: str,
    tenant: str | None,
    json_: bool,
) -> None:
    """Change an entry.

    What it said before stays in its history. Without options it is opened in your editor ($VISUAL, $EDITOR), as
    `holdfast memory export` writes it. If the text cannot be taken over, it is kept in a file, which is named.
    Conversations that were told the entry are told what it says now, if title or content say something else; with
    memory.placement = "blocks" a changed preference waits until the stable block is made anew, for up to an hour.

    \b
    Examples:
      holdfast memory edit k4r9t2w8
      holdfast memory edit k4r9t2w8 --confidence 0.5
      holdfast memory edit k4r9t2w8 --content - < new.txt
    """
    if everywhere and project is not None:
        raise click.UsageError("--everywhere and --project exclude one another; choose one.")
    fields: dict[str, Any] = {"title": title, "content": content, "category": category, "confidence": confidence}
    fields = {name: value for name, value in fields.items() if value is not None}
    with looking(tenant, project) as view:
        if view is None:
            raise nothing_stored()
        before = one(view, id)
        if before.forgotten_at is not None:
            raise HoldfastError(f"{before.id} is forgotten; `holdfast memory restore {before.id}` takes it back first")
        if project is not None:
            fields["project"] = view.project
    if everywhere:
        fields["everywhere"] = True
    if fields:
        if content == STANDARD:
            fields["content"] = read(STANDARD)
        after = _changed(tenant, before, fields, source)
    elif can_edit():
        after = _edited(tenant, before, source)
    else:
        raise click.UsageError("There is no terminal for an editor here; say what to change, such as --content TEXT.")
    if json_:
        print_json(shown(after))
    else:
        _print(before, after)


def _changed(tenant: str | None, before: KnowledgeEntry, fields: dict[str, Any], source: str) -> KnowledgeEntry:
    """The entry as it is then; as it was where nothing is to be changed."""
    with changing(tenant) as view:
        try:
            return view.knowledge.edit(before.id, **fields, source=source, expected=before.revision)
        except UnchangedError:
            return before


def _edited(tenant: str | None, before: KnowledgeEntry, by: str) -> KnowledgeEntry:
    text = exported([before])
    with drafting(text, before.id, "mend it, and `holdfast memory import` it") as draft:
        after = draft.edited()
        return before if after == text else _changed(tenant, before, *_parsed_edit(before, after, by))


def _parsed_edit(before: KnowledgeEntry, text: str, by: str) -> tuple[dict[str, Any], str]:
    """Parse the edited text into the entry's new fields and their author."""
    sections = parsed(text)
    if [section.id or before.id for section in sections] != [before.id]:
        raise HoldfastError(f"the text has to hold the one entry {before.id}; nothing was changed")
    fields = sections[0].fields
    given: dict[str, Any] = {"title": sections[0].title, "content": sections[0].content}
    given |= {name: fields[name] for name in ("category", "confidence") if name in fields}
    project = fields.get("project", before.project)
    if project != before.project:
        given |= {"everywhere": True} if project is None else {"project": project}
    source = fields.get("source", before.source)
    return given, by if source == before.source else source


def _print(before: KnowledgeEntry, after: KnowledgeEntry) -> None:
    if after.revision == before.revision:
        click.echo(f"Nothing was changed in {before.id}.")
        return
    tables.say(f"Changed {after.id}, revision {after.revision}: {after.title}")
    for line in differences(before, after):
        click.echo(printable(f"  {line}"))


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
def add_command(
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
            added = view.knowledge.add(
                title, text, category=category, everywhere=everywhere, confidence=confidence, source=source
            )
            return added, view.config.settings.memory.placement

    if content is None and can_edit():
        with drafting(_HELP, "memory", "give it as `holdfast memory add TITLE - < FILE`") as draft:
            entry, placement = add(draft.edited())
    else:
        entry, placement = add(read(STANDARD) if content in (None, STANDARD) else str(content))
    if json_:
        print_json(shown(entry))
        return
    tables.say(f"Added {entry.id}: {entry.title}{_where(entry, placement)}")


def _where(entry: KnowledgeEntry, placement: str) -> str:
    """Where it counts; of a preference also from when on: with `blocks` it waits for the end of a pin."""
    when = ""
    if entry.category == PREFERENCE:
        when = f"; new sessions have it {'within the hour' if placement == 'blocks' else 'from now on'}"
    return f" ({entry.category}, {_place(entry)}{when})"


def _place(entry: KnowledgeEntry) -> str:
    return EVERYWHERE if entry.project is None else f"in {printable(project_label(entry.project))}"
