"""Charts: what is drawn where, round axes, labels that leave one another room; and figures as they are written."""

from __future__ import annotations

import re
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.report.pages import charts, page, texts
from holdfast.report.pages.charts import Bar, Dots, Rise, Scale

sizes = st.floats(min_value=1e-6, max_value=1e12)


@given(sizes, st.floats(min_value=0, max_value=0.99), st.sampled_from([charts.money, texts.short, charts.multiple]))
def test_ticks_are_round_in_order_and_do_not_touch(high: float, start: float, form: charts.Form) -> None:
    scale = Scale(high * start, high)
    ticks = scale.ticks(form)
    assert ticks
    assert all(0 <= tick.place <= 1 for tick in ticks)
    assert [tick.place for tick in ticks] == sorted(tick.place for tick in ticks)
    assert charts.fit(ticks)
    for value in charts.round_values(scale.low, scale.high, 5):
        assert f"{value:.6e}".split("e")[0].rstrip("0") == f"{value:.11e}".split("e")[0].rstrip("0")
        assert scale.low - high * 1e-8 <= value <= scale.high * (1 + 1e-8)


@given(st.lists(st.floats(min_value=0.01, max_value=1e6), min_size=1, max_size=20))
def test_an_axis_of_ratios_holds_them_all_and_one(values: list[float]) -> None:
    scale = charts.around(values)
    assert all(scale.low < value < scale.high for value in [*values, 1.0])
    ticks = scale.ticks(charts.multiple)
    assert ticks
    assert charts.fit(ticks)


@pytest.mark.parametrize(
    ("low", "high", "most", "expected"),
    [
        (0, 9.8, 6, [0, 2, 4, 6, 8]),
        (0, 0.037, 5, [0, 0.01, 0.02, 0.03]),
        (1, 247, 6, [50, 100, 150, 200]),
        (0.95, 1.31, 5, [1.0, 1.1, 1.2, 1.3]),
    ],
)
def test_round_values(low: float, high: float, most: int, expected: list[float]) -> None:
    assert charts.round_values(low, high, most) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("value", "written"),
    [(0.0, "$0"), (0.2, "$0.20"), (0.25, "$0.25"), (0.005, "$0.005"), (5.0, "$5"), (2500.0, "$2,500"), (20e3, "$20k")],
)
def test_dollars_on_an_axis(value: float, written: str) -> None:
    assert charts.money(value) == written


def drawn(chart: str) -> Xml.Element:
    """A chart as XML, which it is too."""
    return Xml.fromstring(chart)


def test_every_chart_is_named_described_and_an_image() -> None:
    made = [
        charts.bars("Bars", [Bar("a", 1, "1", "lost")], texts.short, desc="said"),
        charts.stacked("Stacked", [Bar("a", 1, "1", "lost"), Bar("b", 3, "3", "read")], texts.short, desc="said"),
        charts.dots("Dots", [Dots("a", [1.0, 2.0], "peer")], charts.multiple, desc="said"),
        charts.steps(
            "Steps", [Rise(3, 1.0, "lost", "three"), Rise(9, 2.0, "reset", "nine")], 20, texts.short, desc="said"
        ),
    ]
    for chart in made:
        svg = drawn(chart)
        assert svg.get("role") == "img"
        assert svg[0].tag == "title"
        assert svg[0].text in ("Bars", "Stacked", "Dots", "Steps")
        assert (svg[1].tag, svg[1].text) == ("desc", "said")
        assert not re.search(r"nan|inf", chart)


def test_charts_of_nothing_are_drawn() -> None:
    for chart in (
        charts.bars("Bars", [], texts.short),
        charts.bars("Bars", [Bar("a", 0, "0", "lost"), Bar("b", -1, "-1", "lost")], charts.money),
        charts.stacked("Stacked", [Bar("a", 0, "0", "lost")], texts.short),
        charts.dots("Dots", [Dots("a", [], "peer")], charts.multiple),
        charts.steps("Steps", [], 0, texts.short),
        charts.steps("Steps", [Rise(1, 0.0, "lost", "one")], 1, texts.short),
    ):
        drawn(chart)


def test_steps_go_up_by_what_is_lost_and_dots_are_larger_where_it_is_more() -> None:
    points = [Rise(11, 3.0, "lost", "b"), Rise(6, 1.0, "reset", "a")]
    svg = drawn(charts.steps("Steps", points, 21, texts.short))
    circles = list(svg.iter("circle"))
    assert [each.get("cx") for each in circles] == ["25.00%", "50.00%"]
    assert [each.get("class") for each in circles] == ["dot reset", "dot lost"]
    assert float(circles[0].get("r", 0)) < float(circles[1].get("r", 0))
    path = next(svg.iter("path")).get("d")
    assert path == "M0 132H125V99.0H250V0.0H500"


def test_only_the_largest_steps_have_a_dot_where_there_are_very_many() -> None:
    points = [Rise(number + 1, float(number), "lost", str(number)) for number in range(300)]
    svg = drawn(charts.steps("Steps", points, 300, texts.short, most=10))
    assert [each[0].text for each in svg.iter("circle")] == [str(number) for number in range(290, 300)]


