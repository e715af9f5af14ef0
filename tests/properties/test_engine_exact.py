"""The prediction is what the provider bills, token for token: for every strategy, every way to treat the client's
markers, every mode of repair, every provider whose cache leaves nothing to chance, and through restarts.

The rules are shared with the simulator; what is tested is the bookkeeping around them.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.config.sections.cache import CacheSettings
from holdfast.core.strategies import STRATEGIES
from tests.properties.lanes import Step, timeline
from tests.properties.runner import Played, Raises, Runner

pytestmark = pytest.mark.slow

NAMES = tuple(STRATEGIES)
BY_ENTRY = (
    ("anthropic", "claude-opus-4-6"),
    ("anthropic", "claude-sonnet-5-5"),
    ("anthropic", "claude-haiku-5-5"),
    ("openai_chat", "gpt-6.1-sol"),
    ("openai_responses", "gpt-6.1-sol"),
)
"""Caches whose state outlives a restart of ours."""

BY_TOKEN = (("openai_chat", "gpt-5.5"), ("openai_chat", "deepseek-chat"))
RAISES: st.SearchStrategy[Raises | None] = st.sampled_from([None, "yes", "no"])


def caches(name: str) -> st.SearchStrategy[CacheSettings]:
    return st.builds(
        CacheSettings,
        strategy=st.just(name),
        client_markers=st.sampled_from(["respect", "improve", "manage"]),
        repair=st.sampled_from(["off", "suggest", "on"]),
        probe_credit_usd=st.sampled_from([0.0, 0.01, 0.25]),
    )


def play(steps: list[Step], cache: CacheSettings, *, raises: Raises | None = None, stored: bool = True) -> list[Played]:
    with (
        TemporaryDirectory() as home,
        Runner(cache, path=Path(home) / "h.db" if stored else None, raises=raises) as run,
    ):
        return list(run.play(steps))


def exact(played: list[Played]) -> None:
    for each in played:
        assert each.exact or not each.billed.prompt, (each.step.tags, each.billed, each.prepared.core.outcome)
        assert each.verdict is None or each.verdict.explained


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=10, derandomize=True, deadline=None)
@given(st.data(), st.integers(0, 2**32), st.sampled_from(BY_ENTRY), RAISES, st.booleans())
def test_entries(
    name: str, data: st.DataObject, seed: int, model: tuple[str, str], raises: Raises | None, faulty: bool
) -> None:
    exact(play(timeline(Random(seed), *model, faulty=faulty), data.draw(caches(name)), raises=raises))


@pytest.mark.parametrize("name", ["rolling", "economic"])
@settings(max_examples=6, derandomize=True, deadline=None)
@given(st.data(), st.integers(0, 2**32), st.sampled_from(BY_TOKEN))
def test_tokens(name: str, data: st.DataObject, seed: int, model: tuple[str, str]) -> None:
    """What such a cache holds is not kept: these timelines go without restarts."""
    steps = [step for step in timeline(Random(seed), *model, faulty=True) if step.kind != "restart"]
    exact(play(steps, data.draw(caches(name)), stored=False))


@pytest.mark.parametrize("model", BY_ENTRY, ids=lambda model: "-".join(model))
def test_there_is_something_to_predict(model: tuple[str, str]) -> None:
    """Calls read and write, also those right after a restart, so that the laws above could fail."""
    played: list[Played] = []
    after: list[Played] = []
    for seed in range(6):
        steps = timeline(Random(seed), *model)
        found = play(steps, CacheSettings())
        played += found
        for number, step in enumerate(steps):
            if step.kind == "restart":
                late = {other.call for other in steps[number:] if other.kind == "prepare" and other.at < step.at + 250}
                after += [each for each in found if each.step.call in late]
    assert sum(each.billed.read > 0 for each in played) > len(played) / 3
    assert sum(each.billed.written > 0 for each in played) > len(played) / 3
    assert sum(each.billed.read > 0 for each in after) >= 3
