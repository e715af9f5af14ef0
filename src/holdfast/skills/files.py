"""The files beside a SKILL.md: bodies name them relative to their directory, and nothing else says what is there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from holdfast.tools import mend

from .skill import FILE

_MOST_ENTRIES = 20_000
"""Files and directories that are looked at."""


def files_of(skill_dir: Path) -> list[Path]:
    """By name, without those in hidden directories; links are named and not followed."""
    found = islice(_below(skill_dir), _MOST_ENTRIES)
    return sorted(path for path in found if path is not None and path != skill_dir / FILE)


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
