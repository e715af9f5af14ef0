"""Axes: where the round numbers lie between two values, and how they are written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from . import texts

Form = Callable[[float], str]

ROOM = 300.0
"""Pixels for the labels of an axis: what a telephone has."""

LETTER = 7.5
"""Pixels of a letter or digit at the size of labels, in a wide typeface."""

_LEAST = 1e-12  # a smaller sum is none

SPACE = 18.0
"""Pixels between two labels."""


class Tick(NamedTuple):
    """A round value: where it lies on the axis, from 0 to 1, and its label."""

    place: float
    label: str


class Scale(NamedTuple):
    """An axis from `low` to `high`, with ratios equally far apart where it is `log`."""

    low: float
    high: float
    log: bool = False

    def place(self, value: float) -> float:
        """Where a value lies, from 0 to 1."""
        low, high, value = (math.log(each) if self.log else each for each in (self.low, self.high, value))
        return min(1.0, max(0.0, (value - low) / (high - low)))

    def ticks(self, form: Form) -> list[Tick]:
        """As many round values as have room beside one another."""
        found: list[Tick] = []
        for values in self._choices():
            if not values:
                break
            found = [Tick(self.place(value), form(value)) for value in values]
            if fit(found):
                return found
        return found[:1]

    def _choices(self) -> Iterator[list[float]]:
        """Round values, many first."""
        if self.log:
            return (round_ratios(self.low, self.high, sizes) for sizes in ((1, 1.5, 2, 3, 5), (1, 2, 5), (1, 3), (1,)))
        return (round_values(self.low, self.high, most) for most in (6, 5, 4, 3, 2))


def fit(ticks: Sequence[Tick]) -> bool:
    """Whether no label touches the next one."""
    return all(_apart(one, other) for one, other in pairwise(ticks))


def anchor(place: float) -> str:
    """Labels at the ends of an axis stay inside of it."""
    return "start" if place < 0.06 else "end" if place > 0.94 else "middle"


def _apart(one: Tick, other: Tick) -> bool:
    return _extent(other)[0] - _extent(one)[1] >= SPACE


def _extent(tick: Tick) -> tuple[float, float]:
    size, at = len(tick.label) * LETTER, tick.place * ROOM
    left = {"start": at, "middle": at - size / 2, "end": at - size}[anchor(tick.place)]
    return left, left + size


def round_values(low: float, high: float, most: int) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten from `low` to `high`, at most so many."""
    raw = (high - low) / max(1, most - 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(size * power for size in (1.0, 2.0, 5.0, 10.0) if size * power >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [float(f"{number * step:.12g}") for number in range(first, last + 1)]


def round_ratios(low: float, high: float, sizes: Sequence[float]) -> list[float]:
    """These sizes times powers of ten from `low` to `high`."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = (float(f"{size * 10.0**power:.12g}") for power in powers for size in sizes)
    return [value for value in values if low <= value <= high]


def upwards(values: Sequence[float]) -> Scale:
    """From zero to the largest."""
    high = max((each for each in values if math.isfinite(each)), default=0.0)
    return Scale(0.0, high if high > _LEAST else 1.0)


def around(values: Sequence[float]) -> Scale:
    """For ratios: 1 lies on it, and where they are far apart they are equally far apart."""
    low, high = min((*values, 1.0)), max((*values, 1.0))
    if low > 0 and high / low > 4:
        return Scale(low / 1.05, high * 1.05, log=True)
    edge = max((high - low) * 0.04, 0.01)
    return Scale(low - edge, high + edge)


def money(value: float) -> str:
    """`$0`, `$0.25`, `$5`, `$1,000`, `$20k` on an axis."""
    if value == 0:
        return "$0"
    if value >= 10_000:
        return f"${texts.short(value)}"
    if value < 0.0001:
        return f"${value:.0e}"
    text = f"${value:,.6f}".rstrip("0")
    return f"{text}0" if text[-2] == "." else text.rstrip(".")


def multiple(value: float) -> str:
    return f"{value:,.3f}".rstrip("0").rstrip(".") + "×"
