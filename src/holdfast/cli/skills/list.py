"""`holdfast skills list`: the skills of the current directory, what their index takes, what could not be loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import TypeVar

import click
from msgspec import Struct

from holdfast.cli import tables
from holdfast.cli.tables import Column, printable
from holdfast.facts import heuristic_tokens
from holdfast.skills import BODY_WARN_TOKENS, DESCRIPTION_CHARS, Skill, listed, long_description, render_index
from holdfast.tools import mend
from holdfast.wording import counted

from ..store_options import json_option, print_json
from .access import InstalledSkills, advice, find, near, short

Cell = TypeVar("Cell")

_DESCRIPTION = 4  # its place in a row
_NARROW = 60
"""Columns of a terminal below which names may be cut."""


class SkillShown(Struct, frozen=True, kw_only=True):
    """One skill as lists show it; `tokens` are estimated, of its body. One that is not `listed` has no line in the
    index: an agent has to search for it."""

    name: str
    source: str
    tokens: int
    version: str
    description: str
    where: str
    listed: bool


class RootShown(Struct, frozen=True, kw_only=True):
    path: str
    source: str
    exists: bool


class IndexShown(Struct, frozen=True, kw_only=True):
    """What every prompt says of skills. `left_out` counts those that only `skill_search` finds."""

    mode: str
    tokens: int
    left_out: int


class SkippedShown(Struct, frozen=True, kw_only=True):
    path: str
    reason: str


class ShadowedShown(Struct, frozen=True, kw_only=True):
    """A skill that is not used because the one in `by` has its name too."""

    name: str
    path: str
    by: str


class SkillListing(Struct, frozen=True, kw_only=True):
    skills: tuple[SkillShown, ...]
    index: IndexShown
    skipped: tuple[SkippedShown, ...]
    shadowed: tuple[ShadowedShown, ...]
    roots: tuple[RootShown, ...]


@click.command()
@json_option
def command(json_: bool) -> None:
    """List the skills that a session would have here.

    TOKENS are what a body takes when it is loaded, estimated at four characters each. Below stands what the list of
    names and descriptions takes in every prompt, and which skills could not be loaded, or have another of their name
    before them. In a pipe every skill is one line with the whole of its path and, last, of its description.

    \b
    Examples:
      holdfast skills list
      holdfast skills list | grep pdf
      holdfast skills list --json
    """
    installed = find()
    if json_:
        print_json(_listing(installed))
        return
    tables.show(_lines(installed, tables.width()))


def shown(skill: Skill, names: Set[str]) -> SkillShown:
    """With the names that the index lists."""
    return SkillShown(
        name=skill.name,
        source=skill.source,
        tokens=skill.estimated_body_tokens,
        version=skill.version,
        description=skill.description,
        where=_text(skill.skill_dir),
        listed=skill.name in names,
    )


def _text(value: object) -> str:
    """What JSON can say of it: the name of a file may be no text."""
    return mend(str(value))


def lines(installed: InstalledSkills, skills: Sequence[Skill], room: int | None) -> Iterator[str]:
    """A table of skills."""
    settings = installed.config.settings.skills
    names = listed(installed.skills, settings) if settings.index == "capped" else None
    columns: tuple[Column, ...] = (
        Column("NAME", 0, least=14 if room is not None and room < _NARROW else room),
        Column("SOURCE", 4),
        Column("TOKENS", 1, right=True),
        Column("INDEX", 2, always=False),
        Column("DESCRIPTION", 3, least=16),
        Column("VERSION", 7),
        Column("WHERE", 5, least=30, tail=True),
    )
    rows = [_row(each, names is None or each.name in names, room) for each in skills]
    if room is None:
        # A pipe gets everything: a description in the middle would push the paths a thousand columns to the right.
        columns, rows = _description_last(columns), [_description_last(row) for row in rows]
    yield from tables.table(columns, rows, room)


def _row(skill: Skill, is_listed: bool, room: int | None) -> tuple[str, ...]:
    tokens = tables.count(skill.estimated_body_tokens)
    description = " ".join(skill.description.split())
    mark = "" if is_listed else "left out"
    where = str(near(skill.skill_dir)) if room is None else short(skill.skill_dir)  # a program expands no `~`
    return skill.name, skill.source, tokens, mark, description, skill.version, where


def _description_last(row: tuple[Cell, ...]) -> tuple[Cell, ...]:
    return *row[:_DESCRIPTION], *row[_DESCRIPTION + 1 :], row[_DESCRIPTION]


def _listing(installed: InstalledSkills) -> SkillListing:
    store, names = installed.skills, listed(installed.skills, installed.config.settings.skills)
    roots = [
        RootShown(path=_text(root.path), source=root.source, exists=_is_there(root.path)) for root in installed.roots
    ]
    return SkillListing(
        skills=tuple(shown(each, names) for each in store.list_skills()),
        index=_index(installed),
        skipped=tuple(SkippedShown(path=_text(each.path), reason=_text(each.reason)) for each in store.skipped),
        shadowed=tuple(
            ShadowedShown(name=each.name, path=_text(each.path), by=_text(each.by)) for each in store.shadowed
        ),
        roots=tuple(roots),
    )


def _index(installed: InstalledSkills) -> IndexShown:
    settings = installed.config.settings.skills
    text = render_index(installed.skills, settings)
    tokens = heuristic_tokens(text) if text else 0
    left_out = len(installed.skills) - len(listed(installed.skills, settings))
    return IndexShown(mode=settings.index, tokens=tokens, left_out=left_out)


def _lines(installed: InstalledSkills, room: int | None) -> Iterator[str]:
    skills = installed.skills.list_skills()
    if skills:
        yield from lines(installed, skills, room)
        yield ""
        yield from tables.wrapped(_sum(installed), room)
    else:
        yield from _nothing(installed, room)
    remarks = [f"{short(each.path)}: not loaded: {each.reason}" for each in installed.skills.skipped]
    remarks += [
        f"{each.name} in {short(each.path)} is not used: {short(each.by)} comes before it"
        for each in installed.skills.shadowed
    ]
    most = installed.config.settings.skills.hard_tokens
    never = [skill.name for skill in skills if skill.estimated_body_tokens > most]
    large = [skill.name for skill in skills if skill.over_body_token_warn and skill.name not in never]
    if cut := [skill.name for skill in skills if long_description(skill.description)]:
        remarks.append(
            f"Cut in the index, as the description has more than {DESCRIPTION_CHARS:,} characters: {', '.join(cut)}"
        )
    if large:
        remarks.append(
            f"Longer than {BODY_WARN_TOKENS:,} tokens, which is more than a body should be: {', '.join(large)}"
        )
    if never:
        remarks.append(f"Never loaded, as it is longer than skills.hard_tokens ({most:,}): {', '.join(never)}")
    if remarks:
        yield ""
    for text in remarks:
        yield from tables.wrapped(text, room, indent="  ")
    yield from advice(installed, room)


def _sum(installed: InstalledSkills) -> str:
    index, number = _index(installed), counted(len(installed.skills), "skill")
    if index.mode == "off":
        return f"{number}. The index is off (skills.index): no prompt names them, skill_search finds them."
    left = ""
    if index.left_out:
        verb, them = ("is", "it") if index.left_out == 1 else ("are", "them")
        left = f"; {index.left_out:,} {verb} left out by skills.index_chars, skill_search finds {them}"
    return f"{number}. The index takes about {index.tokens:,} tokens of every prompt{left}."


def _nothing(installed: InstalledSkills, room: int | None) -> Iterator[str]:
    if not installed.roots:
        yield from tables.wrapped("There are no skills here: skills.roots names no directory.", room)
        return
    yield from tables.wrapped("There are no skills here. These directories were looked into:", room)
    for root in installed.roots:
        note = "" if _is_there(root.path) else ", which does not exist"
        yield from tables.wrapped(f"  {root.path} ({root.source}{note})", room, indent="    ")
    yield from tables.wrapped("`holdfast skills new NAME` makes one.", room)


def _is_there(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


class SkillMatches(Struct, frozen=True, kw_only=True):
    """Best first. `left_out` counts those beyond the limit."""

    query: str
    skills: tuple[SkillShown, ...]
    left_out: int


@click.command()
@click.argument("words", nargs=-1, required=True)
@click.option(
    "--limit", default=10, show_default=True, type=click.IntRange(1, 50), help="At most so many skills, as for agents."
)
@json_option
def search(words: tuple[str, ...], limit: int, json_: bool) -> None:
    """Search skills as an agent does.

    This is the search of the tool skill_search, in names and descriptions. A word in the name counts twice as much as
    one in the description; the best comes first.

    \b
    Examples:
      holdfast skills search pdf
      holdfast skills search fill forms --limit 3
    """
    query = " ".join(words)
    installed = find()
    every = installed.skills.search(query, limit=len(installed.skills))
    skills, more = every[:limit], max(0, len(every) - limit)
    if json_:
        names = listed(installed.skills, installed.config.settings.skills)
        print_json(SkillMatches(query=mend(query), skills=tuple(shown(each, names) for each in skills), left_out=more))
    elif not skills:
        click.echo(f"No skills match {printable(query)!r}. `holdfast skills list` lists all.")
    else:
        tables.show(lines(installed, skills, tables.width()))
        if more:
            click.echo(f"\nAnd {more:,} more beyond --limit {limit}.")
