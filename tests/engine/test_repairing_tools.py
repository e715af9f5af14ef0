"""Values in tools: told with the tool they belong to, and never where the provider enforces them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.core.repairs import Mode
from holdfast.records import encode_string
from tests.engine.repair_lane import TOOLS, Lane, extends, said, talk

LONG = "Reads all of it and says what stands there. " * 9


def described(*texts: str) -> list[dict[str, Any]]:
    return [tool | {"description": text} for tool, text in zip(TOOLS, texts, strict=False)]


@pytest.mark.parametrize("mode", ["values", "on"])
@pytest.mark.parametrize("around", ["", LONG], ids=["short", "long"])
def test_a_value_is_told_with_the_tool_it_belongs_to(mode: Mode, around: str) -> None:
    lane = Lane(mode=mode)

    def tools(turn: int) -> list[dict[str, Any]]:
        return described(*(f"{around}Turn: {number}" for number in (50 - turn, 9 + turn)))

    lane.send(talk(0, tools=tools(0)))
    done = lane.send(talk(1, tools=tools(1)))
    assert json.loads(done.raw)["tools"] == tools(0)
    assert said(done)[1] == "Current values: tool bash: Turn: 49; tool edit: Turn: 10"
    again = lane.send(talk(2, tools=tools(2)))
    assert said(again)[1] == "Current values: tool bash: Turn: 48; tool edit: Turn: 11"
    assert lane.breaks() == []


def test_what_a_schema_says_is_told_with_its_place_in_the_tool() -> None:
    lane = Lane(mode="values")

    def tools(turn: int) -> list[dict[str, Any]]:
        days = {name: {"type": "string", "description": f"{LONG}Today is 2026-11-{1 + turn}{at}."} for at, name in DAYS}
        return [TOOLS[0] | {"input_schema": {"type": "object", "properties": days}}, *TOOLS[1:]]

    lane.send(talk(0, tools=tools(0)))
    done = lane.send(talk(1, tools=tools(1)))
    assert json.loads(done.raw)["tools"] == tools(0)
    told = "; ".join(f"input_schema.properties.{name}.description: Today is 2026-11-2{at}" for at, name in DAYS)
    assert said(done)[1].replace(".;", ";").removesuffix(".") == f"Current values: tool bash: {told}"


DAYS = ((1, "from"), (2, "to"))


@pytest.mark.parametrize("mode", ["values", "on"])
@pytest.mark.parametrize("strict", [{}, {"strict": True}], ids=["loose", "strict"])
@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat"])
def test_what_the_provider_enforces_stays_the_clients(dialect: str, strict: dict[str, Any], mode: Mode) -> None:
    lane = Lane(dialect, mode)

    def request(turn: int) -> dict[str, Any]:
        day = {"type": "string", "enum": [f"2026-11-1{turn}T00:00:00Z"]}
        schema = {"type": "object", "properties": {"day": day}, "required": ["day"], "additionalProperties": False}
        tool = {"name": "book", "description": f"Books. It is 09:0{turn} now."} | strict
        if dialect == "anthropic":
            return talk(turn, tools=[tool | {"input_schema": schema}])
        body = {"type": "function", "function": tool | {"parameters": schema}}
        messages = [{"role": "user", "content": f"question {n}"} for n in range(turn + 1)]
        return {"model": "gpt-6.1-sol", "tools": [body], "messages": messages}

    for turn in range(3):
        raw = json.dumps(request(turn)).encode()
        done = lane.send(raw)
        assert (done.raw, done.repairs) == (raw, ())


def test_a_told_value_does_not_outlive_a_change_of_what_is_enforced() -> None:
    lane = Lane()

    def tools(minute: int, limit: int) -> list[dict[str, Any]]:
        schema = {"type": "object", "properties": {"at": {"type": "integer", "maximum": 1767225600 + limit}}}
        return [TOOLS[0] | {"description": f"It is 09:0{minute} now.", "input_schema": schema}]

    lane.send(talk(0, tools=tools(0, 0)))
    assert "09:01" in said(lane.send(talk(1, tools=tools(1, 0))))[1]
    raw = json.dumps(talk(2, tools=tools(2, 1))).encode()
    assert lane.send(raw).raw == raw


def test_what_was_told_without_the_name_of_its_tool_is_sent_again_as_it_was() -> None:
    """By versions that told values without naming the tool."""
    lane = Lane()

    def tools(hour: int) -> list[dict[str, Any]]:
        return described(f"Runs a command. It is {hour}:00 now.")

    old = "Current values: Runs a command. It is 10:00 now."
    lane.send(talk(0, tools=tools(9)))
    lane.send(talk(1, tools=tools(10)))
    (insert,) = next(iter(lane.state.inserts.values()))
    insert.text = lane.memory.keep(encode_string(old))
    again = lane.send(talk(1, tools=tools(10)))
    assert said(again)[1:] == [old]
    done = lane.send(talk(2, tools=tools(11)))
    assert said(done, 4)[1:] == [old]
    assert said(done)[1:] == ["Current values: tool bash: Runs a command. It is 11:00 now."]
    assert done.reset is None
    assert extends(lane.prompts[-2], lane.prompts[-1])
