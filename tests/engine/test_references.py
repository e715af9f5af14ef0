"""Deferred tools that results name, through the engine: repairs, recorded edits, markers and predictions."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from holdfast.engine import EngineCore, PrepareOptions
from holdfast.engine import Lane as EngineLane
from holdfast.records import usage
from holdfast.wire import DIALECTS
from tests.engine.repair_lane import TOOLS, Lane, talk

LATE = {"name": "mail", "description": "Sends mails. " * 40, "input_schema": {"type": "object"}, "defer_loading": True}
OTHER = {**LATE, "name": "news"}


def found(turns: int, *tools: dict[str, Any]) -> dict[str, Any]:
    """A conversation whose first result names a deferred tool."""
    body = talk(turns, tools=[*TOOLS[:1], *tools, *TOOLS[1:]], system="Be brief. " * 2_000)
    body["messages"][2]["content"][0]["content"] = [{"type": "tool_reference", "tool_name": "mail"}]
    return body


RESULT = len(TOOLS) + 1 + 2  # tools, system, question, call


class TestRepairs:
    def test_a_client_that_only_appends_keeps_its_bytes(self) -> None:
        lane = Lane(mode="suggest")
        for turns in (1, 2, 3):
            request = found(turns, LATE)
            done = lane.send(request)
            assert (done.raw, done.repairs) == (json.dumps(request).encode(), ())
        assert lane.breaks() == []

    def test_a_deferred_tool_that_comes_between_the_others_breaks_nothing(self) -> None:
        lane = Lane(mode="suggest")
        lane.send(found(1, LATE))
        done = lane.send(found(2, OTHER, LATE))
        assert (lane.breaks(), done.repairs, done.reset) == ([], (), None)

    def test_a_changed_definition_is_a_break_and_nothing_to_repair(self) -> None:
        lane = Lane(mode="suggest")
        lane.send(found(1, LATE))
        done = lane.send(found(2, LATE | {"description": "Something else."}))
        assert (lane.breaks(), done.repairs, done.reset) == ([1], (), None)
        assert done.raw == json.dumps(found(2, LATE | {"description": "Something else."})).encode()
        one, two = lane.prompts
        assert [a == b for a, b in zip(one.keys, two.keys, strict=False)].index(False) == RESULT

    def test_keys_of_a_reference_come_back_in_their_first_order(self) -> None:
        lane = Lane(mode="suggest")
        lane.send(found(1, LATE))
        turned = found(2, LATE)
        part = turned["messages"][2]["content"][0]["content"][0]
        turned["messages"][2]["content"][0]["content"] = [dict(reversed(part.items()))]
        done = lane.send(turned)
        assert (lane.breaks(), {item.name for item in done.repairs}) == ([], {"key-order"})


class Sent:
    """An engine and one lane; what it predicts is what is billed."""

    def __init__(self) -> None:
        self.engine, self.now = EngineCore(), 1_800_000_000.0
        self.lane = EngineLane(tenant="t", session="s", id="s/main", client="c")

    def send(self, request: dict[str, Any], **options: Any) -> Any:
        body = self.engine.parse(DIALECTS["anthropic"], json.dumps(request).encode())
        prepared = self.engine.prepare(body, lane=self.lane, now=self.now, options=PrepareOptions(**options))
        self.engine.first_token(prepared, now=self.now + 1)
        outcome = prepared.core.outcome
        billed = usage(read=outcome.read, writes=dict(outcome.writes), input=outcome.input, output=5)
        self.engine.settle(prepared, billed, now=self.now + 2)
        self.now += 20
        return prepared


@pytest.fixture
def sent() -> Sent:
    return Sent()


def test_what_was_found_is_written_once_and_read_ever_after(sent: Sent) -> None:
    before = sent.send({**found(1, LATE), "messages": found(1, LATE)["messages"][:1]})
    first = sent.send(found(1, LATE))
    second = sent.send(found(2, LATE))
    written = sum(count for _, count in first.core.outcome.writes)
    assert first.core.outcome.read == sum(count for _, count in before.core.outcome.writes) > 4_000
    assert written > 100  # the definition among it
    assert second.core.outcome.read == first.core.outcome.read + written


def test_markers_stand_where_they_are_legal(sent: Sent) -> None:
    for turns in (1, 2, 6):
        body = json.loads(sent.send(found(turns, LATE)).raw)
        marked = [tool["name"] for tool in body["tools"] if "cache_control" in tool]
        assert "mail" not in marked
        assert "cache_control" not in json.dumps(body["messages"][2]["content"][0]["content"])


def test_an_edit_of_another_block_is_replayed_when_a_definition_changes(sent: Sent) -> None:
    first = sent.send(found(3, LATE))
    prompt = first.core.outcome.prompt
    place = next(i for i, block in enumerate(prompt.blocks) if block.message == 6)
    short = json.dumps({"type": "tool_result", "tool_use_id": "t1", "content": "gone"}).encode()
    sent.now += 4_000  # cold: an edit costs nothing
    edited = sent.send(found(4, LATE), edits={prompt.blocks[place].digest: short})
    assert json.loads(edited.raw)["messages"][6]["content"][0]["content"] == "gone"
    for tools in ([LATE, OTHER], [LATE | {"description": "Something else."}]):
        again = json.loads(sent.send(found(5, *copy.deepcopy(tools))).raw)
        assert again["messages"][6]["content"][0]["content"] == "gone"
