"""`holdfast skills show`: one skill, its files, its text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import click
from msgspec import Struct

from holdfast.cli import tables
from holdfast.cli.tables import printable
from holdfast.skills import BODY_WARN_TOKENS, Skill, files_of, named
from holdfast.tools import mend
from holdfast.wording import counted

from ..store_options import json_option, print_json
from .access import InstalledSkills, find

MOST_FILES = 200
_LABEL = 15


class FileShown(Struct, frozen=True):
    """A file beside SKILL.md; `size` is in bytes, None where it cannot be asked or is a link."""

    name: str
    size: int | None


class SkillWhole(Struct, frozen=True, kw_only=True):
    """All of one skill. `allowed_tools` is the skill's own list, which has no effect. `left_out` counts files that are
    not listed; `stands_before` are skills of the same name that it shadows; one that is not `loadable` is longer than a
    session may load."""

    name: str
    source: str
    where: str
    stands_before: tuple[str, ...]
    version: str
    tokens: int
    loadable: bool
    description: str
    license: str | None
    compatibility: str | None
    metadata: Mapping[str, str] | None
    allowed_tools: tuple[str, ...]
    files: tuple[FileShown, ...]
    left_out: int
    body: str


@click.command()
@click.argument("name")
@click.option("--body", is_flag=True, help="Print only what an agent gets when it loads the skill.")
@json_option
def command(name: str, body: bool, json_: bool) -> None:
    """Show one skill: its fields, its files, its text.

    The tools that `allowed-tools` names are shown and not enforced: a skill neither allows nor forbids a tool.

    \b
    Examples:
      holdfast skills show code-review
      holdfast skills show code-review --body
      holdfast skills show code-review --json
    """
    if body and json_:
        raise click.UsageError("--body and --json are two ways to print; choose one.")
    installed = find()
    skill = installed.get(name)
    if json_:
        print_json(_whole(installed, skill))
    elif body:
        _print_body(skill)
    else:
        tables.show(_lines(_whole(installed, skill), tables.width()))


def _print_body(skill: Skill) -> None:
    """To the byte in a pipe; on a terminal without what could speak to it."""
    if tables.width() is None:
        click.echo(skill.section.encode("utf-8", "replace"), nl=False)
    else:
        click.echo("\n".join(_text(skill.section)))


def _whole(installed: InstalledSkills, skill: Skill) -> SkillWhole:
    files, left_out = _files(skill.skill_dir)
    return SkillWhole(
        name=skill.name,
        source=skill.source,
        where=mend(str(skill.skill_dir)),
        stands_before=tuple(mend(str(each.path)) for each in installed.skills.shadowed if each.name == skill.name),
        version=skill.version,
        tokens=skill.estimated_body_tokens,
        loadable=skill.estimated_body_tokens <= installed.config.settings.skills.hard_tokens,
        description=skill.description,
        license=skill.license,
        compatibility=skill.compatibility,
        metadata=None if skill.metadata is None else dict(skill.metadata),
        allowed_tools=skill.allowed_tools,
        files=files,
        left_out=left_out,
        body=skill.body,
    )


def _files(directory: Path) -> tuple[tuple[FileShown, ...], int]:
    """The files below the directory by name, and how many there are beyond those."""
    paths = files_of(directory)
    shown = tuple(FileShown(named(path, directory), _size(path)) for path in paths[:MOST_FILES])
    return shown, max(0, len(paths) - MOST_FILES)


def _size(path: Path) -> int | None:
    try:
        return None if path.is_symlink() else path.lstat().st_size
    except OSError:
        return None


def _lines(skill: SkillWhole, room: int | None) -> Iterator[str]:
    yield printable(skill.name)
    large = f", more than the {BODY_WARN_TOKENS:,} a body should have" if skill.tokens > BODY_WARN_TOKENS else ""
    if not skill.loadable:
        large = ", more than skills.hard_tokens allows: it is never loaded"
    tools = f"{' '.join(skill.allowed_tools)} (not enforced: Holdfast neither allows nor forbids a tool by it)"
    fields = {
        "description": " ".join(skill.description.split()),
        "source": skill.source,
        "where": skill.where,
        "stands before": ", ".join(skill.stands_before),
        "version": skill.version,
        "tokens": f"about {skill.tokens:,}{large}",
        "license": skill.license,
        "compatibility": skill.compatibility,
        "metadata": ", ".join(f"{key}: {value}" for key, value in (skill.metadata or {}).items()),
        "allowed-tools": tools if skill.allowed_tools else None,
        "files": "none beside SKILL.md" if not skill.files else counted(len(skill.files) + skill.left_out, "file"),
    }
    for name, value in fields.items():
        if value:
            yield from tables.wrapped(f"  {name:{_LABEL}}{value}", room, indent=" " * (_LABEL + 2))
    for file in skill.files:
        size = "link or unreadable" if file.size is None else counted(file.size, "byte")
        yield from tables.wrapped(f"    {file.name} ({size})", room, indent="      ")
    if skill.left_out:
        yield f"    and {skill.left_out:,} more"
    yield ""
    yield from _text(skill.body)


def _text(text: str) -> Iterator[str]:
    """The lines of a text as a terminal can show them."""
    for line in text.splitlines():
        yield printable(line.expandtabs(4))
