"""Whatever a reader hands on, however odd: nothing is raised, sums stay whole, the report can be written."""

from __future__ import annotations

import logging
import math
from decimal import Decimal
from random import Random

import msgspec
import pytest

from holdfast.records import Usage, usage
from holdfast.report.explainer import Explainer
from holdfast.report.logs.records import BrokenSource, LoggedBreak, LoggedRequest
from tests.report.explainer.logs import billed, explained, lines, told

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
DIALECTS = ("", "anthropic", "openai_chat", "openai_responses", "gemini", "openrouter", "klingon")
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
        dialect=random.choice(DIALECTS),
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
