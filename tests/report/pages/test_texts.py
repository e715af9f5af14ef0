"""Figures as they are written."""

from __future__ import annotations

from decimal import Decimal

import pytest

from holdfast.report.pages import texts


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
