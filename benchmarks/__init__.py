"""Speed, measured as ratios: candidates take turns in one run, so that a slow moment of the machine hits all alike.

`python -m benchmarks [--quick] [NAME…]` prints a table and exits 1 if a limit is missed.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Result:
    """One figure; `limit` is what it must keep, None for figures that are only reported."""

    name: str
    value: float
    unit: str
    limit: float | None
    better: Literal["lower", "higher"]
    note: str = ""

    @property
    def kept(self) -> bool:
        if self.limit is None:
            return True
        return self.value <= self.limit if self.better == "lower" else self.value >= self.limit


def interleaved(candidates: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median seconds of each candidate, run in turn, round after round."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, candidate in candidates.items():
            begin = time.perf_counter()
            candidate()
            times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(seconds) for name, seconds in times.items()}
