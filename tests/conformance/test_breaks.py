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
