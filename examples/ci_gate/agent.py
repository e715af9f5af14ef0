"""The program under test: two agents, one with a stable prompt and one with a clock in it."""

from __future__ import annotations

import datetime
from typing import Any

import anthropic

RULES = "Answer in one sentence. Say so if you do not know. " * 150


def stable(number: int) -> str:
    return RULES


def with_a_clock(number: int) -> str:
    return f"It is {datetime.time(9, 0, number)}.\n{RULES}"


def converse(system: Any, questions: tuple[str, ...]) -> None:
    client = anthropic.Anthropic()
    said: list[Any] = []
    for number, question in enumerate(questions):
        said.append({"role": "user", "content": question})
        cached = [{"type": "text", "text": system(number), "cache_control": {"type": "ephemeral"}}]
        reply = client.messages.create(model="claude-opus-5-5", max_tokens=100, system=cached, messages=said)
        said.append({"role": "assistant", "content": reply.content})
