"""Which entries are put into a prompt: pure functions of entries and room, the same for the same.

Entries are taken whole or not at all. One that finds no room is passed over and a smaller one behind it may still be
taken. Every order ends with the id, so that nothing depends on how entries came out of the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from holdfast.facts import estimate

from .entries import KnowledgeEntry

T = TypeVar("T")


def preferences(entries: Iterable[KnowledgeEntry]) -> list[KnowledgeEntry]:
    """Preferences in the order they are taken for the stable block: the surest first, of those the project's own."""
    return sorted(entries, key=lambda entry: (-entry.confidence, entry.project is None, entry.id))


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
