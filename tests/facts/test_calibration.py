"""Calibration: what reported usage teaches about estimates."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.facts import Calibration
from holdfast.facts.calibration import ABSURD, MEMORY_TOKENS, PRIOR_TOKENS

OPUS = "anthropic:claude-opus-5-5"


def test_an_unseen_model_keeps_its_estimate() -> None:
    assert Calibration().tokens(OPUS, 12_345) == 12_345


def test_the_ratio_is_learned_per_model() -> None:
    learned = Calibration().observe(OPUS, 100_000, 130_000)
    assert learned.tokens(OPUS, 100_000) == pytest.approx(130_000, rel=0.01)
    assert learned.tokens("openai:gpt-5.5", 100_000) == 100_000


def test_large_requests_weigh_more_than_small_ones() -> None:
    learned = Calibration().observe(OPUS, 100_000, 130_000).observe(OPUS, 100, 70)
    assert learned.tokens(OPUS, 1_000) == pytest.approx(1_297, abs=3)


def test_one_tiny_request_moves_little() -> None:
    learned = Calibration().observe(OPUS, 10, 30)
    assert learned.tokens(OPUS, 10_000) < 10_250
    assert PRIOR_TOKENS == 1_000


@pytest.mark.parametrize(("estimated", "reported"), [(0, 5), (-1, 5), (100, 0), (100, -3), (100, 401), (100, 24)])
def test_absurd_pairs_change_nothing(estimated: int, reported: int) -> None:
    before = Calibration().observe(OPUS, 50_000, 60_000)
    assert before.observe(OPUS, estimated, reported) is before


@pytest.mark.parametrize("reported", [25, 100, 400])
def test_the_bounds_themselves_are_believed(reported: int) -> None:
    assert Calibration().observe(OPUS, 100, reported) != Calibration()


def test_observing_makes_a_new_value() -> None:
    first = Calibration()
    second = first.observe(OPUS, 1_000, 1_100)
    assert first == Calibration()
    assert second != first
    assert hash(second) == hash(Calibration().observe(OPUS, 1_000, 1_100))


def test_a_changed_tokenizer_is_relearned() -> None:
    learned = Calibration()
    for _ in range(100):
        learned = learned.observe(OPUS, 100_000, 100_000)
    for _ in range(100):
        learned = learned.observe(OPUS, 100_000, 150_000)
    assert learned.tokens(OPUS, 100_000) > 145_000


def test_it_survives_storage() -> None:
    learned = Calibration().observe(OPUS, 1_000, 1_100).observe("b", 5, 6).observe("a", 7, 8)
    assert [seen.model for seen in learned.models] == ["a", OPUS, "b"]
    assert msgspec.json.decode(msgspec.json.encode(learned), type=Calibration) == learned


@given(
    pairs=st.lists(st.tuples(st.sampled_from("xy"), st.integers(-5, 10**9), st.integers(-5, 10**10)), max_size=30),
    estimated=st.integers(0, 10**7),
)
def test_whatever_is_observed_the_ratio_stays_within_bounds(pairs: list[tuple[str, int, int]], estimated: int) -> None:
    learned = Calibration()
    for model, guessed, reported in pairs:
        learned = learned.observe(model, guessed, reported)
    for seen in learned.models:
        assert seen.estimated <= MEMORY_TOKENS
        assert estimated // ABSURD - 1 <= learned.tokens(seen.model, estimated) <= estimated * ABSURD + 1
