"""Which entries are put into a prompt: pure functions of entries, scores and room, the same for the same.

Entries are taken whole or not at all. One that finds no room is passed over and a smaller one behind it may still be
taken. Every order ends with the id, so that nothing depends on how entries came out of the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from holdfast.facts import estimate

from .values import PREFERENCE, Hit, KnowledgeEntry

NET = 5
"""Entries of the project itself that are considered although no word of theirs was said."""

T = TypeVar("T")


def preferences(entries: Iterable[KnowledgeEntry]) -> list[KnowledgeEntry]:
    """Preferences in the order they are taken for the stable block: the surest first, of those the project's own."""
    return sorted((entry for entry in entries if entry.category == PREFERENCE), key=_surest)


def catalogued(entries: Iterable[KnowledgeEntry]) -> list[KnowledgeEntry]:
    """Entries in the order they are taken for the catalogue: the project's own first, of those the surest."""
    return sorted(entries, key=lambda entry: (entry.project is None, -entry.confidence, entry.id))


def safety_net(entries: Iterable[KnowledgeEntry]) -> list[KnowledgeEntry]:
    """The project's entries that count whatever is said: the surest, of those the latest. A search has no part in it,
    so that they are the same however it ranks."""
    own = (entry for entry in entries if entry.project is not None and entry.category != PREFERENCE)
    return sorted(own, key=lambda entry: (-entry.confidence, -entry.updated_at, entry.id))[:NET]


def ranked(hits: Iterable[Hit]) -> list[KnowledgeEntry]:
    """What a search found, by score times confidence. Preferences stand in the stable block and nowhere else (E12)."""
    found = sorted(hits, key=lambda hit: (-hit.score * hit.entry.confidence, hit.entry.id))
    return [hit.entry for hit in found if hit.entry.category != PREFERENCE]


def with_net(found: Sequence[KnowledgeEntry], net: Iterable[KnowledgeEntry]) -> list[KnowledgeEntry]:
    """What was found, and behind it those of the safety net that were not: where there is room for everything the net
    is always there, and it never displaces what fits what was said."""
    there = {entry.id for entry in found}
    return [*found, *(entry for entry in net if entry.id not in there)]


def fitting(entries: Iterable[T], text: Callable[[T], str], room: int, *, most: int | None = None) -> list[T]:
    """Those of the entries, in their order, whose texts have room together. `most` limits their number."""
    taken: list[T] = []
    for entry in entries:
        if most is not None and len(taken) >= most:
            break
        needed = tokens(text(entry))
        if needed <= room:
            taken.append(entry)
            room -= needed
    return taken


def tokens(text: str) -> int:
    """What a text takes as one of several: the line feed before it counts."""
    return estimate(text) + 1


def shown_order(entries: Sequence[KnowledgeEntry]) -> list[KnowledgeEntry]:
    """As a reader looks for them."""
    return sorted(entries, key=lambda entry: (entry.category, entry.title, entry.id))


def _surest(entry: KnowledgeEntry) -> tuple[float, bool, str]:
    return (-entry.confidence, entry.project is None, entry.id)
