"""What a cure's sentence says has happened, without what is to be done about it: so that several of one kind can be
named together."""

from __future__ import annotations

import re
from collections.abc import Iterable

SENTENCES = 3
"""Of one cure that are told."""

_END = re.compile(r"[:.](?: |\Z)| and everything behind ").match
_PLACE = re.compile(r"\S*\[\d+\][^\s:;,)]*")
_NUMBER = re.compile(r"(?<![\w-])\d[\d,]*(?![\w-])")

CATALOGUE = "More on each by its name in Holdfast's docs/cures."


def happened(sentence: str) -> str:
    """Up to what followed from it, or the colon or full stop behind which the advice begins; those in parentheses name
    something."""
    depth = 0
    for at, char in enumerate(sentence):
        depth += (char == "(") - (char == ")")
        if depth <= 0 and _END(sentence, at) is not None:
            return sentence[:at]
    return sentence


def kind(sentence: str) -> str:
    """What is the same of sentences that differ only in a place or a number."""
    return _NUMBER.sub("0", _PLACE.sub("", happened(sentence)))


def others(first: str, sentences: Iterable[str]) -> tuple[str, ...]:
    """What further sentences of the same cure name beside the first, each thing once."""
    found: dict[str, str] = {}
    known = kind(first)
    for sentence in sentences:
        if sentence and len(found) + 1 < SENTENCES and (what := kind(sentence)) != known:
            found.setdefault(what, happened(sentence))
    return tuple(found.values())


def with_others(first: str, also: Iterable[str]) -> str:
    """A sentence and what else there was of its kind."""
    more = "; ".join(also)
    return f"{first} Also: {more}." if more else first


def by_setting(setting: str, shown: str = "") -> str:
    """Who does it by itself with a setting: what is not of the cache belongs to our own agent."""
    who = "The gateway" if setting.startswith("cache.") else "Holdfast's own agent"
    return f"{who} does it by itself: {shown or setting}."
