"""Charts as SVG, drawn here and complete without any script.

Places along the width are percentages, so that a chart is as wide as its column while letters keep their size; a label
stands above what it names, which leaves it the whole width of a telephone. Colours are classes of the style sheet.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Literal, NamedTuple

from . import texts
from .markup import Child, Markup, tag, visible

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
        ticks: list[Tick] = []
        for values in self._choices():
            if not values:
                break
            ticks = [Tick(self.place(value), form(value)) for value in values]
            if fit(ticks):
                return ticks
        return ticks[:1]

    def _choices(self) -> Iterator[list[float]]:
        """Round values, many first."""
        if self.log:
            return (round_ratios(self.low, self.high, sizes) for sizes in ((1, 1.5, 2, 3, 5), (1, 2, 5), (1, 3), (1,)))
        return (round_values(self.low, self.high, most) for most in (6, 5, 4, 3, 2))


def fit(ticks: Sequence[Tick]) -> bool:
    """Whether no label touches the next one."""
    return all(_extent(other)[0] - _extent(one)[1] >= SPACE for one, other in pairwise(ticks))


def anchor(place: float) -> str:
    """Labels at the ends of an axis stay inside of it."""
    return "start" if place < 0.06 else "end" if place > 0.94 else "middle"


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


Tone = Literal["lost", "reset", "read", "new", "plain", "out", "ours", "kin", "peer", "bound"]

ROW = 48
AXIS = 26
LINE = 43
"""Characters of a label and the figure at the other end of its line: the width of a telephone."""

MOST_DOTS = 150
"""Dots of a row; of more, those are drawn that stand evenly by rank."""

_PLOT = 132  # height of a plot with an axis of its own upwards
_ACROSS = 500  # steps across such a plot


class Bar(NamedTuple):
    """A row: its label, value, the text at its end and its tooltip."""

    label: str
    value: float
    shown: str
    tone: Tone
    note: str = ""
    strong: bool = False


class Dots(NamedTuple):
    """A row of single values."""

    label: str
    values: Sequence[float]
    tone: Tone
    strong: bool = False


class Rise(NamedTuple):
    """A place at which a sum goes up by `by`."""

    at: int
    by: float
    tone: Tone
    note: str


def bars(
    title: str,
    rows: Sequence[Bar],
    form: Form,
    *,
    desc: str = "",
    line: float | None = None,
    limit: float | None = None,
) -> Markup:
    """Horizontal bars from zero; `line` is a value to compare all of them with. A bar beyond `limit` is as long as
    there is room, and is seen to be cut."""
    longest = max((row.value for row in rows), default=0.0)
    cut = limit is not None and longest > limit
    scale = upwards([limit if cut and limit is not None else longest, line or 0.0])
    bottom = len(rows) * ROW
    shapes, labels = [], []
    for number, row in enumerate(rows):
        top = number * ROW
        width = f"{100 * scale.place(row.value):.2f}%"
        shape = [tag("rect", x=0, y=top + 24, width=width, height=12, rx=2, class_=f"fill {row.tone}")]
        if row.value > scale.high:
            shape += [tag("line", x1=x, x2=x, y1=top + 22, y2=top + 38, class_="cut") for x in ("93%", "95%")]
        shapes.append(tag("g", tag("title", row.note or f"{row.label}: {row.shown}"), shape))
        labels.append(_heading(row.label, row.shown, top, row.strong))
    at = f"{100 * scale.place(line or 0.0):.2f}%"
    mark = tag("line", x1=at, x2=at, y1=0, y2=bottom, class_="mark") if line is not None else None
    return _chart(title, desc, bottom + AXIS, [_grid(scale.ticks(form), 0, bottom), shapes, mark, labels])


def stacked(title: str, parts: Sequence[Bar], form: Form, *, desc: str = "") -> Markup:
    """One bar of several parts. Its parts are named and counted beside it: see `texts`, not colours alone."""
    total = sum(max(0.0, part.value) for part in parts) or 1.0
    scale, left, drawn = Scale(0.0, total), 0.0, []
    for part in parts:
        width = 100 * max(0.0, part.value) / total
        if width <= 0:
            continue
        shape = tag("rect", x=f"{left:.2f}%", y=0, width=f"{width:.2f}%", height=34, class_=f"fill part {part.tone}")
        drawn.append(tag("g", tag("title", part.note or f"{part.label}: {part.shown}"), shape))
        left += width
    return _chart(title, desc, 42 + AXIS, [*drawn, _grid(scale.ticks(form), 36, 42)])


def dots(title: str, rows: Sequence[Dots], form: Form, *, desc: str = "") -> Markup:
    """Every value as a dot, the median as a stroke: how far apart they lie."""
    scale = around([value for row in rows for value in row.values])
    bottom = len(rows) * ROW
    drawn = [_grid(scale.ticks(form), 0, bottom)]
    for number, row in enumerate(rows):
        middle = median(row.values) if row.values else None
        top = number * ROW
        drawn.append(_heading(row.label, "" if middle is None else f"median {texts.ratio(middle)}", top, row.strong))
        for place, value in enumerate(by_rank(row.values)):
            across = f"{100 * scale.place(value):.2f}%"
            down = top + 31 + (place * 5) % 9 - 4  # a little apart, so that equal ones are seen
            drawn.append(_dot(across, str(down), "4", row.tone, form(value)))
        if middle is not None:
            at = f"{100 * scale.place(middle):.2f}%"
            drawn.append(tag("line", x1=at, x2=at, y1=top + 22, y2=top + 40, class_="median"))
    return _chart(title, desc, bottom + AXIS, drawn)


def steps(title: str, points: Sequence[Rise], end: int, form: Form, *, desc: str = "", most: int = 100) -> Markup:
    """A sum over the numbers from 1 to `end`, with a dot where it goes up: the larger, the more. Only the largest have
    a dot where there are more than `most`."""
    points = sorted(points)
    along = Scale(1.0, float(max(end, 2, *(point.at for point in points))))
    upward = upwards([sum(point.by for point in points)])
    largest = max((point.by for point in points), default=0.0) or 1.0
    dotted = set(sorted(range(len(points)), key=lambda each: (-points[each].by, each))[:most])
    path, total, marks = [f"M0 {_PLOT}"], 0.0, []
    for number, point in enumerate(points):
        total += point.by
        across, height = along.place(point.at), _PLOT * (1 - upward.place(total))
        path.append(f"H{across * _ACROSS:.0f}V{height:.1f}")
        if number in dotted:
            size = 3 + 5 * (point.by / largest) ** 0.5
            where = f"{100 * across:.2f}%", f"{height + _TOP:.1f}", f"{size:.1f}"
            marks.append(_dot(*where, point.tone, point.note))
    line = tag("path", d="".join(path) + f"H{_ACROSS}", class_="step", vector_effect="non-scaling-stroke")
    plot = tag("svg", line, x=0, y=_TOP, width="100%", height=_PLOT, viewBox=f"0 0 {_ACROSS} {_PLOT}",
               preserveAspectRatio="none", overflow="visible", aria_hidden="true")  # fmt: skip
    drawn = [*_levels(upward.ticks(form)), plot, *marks, _grid(_whole(along), _TOP + _PLOT, _TOP + _PLOT + 5)]
    return _chart(title, desc, _TOP + _PLOT + AXIS, drawn)


_TOP = 20  # room above a plot for the label of its highest line


def by_rank(values: Sequence[float]) -> list[float]:
    """All values, or so many of them as are drawn, evenly from the smallest to the largest."""
    ranked = sorted(values)
    if len(ranked) <= MOST_DOTS:
        return ranked
    return [ranked[place * (len(ranked) - 1) // (MOST_DOTS - 1)] for place in range(MOST_DOTS)]


def _whole(scale: Scale) -> list[Tick]:
    """Round request numbers, and the first."""
    ticks = [tick for tick in scale.ticks(lambda value: f"{value:,.0f}" if value == int(value) else "") if tick.label]
    return [Tick(0.0, "1"), *(tick for tick in ticks if tick.place > 0.12)]


def fitted(label: str, most: int) -> str:
    """A label in so many columns: East Asian characters and pictures take two."""
    label = texts.clip(visible(label), most)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in label)
    return texts.clip(label, most // 2) if len(label) + wide > most else label


def _heading(label: str, shown: str, top: int, strong: bool) -> Markup:
    kind = "label strong" if strong else "label"
    name = tag("text", fitted(label, max(10, LINE - len(shown))), x=0, y=top + 16, class_=kind)
    return tag("g", name, tag("text", shown, x="100%", y=top + 16, text_anchor="end", class_=f"{kind} figure"))


def _dot(across: str, down: str, size: str, tone: Tone, note: str) -> Markup:
    return tag("circle", tag("title", note), class_=f"dot {tone}", cx=across, cy=down, r=size)


def _grid(ticks: Sequence[Tick], top: int, bottom: int) -> Markup:
    """Hairlines at round values, and the values below them."""
    drawn = []
    for tick in ticks:
        at = f"{100 * tick.place:.2f}%"
        if tick.place > 0:  # at the edge it would stand in the first letters
            drawn.append(tag("line", x1=at, x2=at, y1=top, y2=bottom, class_="grid"))
        drawn.append(tag("text", tick.label, x=at, y=bottom + 18, text_anchor=anchor(tick.place), class_="tick"))
    return tag("g", drawn)


def _levels(ticks: Sequence[Tick]) -> list[Markup]:
    """Hairlines across a plot with their values standing on them, the lowest without."""
    drawn, above = [], float("inf")
    for tick in ticks:
        at = _TOP + _PLOT * (1 - tick.place)
        drawn.append(tag("line", x1=0, x2="100%", y1=f"{at:.1f}", y2=f"{at:.1f}", class_="grid"))
        if tick.place > 0 and above - at >= 18:
            drawn.append(tag("text", tick.label, x=0, y=f"{at - 5:.1f}", class_="tick"))
            above = at
    return drawn


def _chart(title: str, desc: str, height: int, drawn: Child) -> Markup:
    title_and_text = [tag("title", title), tag("desc", desc) if desc else None]
    return tag("svg", title_and_text, drawn, class_="chart", role="img", width="100%", height=height)
