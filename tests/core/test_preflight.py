"""Pre-flight against the caches' own bills: this turn, and the same turn in an empty cache."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from holdfast import facts
from holdfast.caches.prompts import Mark, Outcome, Prompt
from holdfast.caches.providers import cache
from holdfast.core.preflight import calibrated, preflight
from holdfast.facts import Calibration, ModelFacts, Rates
from holdfast.wire import DIALECTS
from holdfast.wire.openai import facts_for
from holdfast.wire.prompts import PromptReader

START = 1_000_000.0


def rates_for(model: ModelFacts, tokens: int) -> Rates | None:
    return facts.rates(model.ref, None, tokens)


def conversation(dialect: str, model: str, turns: int, words: int = 3_000) -> Prompt:
    mark: dict[str, Any] = {"cache_control": {"type": "ephemeral"}} if dialect == "anthropic" else {}
    system = "Keep the records. " * words
    messages: list[dict[str, Any]] = []
    for turn in range(turns):
        messages += [{"role": "assistant", "content": f"answer {turn} " * 50}] if turn else []
        messages.append({"role": "user", "content": [{"type": "text", "text": f"question {turn} " * 50}]})
    messages[-1]["content"][-1] |= mark
    body: dict[str, Any] = {"model": model, "max_tokens": 5, "messages": messages}
    if dialect == "anthropic":
        body["system"] = [{"type": "text", "text": system, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    else:
        messages.insert(0, {"role": "developer", "content": system})
    parsed = DIALECTS[dialect].parse(json.dumps(body).encode())
    return PromptReader().read(parsed, known(dialect, model)).prompt


def known(dialect: str, model: str) -> ModelFacts:
    return facts.model(f"anthropic:{model}") if dialect == "anthropic" else facts_for(model)


def warm(dialect: str, model: str, **more: int) -> tuple[Outcome, Outcome]:
    """The second turn of a conversation, and the same request in an empty cache."""
    rules = cache(known(dialect, model))
    rules.first_token(rules.begin(conversation(dialect, model, 1, **more), START), START)
    prompt = conversation(dialect, model, 2, **more)
    return rules.begin(prompt, START + 60), cache(known(dialect, model)).begin(prompt, START + 60)


def billed(outcome: Outcome, model: ModelFacts) -> Decimal:
    cost = facts.price(outcome.usage(), model.ref).cost
    assert cost is not None
    return cost


@pytest.mark.parametrize(
    ("dialect", "name"),
    [
        ("anthropic", "claude-opus-4-6"),
        ("anthropic", "claude-sonnet-5-5"),
        ("openai_chat", "gpt-6.1-sol"),
        ("openai_chat", "gpt-5.5"),
    ],
)
def test_both_figures_are_what_the_cache_would_bill(dialect: str, name: str) -> None:
    model = known(dialect, name)
    outcome, cold = warm(dialect, name)
    assert outcome.read > 0
    found = preflight(outcome, outcome.prompt.marks, model, partial(rates_for, model))
    assert (found.this, found.cold) == (billed(outcome, model), billed(cold, model))
    assert (found.read, found.written, found.input) == (
        outcome.read,
        sum(tokens for _, tokens in outcome.writes),
        outcome.input,
    )
    assert found.this is not None
    assert found.cold is not None
    assert found.this < found.cold


def test_a_cold_turn_costs_what_a_cold_turn_costs() -> None:
    model = known("anthropic", "claude-opus-4-6")
    _, cold = warm("anthropic", "claude-opus-4-6")
    found = preflight(cold, cold.prompt.marks, model, partial(rates_for, model))
    assert found.this == found.cold


def test_the_cold_turn_has_the_markers_of_the_plan() -> None:
    model = known("anthropic", "claude-opus-4-6")
    outcome, _ = warm("anthropic", "claude-opus-4-6")
    last = len(outcome.prompt.blocks) - 1
    tokens, rates = outcome.prompt.tokens, facts.rates(model.ref)
    long = preflight(outcome, [Mark(last, "1h")], model, partial(rates_for, model))
    none = preflight(outcome, [], model, partial(rates_for, model))
    assert long.cold == tokens * rates.write("1h")
    assert none.cold == tokens * rates.input
    assert long.this == none.this


def test_a_price_cliff_counts_the_whole_prompt() -> None:
    """haiku-5-5 costs five times as much above 100,000 tokens, also where most of them are only read."""
    name = "claude-haiku-5-5"
    model = known("anthropic", name)
    below, above = (warm("anthropic", name, words=words)[0] for words in (20_000, 30_000))
    assert below.prompt.tokens < 100_000 < above.prompt.tokens
    dear, cheap = (preflight(each, each.prompt.marks, model, partial(rates_for, model)) for each in (above, below))
    assert dear.this == billed(above, model)
    assert cheap.this == billed(below, model)
    assert dear.this is not None
    assert cheap.this is not None
    assert dear.this / dear.read > 4 * cheap.this / cheap.read


def test_an_object_of_gemini_is_plain_input_when_it_is_gone() -> None:
    model = facts.model("gemini:gemini-2.5-flash")
    rates = facts.rates(model.ref)
    prompt = Prompt("s", model.ref, (), (b"k",), (500,), mode="cachedContents/1")
    found = preflight(Outcome(prompt, START, 10_000, 500), (), model, partial(rates_for, model))
    assert found.this == 10_000 * rates.read + 500 * rates.input
    assert found.cold == 10_500 * rates.input


def test_without_a_price_the_tokens_are_still_told() -> None:
    model = known("anthropic", "claude-opus-4-6")
    outcome, _ = warm("anthropic", "claude-opus-4-6")
    found = preflight(outcome, outcome.prompt.marks, model, lambda tokens: None)
    assert (found.this, found.cold, found.read) == (None, None, outcome.read)


def test_in_the_tokens_that_the_provider_counts() -> None:
    model = known("anthropic", "claude-sonnet-5-5")
    outcome, _ = warm("anthropic", "claude-sonnet-5-5")
    plain = preflight(outcome, outcome.prompt.marks, model, partial(rates_for, model))
    assert calibrated(outcome, outcome.prompt.marks, model, Calibration()) == plain
    seen = Calibration()
    for _ in range(200):
        seen = seen.observe(model.ref, outcome.prompt.tokens, 2 * outcome.prompt.tokens)
    found = calibrated(outcome, outcome.prompt.marks, model, seen)
    assert plain.this is not None
    assert found.this is not None
    assert found.read == pytest.approx(2 * plain.read, rel=0.02)
    assert float(found.this) == pytest.approx(2 * float(plain.this), rel=0.02)
