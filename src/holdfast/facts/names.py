"""How model names are read: vendor paths, dates and variants off, dots as dashes, the longest entry wins.

Pure functions of names; knows no data file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

_CONTEXT_VARIANT = re.compile(r"\[[^\]]*\]$")  # claude-sonnet-4-5[1m]
_REVISION = re.compile(r"-v\d+:\d+$")  # Bedrock: …-v1:0
_ROUTE_VARIANT = re.compile(r":[\w.-]+$")  # OpenRouter: …:beta
_DATE = re.compile(r"(?:[-@]\d{8}|-\d{4}-\d{2}-\d{2}|[-@]latest)$")
_VERSION = re.compile(r"-\d{1,2}(?!\w)")


def undated(name: str) -> str:
    """The name in lower case without revision, date and context suffixes; route and dots stay."""
    plain = _REVISION.sub("", _CONTEXT_VARIANT.sub("", name.strip().lower()))
    while (shorter := _DATE.sub("", plain)) != plain:
        plain = shorter
    return plain


def normalise(name: str) -> str:
    """The form in which names are compared: no vendor path, no variant, no date, dashes for dots."""
    last = _CONTEXT_VARIANT.sub("", name.strip().lower()).rsplit("/", 1)[-1]
    return undated(_ROUTE_VARIANT.sub("", _REVISION.sub("", last))).replace(".", "-")


def longest_match(name: str, entries: Mapping[str, bool]) -> str | None:
    """Return the longest entry that `name` is or extends; both normalised.

    A following version number makes another model: opus-4-9 is not opus-4, because floors do not follow from names. An
    entry with the value true covers every version below it.
    """
    for entry in sorted(entries, key=len, reverse=True):
        rest = name.removeprefix(entry)
        if rest == name:
            continue
        if not rest or (rest[0] in "-@" and (entries[entry] or not _VERSION.match(rest))):
            return entry
    return None


def starts_family(name: str, families: Iterable[str]) -> bool:
    """Whether a bare name belongs to one of the families: `o1-mini` to `o1`, not `o100`."""
    return any(name == family or name.startswith(f"{family}-") for family in families)


def dotted(name: str) -> str:
    """claude-sonnet-4-5 as some catalogues spell it: claude-sonnet-4.5."""
    return re.sub(r"(?<=-)(\d{1,2})-(\d{1,2})(?!\d)", r"\1.\2", name)


def nearest(name: str, entries: Iterable[str]) -> str | None:
    """The entry that a name is most like; None where none is much like it."""
    close = get_close_matches(name, list(entries), n=1, cutoff=0.75)
    return close[0] if close else None


def is_version_of(name: str, entry: str) -> bool:
    """Whether two names differ in numbers only: then one is a later model and no misspelling of the other."""
    return re.sub(r"\d+", "", name) == re.sub(r"\d+", "", entry)
