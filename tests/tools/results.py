"""Conversations full of tool results, as an agent renders them in every dialect."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from holdfast.caches.prompts import Prompt
from holdfast.core.edits import EditRef
from holdfast.engine.edits import replay
from holdfast.engine.state import facts_of
from holdfast.records import Block, Message, Request, Text, ToolDefinition, ToolResult, ToolUse
from holdfast.wire import DIALECTS, Body
from holdfast.wire.prompts import PromptReader

MODELS = {
    "anthropic": "anthropic:claude-sonnet-5-5",
    "openai_chat": "openai:gpt-6.1-sol",
    "openai_responses": "openai:gpt-6.1-sol",
    "gemini": "gemini:gemini-2.5-pro",
    "openrouter": "openrouter:anthropic/claude-sonnet-5-5",
}
TOOLS = tuple(ToolDefinition(name, f"The tool {name}.") for name in ("read_file", "write_file", "run_command", "fetch"))
HOST = "You are an engineer who finds faults. " * 400


class Did(Struct, frozen=True):
    """A call and its answer."""

    tool: str
    input: dict[str, Any]
    said: str | tuple[Block, ...]
    is_error: bool = False


def did(tool: str = "fetch", characters: int = 5_000, *, is_error: bool = False, **input: Any) -> Did:
    """A call that was answered with so many characters, which no other answer has."""
    name = json.dumps(input, sort_keys=True)
    return Did(
        tool, input, (f"{tool} {name}: " + "what the tool had to say " * (characters // 25 + 1))[:characters], is_error
    )


def fetched(count: int, characters: int = 5_000, first: int = 0) -> list[Did]:
    return [did(characters=characters, page=first + number) for number in range(count)]


def request(turns: Iterable[Did | Sequence[Did]], dialect: str = "anthropic") -> Request:
    """A question and rounds of calls: those of an inner list are made side by side. Ids follow from the order."""
    messages = [Message("user", (Text("Find the fault."),))]
    number = 0
    for turn in turns:
        calls, results = [], []
        for each in [turn] if isinstance(turn, Did) else turn:
            number += 1
            content = (Text(each.said),) if isinstance(each.said, str) else each.said
            calls.append(ToolUse(f"call_{number}", each.tool, json.dumps(each.input).encode()))
            results.append(ToolResult(f"call_{number}", content, each.is_error))
        messages += [Message("assistant", tuple(calls)), Message("tool", tuple(results))]
    return Request(model=MODELS[dialect], system_prompt=HOST, tools=TOOLS, messages=tuple(messages), output_limit=1_000)


def raw_of(turns: Iterable[Did | Sequence[Did]], dialect: str = "anthropic") -> bytes:
    return DIALECTS[dialect].encode(request(turns, dialect))


def parsed(raw: bytes, dialect: str = "anthropic") -> Body:
    body = DIALECTS[dialect].parse(raw, model=MODELS[dialect].partition(":")[2] if dialect == "gemini" else "")
    assert isinstance(body, Body), body
    return body


def body_of(turns: Iterable[Did | Sequence[Did]], dialect: str = "anthropic") -> Body:
    return parsed(raw_of(turns, dialect), dialect)


def prompt_of(body: Body) -> Prompt:
    return PromptReader().read(body, facts_of(body)).prompt


def edited(body: Body, edits: dict[bytes, bytes]) -> Body:
    """The body with these edits made as they stand, without an engine."""
    refs = {block: EditRef(block, block, 0.0) for block in edits}
    done = replay(body, DIALECTS[body.dialect], prompt_of(body), refs, edits.get)
    assert not done.forgotten
    return parsed(body.apply(done.splices), body.dialect)


def texts(body: Body) -> list[str]:
    """What the results of the body say, in order."""
    found = []
    for message in DIALECTS[body.dialect].decode(body).messages:
        for block in message.content:
            if isinstance(block, ToolResult):
                found.append("".join(inner.text for inner in block.content if isinstance(inner, Text)))
    return found
