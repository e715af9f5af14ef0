"""Whether a memory text changed so much that a prompt should get the new one.

By its entries, which is exact; or by comparing two texts place by place, as the first design did: cheap whatever their
length, but one character that comes in at the beginning moves all the others, and nearly every place differs then.
"""

from __future__ import annotations

from typing import Literal

from .entries import Known

ChangeTest = Literal["entries", "sampled"]

POSITIONS = 1_000
SAMPLED_MOST = 0.05
"""The share of places that may differ between two texts that count as the same."""


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
