"""What the commands about skills have in common: the skills of the current directory, and the roots they come from."""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from holdfast.cli.tables import printable
from holdfast.config import Config, load_config
from holdfast.errors import HoldfastError
from holdfast.skills import Skill, SkillRoot, SkillStore, load_roots, roots_of

_NEAREST = 3


class InstalledSkills(Struct, frozen=True):
    """What a session that began now would have."""

    config: Config
    roots: tuple[SkillRoot, ...]
    skills: SkillStore

    def get(self, name: str) -> Skill:
        skill = self.skills.get(name)
        if skill is None:
            raise HoldfastError(self._unknown(name))
        return skill

    def _unknown(self, name: str) -> str:
        what = f"there is no skill {printable(name)[:128]!r}"
        for each in self.skills.skipped:
            if name in (each.path.name, each.path.parent.name):
                return f"{what}: {printable(each.path)} is not loaded, {printable(each.reason)}"
        names = [skill.name for skill in self.skills.list_skills()]
        close = difflib.get_close_matches(name[:128].lower(), names, n=_NEAREST, cutoff=0.5)
        hint = f"did you mean {either(close)}?" if close else "`holdfast skills list` lists what there is"
        return f"{what}; {hint}"


def find() -> InstalledSkills:
    """Read the roots, as a new session does. What could not be loaded is for the caller to tell."""
    config = load_config()
    roots = roots_of(config.settings.skills, config.workspace)
    with quiet():
        return InstalledSkills(
            config, roots, load_roots(roots, workspace=config.workspace, strict=config.settings.skills.strict)
        )


def either(names: Sequence[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


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
    """Without the loader's log: the store says the same."""
    logger, nowhere = logging.getLogger("holdfast.skills"), logging.NullHandler()
    propagates = logger.propagate
    logger.addHandler(nowhere)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(nowhere)
        logger.propagate = propagates
