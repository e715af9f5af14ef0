"""What is remembered of a log stays bounded however long it is."""

from __future__ import annotations

from decimal import Decimal

import pytest

from holdfast.report.explainer import prices as pricing
from holdfast.report.explainer.advice import SENTENCES
from holdfast.report.explainer.bodies import SESSIONS, BodyMemory
from holdfast.report.explainer.sessions import CureTally

OPUS = "anthropic:claude-opus-4-6"
DAY = 86_400.0
START = 1_790_000_000.0


def test_rates_of_so_many_days_are_remembered_and_the_same_when_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pricing, "_DAYS", 3)
    prices = pricing.DatedPrices()
    first = [prices.rates(OPUS, START + day * DAY, 1_000) for day in range(8)]
    assert len(prices._tiers) <= 3
    assert None not in first
    assert [prices.rates(OPUS, START + day * DAY, 1_000) for day in range(8)] == first


def test_of_the_sentences_of_a_cure_the_dearest_are_kept() -> None:
    cured = CureTally()
    for number, word in enumerate(("one", "two", "three", "four", "five", "six")):
        cured.read_as(f"The {word} changed: keep it.", None, Decimal(number % 4))
    assert len(cured.told) == SENTENCES
    assert sorted(cost for cost, _ in cured.told.values()) == [Decimal(1), Decimal(2), Decimal(3)]


def test_so_many_sessions_share_what_their_lanes_know() -> None:
    bodies = BodyMemory()
    for number in range(SESSIONS + 5):
        bodies._tenant("first")  # used again and again
        bodies._tenant(f"s{number}")
    assert len(bodies._tenants) == SESSIONS
    assert "first" in bodies._tenants
    assert "s5" not in bodies._tenants
