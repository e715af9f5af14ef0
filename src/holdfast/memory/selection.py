"""Which entries a prompt holds: the token budgets, the selection, and the test whether a selection changed.

Entries are taken whole or not at all. One that does not fit is skipped, and a smaller one behind it may still be taken.
Every order ends with the id, so that it does not depend on the order in which the store returns entries.

A budget that follows a moving number changes the selection, and with it bytes that were sent, on every turn. So the
window is rounded down, by a fifth at most, before a budget is computed, and the budget is rounded too: a limit that is
slightly different gives the same budgets and the same texts.

A changed text is detected by its entries, which is exact, or by comparing two texts position by position, as the first
design did. That is cheap at any length, but one character inserted at the beginning moves all the others, and then
nearly every position differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeVar

from msgspec import Struct

from holdfast.config.sections import MemorySettings
from holdfast.facts import estimate

from .entries import KnowledgeEntry, Known

T = TypeVar("T")
STEP = 256
"""Budgets are multiples of this, except in windows where one step would be an eighth or more."""
_LEAST_PART = 8
"""In a small window, the least a budget may be is one part in so many: 2% of 4,000 tokens hold no entry at all."""
_STEPS = 4
"""Steps from one power of two to the next."""
ChangeTest = Literal["entries", "sampled"]

POSITIONS = 1_000
SAMPLED_MOST = 0.05
"""The share of places that may differ between two texts that count as the same."""


def preferences(entries: Iterable[KnowledgeEntry]) -> list[KnowledgeEntry]:
    """Preferences in the order they are taken for the stable block: the surest first, of those the project's own."""
    return sorted(entries, key=lambda entry: (-entry.confidence, entry.project is None, entry.id))


def with_net(hits: Sequence[KnowledgeEntry], net: Iterable[KnowledgeEntry]) -> list[KnowledgeEntry]:
    """The hits, followed by the entries of the safety net that are not among them: the net never displaces a hit."""
    ids = {entry.id for entry in hits}
    return [*hits, *(entry for entry in net if entry.id not in ids)]


def fitting(entries: Iterable[T], text: Callable[[T], str], room: int, *, most: int | None = None) -> list[T]:
    """The entries, in order, whose texts fit into `room` tokens together; `most` of them at most."""
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
    """Tokens of a text that is one of several: the line feed before it counts."""
    return estimate(text) + 1


def shown_order(entries: Sequence[KnowledgeEntry]) -> list[KnowledgeEntry]:
    """By category and title, as a reader looks for them."""
    return sorted(entries, key=lambda entry: (entry.category, entry.title, entry.id))


class Budgets(Struct, frozen=True, kw_only=True):
    """The budgets of one model and one configuration, in tokens. `usable` is the window after rounding."""

    usable: int
    stable: int
    context_share: float
    whole: float
    """Stable and context memory together, as a share."""
    floor: float
    """The part of the whole that context memory always has."""

    def context(self, stable_used: int) -> int:
        """Return the tokens of context memory besides a stable block of `stable_used` tokens.

        That is its own share, reduced to what the stable block leaves of the whole, but never less than the floor: many
        preferences must not starve the entries needed for the work at hand (E24). The block's size is rounded up to a
        step first, so that a word more or less in it does not matter.
        """
        if self.context_share <= 0:
            return 0
        left = self.whole * self.usable - -(-max(stable_used, 0) // STEP) * STEP
        return _budget(
            max(min(self.context_share * self.usable, left), self.floor * self.whole * self.usable), self.usable
        )


def budgets(settings: MemorySettings, *, context_limit: int, output_limit: int) -> Budgets:
    """The budgets for a window of `context_limit` tokens, of which an answer may take `output_limit`."""
    usable = stepped(usable_window(context_limit, output_limit))
    stable, context = max(settings.stable_budget, 0.0), max(settings.context_budget, 0.0)
    return Budgets(
        usable=usable,
        stable=_budget(stable * usable, usable) if stable else 0,
        context_share=context,
        whole=stable + context,
        floor=max(settings.context_floor, 0.0),
    )


def usable_window(context_limit: int, output_limit: int) -> int:
    """The window without the room reserved for an answer, which is at most half of it: some models may answer with as
    much as they can read."""
    limit = max(context_limit, 0)
    return limit - min(max(output_limit, 0), limit // 2)


def stepped(tokens: int) -> int:
    """The number rounded down to a step: four of them from one power of two to the next."""
    if tokens < _STEPS:
        return max(tokens, 0)
    unit = 1 << (tokens.bit_length() - _STEPS.bit_length())
    return tokens // unit * unit


def _budget(tokens: float, usable: int) -> int:
    least = min(STEP, usable // _LEAST_PART)
    return max(int(tokens) // STEP * STEP, least)


def sampled_difference(old: str, new: str, positions: int = POSITIONS) -> float:
    """The share of up to so many evenly spaced places at which two texts differ, over the whole length of the longer
    one. Beyond the end of the shorter one every place does."""
    length, common = max(len(old), len(new)), min(len(old), len(new))
    if not length:
        return 0.0
    count = min(length, max(1, positions))
    places = (index * length // count for index in range(count))
    return sum(at >= common or old[at] != new[at] for at in places) / count


def differs(test: ChangeTest, old: tuple[str, Known], new: tuple[str, Known]) -> bool:
    """Whether the second of two texts, each given with the entries in it, is another one by this test."""
    if test == "sampled":
        return sampled_difference(old[0], new[0]) > SAMPLED_MOST
    return set(old[1]) != set(new[1])
