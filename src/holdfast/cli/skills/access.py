"""What the commands about skills have in common: the skills of the current directory, and the roots they come from."""

from __future__ import annotations

import difflib
import json
import logging
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from holdfast.cli import tables
from holdfast.cli.tables import printable
from holdfast.config import ROOTS, Config, Origin, load_config
from holdfast.config import printable as printable_path
from holdfast.errors import HoldfastError
from holdfast.skills import FILE, Skill, SkillRoot, SkillStore, load_roots, roots_of
from holdfast.wording import counted, listed

_NEAREST = 3


class InstalledSkills(Struct, frozen=True):
    """The skills of a session started now."""

    config: Config
    roots: tuple[SkillRoot, ...]
    skills: SkillStore

    def get(self, name: str) -> Skill:
        skill = self.skills.get(name)
        if skill is None:
            raise HoldfastError(self._unknown(name))
        return skill

    def _unknown(self, name: str) -> str:
        problem = f"there is no skill {printable(name)[:128]!r}"
        for each in self.skills.skipped:
            if name in (each.path.name, each.path.parent.name):
                return f"{problem}: {printable(each.path)} is not loaded, {printable(each.reason)}"
        names = [skill.name for skill in self.skills.list_skills()]
        close = difflib.get_close_matches(name[:128].lower(), names, n=_NEAREST, cutoff=0.5)
        hint = f"did you mean {listed(close, 'or')}?" if close else "`holdfast skills list` lists what there is"
        return f"{problem}; {hint}"


def find() -> InstalledSkills:
    """Read the roots, as a new session does. What could not be loaded is for the caller to tell."""
    config = load_config()
    roots = roots_of(config.settings.skills, config.workspace)
    with quiet():
        return InstalledSkills(
            config, roots, load_roots(roots, workspace=config.workspace, strict=config.settings.skills.strict)
        )


def near(path: Path) -> Path:
    """The path from here, where it lies below the current directory."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) and here != Path(here.anchor) else path


def short(path: Path) -> str:
    """The same for people: also from the home directory."""
    shown = near(path)
    for home in (Path.home(), Path(os.path.realpath(Path.home()))):
        if shown.is_absolute() and shown.is_relative_to(home):
            return str("~" / shown.relative_to(home))
    return str(shown)


@contextmanager
def quiet() -> Iterator[None]:
    """Mute the loader's log, whose warnings the skill store reports as well."""
    logger, nowhere = logging.getLogger("holdfast.skills"), logging.NullHandler()
    propagates = logger.propagate
    logger.addHandler(nowhere)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(nowhere)
        logger.propagate = propagates


USUAL = (".agents/skills", ".claude/skills", "~/.agents/skills", "~/.claude/skills")


def advice(installed: InstalledSkills, room: int | None) -> Iterator[str]:
    """Lines about roots with skills that no setting names; none where there is nothing to say."""
    unused = {name: number for name in USUAL if (number := _unused(installed, name))}
    if not unused:
        return
    yield ""
    places = ", ".join(f"{counted(number, 'skill')} in {name}" for name, number in unused.items())
    place, line = _place(installed.config, _toml((*_written(installed.config), *unused)))
    yield from tables.wrapped(f"Not used: {places}. To have them too, {place}:", room)
    yield printable(f"  {line}")


def _unused(installed: InstalledSkills, name: str) -> int:
    """How many skills are in a root that is not among the configured ones."""
    try:
        path = (installed.config.workspace or Path()) / Path(name).expanduser()
        if any(_same(path, root.path) for root in installed.roots):
            return 0
        return sum((child / FILE).is_file() for child in path.iterdir() if not child.name.startswith("."))
    except OSError:  # there is none, or it cannot be read
        return 0


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return one == other


def _place(config: Config, value: str) -> tuple[str, str]:
    """Where the list is to be written, in the file that has it or in the user's own, and the line."""
    origin = config.origin(ROOTS)
    if origin.kind == "environment":
        return "set this variable", f"{origin.where}={shlex.quote(value)}"
    if origin.line is not None:
        return f"replace {ROOTS} in line {origin.line} of {origin.where}", f"{_key(origin)} = {value}"
    file = str(config.home / "holdfast.toml")
    others = (each.origin for name, each in config.values().items() if name.startswith("skills."))
    if any(other.where == printable_path(file) for other in others):
        return f"put this line below [skills] in {file}", f"roots = {value}"
    return f"put this line at the top of {file}", f"{ROOTS} = {value}"


def _key(origin: Origin) -> str:
    """Return the key as its line spells it, with or without a table."""
    try:
        line = Path(origin.where).read_text("utf-8").splitlines()[(origin.line or 1) - 1]
    except (OSError, ValueError, IndexError):
        return ROOTS
    return line.partition("=")[0].strip() or ROOTS


def _written(config: Config) -> Iterator[str]:
    """The configured roots as a file has them, without this machine's own directories."""
    for root in config.settings.skills.roots:
        for directory, sign in ((config.home, "HOLDFAST_HOME"), (Path.home(), "~")):
            if root.startswith(f"{directory}/"):
                root = sign + root[len(str(directory)) :]
                break
        yield root


def _toml(names: tuple[str, ...]) -> str:
    return f"[{', '.join(json.dumps(name, ensure_ascii=False) for name in names)}]"
