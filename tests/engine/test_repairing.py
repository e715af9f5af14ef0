"""Faulty clients through the repairs: their prefix holds, in the order they first chose."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from holdfast.core.repairs import Mode
from holdfast.engine import EngineCore
from holdfast.engine import Lane as EngineLane
from holdfast.lab import FAULTS, SEEDS, TimedCall, cost, rolling, with_gaps
from holdfast.records import usage
from holdfast.wire import DIALECTS
from tests import shapes
from tests.engine.repair_lane import MODELS, TOOLS, Lane, bodies, names, run, said, talk, timed
from tests.lab.recordings import needs_recordings, recorded
from tests.properties.sessions import session


@pytest.mark.parametrize("mode", ["off", "suggest", "on"])
def test_a_clean_session_keeps_its_own_bytes(mode: Mode) -> None:
    trace = timed()
    lane, done = run(trace, mode)
    assert [item.raw for item in done] == list(bodies(trace))
    assert all(not item.repairs and not item.new and item.reset is None for item in done)
    assert lane.breaks() == []


@pytest.mark.parametrize("fault", ["tools-shuffled", "keys-reordered"])
@pytest.mark.parametrize("mode", ["suggest", "on"])
def test_order_faults_are_cured_by_default(fault: str, mode: Mode) -> None:
    faulty = FAULTS[fault](timed(), SEEDS[0])
    lane, done = run(faulty, mode)
    assert lane.breaks() == []
    assert {item.reset for item in done} == {None}
    assert {r.name for item in done for r in item.repairs} == {
        "tool-order" if fault == "tools-shuffled" else "key-order"
    }
    assert not any(item.new for item in done)  # neutral repairs leave nothing on disk
    broken, _ = run(faulty, "off")
    assert broken.breaks() != []


@pytest.mark.parametrize("fault", ["clock-at-head", "clock-in-middle", "memory-in-system"])
def test_what_changes_in_the_system_text_is_suggested_and_cured_when_on(fault: str) -> None:
    faulty = FAULTS[fault](timed(), 0)
    suggesting, told = run(faulty, "suggest")
    name = "memory-to-tail" if fault == "memory-in-system" else "volatile-value"
    assert [item.raw for item in told] == list(bodies(faulty))
    broken = suggesting.breaks()
    assert broken != []
    for number in broken:
        (found,) = told[number].repairs
        assert (found.name, found.path, found.applied) == (name, "system[0]", False)
        before = suggesting.prompts[number - 1]
        # From the end of the five tools on, all that the request before had sent; the memory's new line counts too.
        assert 0 <= found.saved_tokens - (before.tokens - before.ends[4]) <= 10
    lane, done = run(faulty)
    assert lane.breaks() == []
    assert {item.reset for item in done} == {None}
    assert any(r.name == name and r.applied for item in done for r in item.repairs)


@needs_recordings
@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "mode", "most"),
    [
        (None, "suggest", 0.13),
        ("tools-shuffled", "suggest", 0.14),
        ("keys-reordered", "suggest", 0.14),
        ("clock-at-head", "on", 0.15),
        ("memory-in-system", "on", 0.16),
    ],
)
def test_what_a_recorded_session_costs(fault: str | None, mode: Mode, most: float) -> None:
    trace = with_gaps(recorded("session-60"), "none", SEEDS[0])
    lane, _ = run(trace if fault is None else FAULTS[fault](trace, SEEDS[0]), mode)
    plain, _ = run(trace, "off")
    made = [
        TimedCall(step.at or 0.0, (step.at or 0.0) + 1, prompt)
        for step, prompt in zip(trace.steps, lane.prompts, strict=True)
    ]
    paid = cost(made, rolling(made, "5m"), lane.model)
    assert float(paid) / sum(prompt.tokens for prompt in plain.prompts) < most


# Tools


def test_a_marker_stays_on_its_place_when_tools_move_through_it() -> None:
    lane = Lane(mode="suggest")
    mark = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    lane.send(talk(0, tools=[*TOOLS[:2], TOOLS[2] | mark]))
    done = lane.send(talk(1, tools=[TOOLS[2], TOOLS[1], TOOLS[0] | mark]))
    tools = json.loads(done.raw)["tools"]
    assert [tool["name"] for tool in tools] == ["bash", "edit", "read"]
    assert ["cache_control" in tool for tool in tools] == [False, False, True]
    assert lane.breaks() == []


def test_tools_of_the_provider_and_deferred_ones_stay_in_place() -> None:
    server = {"type": "web_search_20250305", "name": "web_search"}
    late = {"name": "late", "input_schema": {}, "defer_loading": True}
    lane = Lane(mode="suggest").after(talk(0, tools=[server, *TOOLS]))
    done = lane.send(talk(1, tools=[server, TOOLS[2], late, TOOLS[0], TOOLS[1]]))
    assert names(done) == ["web_search", "bash", "late", "edit", "read"]
    assert (lane.breaks(), done.reset) == ([], None)


def test_keys_inside_a_tool_come_back_in_their_first_order() -> None:
    lane = Lane(mode="suggest").after(talk(0))
    turned = [dict(reversed(tool.items())) for tool in reversed(TOOLS)]
    done = lane.send(talk(1, tools=turned))
    assert json.dumps(json.loads(done.raw)["tools"]) == json.dumps(TOOLS)
    assert {item.name for item in done.repairs} == {"tool-order", "key-order"}


def test_a_tool_added_or_removed_is_nobodys_reset_and_the_others_are_not_reshuffled() -> None:
    """Who announces a change gives it a reason (law 5); a client that only makes it does not."""
    lane = Lane(mode="suggest")
    more = {"name": "grep", "input_schema": {"type": "object"}}
    lane.send(talk(0))
    added = lane.send(talk(1, tools=[*TOOLS, more]))
    assert (names(added), added.reset, added.repairs) == (["bash", "edit", "read", "grep"], None, ())
    again = lane.send(talk(2, tools=[more, *reversed(TOOLS)]))
    assert (names(again), again.reset) == (["bash", "edit", "read", "grep"], None)
    back = lane.send(talk(3, tools=list(reversed(TOOLS))))
    assert (names(back), back.reset) == (["bash", "edit", "read"], None)
    edited = lane.send(talk(4, tools=[TOOLS[0] | {"description": "other"}, *TOOLS[1:]]))
    assert edited.reset is None
    assert lane.breaks() == [1, 3, 4]


def test_a_clock_in_a_tool_keeps_its_first_value_and_is_told() -> None:
    def at(hour: int) -> list[dict[str, Any]]:
        return [TOOLS[0] | {"description": f"Runs a command. It is {hour}:00 now."}, *TOOLS[1:]]

    lane = Lane().after(talk(0, tools=at(9)))
    done = lane.send(talk(1, tools=at(10)))
    assert json.loads(done.raw)["tools"] == at(9)
    assert said(done) == ["question 1", "Current values: tool bash: Runs a command. It is 10:00 now."]
    assert done.reset is None
    lane.restart()
    back = lane.send(talk(2, tools=at(9)))
    assert said(back) == ["question 2", "Current values: tool bash: Runs a command. It is 9:00 now."]
    lane.restart()
    lane.send(talk(3, tools=at(11)))
    assert lane.breaks() == []
    suggesting = Lane(mode="suggest").after(talk(0, tools=at(9)))
    told = suggesting.send(talk(1, tools=at(10)))
    assert [(item.name, item.applied) for item in told.repairs] == [("volatile-value", False)]
    assert told.reset is None


# Restarts and dialects


def test_shuffled_tools_survive_a_restart_because_their_own_bytes_are_there() -> None:
    lane = Lane(mode="suggest").after(talk(0))
    lane.restart()
    done = lane.send(talk(1, tools=list(reversed(TOOLS))))
    assert (lane.breaks(), done.reset, names(done)) == ([], None, ["bash", "edit", "read"])
    lane.restart()
    lost = lane.send(talk(2, tools=[dict(reversed(tool.items())) for tool in TOOLS]))
    assert lost.reset == "repair_forgotten"


CHAT_CALL = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": '{"a": 1, "b": [2]}'}}


@pytest.mark.parametrize(
    ("dialect", "members", "first", "other"),
    [
        (
            "openai_chat",
            lambda call, tools: {
                "messages": [
                    {"role": "system", "content": "s"},
                    {"role": "user", "content": "q"},
                    {"role": "assistant", "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": "c", "content": "r"},
                ],
                "tools": [{"type": "function", "function": tool} for tool in tools],
            },
            CHAT_CALL,
            CHAT_CALL | {"function": {"arguments": '{"b":[2],"a":1}', "name": "bash"}},
        ),
        (
            "openai_responses",
            lambda call, tools: {
                "input": [
                    {"role": "user", "content": "q"},
                    call,
                    {"type": "function_call_output", "call_id": "c", "output": "r"},
                ],
                "tools": [{"type": "function", **tool} for tool in tools] + [{"type": "web_search"}],
            },
            {"type": "function_call", "call_id": "c", "name": "bash", "arguments": '{"a": 1, "b": [2]}'},
            {"type": "function_call", "call_id": "c", "name": "bash", "arguments": '{"b": [2], "a": 1}'},
        ),
        (
            "gemini",
            lambda call, tools: {
                "contents": [
                    {"role": "user", "parts": [{"text": "q"}]},
                    {"role": "model", "parts": [call]},
                    {"role": "user", "parts": [{"functionResponse": {"name": "bash", "response": {"r": 1}}}]},
                ],
                "tools": [{"functionDeclarations": tools}],
            },
            {"functionCall": {"name": "bash", "args": {"a": 1, "b": [2]}}},
            {"functionCall": {"args": {"b": [2], "a": 1}, "name": "bash"}},
        ),
    ],
)
def test_order_holds_in_the_other_dialects(dialect: str, members: Any, first: Any, other: Any) -> None:
    functions = [{"name": name, "parameters": {"type": "object"}} for name in ("bash", "read", "edit")]
    model = {} if dialect == "gemini" else {"model": "gpt-6.1-sol"}
    lane = Lane(dialect, "suggest")
    before = model | members(first, functions)
    lane.send(before)
    done = lane.send(model | members(other, functions[::-1]))
    assert lane.breaks() == []
    assert {item.name for item in done.repairs} == {"tool-order", "key-order"}
    assert json.dumps(json.loads(done.raw)) == json.dumps(before)


@pytest.mark.unmeasured
@pytest.mark.parametrize("mode", ["suggest", "on"])
@pytest.mark.parametrize("run_of", sorted(shapes.conversations()), ids=lambda run_of: f"{run_of[0]}/{run_of[1]}")
def test_recorded_clients_are_answered_and_replayed(run_of: tuple[str, str], mode: Mode) -> None:
    """Whatever was repaired is accepted like the original, and the same request sent again is the same bytes."""
    recorded_ = [shape for shape in shapes.conversations()[run_of] if shape.dialect is not None and shape.body]
    lanes: dict[str, Lane] = {}
    for shape in recorded_:
        assert shape.dialect is not None
        assert shape.body is not None
        lane = lanes.setdefault(shape.dialect, Lane(shape.dialect, mode))
        done = lane.send(shape.body)
        assert lane.send(shape.body).raw == done.raw


@pytest.mark.unmeasured
@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 40))])
def test_a_request_sent_again_is_the_same_bytes_whatever_came_before(seed: int) -> None:
    """Sessions that are edited, trimmed, given other tools, restarted with and without their disk, and bypassed."""
    random = Random(seed)
    dialect = random.choice(sorted(MODELS))
    lane = Lane(dialect, random.choice(["on", "suggest"]))
    for sent in session(random, dialect, lane.model.name, 12):
        request = json.loads(sent.body)
        if random.random() < 0.3 and dialect != "gemini":
            random.shuffle(request["tools"])
        if random.random() < 0.3 and dialect == "anthropic":
            request["system"][0]["text"] = f"Time 09:{random.randrange(10, 60)}\n{request['system'][0]['text']}"
        if random.random() < 0.1:
            lane.restart(durable=random.random() < 0.5)
        if random.random() < 0.05:
            lane.send(request, skip=frozenset({"tool-order", "volatile-value"}))
        done = lane.send(request)
        again = lane.send(request)
        assert (again.raw, again.new) == (done.raw, {})


@pytest.mark.parametrize(
    "raw",
    [
        b'{"model":"claude-opus-5-5","max_tokens":5,"tools":[{"name":"a","description":"x","input_schema":{},'
        b'"cache_control":{"type":"ephemeral"},"description":"y"}],"messages":[{"role":"user","content":"hi"}]}',
        b'{"model":"claude-opus-5-5","max_tokens":5,"messages":[{"role":"user","content":[{"type":"text","text":"hi",'
        b'"cache_control":{"type":"ephemeral"},"text":"hi"}]}]}',
        b'{"model":"claude-opus-5-5","max_tokens":5,"messages":[{"role":"user","content":[{"type":"text","text":"hi",'
        b'"cache_control":{"type":"ephemeral","ttl":"\\ud800"}}]}]}',
    ],
    ids=["tool", "message", "ttl"],
)
def test_a_block_that_says_odd_things_is_left_alone(raw: bytes) -> None:
    engine, lane = EngineCore(), EngineLane(tenant="t", session="s", id="s/main")
    for turn in range(3):
        body = engine.parse(DIALECTS["anthropic"], raw)
        assert engine.prepare(body, lane=lane, now=1_700_000_000.0 + turn).raw == raw


@pytest.mark.parametrize("dialect", [name for name in MODELS if name != "anthropic"])
def test_a_prompt_of_nothing_may_come_twice(dialect: str) -> None:
    """Also where the provider says that it read something."""
    engine, lane = EngineCore(), EngineLane(tenant="t", session="s", id="s/main")
    for turn in range(2):
        body = engine.parse(DIALECTS[dialect], b"{}", model="gemini-2.5-pro")
        prepared = engine.prepare(body, lane=lane, now=1_700_000_000.0 + turn)
        assert prepared.raw == b"{}"
        engine.settle(prepared, usage(read=5_000, output=1), now=1_700_000_000.5 + turn)
