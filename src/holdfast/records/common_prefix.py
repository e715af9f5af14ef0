"""How far two sequences are the same: texts, bytes, tuples of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_FIRST = 64


def common_head(one: Sequence[Any], other: Sequence[Any], most: int | None = None, *, start: int = 0) -> int:
    """How many leading items are equal, of the first `most`; the first `start` are known to be.

    Slices compare at the speed of memory: ever longer ones find where the two part roughly, halving finds the place.
    """
    low, high = start, min(len(one), len(other)) if most is None else most
    if one[low:high] == other[low:high]:
        return high
    step = _FIRST
    while low + step < high and one[low : low + step] == other[low : low + step]:
        low += step
        step *= 2
    high = min(high, low + step) - 1  # the last of them is not needed: if all before it are equal, it is not
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
