"""`holdfast skills new`: a skill to begin with, where sessions find it."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click
import yaml

from holdfast.cli import tables
from holdfast.cli.tables import printable
from holdfast.errors import HoldfastError
from holdfast.skills import FILE, TEMPLATE, SkillSource, name_problems, problems, reason
from holdfast.store import make_private_directory

from .access import InstalledSkills, find, near

BODY = """# {title}

Write the instructions that an agent gets when it loads this skill: what to do, step by step.

Longer texts and programs can stand in files beside this one, such as references/details.md and scripts/check.py; name
them here by these paths.
"""


@click.command()
@click.argument("name")
@click.option("--global", "global_", is_flag=True, help="For all workspaces, not for the current directory alone.")
@click.option("--description", metavar="TEXT", help="What it does and when to use it.")
def command(name: str, global_: bool, description: str | None) -> None:
    """Make a skill: a directory with a SKILL.md to fill in.

    It is made in the first root of the workspace that `skills.roots` names, .holdfast/skills by default, and with
    --global in the first other one. Nothing that exists is ever changed. NAME has up to 64 lower-case letters, digits
    and hyphens.

    \b
    Examples:
      holdfast skills new code-review
      holdfast skills new release-notes --description "Writes release notes. Use before a release."
      holdfast skills new pdf-forms --global
    """
    wrong = name_problems(name, name) if name else ["`name` is empty; give it one"]
    if wrong:
        raise HoldfastError("\n".join(map(printable, wrong)))
    installed = find()
    root = _root(installed, "global" if global_ else "workspace")
    data = _text(name, description)
    refused = [
        problem.message for problem in problems(data, skill_dir=root / name, refuse_long=True) if not problem.warning
    ]
    if refused:
        raise HoldfastError("\n".join(map(printable, refused)))
    path = _make(installed, root / name, data)
    tables.show(_said(installed, name, path))


def _root(installed: InstalledSkills, source: SkillSource) -> Path:
    for root in installed.roots:
        if root.source == source:
            if source == "workspace":
                _check_inside(installed, root.path)
            return root.path
    which = "of the workspace, such as .holdfast/skills" if source == "workspace" else "such as HOLDFAST_HOME/skills"
    raise HoldfastError(f"skills.roots names no directory {which}; add one, or make the file by hand")


def _check_inside(installed: InstalledSkills, root: Path) -> None:
    """Refuse a root outside the workspace: a workspace may be untrusted and link elsewhere."""
    workspace = installed.config.workspace
    if workspace is not None and not Path(os.path.realpath(root)).is_relative_to(os.path.realpath(workspace)):
        raise HoldfastError(
            f"{printable(root)} leads out of the workspace by a link, and is not used; replace the link by a directory"
        )


def _text(name: str, description: str | None) -> bytes:
    fields = {"name": name, "description": TEMPLATE if description is None else description}
    front = yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=1_000_000)
    title = name.replace("-", " ").capitalize()
    return f"---\n{front}---\n\n{BODY.format(title=title)}".encode("utf-8", "replace")


def _make(installed: InstalledSkills, directory: Path, data: bytes) -> Path:
    """The file, which is made here and nowhere else: of two that try at once, one is told that it exists."""
    path = directory / FILE
    try:
        if directory.is_relative_to(installed.config.home):
            make_private_directory(installed.config.home)
        if directory.is_symlink():
            raise FileExistsError(directory)
        directory.mkdir(parents=True, exist_ok=True)
        there = next((name for name in os.listdir(directory) if name.lower() == FILE.lower()), None)  # noqa: PTH208
        if there is not None:
            raise FileExistsError(there)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    except FileExistsError as error:
        if not os.path.lexists(directory):
            raise HoldfastError(
                f"{printable(path)} cannot be made: a link on the way leads nowhere; replace it by a directory"
            ) from error
        raise HoldfastError(
            f"{printable(directory)} exists already and was not changed; choose another name, or edit what is there"
        ) from error
    except OSError as error:
        raise HoldfastError(f"{printable(path)} cannot be made ({reason(error)}); mend that and try again") from error
    return path


def _said(installed: InstalledSkills, name: str, path: Path) -> list[str]:
    room = tables.width()
    shown = near(path)
    check = f"holdfast skills validate {shlex.quote(str(shown.parent))}"
    lines = [printable(f"Made {shown}")]
    used, before = find().skills.get(name), installed.skills.get(name)
    if used is None or not used.skill_dir.samefile(path.parent):
        why = f"{used.skill_dir} comes before it" if used is not None else "`holdfast skills list` says why"
        lines += tables.wrapped(f"It is not used here: {why}.", room)
    elif before is not None:
        lines += tables.wrapped(f"It is used here in place of {before.skill_dir}.", room)
    lines += tables.wrapped("Write there when to use it and what to do, then check it:", room)
    lines.append(printable(f"  {check}"))
    lines += tables.wrapped("New sessions find it; those that run keep the skills they began with.", room)
    return lines