def test_of_very_many_dots_those_are_drawn_that_stand_evenly_by_rank() -> None:
    kept = charts.by_rank([float(number) for number in range(3_000)])
    assert len(kept) == charts.MOST_DOTS
    assert (kept[0], kept[-1]) == (0.0, 2_999.0)
    gaps = [later - earlier for earlier, later in pairwise(kept)]
    assert max(gaps) - min(gaps) <= 1


@given(st.text(max_size=60), st.integers(min_value=6, max_value=40))
def test_labels_keep_to_their_columns(label: str, most: int) -> None:
    assert len(charts.fitted(label, most)) <= most


# Colours: taken from the style sheet as it is.

STYLE = (Path(page.__file__).parent / "style.css").read_text("utf-8")
LIGHT, DARK = (dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6})", part)) for part in STYLE.split("@media screen")[:2])
SEEN = {
    "everybody": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "without red": ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
    "without green": ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
    "without blue": ((1.256, -0.077, -0.179), (-0.078, 0.931, 0.148), (0.005, 0.691, 0.304)),
}  # sRGB as seen without one of the three cones


def linear(colour: str) -> list[float]:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def contrast(one: str, other: str) -> float:
    light = sorted(
        sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear(each), strict=True)) for each in (one, other)
    )
    return (light[1] + 0.05) / (light[0] + 0.05)


def lab(colour: str, eyes: str) -> tuple[float, float, float]:
    """The colour in a space in which a distance of 2 can just be told."""
    red, green, blue = (
        min(1.0, max(0.0, sum(w * c for w, c in zip(row, linear(colour), strict=True)))) for row in SEEN[eyes]
    )
    xyz = (
        (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505,
        0.2126 * red + 0.7152 * green + 0.0722 * blue,
        (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089,
    )
    x, y, z = (part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116 for part in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_text_is_readable_on_every_ground_it_stands_on(colours: dict[str, str]) -> None:
    for ground in ("paper", "faint", "minus", "plus"):
        for text in ("ink", "soft"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    assert contrast(colours["link"], colours["paper"]) >= 4.5
    assert contrast(colours["lost"], colours["paper"]) >= 4.5


@pytest.mark.parametrize("eyes", SEEN)
@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("tones", [("read", "new", "plain", "out", "reset", "lost"), ("ours", "kin", "peer")])
def test_tones_are_told_apart_by_everybody(tones: tuple[str, ...], colours: dict[str, str], eyes: str) -> None:
    for number, one in enumerate(tones):
        assert contrast(colours[one], colours["paper"]) >= 2.2
        for other in tones[number + 1 :]:
            apart = zip(lab(colours[one], eyes), lab(colours[other], eyes), strict=True)
            assert sum((a - b) ** 2 for a, b in apart) ** 0.5 >= 18, (one, other)


@pytest.mark.parametrize(
    ("amount", "written"),
    [
        (None, "unknown"),
        (Decimal("NaN"), "unknown"),
        (Decimal(0), "$0.00"),
        (Decimal("41.2"), "$41.20"),
        (Decimal("1.005"), "$1.01"),
        (Decimal("0.98765"), "$0.9877"),
        (Decimal("0.00004"), "<$0.0001"),
        (Decimal("-3.5"), "−$3.50"),
        (Decimal("1234567.891"), "$1,234,567.89"),
    ],
)
def test_dollars(amount: Decimal | None, written: str) -> None:
    assert texts.dollars(amount) == written


@pytest.mark.parametrize(
    ("number", "written"),
    [(0, "0"), (950, "950"), (999, "999"), (1_000, "1k"), (12_345, "12.3k"), (999_600, "1M"), (5_283_000, "5.28M")],
)
def test_short_counts(number: int, written: str) -> None:
    assert texts.short(number) == written


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (None, "–"),
        (0.0, "0 s"),
        (4.25, "4.2 s"),
        (59.96, "1 min"),
        (260.0, "4 min 20 s"),
        (3_600.0, "1 h"),
        (11_100.0, "3 h 5 min"),
        (1_051_200.0, "12 d 4 h"),
        (-3.0, "−3 s"),
        (float("inf"), "–"),
    ],
)
def test_spans(seconds: float | None, written: str) -> None:
    assert texts.span(seconds) == written


@pytest.mark.parametrize(
    ("at", "written"),
    [
        (None, "–"),
        (1_900_000_000.0, "2030-03-17 17:46:40"),
        (75.0, "1 min 15 s in"),
        (float("nan"), "–"),
        (1e18, "11,574,074,074,074 d 1 h in"),
    ],
)
def test_moments_are_in_utc_or_on_the_clock_of_the_log(at: float | None, written: str) -> None:
    assert texts.moment(at) == written


def test_sizes_shares_and_portions() -> None:
    assert [texts.size(number) for number in (10, 1_400_000, 2_000_000_000)] == ["10 B", "1.4 MB", "2 GB"]
    assert [texts.share(value) for value in (None, 0.8861, float("nan"))] == ["–", "88.6%", "–"]
    assert texts.portion(Decimal(1), Decimal(3)) == "33%"
    assert texts.portion(Decimal(1), Decimal(300)) == "<1%"
    assert texts.portion(Decimal(1), Decimal(0)) == ""


def test_a_clipped_text_keeps_both_ends() -> None:
    assert texts.clip("abcdefghij", 10) == "abcdefghij"
    assert texts.clip("abcdefghijk", 9) == "abcde…ijk"
