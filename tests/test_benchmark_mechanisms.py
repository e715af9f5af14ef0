"""docs/mechanisms.md says what its benchmark measures, and each mechanism does in it what it is there for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import mechanisms

PAGE = Path(__file__).parent.parent / "docs" / "mechanisms.md"
FIGURE = re.compile(r"\d+\.\d+")
COUNTED = (6, 7, 13)
"""Mechanisms that are not there to save."""


@pytest.mark.slow
def test_the_page_is_what_is_measured() -> None:
    """To the word, and figures within a hundredth: the paths of temporary files are not equally long everywhere."""
    written, made = PAGE.read_text(encoding="utf-8").rstrip("\n"), "\n".join(mechanisms.page()).rstrip("\n")
    assert FIGURE.sub("N", written) == FIGURE.sub("N", made), "make it anew: python -m benchmarks.mechanisms --markdown"
    figures = [[float(each) for each in FIGURE.findall(text)] for text in (written, made)]
    assert figures[0] == pytest.approx(figures[1], abs=0.011)


@pytest.mark.slow
def test_each_saves_in_the_session_that_was_made_for_it() -> None:
    first = {number: effects[0].value for number, effects in enumerate(mechanisms.measured(), start=1)}
    assert len(first) == 16
    assert {number: value for number, value in first.items() if value >= 1 and number not in COUNTED} == {}


@pytest.mark.slow
def test_what_is_no_saving_is_counted() -> None:
    (breaks,), (reports,), (stored,) = (mechanisms.measured()[number - 1] for number in COUNTED)
    injected = len(mechanisms.mechanisms_prefix.FAULTS)
    assert breaks.value == injected
    assert breaks.text.endswith("false alarms in 57 undisturbed requests: 0")
    assert f"{injected} with the right cause" in breaks.text
    assert reports.value == injected
    assert stored.value == 1
    assert "8 of 8 requests ask for it, none without" in stored.text


def test_what_stands_on_the_page_without_being_measured_is_the_benchmarks_own_table() -> None:
    rows = [line.strip("|").split(" | ") for line in PAGE.read_text().splitlines() if re.match(r"\| \d", line)]
    found = [[cell.strip() for cell in row] for row in rows]
    assert [row[1:4] + row[6:] for row in found] == [
        [each.name, each.does, each.setting, each.seen] for each in mechanisms.MECHANISMS
    ]
