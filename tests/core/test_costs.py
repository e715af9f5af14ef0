"""Prices of decisions: known and unknown models, below and above a price cliff."""

from __future__ import annotations

import pytest

from holdfast.core.economics import UNKNOWN, costs
from holdfast.facts import model
from holdfast.records import usage
from tests.caches.prompts import SMALL

HAIKU = model("anthropic:claude-haiku-5-5")


def test_a_request_costs_its_parts() -> None:
    price = costs(SMALL, 10_000)
    used = usage(input=1_000, read=8_000, output=500, writes={"5m": 600, "1h": 400})
    assert price.of(used) == pytest.approx(1_000 * 2e-6 + 8_000 * 1e-7 + 600 * 2.5e-6 + 400 * 4e-6)


def test_what_is_answered_costs_the_same_under_every_plan() -> None:
    price = costs(SMALL, 10)
    assert price.of(usage(input=1, output=9)) == price.of(usage(input=1, output=0)) > 0


@pytest.mark.parametrize(("tokens", "factor"), [(100_000, 1), (100_001, 5)])
def test_above_the_cliff_the_whole_request_costs_more(tokens: int, factor: int) -> None:
    price = costs(HAIKU, tokens)
    assert price.input == pytest.approx(factor * 1e-7)
    assert price.read == pytest.approx(factor * 1e-8)
    assert price.write("5m") == pytest.approx(factor * 1.25e-7)
    assert price.write("1h") == pytest.approx(factor * 2e-7)


def test_an_unknown_price_keeps_the_shares() -> None:
    nobody = model("anthropic:claude-nobody-9")
    price = costs(nobody, 10)
    assert price.input == UNKNOWN
    assert price.read / price.input == pytest.approx(float(nobody.read))
    assert price.write("1h") / price.input == pytest.approx(2)


def test_an_unknown_lifetime_is_taken_for_the_dearest() -> None:
    price = costs(SMALL, 10)
    assert price.write("24h") == price.write("1h") > price.write("5m")
    assert costs(model("openai:gpt-5.5"), 10).write("30m") == pytest.approx(5e-6)  # free writes cost what input costs
