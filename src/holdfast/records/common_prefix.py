"""How far two sequences are the same: texts, bytes, tuples of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def common_head(one: Sequence[Any], other: Sequence[Any], most: int | None = None) -> int:
    """How many leading items are equal, of the first `most`. Slices compare at the speed of memory; halving finds the
    place where they part."""
    low, high = 0, min(len(one), len(other)) if most is None else most
    if one[:high] == other[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
