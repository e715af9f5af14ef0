"""Names: the ids of entries, short enough to be written down and read aloud without a mistake (Crockford's base32), and
tenants by the beginning of theirs."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Sequence
from difflib import get_close_matches

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


def tidy(given: str) -> str:
    """An id as it is stored, of one as somebody may write it: in capitals, with a letter for the digit it looks like.
    What can be no id stays as it is."""
    made = given.strip().lower().translate(_MISREAD)
    return made if _FORM.fullmatch(made) else given


def is_id(text: str) -> bool:
    return _FORM.fullmatch(text) is not None


def begun(given: str, ids: Sequence[str]) -> list[str]:
    """Those that begin like this, however it is written; none where that is too short to stand for one."""
    made = given.strip().lower().translate(_MISREAD)
    return [each for each in ids if each.startswith(made)] if len(made) >= LEAST else []


def near(given: str, ids: Sequence[str]) -> str | None:
    """The id that was probably meant: the only one that begins like this, or the one most like it."""
    made, fitting = given.strip().lower().translate(_MISREAD), begun(given, ids)
    if len(fitting) == 1:
        return fitting[0]
    return next(iter(get_close_matches(made, sorted(ids), 1, _NEAR)), None) if len(made) <= 2 * _LENGTH else None


def is_named(tenant: str, names: Collection[str]) -> bool:
    """Whether a tenant is among these, by its whole name or as much of it as lists show."""
    return tenant in names or tenant[:_LISTED] in names
