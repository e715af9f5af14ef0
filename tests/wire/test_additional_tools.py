"""Responses: items that make further tools known, as blocks, as canonical values and in the prefix."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.caches.prompts import Prompt
from holdfast.facts import estimate_json, model
from holdfast.records import Message, Opaque, Request, Text, ToolResult, ToolUse, validate
from holdfast.wire import DIALECTS, Body
from holdfast.wire.prompts import PromptReader

RESPONSES, CHAT = DIALECTS["openai_responses"], DIALECTS["openai_chat"]
MAIL = {"type": "function", "name": "send_mail", "parameters": {"type": "object", "properties": {"to": {}}}}
LATE = {"type": "additional_tools", "role": "developer", "tools": [MAIL]}
CALL = {"type": "function_call", "call_id": "c1", "name": "discover_tools", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "1 tool found"}
USER = {"role": "user", "content": "write to Ada"}


def body(*items: dict[str, Any], name: str = "gpt-5.6", **more: Any) -> Body:
    raw = {"model": name, "instructions": "be brief", "input": [USER, CALL, OUTPUT, *items], **more}
    parsed = RESPONSES.parse(json.dumps(raw).encode())
    assert isinstance(parsed, Body)
    return parsed


def read(found: Body, facts: str = "openai:gpt-5.6") -> Prompt:
    return PromptReader().read(found, model(facts)).prompt


def test_it_is_one_block_where_it_stands():
    found = body(LATE, {"role": "user", "content": "go on"})
    at = [block.path for block in found.blocks].index("input[3]")
    assert (found.blocks[at].section, found.blocks[at].role) == ("messages", "developer")
    assert RESPONSES.kind(found, at) == "additional_tools"
    assert not RESPONSES.markable(found, at)
    assert not RESPONSES.deferred(found, at)


def test_at_the_beginning_it_belongs_to_the_system_text():
    raw = {"model": "gpt-5.6", "input": [LATE, {"role": "developer", "content": "be brief"}, USER]}
    found = RESPONSES.parse(json.dumps(raw).encode())
    assert isinstance(found, Body)
    assert [(block.path, block.section) for block in found.blocks] == [
        ("input[0]", "system"),
        ("input[1].content[0]", "system"),
        ("input[2].content[0]", "messages"),
    ]


@pytest.mark.parametrize("facts", ["openai:gpt-5.6", "openai:gpt-5.5", "vllm:any"])
def test_its_tokens_count_and_what_came_before_is_kept(facts):
    before, after = read(body(), facts), read(body(LATE), facts)
    assert after.keys[: len(before.keys)] == before.keys
    assert after.tokens - before.tokens >= estimate_json(json.dumps([MAIL]).encode()) // 2 > 0


def test_what_it_says_is_part_of_the_prefix_and_its_id_is_not():
    plain = read(body(LATE)).keys
    assert read(body({**LATE, "id": "at_1"})).keys == plain
    assert read(body({**LATE, "id": "at_2", "status": "completed"})).keys == plain
    assert read(body({**LATE, "tools": [{**MAIL, "description": "x"}]})).keys != plain


def test_words_in_its_schemas_are_data():
    """A schema that mentions a picture is none: the settings stay as they are."""
    schema = {"type": "object", "default": {"type": "input_image"}}
    found = body({**LATE, "tools": [{**MAIL, "parameters": schema}]})
    assert "images" not in PromptReader().read(found, model("openai:gpt-5.6")).settings


def test_it_is_said_by_the_system_and_goes_back_as_it_came():
    request = RESPONSES.decode(body(LATE, {"role": "user", "content": "go on"}))
    assert [message.role for message in request.messages] == ["user", "assistant", "tool", "system", "user"]
    item = request.messages[3].content[0]
    assert isinstance(item, Opaque)
    assert (item.kind, json.loads(item.raw)) == ("additional_tools", LATE)
    assert not validate(request)
    again = RESPONSES.parse(RESPONSES.encode(request))
    assert json.loads(again.raw)["input"][3] == LATE
    assert RESPONSES.decode(again) == request
    assert read(again).keys == read(body(LATE, {"role": "user", "content": "go on"})).keys


def test_at_the_beginning_it_is_kept_too():
    raw = {"model": "gpt-5.6", "input": [LATE, {"role": "developer", "content": "be brief"}, USER]}
    found = RESPONSES.parse(json.dumps(raw).encode())
    request = RESPONSES.decode(found)
    again = RESPONSES.parse(RESPONSES.encode(request))
    assert RESPONSES.decode(again) == request
    assert read(again).keys == read(found).keys


def test_a_request_of_ours_is_written_with_it_in_its_place():
    request = Request(
        model="openai:gpt-5.6",
        messages=(
            Message("user", (Text("write"),)),
            Message("assistant", (ToolUse("c1", "discover_tools", b"{}"),)),
            Message("tool", (ToolResult("c1", (Text("found"),)),)),
            Message("system", (Opaque("additional_tools", json.dumps(LATE).encode()),)),
        ),
    )
    kinds = [item["type"] for item in json.loads(RESPONSES.encode(request))["input"]]
    assert kinds == ["message", "function_call", "function_call_output", "additional_tools"]


def test_another_dialect_does_without_it():
    assert b"send_mail" not in CHAT.encode(RESPONSES.decode(body(LATE)))


CHOICES = [
    ("openai_chat", {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function"}]}}),
    ("openai_responses", {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "a"}]}),
]


@pytest.mark.parametrize(("dialect", "choice"), CHOICES)
@pytest.mark.parametrize("facts", ["openai:gpt-5.6", "openai:gpt-5.5"])
def test_the_choice_of_tools_is_no_part_of_an_openai_prefix(dialect, choice, facts):
    said = {"messages": [USER]} if dialect == "openai_chat" else {"input": [USER]}
    prompts = []
    for more in ({}, {"tool_choice": choice}, {"tool_choice": "auto"}):
        found = DIALECTS[dialect].parse(json.dumps({"model": "gpt-5.6", **said, **more}).encode())
        assert isinstance(found, Body)
        prompts.append(read(found, facts).keys)
    assert prompts[0] == prompts[1] == prompts[2]
