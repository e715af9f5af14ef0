"""Names: ids of entries, short enough to be written down and read aloud without a mistake (Crockford's base32), tenants
by a prefix, and the project of a directory."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from pathlib import Path

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_LENGTH = 7
_FORM = re.compile(f"k[{_ALPHABET}]{{{_LENGTH}}}")
_MISREAD = str.maketrans("oil", "011")
_NEAR = 0.75
LEAST = 3
"""Characters of a beginning that stands for a whole id."""
_LISTED = 10
"""Characters of a tenant's name that lists show at least."""

FORM = f"k and {_LENGTH} letters or digits, such as k0a1b2c3"


def new_id() -> str:
    return "k" + "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))


def tidy(text: str) -> str:
    """The stored form of an id that may be written in capitals, or with a letter for a digit that looks like it. A text
    that can be no id is returned unchanged."""
    id_ = _normal(text)
    return id_ if _FORM.fullmatch(id_) else text


def is_id(text: str) -> bool:
    return _FORM.fullmatch(text) is not None


def begun(text: str, ids: Sequence[str]) -> list[str]:
    """The ids with this prefix, in any spelling; none where it is too short to stand for an id."""
    prefix = _normal(text)
    return [id_ for id_ in ids if id_.startswith(prefix)] if len(prefix) >= LEAST else []


def near(text: str, ids: Sequence[str]) -> str | None:
    """The id that was probably meant: the only one with this prefix, or the most similar one."""
    id_, matches = _normal(text), begun(text, ids)
    if len(matches) == 1:
        return matches[0]
    return next(iter(get_close_matches(id_, sorted(ids), 1, _NEAR)), None) if len(id_) <= 2 * _LENGTH else None


def _normal(text: str) -> str:
    return text.strip().lower().translate(_MISREAD)


def is_named(tenant: str, names: Collection[str]) -> bool:
    """Whether a tenant is among these, by its whole name or the part of it that lists show."""
    return tenant in names or tenant[:_LISTED] in names


def project_of(directory: Path) -> Path:
    """The git repository that contains the directory, or the directory itself: a repository shares one knowledge. A
    home directory that is a repository is no project."""
    here = directory.resolve()
    try:
        home = Path.home().resolve()
    except RuntimeError:  # no home directory is known
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
