"""Seed prefix-caching, as far as the provider's side of it goes: what a change costs, and what becomes prefix."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.simulator import HttpRequest, Simulator, VirtualClock

PART = "All that was said in this part is needed later on. " * 150  # some 1,600 tokens
KEYS = {"x-api-key": "k", "anthropic-version": "2023-06-01"}


def ask(simulator: Simulator, messages: list[dict[str, Any]], *marked: int) -> dict[str, Any]:
    """One request with markers at these messages; its usage, and its text as `said`."""
    sent = json.loads(json.dumps(messages))
    for index in marked:
        sent[index]["content"] = [
            {"type": "text", "text": sent[index]["content"], "cache_control": {"type": "ephemeral"}}
        ]
    body = {"model": "claude-opus-5-5", "max_tokens": 2_000, "messages": sent}
    answer = json.loads(simulator.answer(HttpRequest("POST", "/v1/messages", KEYS, {}, json.dumps(body).encode())).body)
    return {**answer["usage"], "said": answer["content"][0]["text"]}


def conversation(*texts: str) -> list[dict[str, Any]]:
    return [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]


@pytest.mark.parametrize("changed", [0, 1, 2, 3])
def test_1_a_change_at_k_costs_everything_from_k_on_and_nothing_before(changed: int) -> None:
    simulator = Simulator(clock=VirtualClock())
    texts = [PART + str(i) for i in range(4)]
    first = ask(simulator, conversation(*texts), 0, 1, 2, 3)
    size = first["cache_creation_input_tokens"] / 4
    texts[changed] += " edited"
    second = ask(simulator, conversation(*texts), 0, 1, 2, 3)
    assert second["cache_read_input_tokens"] == pytest.approx(changed * size, rel=0.01)
    assert second["cache_creation_input_tokens"] == pytest.approx((4 - changed) * size, rel=0.01)


def test_4_what_the_model_answers_becomes_part_of_the_prefix() -> None:
    simulator = Simulator(clock=VirtualClock())
    messages = conversation(PART)
    first = ask(simulator, messages, -1)
    messages += [{"role": "assistant", "content": first["said"]}, {"role": "user", "content": "go on"}]
    second = ask(simulator, messages, -1)
    messages += [{"role": "assistant", "content": second["said"]}, {"role": "user", "content": "and then?"}]
    third = ask(simulator, messages, -1)
    assert third["cache_read_input_tokens"] > first["cache_creation_input_tokens"] + first["output_tokens"]
    other = [*messages[:1], {"role": "assistant", "content": "something else"}, *messages[2:]]
    assert ask(simulator, other, -1)["cache_read_input_tokens"] == first["cache_creation_input_tokens"]
