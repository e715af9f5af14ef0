"""Seed cache-page, row 6: two-phase detection of breaks."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.config.sections.cache import BreaksSettings
from tests.core.break_lane import Lane, text

PART = "All that was said in this part is needed later on. " * 150  # some 1,600 tokens
OPUS = "claude-opus-4-6"


def body(turns: int, system: str = "The house has rules. ") -> dict[str, Any]:
    said = [{"role": ("user", "assistant")[i % 2], "content": [text(f"{i} {PART}")]} for i in range(2 * turns - 1)]
    said[-1]["content"] = [text(f"{2 * turns - 2} {PART}", "5m")]
    return {"model": OPUS, "max_tokens": 16, "system": [text(system + PART * 3)], "messages": said}


def test_c6_before_the_call_the_lane_is_compared_and_after_it_the_cause_is_attributed() -> None:
    lane = Lane()
    assert lane.send(body(1)).finding is None
    assert lane.send(body(2)).finding is None
    judged = lane.send(body(3, system="It is 13:01. "))
    assert judged.expectation.suspects[0].cause == "system_prompt_changed"  # known before it went out
    assert judged.finding.cause == "system_prompt_changed"
    assert judged.path == "system[0]"


@pytest.mark.parametrize(("drop", "tokens", "found"), [(0.05, 2_000, True), (0.99, 2_000, True), (0.05, 90_000, False)])
def test_c6_both_thresholds_decide_and_are_settings(drop: float, tokens: int, found: bool) -> None:
    lane = Lane(thresholds=BreaksSettings(min_drop=drop, min_tokens=tokens))
    lane.send(body(2))
    assert (lane.send(body(3, system="Other rules. ")).finding is not None) == found


@pytest.mark.parametrize(("turns", "found"), [(10, True), (40, False)])
def test_c6_a_drop_of_many_tokens_that_is_a_small_share_is_no_break(turns: int, found: bool) -> None:
    """The last turn is edited: some 3,200 tokens either way, of 35,000 or of 130,000."""
    lane = Lane()
    for turn in (turns - 1, turns):
        lane.send(body(turn))
    changed = body(turns + 1)
    changed["messages"][2 * turns - 2]["content"] = [text("said otherwise")]
    judged = lane.send(changed)
    assert 2_000 < judged.expectation.expected - judged.usage.read < 5_000
    assert (judged.finding is not None) == found


def test_c6_a_drop_of_all_that_is_few_tokens_is_no_break() -> None:
    lane = Lane("claude-opus-5-5")
    small = {"system": [text("x")], "model": "claude-opus-5-5"}
    lane.send(body(1) | small)
    judged = lane.send(body(2) | small | {"system": [text("y")]})
    assert (judged.usage.read, judged.finding) == (0, None)
    assert 500 < judged.expectation.expected < 2_000
