"""Requests for the scripted model, in any dialect, and the pieces tests make them of."""

from __future__ import annotations

import json
from typing import Any

from holdfast.records import Message, Request, Text, ToolDefinition, ToolResult, ToolUse
from holdfast.wire import DIALECTS, Body

MODELS = {
    "anthropic": "claude-opus-5-5",
    "openai_chat": "gpt-6.1-sol",
    "openai_responses": "gpt-6.1-sol",
    "gemini": "gemini-3-pro",
}
assert {*MODELS} == {*DIALECTS} - {"openrouter"}, "a dialect without a model"
DIALECT_NAMES = tuple(MODELS)
WEATHER = ToolDefinition(
    "get_weather",
    "The weather of a city.",
    b'{"type":"object","properties":{"city":{"type":"string"},"unit":{"enum":["C","F"]}},"required":["city","unit"]}',
)
CLOCK = ToolDefinition("clock", None, b'{"type":"object","properties":{"zone":{"type":"string"}}}')


def user(text: str) -> Message:
    return Message("user", (Text(text),))


def says(text: str) -> Message:
    return Message("assistant", (Text(text),))


def calls(*names: str, first: int = 1) -> Message:
    return Message("assistant", tuple(ToolUse(f"t{i}", name, b"{}") for i, name in enumerate(names, start=first)))


def results(*texts: str, first: int = 1, role: Any = "user") -> Message:
    blocks = tuple(ToolResult(f"t{i}", (Text(text),)) for i, text in enumerate(texts, start=first))
    return Message(role, blocks)


def asks(*messages: Message | str, tools: tuple[ToolDefinition, ...] = (), dialect: str = "anthropic") -> Request:
    said = tuple(user(message) if isinstance(message, str) else message for message in messages)
    return Request(model=f"x:{MODELS[dialect]}", messages=said, tools=tools, dialect=dialect, output_limit=1000)


def body_of(dialect: str, members: dict[str, Any]) -> Body:
    body = DIALECTS[dialect].parse(json.dumps(members).encode(), model=MODELS[dialect])
    assert isinstance(body, Body)
    return body
