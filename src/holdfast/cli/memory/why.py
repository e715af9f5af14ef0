"""`holdfast memory why`: when, where and why an entry was put into prompts; and whether it would be now."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from datetime import datetime

import click
from msgspec import Struct

from holdfast.cli import tables
from holdfast.cli.setup import use_configured_facts
from holdfast.cli.tables import Column
from holdfast.memory import Judge, Judgement, utc_time
from holdfast.store import ShownEntry
from holdfast.tools import mend

from ..store_options import json_option, limit_option, print_json
from .access import nothing_stored, one, project_option, searching, tenant_option

PLACES = {
    "stable": "stable block",
    "context": "context block",
    "delta": "delta",
    "recall": "recall",
}
REASONS = {
    "session_start": "the session began",
    "every_turn": "it fits what was said",
    "changed": "it had changed",
    "reset": "told again after a reset",
    "refresh": "the window was full",
    "recall": "the agent asked",
}


class PromptPlacement(Struct, frozen=True, kw_only=True):
    """Once that the entry was put into a prompt: `place` is stable, context, delta or recall."""

    at: datetime
    session: str
    lane: str
    place: str
    why: str
    revision: int
    withdrawn: bool
    """It announced that the entry is no longer valid."""


class EntryOutlook(Struct, frozen=True, kw_only=True):
    """The latest first. `now` is about a session that would begin now."""

    id: str
    title: str
    shown: tuple[PromptPlacement, ...]
    now: Judgement


@click.command()
@click.argument("id")
@click.option("--query", metavar="WORDS", help="As the first thing a user says: would it be found?")
@limit_option(20, "times")
@tenant_option
@project_option
@json_option
def command(id: str, query: str | None, limit: int, tenant: str | None, project: str | None, json_: bool) -> None:
    """Say when, where and why an entry was shown.

    Below stands whether a session that began now would be given it. PLACE is the stable block at the head, the context
    block, a delta in front of what the user said, or an answer of `recall`. REVISION is what the entry said then
    (`holdfast memory history ID`).

    \b
    Examples:
      holdfast memory why k4r9t2w8
      holdfast memory why k4r9t2w8 --query "how do I run the tests?"
      holdfast memory why k4r9t2w8 --project ~/src/shop --json
    """
    use_configured_facts()
    with searching(tenant, project) as view:
        if view is None:
            raise nothing_stored()
        entry = one(view, id)
        times = view.knowledge.shown(entry.id, limit + 1)
        history = view.knowledge.history(entry.id)
        forgotten = {each.entry.revision for each in history if each.entry.forgotten_at is not None}
        why = EntryOutlook(
            id=entry.id,
            title=entry.title,
            shown=tuple(_shown(each, forgotten) for each in times[:limit]),
            now=Judge(view.config.settings, view.knowledge).judge(entry, None if query is None else mend(query)),
        )
    if json_:
        print_json(why)
        return
    tables.show(_lines(why, len(times) > limit, tables.width()))


def _shown(each: ShownEntry, forgotten: Container[int]) -> PromptPlacement:
    return PromptPlacement(
        at=utc_time(each.at),
        session=each.session,
        lane=each.lane,
        place=each.place,
        why=each.why,
        revision=each.revision,
        withdrawn=each.revision in forgotten,
    )


def _lines(why: EntryOutlook, more: bool, room: int | None) -> Iterator[str]:
    yield from tables.wrapped(f"{why.id}: {why.title}", room)
    yield ""
    if why.shown:
        yield from _table(why.shown, room)
        if more:
            yield from tables.wrapped(f"The latest {len(why.shown):,}; --limit shows more.", room)
    else:
        yield "It has been shown to no session yet."
    yield ""
    yield from tables.wrapped(why.now.text, room)


def _table(times: Sequence[PromptPlacement], room: int | None) -> Iterator[str]:
    columns = (
        Column("WHEN", 0),
        Column("SESSION", 3, least=10),
        Column("PLACE", 1),
        Column("WHY", 2, least=12),
        Column("REVISION", 4, right=True),
    )
    cells = (
        (
            tables.instant(each.at),
            each.session,
            PLACES.get(each.place, each.place),
            _reason(each),
            tables.count(each.revision),
        )
        for each in times
    )
    yield from tables.table(columns, cells, room)


def _reason(each: PromptPlacement) -> str:
    if each.place == "context" and each.why == "changed":
        return "the block had changed"  # for which any entry in it may be the cause
    if each.place == "delta" and each.withdrawn:
        return "it was withdrawn"
    return REASONS.get(each.why, each.why)
