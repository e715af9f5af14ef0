"""Where a link really leads, and whether that may be used: into a root, and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Set
from pathlib import Path

from holdfast.tools import shown


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
