"""A plan on the wire: exactly its markers, and the client's bytes where it keeps them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import facts
from holdfast.caches.prompts import Mark, Prompt
from holdfast.core.plan import Plan
from holdfast.engine.marker_splices import marked
from holdfast.engine.state import facts_of
from holdfast.wire import DIALECTS, Body
from holdfast.wire.prompts import PromptReader
from tests.shapes import Shape, load

MARK = {"type": "ephemeral"}
LONG = {"type": "ephemeral", "ttl": "1h"}
RESULT: dict[str, Any] = {"type": "tool_result", "tool_use_id": "1"}
TEXT = "what was said " * 300


def parsed(value: dict[str, Any] | bytes, dialect: str = "anthropic", model: str = "") -> tuple[Body, Prompt]:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    body = DIALECTS[dialect].parse(raw, model=model)
    return body, PromptReader().read(body, facts_of(body)).prompt


def anthropic(*content: Any, **more: Any) -> dict[str, Any]:
    messages = [
        {"role": "user", "content": TEXT},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "bash", "input": {}}]},
        {"role": "user", "content": list(content)},
    ]
    tools = [{"name": "bash", "input_schema": {"type": "object"}}]
    return {"model": "claude-sonnet-5-5", "max_tokens": 1, "tools": tools, "system": TEXT, "messages": messages} | more


def sent(value: dict[str, Any], marks: tuple[Mark, ...], *, mode: str = "", dialect: str = "anthropic") -> bytes:
    body, prompt = parsed(value, dialect)
    plan = Plan(strategy="economic", marks=marks, mode=mode)
    return marked(body, DIALECTS[dialect], prompt, plan, facts_of(body))


def seen(raw: bytes, dialect: str = "anthropic") -> tuple[Mark, ...]:
    return parsed(raw, dialect)[1].marks


def _calls() -> list[Shape]:
    return [shape for shape in load() if shape.dialect is not None and shape.body is not None]


@pytest.mark.unmeasured
@pytest.mark.parametrize("shape", _calls(), ids=lambda shape: shape.id)
def test_a_plan_that_keeps_what_the_client_marked_sends_its_bytes(shape: Shape) -> None:
    assert shape.dialect is not None
    assert shape.body is not None
    model = shape.path.rpartition("/")[2].partition(":")[0] if shape.dialect == "gemini" else ""
    body, prompt = parsed(shape.body, shape.dialect, model)
    plan = Plan(strategy="passthrough", marks=prompt.marks)
    assert marked(body, DIALECTS[shape.dialect], prompt, plan, facts_of(body)) is body.raw


@pytest.mark.parametrize(
    "shape", [each for each in _calls() if each.dialect == "anthropic"], ids=lambda shape: shape.id
)
def test_a_recorded_request_gets_exactly_the_plan_s_markers(shape: Shape) -> None:
    assert shape.body is not None
    body, prompt = parsed(shape.body)
    places = [index for index, block in enumerate(prompt.blocks) if block.markable]
    marks = tuple(Mark(index, "1h") for index in sorted({places[0], places[len(places) // 2], places[-1]}))
    raw = marked(body, DIALECTS["anthropic"], prompt, Plan(strategy="s", marks=marks), facts_of(body))
    after = parsed(raw)[1]
    assert after.marks == marks
    assert after.keys == prompt.keys  # A5: markers are no part of the content


def test_text_given_as_a_string_is_wrapped_to_carry_a_marker() -> None:
    raw = sent(anthropic({**RESULT, "content": "done"}), (Mark(1, "1h"), Mark(2, "5m")))
    body = json.loads(raw)
    assert body["system"] == [{"type": "text", "text": TEXT, "cache_control": LONG}]
    assert body["messages"][0]["content"] == [{"type": "text", "text": TEXT, "cache_control": MARK}]
    assert seen(raw) == (Mark(1, "1h"), Mark(2, "5m"))


def test_a_marker_that_the_plan_does_not_have_is_removed() -> None:
    value = anthropic({**RESULT, "content": "done", "cache_control": LONG})
    raw = sent(value, ())
    assert b"cache_control" not in raw
    assert json.loads(raw) == anthropic({**RESULT, "content": "done"})


def test_a_marker_gets_the_plan_s_lifetime() -> None:
    raw = sent(anthropic({**RESULT, "content": "done", "cache_control": MARK}), (Mark(4, "1h"),))
    assert json.loads(raw)["messages"][2]["content"][0]["cache_control"] == LONG


def test_a_nested_marker_counts_for_its_parent_and_is_not_doubled() -> None:
    nested = {
        **RESULT,
        "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "cache_control": MARK}],
    }
    value = anthropic(nested)
    assert parsed(value)[1].marks == (Mark(4, "5m"),)
    raw = sent(value, (Mark(4, "1h"),))
    assert raw.count(b"cache_control") == 1
    assert seen(raw) == (Mark(4, "1h"),)
    raw = sent(value, ())
    assert b"cache_control" not in raw


def test_a_nested_marker_that_the_plan_keeps_stays_where_it_is() -> None:
    nested = {**RESULT, "content": [{"type": "text", "text": "b", "cache_control": MARK}]}
    body, prompt = parsed(anthropic(nested))
    plan = Plan(strategy="s", marks=prompt.marks)
    assert marked(body, DIALECTS["anthropic"], prompt, plan, facts_of(body)) is body.raw


def test_an_automatic_marker_that_the_plan_keeps_stays() -> None:
    value = anthropic({**RESULT, "content": "done"}, cache_control=MARK)
    body, prompt = parsed(value)
    assert prompt.marks == (Mark(4, "5m"),)
    plan = Plan(strategy="s", marks=prompt.marks)
    assert marked(body, DIALECTS["anthropic"], prompt, plan, facts_of(body)) is body.raw


def test_an_automatic_marker_on_a_block_that_is_marked_already_stays_too() -> None:
    value = anthropic({**RESULT, "content": "done", "cache_control": MARK}, cache_control=MARK)
    body, prompt = parsed(value)
    assert prompt.marks == (Mark(4, "5m"),)
    plan = Plan(strategy="s", marks=prompt.marks)
    assert marked(body, DIALECTS["anthropic"], prompt, plan, facts_of(body)) is body.raw


def test_an_automatic_marker_is_replaced_where_the_plan_says_otherwise() -> None:
    value = anthropic({**RESULT, "content": "done"}, cache_control=MARK)
    raw = sent(value, (Mark(1, "1h"), Mark(4, "1h")))
    assert "cache_control" not in json.loads(raw)
    assert seen(raw) == (Mark(1, "1h"), Mark(4, "1h"))
    assert "cache_control" not in json.loads(sent(value, ()))


def test_openai_is_told_the_mode_only_where_it_changes() -> None:
    value = {"model": "gpt-6.1-sol", "messages": [{"role": "user", "content": TEXT}]}
    raw = sent(value, (), mode="explicit", dialect="openai_chat")
    assert json.loads(raw)["prompt_cache_options"] == {"mode": "explicit"}
    again = {**value, "prompt_cache_options": {"mode": "explicit", "ttl": "30m"}}
    body, prompt = parsed(again, "openai_chat")
    plan = Plan(strategy="s", mode="explicit")
    assert marked(body, DIALECTS["openai_chat"], prompt, plan, facts_of(body)) is body.raw
    kept = json.loads(
        sent({**again, "prompt_cache_options": {"ttl": "30m"}}, (), mode="explicit", dialect="openai_chat")
    )
    assert kept["prompt_cache_options"] == {"ttl": "30m", "mode": "explicit"}


def test_an_earlier_model_is_never_told_a_mode() -> None:
    value = {"model": "gpt-5.5", "messages": [{"role": "user", "content": TEXT}]}
    assert "prompt_cache_options" not in json.loads(sent(value, (), mode="explicit", dialect="openai_chat"))


def test_blocks_that_are_no_part_of_the_prefix_do_not_shift_the_markers() -> None:
    shape = next(each for each in load("claude-code-2.1.325") if each.run == "basic")
    assert shape.body is not None
    body, prompt = parsed(shape.body)
    assert prompt.origin != tuple(range(len(prompt.blocks)))  # the attribution line is left out
    last = max(index for index, block in enumerate(prompt.blocks) if block.section == "system")
    marks = (Mark(last, "1h"),)
    raw = marked(
        body, DIALECTS["anthropic"], prompt, Plan(strategy="s", marks=marks), facts.model("anthropic:claude-opus-5-5")
    )
    system = json.loads(raw)["system"]
    assert [("cache_control" in block) for block in system] == [False] * (len(system) - 1) + [True]
    assert replace(parsed(raw)[1], marks=()).keys == prompt.keys
