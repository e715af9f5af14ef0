"""Whatever a reader hands on, however odd and long: nothing is raised, sums stay whole, memory stays bounded."""

from __future__ import annotations

import logging
import math
from datetime import datetime
from decimal import Decimal
from random import Random

import msgspec
import pytest

from holdfast import facts
from holdfast.core import Tenant
from holdfast.records import Usage, usage
from holdfast.report.explainer import Explainer
from holdfast.report.explainer import prices as pricing
from holdfast.report.explainer.advice import SENTENCES
from holdfast.report.explainer.bodies import SESSIONS, BodyMemory
from holdfast.report.explainer.sessions import CureTally
from holdfast.report.logs.records import BrokenSource, LoggedBreak, LoggedRequest
from holdfast.wire import DIALECTS
from tests.report.explainer.logs import billed, explained, growing, lines, sent, told

HALF = "\ud800"
BODIES = (
    b"",
    b"null",
    b"{}",
    b"\xff\xfe",
    b'{"model":"claude-opus-4-6","messages":[]}',
    b'{"model":1,"messages":{}}',
    b'{"model":"claude-opus-4-6","max_tokens":1,"messages":[{"role":"user","content":"\\ud800"}]}',
    b'{"model":"x","messages":[{"role":"user","content":"hi"}]}',
)
MODELS = ("", "claude-opus-4-6", "gpt-5.5", "gpt-6.1-sol", "gemini-2.5-pro", "deepseek-chat", HALF, "x:y", "vllm:any")
NAMES = ("", *DIALECTS, "klingon")
TIMES = (None, 0.0, -5.0, 1e18, math.inf, math.nan, 1.79e9)
TOLD = (
    None,
    None,
    None,
    LoggedBreak(cause=None, reset=None, tokens=0),
    LoggedBreak(cause="unknown", reset=None, tokens=5),
)


def _usage(random: Random) -> Usage | None:
    if random.random() < 0.3:
        return None
    return usage(
        input=random.choice([0, 1, 10**6, 2**52]),
        read=random.choice([0, 1, 10**5, 2**52]),
        output=random.choice([0, 3]),
        writes={random.choice(["5m", "1h", "30m", "unsplit", "7d", ""]): random.choice([0, 5, 10**5])},
    )


def _record(random: Random, number: int) -> LoggedRequest | BrokenSource:
    if random.random() < 0.05:
        return BrokenSource(f"x{HALF}:1", "not JSON")
    at = random.choice(TIMES)
    return LoggedRequest(
        session=random.choice(["", "a", HALF, "x" * 300]),
        source=random.choice(["", "a", f"a:{number}", ":", f"{HALF}:1"]),
        model=random.choice(MODELS),
        agent=random.choice(["", "b", HALF]),
        at=None if at is None else at + number,
        first_token_at=random.choice([None, at, 3.0]),
        usage=_usage(random),
        reset=random.choice([None, None, "compaction", "weird"]),
        body=random.choice([None, None, *BODIES]),
        dialect=random.choice(NAMES),
        told=random.choice(TOLD),
    )


@pytest.mark.parametrize("seed", range(20))
def test_odd_records(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    random, explainer = Random(seed), Explainer()
    for number in range(80):
        explainer.add(_record(random, number), random.choice(["", "", "store"]))
    report = explainer.result()
    money = report.totals.money
    whole = sum((getattr(money, name) for name in money.__struct_fields__), Decimal(0))
    assert whole == (report.totals.cost_usd or 0)
    assert msgspec.json.decode(msgspec.json.encode(report))["totals"]["requests"] == report.totals.requests


@pytest.mark.parametrize(
    "model",
    [
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "anthropic.claude-sonnet-4-5-20250929-v1:0",
        "arn:aws:bedrock:us-east-1:1234:inference-profile/eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
    ],
)
def test_names_of_bedrock_are_known(model: str) -> None:
    """What stands before their colon is no provider."""
    used = [billed(read=17_000), billed(read=16_999)]
    report = explained(lines(used, model=model, dialect="anthropic"))
    assert told(report) == [(2, "system_prompt_changed")]
    assert report.totals.unpriced == 0


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
