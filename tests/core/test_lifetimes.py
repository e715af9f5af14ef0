"""Short or long by expected cost: on both sides of every break-even."""

from __future__ import annotations

import pytest

from holdfast.core.reuse_odds import Odds
from holdfast.core.strategies.economic import lifetime_prices, raise_now
from holdfast.facts import model
from tests.caches.prompts import OPUS, SMALL

PRICE = lifetime_prices(OPUS, "5m", "1h")


def chances(pause: float, *, ends: float = 0.02, longer: float = 0.01, now: float | None = None) -> Odds:
    later = (1 - pause - longer, pause, longer)
    next_ = later if now is None else (1 - now - longer, now, longer)
    return Odds(next_, later, ends, 1 / ends, 1_000.0, 0.5)


def test_prices_are_the_rules_shares() -> None:
    assert PRICE.premium == pytest.approx(0.75)
    assert PRICE.loss == pytest.approx(1.15)
    assert PRICE.worth == pytest.approx(0.25 / 1.15)  # rule 5.2: 21.7%
    assert lifetime_prices(SMALL, "5m", "1h").worth == pytest.approx(0.25 / 1.2)  # reads at 0.05
    assert lifetime_prices(model("openai:gpt-6.1-sol"), "30m", None).premium == 0


def test_a_write_that_costs_no_more_than_reading_is_always_worth_it() -> None:
    free = model("openai:gpt-5.5")
    assert lifetime_prices(free, "in_memory", None).worth == 0


def test_raising_pays_once_enough_is_unprotected() -> None:
    found = chances(0.02)
    decisions = [raise_now(found, PRICE, 1_000, bare) for bare in range(1_000, 200_000, 1_000)]
    assert decisions[0] is False
    assert decisions[-1] is True
    assert decisions == sorted(decisions)  # once it pays it pays for more


def test_raising_never_pays_where_no_pause_comes() -> None:
    assert not raise_now(chances(0.0), PRICE, 1_000, 1_000_000)


def test_raising_waits_for_a_smaller_turn_and_hurries_before_a_pause() -> None:
    found = chances(0.02)
    bare = next(bare for bare in range(1_000, 200_000, 1_000) if raise_now(found, PRICE, 1_000, bare))
    assert not raise_now(found, PRICE, 50_000, bare)
    assert raise_now(chances(0.02, now=0.5), PRICE, 1_000, bare - 1_000)


def test_where_pauses_are_the_rule_every_turn_is_protected() -> None:
    assert raise_now(chances(0.9, longer=0.0), PRICE, 1_000, 1_000)
