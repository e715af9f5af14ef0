"""Which project a directory belongs to."""

from __future__ import annotations

from pathlib import Path


def project_of(directory: Path) -> Path:
    """The git repository that the directory stands in, or the directory itself: what is known at the top of a
    repository is known in all of it. A home directory that is a repository makes no project of all that lies in it."""
    here = directory.resolve()
    try:
        home = Path.home().resolve()
    except RuntimeError:  # nobody says where it is
        home = None
    for place in (here, *here.parents):
        if place == home:
            break
        if _is_repository(place):
            return place
    return here


def _is_repository(place: Path) -> bool:
    """A worktree and a submodule have a file there."""
    try:
        return (place / ".git").exists()
    except OSError:  # it may not be looked into
        return False
