"""OpenAI from GPT-5.6 on caches past the last marker too, up to the newest message: what changes there has a cause."""

from __future__ import annotations

import copy

import pytest

from holdfast.config.sections.cache import CacheSettings
from holdfast.core.planner import Verdict
from holdfast.core.strategies import STRATEGIES

from .driver import Driver, talk

CHAT = "openai_chat"


def after_four(*, strategy: str = "economic", reset: str | None = None, edit: bool = False) -> Verdict:
    """What is found of a fifth request that has a summary in place of the first turns, or an edit in one of them."""
    driver = Driver(CacheSettings(strategy=strategy))
    for turns in range(4):
        prepared, usage, verdict = driver.send(talk(turns), dialect=CHAT)
        assert verdict.finding is None
    marked = max(mark.block for mark in prepared.core.plan.marks)
    assert prepared.core.prompt.ends[marked] < usage.read + usage.written, "or there is nothing past the marker"
    said = copy.deepcopy(talk(4))
    if edit:
        said.turns[2] = ("user", 1, ["Rather this. " * 200])
    else:
        said.turns = [("user", 9, ["A summary."]), *said.turns[-2:]]
    if reset is not None:
        driver.engine.announce(driver.lane, reset, now=driver.now)
    return driver.send(said, dialect=CHAT)[2]


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "passthrough"])
def test_an_announced_compaction_is_a_reset(strategy: str) -> None:
    found = after_four(strategy=strategy, reset="compaction").finding
    assert (found.cause, found.reason) == (None, "compaction")


@pytest.mark.parametrize("edit", [False, True], ids=["summary", "edit"])
def test_without_a_reason_it_is_a_rewritten_message(edit: bool) -> None:
    found = after_four(edit=edit).finding
    assert (found.cause, found.reason) == ("messages_rewritten", None)
    assert found.divergence.section == "messages"


def test_a_reason_that_speaks_of_another_place_is_none() -> None:
    found = after_four(reset="volatile_system_changed").finding
    assert (found.cause, found.reason) == ("messages_rewritten", None)
