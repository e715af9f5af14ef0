"""What is remembered of a log stays bounded however long it is."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import pytest

from holdfast import facts
from holdfast.core import Tenant
from holdfast.report.explainer import prices as pricing
from holdfast.report.explainer.advice import SENTENCES
from holdfast.report.explainer.bodies import SESSIONS, BodyMemory
from holdfast.report.explainer.sessions import CureTally
from tests.report.explainer.logs import growing, sent

OPUS = "anthropic:claude-opus-4-6"
DAY = 86_400.0
START = 1_790_000_000.0


def test_rates_of_so_many_days_are_remembered_and_the_same_when_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pricing, "_DAYS", 3)
    looked_up: list[datetime] = []
    monkeypatch.setattr(
        pricing, "tiers", lambda model, at, **more: looked_up.append(at) or facts.tiers(model, at, **more)
    )
    prices = pricing.DatedPrices()
    first = [prices.rates(OPUS, START + day * DAY, 1_000) for day in range(8)]
    assert None not in first
    assert len(looked_up) == 8
    assert [prices.rates(OPUS, START + day * DAY, 1_000) for day in reversed(range(8))] == first[::-1]
    assert len(looked_up) >= 8 + 8 - 3


def test_of_the_sentences_of_a_cure_the_dearest_are_kept() -> None:
    cured = CureTally()
    for number, word in enumerate(("one", "two", "three", "four", "five", "six")):
        cured.read_as(f"The {word} changed: keep it.", None, Decimal(number % 4))
    assert len(cured.told) == SENTENCES
    assert sorted(cost for cost, _ in cured.told.values()) == [Decimal(1), Decimal(2), Decimal(3)]


def test_so_many_sessions_share_what_their_lanes_know() -> None:
    bodies, (record, *_) = BodyMemory(), sent(growing(1), "anthropic", "claude-opus-4-6")

    def shared(session: str) -> Tenant:
        compared = bodies.next(record, (session, "", OPUS), facts.model(OPUS), START)
        assert compared is not None
        return compared.tenant

    tenants = {}
    for number in range(SESSIONS + 5):
        tenants["first"] = shared("first")  # used again and again
        tenants[f"s{number}"] = shared(f"s{number}")
    latest = ["first", *reversed(tenants)]
    remembered = {session for session in latest if shared(session) is tenants[session]}
    assert len(remembered) == SESSIONS
    assert "first" in remembered
    assert "s5" not in remembered
