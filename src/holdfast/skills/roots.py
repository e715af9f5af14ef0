"""Where skills are looked for: the configured directories, what they really are, and which of them may be used."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from holdfast.config.sections import Skills
from holdfast.notices import warn_once
from holdfast.tools import lexical, shown

from .links import UnusableLinkError, lies_in, real_path
from .skill import Root, Skipped
from .skill_file import reason

logger = logging.getLogger(__name__)


def roots_of(settings: Skills, workspace: Path | None) -> tuple[Root, ...]:
    """The configured roots: relative ones belong to the workspace, absolute ones are global."""
    found = []
    for path in map(Path, settings.roots):
        if path.is_absolute():
            found.append(Root(path, "global"))
        elif workspace is not None:
            found.append(Root(lexical(workspace / path), "workspace"))
    return tuple(dict.fromkeys(found))


class Place(Struct, frozen=True):
    """A root that is there, and the real directory it leads to."""

    root: Root
    real: Path


def places(roots: Sequence[Root], workspace: Path | None) -> tuple[list[Place], list[Skipped]]:
    """The roots that can be used, each directory once, and those that cannot. A root that is not there is neither."""
    found: list[Place] = []
    skipped: list[Skipped] = []

    def skip(path: Path, why: str) -> None:
        skipped.append(Skipped(path, why))
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
                found.append(Place(root, real))
            else:
                skip(root.path, "it is not a directory; name one in skills.roots")
    trusted = {place.real for place in found if not _escapes(place, workspace)}
    usable = []
    for place in found:
        if lies_in(place.real, trusted):
            usable.append(place)
        else:
            to = shown(place.real)
            skip(place.root.path, f"it leads out of the workspace; if that is wanted, put {to} into skills.roots")
    return _once(usable), skipped


def _escapes(place: Place, workspace: Path | None) -> bool:
    """Whether a root is named inside the workspace and really lies outside of it."""
    if workspace is None:
        return False
    named, real = lexical(place.root.path), Path(os.path.realpath(workspace))
    inside = named.is_relative_to(lexical(workspace)) or named.is_relative_to(real)
    return inside and not place.real.is_relative_to(real)


def _once(found: Sequence[Place]) -> list[Place]:
    """Each directory once, where it stands first at the level that wins."""
    own = {place.real for place in found if place.root.source == "workspace"}
    kept: dict[Path, Place] = {}
    for place in found:
        if place.root.source == "workspace" or place.real not in own:
            kept.setdefault(place.real, place)
    return list(kept.values())
