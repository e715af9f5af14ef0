"""`holdfast skills validate`: whether skills keep the format, every error with its line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Set
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from holdfast.cli import tables
from holdfast.cli.tables import printable
from holdfast.config import load_config
from holdfast.errors import HoldfastError
from holdfast.skills import (
    FILE,
    SkillProblem,
    UnusableLinkError,
    check_inside,
    places,
    real_path,
    reason,
    roots_of,
    validate_dir,
)
from holdfast.tools import mend
from holdfast.wording import counted, listed

from ..store_options import json_option, print_json
from .access import near, quiet

_BELOW = ("skills", ".holdfast/skills", ".claude/skills", ".agents/skills")


class CheckedSkill(Struct, frozen=True, kw_only=True):
    """One SKILL.md, by the path it was named with; what is wrong with it, in the order of its lines."""

    path: str
    problems: tuple[SkillProblem, ...]


class ValidationReport(Struct, frozen=True, kw_only=True):
    valid: bool
    errors: int
    warnings: int
    skills: tuple[CheckedSkill, ...]


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "--strict", is_flag=True, help="Errors too: unknown fields, metadata that is no text, descriptions too long."
)
@json_option
def command(paths: tuple[str, ...], strict: bool, json_: bool) -> int:
    """Check skills against the format of agentskills.io.

    PATH is the directory of a skill, its SKILL.md, or a directory of skills, of which each is checked; without one, the
    directories of `skills.roots` are. Every problem is a line `path:line: message`. A skill with errors is not loaded;
    one with warnings is: a description of more than 1,024 characters is cut in the index, or an error with
    `skills.strict = true`. Ends with 1 if there is an error.

    \b
    Examples:
      holdfast skills validate
      holdfast skills validate .holdfast/skills/code-review --strict
      holdfast skills validate ~/.claude/skills --json
    """
    check = _Check(strict)
    for path in paths:
        check.named(path)
    if not paths:
        check.configured()
    checked = tuple(check.checked.values())
    problems = [problem for each in checked for problem in each.problems]
    warnings = sum(problem.warning for problem in problems)
    errors = len(problems) - warnings
    if json_:
        shown = tuple(_encodable(each) for each in checked)
        print_json(ValidationReport(valid=not errors, errors=errors, warnings=warnings, skills=shown))
    else:
        tables.show(_lines(checked))
        tables.say(_sum(check.skills, errors, warnings, strict))
    return 1 if errors else 0


class _Check:
    """The checked skills by path, each once. In a directory of skills links are treated as by the loader; a skill that
    is named itself is followed."""

    def __init__(self, strict: bool) -> None:
        config = load_config()
        self._strict, self._roots = strict, roots_of(config.settings.skills, config.workspace)
        self._refuse_long = config.settings.skills.strict
        with quiet():
            self._places, skipped = places(self._roots, config.workspace)
        self._allowed = {place.real for place in self._places}
        self._refused = {each.path: each.reason for each in skipped}
        self.checked: dict[str, CheckedSkill] = {}
        self.skills = 0

    def named(self, text: str) -> None:
        path = Path(text)
        try:
            if not path.is_dir():
                if path.name.lower() == FILE.lower() and path.is_file():
                    self._skill(path.parent)
                else:
                    self._other(path)
            elif self._is_root(path) or not _is_skill(path):
                if not self._root(path):
                    self._add(path, _none_in(path))
            else:
                self._skill(path)
        except (OSError, ValueError) as error:
            self._other(path, error)

    def configured(self) -> None:
        """The roots of a session that began here, as far as there are any."""
        for place in self._places:
            self._root(near(place.root.path))
        for path, why in self._refused.items():
            self._add(near(path), why)
        if not self.checked:
            where = [str(near(root.path)) for root in self._roots]
            missing = f"there are no skills in {listed(where, 'or')}" if where else "skills.roots names no directory"
            raise HoldfastError(f"{printable(missing)}; `holdfast skills new NAME` makes one, or name a PATH")

    def _is_root(self, path: Path) -> bool:
        """Return whether the directory is a configured root; its own SKILL.md is then ignored."""
        return Path(os.path.realpath(path)) in self._allowed or Path(os.path.abspath(path)) in self._refused  # noqa: PTH100

    def _root(self, path: Path) -> bool:
        """Check a directory of skills; whether there was anything to check."""
        refused = self._refused.get(Path(os.path.abspath(path)))  # noqa: PTH100
        if refused is not None:
            self._add(path, refused)
            return True
        allowed, has_name = self._allowed | {Path(os.path.realpath(path))}, False
        for child in sorted(path.iterdir()):
            if not child.name.startswith("."):
                has_name = self._child(child, allowed) or has_name
        return has_name

    def _child(self, path: Path, allowed: Set[Path]) -> bool:
        try:
            if path.is_symlink():
                real = real_path(path)
                if not real.is_dir():
                    return False
                check_inside(real, allowed)
            if not path.is_dir() or not _is_skill(path):
                return False
            self._skill(path, allowed)
        except UnusableLinkError as error:
            self._add(path, str(error))
        except OSError as error:
            self._other(path, error)
        return True

    def _skill(self, path: Path, allowed: Set[Path] = frozenset()) -> None:
        if str(path / FILE) not in self.checked:
            self.skills += 1
            problems = validate_dir(
                path, strict=self._strict, refuse_long=self._refuse_long, allowed=allowed | self._allowed
            )
            self._add(path / FILE, *problems)

    def _other(self, path: Path, error: OSError | ValueError | None = None) -> None:
        """What is no skill: no such file, or one of another kind."""
        try:
            problem = f"this is no {FILE}" if os.path.lexists(path) else "there is no such file or directory"
        except ValueError as refused:
            error = refused
        if error is not None:
            problem = f"this cannot be read ({reason(error)})"
        self._add(path, f"{problem}; name a skill's directory or a directory of skills")

    def _add(self, path: Path, *found: SkillProblem | str) -> None:
        problems = tuple(SkillProblem(message=each) if isinstance(each, str) else each for each in found)
        self.checked.setdefault(str(path), CheckedSkill(path=str(path), problems=problems))


def _is_skill(path: Path) -> bool:
    """Return whether a directory has a SKILL.md, including a misspelt one, which is reported."""
    try:
        return any(name.lower() == FILE.lower() for name in os.listdir(path))  # noqa: PTH208
    except OSError:
        return True  # it cannot be looked into, which is to be told as well


def _none_in(path: Path) -> str:
    problem = f"there are no skills in this directory: neither it nor one in it has a {FILE}"
    below = [str(path / each) for each in _BELOW if (path / each).is_dir()]
    return f"{problem}; did you mean {listed(below, 'or')}?" if below else problem


def _encodable(each: CheckedSkill) -> CheckedSkill:
    problems = tuple(replace(p, message=mend(p.message), field=p.field and mend(p.field)) for p in each.problems)
    return CheckedSkill(path=mend(each.path), problems=problems)


def _lines(checked: tuple[CheckedSkill, ...]) -> Iterator[str]:
    """Not wrapped, as editors and scripts read them."""
    for each in checked:
        for problem in each.problems:
            line = "" if problem.line is None else f":{problem.line}"
            mark = "warning: " if problem.warning else ""
            yield printable(f"{each.path}{line}: {mark}{problem.message}")


def _sum(number: int, errors: int, warnings: int, strict: bool) -> str:
    skills = counted(number, "skill")
    if not errors and not warnings:
        return f"{skills} checked, nothing to complain of."
    summary = f"{skills} checked: {counted(errors, 'error')}, {counted(warnings, 'warning')}."
    return summary if errors or strict else f"{summary} What has only warnings is loaded."
