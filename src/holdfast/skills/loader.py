"""Skills from their roots, in an order that is the same on every machine. One that cannot be used is left out with a
warning and never keeps the others from being loaded.

What counts is where a link really leads: out of every root it leads nowhere. Files are opened without following any
link on the way, so that one swapped in after the check leads to an error and not out.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from holdfast.config.sections import SkillsSettings
from holdfast.notices import warn_once
from holdfast.tools import cut, lexical, shown

from .fields import long_description
from .skill import FILE, ShadowedSkill, Skill, SkillProblem, SkillRoot, SkillValidationError, SkippedSkill
from .skill_file import (
    UnusableLinkError,
    check_inside,
    decoded,
    lies_in,
    long_body,
    read_bytes,
    read_skill,
    real_path,
    reason,
)
from .store import SkillStore

logger = logging.getLogger(__name__)

_LONGEST_REASON = 2_000


def roots_of(settings: SkillsSettings, workspace: Path | None) -> tuple[SkillRoot, ...]:
    """The configured roots: relative ones belong to the workspace, absolute ones are global."""
    roots = []
    for path in map(Path, settings.roots):
        if path.is_absolute():
            roots.append(SkillRoot(path, "global"))
        elif workspace is not None:
            roots.append(SkillRoot(lexical(workspace / path), "workspace"))
    return tuple(dict.fromkeys(roots))


class RootDirectory(Struct, frozen=True):
    """A root that is there, and the real directory it leads to."""

    root: SkillRoot
    real: Path


def places(roots: Sequence[SkillRoot], workspace: Path | None) -> tuple[list[RootDirectory], list[SkippedSkill]]:
    """The roots that can be used, each directory once, and those that cannot. A root that is not there is neither."""
    directories: list[RootDirectory] = []
    skipped: list[SkippedSkill] = []

    def skip(path: Path, why: str) -> None:
        skipped.append(SkippedSkill(path, why))
        warn_once(logger, "skills root %s is left out: %s", shown(path), why)

    for root in dict.fromkeys(roots):
        try:
            real = real_path(root.path)
            is_directory = real.is_dir()
        except UnusableLinkError as error:
            if root.path.is_symlink():
                skip(root.path, str(error))
        except (OSError, ValueError) as error:
            skip(root.path, f"it cannot be used: {reason(error)}")
        else:
            if is_directory:
                directories.append(RootDirectory(root, real))
            else:
                skip(root.path, "it is not a directory; name one in skills.roots")
    trusted = {place.real for place in directories if not _escapes(place, workspace)}
    usable = []
    for place in directories:
        if lies_in(place.real, trusted):
            usable.append(place)
        else:
            to = shown(place.real)
            skip(place.root.path, f"it leads out of the workspace; if that is wanted, put {to} into skills.roots")
    return _once(usable), skipped


def _escapes(place: RootDirectory, workspace: Path | None) -> bool:
    """Whether a root is named inside the workspace and really lies outside of it."""
    if workspace is None:
        return False
    named, real = lexical(place.root.path), Path(os.path.realpath(workspace))
    inside = named.is_relative_to(lexical(workspace)) or named.is_relative_to(real)
    return inside and not place.real.is_relative_to(real)


def _once(directories: Sequence[RootDirectory]) -> list[RootDirectory]:
    """Each directory once, where it stands first at the level that wins."""
    own = {place.real for place in directories if place.root.source == "workspace"}
    once: dict[Path, RootDirectory] = {}
    for place in directories:
        if place.root.source == "workspace" or place.real not in own:
            once.setdefault(place.real, place)
    return list(once.values())


def load_skills(*, global_dir: Path | str | None, workspace_dir: Path | str | None) -> SkillStore:
    """The skills below these directories; those of the workspace stand before the global ones."""
    roots = []
    if workspace_dir is not None:
        roots.append(SkillRoot(Path(workspace_dir), "workspace"))
    if global_dir is not None:
        roots.append(SkillRoot(Path(global_dir), "global"))
    return load_roots(roots)


def skill_store_factory(settings: SkillsSettings, workspace: Path | None) -> Callable[[], SkillStore]:
    """Reads the configured roots at each call: a session keeps its store, and the next one sees what was edited."""
    roots = roots_of(settings, workspace)
    return lambda: load_roots(roots, workspace=workspace, strict=settings.strict)


def load_roots(roots: Sequence[SkillRoot], *, workspace: Path | None = None, strict: bool = False) -> SkillStore:
    """Load the skills of several roots. The workspace's take precedence over the global ones, and at each level those
    of an earlier root over those of a later one.

    A root that is configured inside `workspace` but leads out of it and of the other roots is left out: an untrusted
    repository must not decide what is read. `strict` leaves out a skill whose description is too long, which is loaded
    with a warning otherwise.
    """
    directories, skipped = places(roots, workspace)
    load = _Load({place.real for place in directories}, strict)
    load.skipped.extend(skipped)
    for level in ("workspace", "global"):
        for place in directories:
            if place.root.source == level:
                load.root(place)
    return SkillStore(load.skills.values(), skipped=load.skipped, shadowed=load.shadowed)


class _Load(Struct):
    """One reading of all roots."""

    allowed: set[Path]
    strict: bool = False
    skills: dict[str, Skill] = {}
    skipped: list[SkippedSkill] = []
    shadowed: list[ShadowedSkill] = []

    def root(self, place: RootDirectory) -> None:
        try:
            with os.scandir(place.real) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self._skip(place.root.path, f"it cannot be listed: {reason(error)}")
            return
        for entry in listed:
            if not entry.name.startswith("."):
                self._entry(place, entry)

    def _entry(self, place: RootDirectory, entry: os.DirEntry[str]) -> None:
        path = at = place.real / entry.name
        try:
            directory = self._directory(path) if entry.is_symlink() else path if entry.is_dir() else None
            # By its very name, also where the system takes capital letters for small ones.
            if directory is None or FILE not in os.listdir(directory):  # noqa: PTH208
                return
            at = path / FILE
            skill = self._read(place, path, directory)
        except UnusableLinkError as error:
            self._skip(at, str(error))
        except SkillValidationError as error:
            self._skip(at, "; ".join(map(_line, error.problems)))
        except (OSError, ValueError) as error:
            self._skip(at, f"it cannot be read: {reason(error)}")
        else:
            if skill is not None:
                self._keep(skill)

    def _directory(self, link: Path) -> Path | None:
        """Where a link leads, if that is a directory."""
        real = real_path(link)
        if not stat.S_ISDIR(real.lstat().st_mode):
            return None
        check_inside(real, self.allowed)
        return real

    def _read(self, place: RootDirectory, path: Path, directory: Path) -> Skill | None:
        """The skill of a directory; None where SKILL.md is no file but a directory."""
        real = directory / FILE
        if real.is_symlink():
            real = real_path(real)
            check_inside(real, self.allowed)
        if real.is_dir():
            return None
        # Without O_PATH every directory on the way would have to be readable, which those far above need not be.
        top = Path(real.anchor) if hasattr(os, "O_PATH") else real.parent.parent
        text = decoded(read_bytes(top, real))
        skill = read_skill(text, skill_dir=path, source=place.root.source, refuse_long=self.strict)
        return skill if directory == path else replace(skill, skill_dir=directory)

    def _keep(self, skill: Skill) -> None:
        first = self.skills.get(skill.name)
        if first is None:
            self.skills[skill.name] = skill
            at = shown(skill.skill_dir / FILE)
            if warning := long_description(skill.description):
                warn_once(logger, "skill %r (%s): %s", skill.name, at, warning)
            if skill.over_body_token_warn:
                warn_once(logger, "skill %r (%s): %s", skill.name, at, long_body(skill.estimated_body_tokens))
        elif first.skill_dir != skill.skill_dir:
            self.shadowed.append(ShadowedSkill(skill.name, skill.skill_dir, first.skill_dir))
            paths = shown(first.skill_dir), shown(skill.skill_dir)
            if first.source == skill.source:
                logger.info("skill %r is taken from the first root that has it (%s, not %s)", skill.name, *paths)
            else:
                logger.info("skill %r in workspace overrides global definition (%s, not %s)", skill.name, *paths)

    def _skip(self, path: Path, why: str) -> None:
        skipped = SkippedSkill(path, cut(why, _LONGEST_REASON))
        self.skipped.append(skipped)
        warn_once(logger, "skill %s is left out: %s", shown(path), skipped.reason)


def _line(problem: SkillProblem) -> str:
    return problem.message if problem.line is None else f"line {problem.line}: {problem.message}"
