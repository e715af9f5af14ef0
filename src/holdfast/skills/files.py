"""The files of skills: what stands beside a SKILL.md, and whether a link may be followed, which is into a root only.

Bodies name the files beside them relative to their directory, and nothing else says what is there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Set
from contextlib import suppress
from itertools import islice
from pathlib import Path

from holdfast.tools import mend, shown

from .skill import FILE

_MOST_ENTRIES = 20_000
"""Files and directories that are looked at."""


class UnusableLinkError(Exception):
    """Why a link is not followed."""


def real_path(link: Path) -> Path:
    try:
        return Path(os.path.realpath(link, strict=True))
    except FileNotFoundError:
        raise UnusableLinkError("its link leads nowhere; remove it or correct it") from None


def check_inside(real: Path, allowed: Set[Path]) -> None:
    """Refuses what a link leads to outside of the roots."""
    if not lies_in(real, allowed):
        raise UnusableLinkError(
            f"its link leads out of every skills root, to {shown(real)}; copy it, or name a root in skills.roots"
        )


def lies_in(real: Path, directories: Set[Path]) -> bool:
    """Whether a real path is one of these or below one, however many there are."""
    return real in directories or not directories.isdisjoint(real.parents)


def files_of(skill_dir: Path) -> list[Path]:
    """By name, without those in hidden directories; links are named and not followed."""
    paths = islice(_below(skill_dir), _MOST_ENTRIES)
    return sorted(path for path in paths if path is not None and path != skill_dir / FILE)


def named(path: Path, skill_dir: Path) -> str:
    """A file as a body names it."""
    return mend(path.relative_to(skill_dir).as_posix())


def _below(directory: Path) -> Iterator[Path | None]:
    """Every entry below a directory, however deep: files and links, and None for a directory."""
    waiting = [directory]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                inner = entry.is_dir(follow_symlinks=False)
                if inner and not entry.name.startswith("."):
                    waiting.append(Path(entry.path))
                yield None if inner else Path(entry.path)
