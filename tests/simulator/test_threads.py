"""Message threads: a continuing request is billed and answered as if it had sent the whole conversation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.simulator.clock import VirtualClock
from holdfast.simulator.messages import HttpRequest
from holdfast.simulator.provider import Simulator
from tests.simulator.http_client import ANTHROPIC, LONG

SYSTEM = [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}]
TOOL = {"name": "look", "input_schema": {"type": "object"}}
CREATE = {"type": "create"}
RESULT = [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1"}]}]


def ask(simulator: Simulator, words: Any, headers: dict[str, str] = ANTHROPIC, **members: Any) -> tuple[int, Any]:
    messages = words if isinstance(words, list) else [{"role": "user", "content": words}]
    body = {"model": "claude-opus-4-6", "max_tokens": 100, "messages": messages} | members
    answer = simulator.answer(HttpRequest("POST", "/v1/messages", headers, {}, json.dumps(body).encode()))
    return answer.status, json.loads(answer.body)


def continuing(answer: Any) -> dict[str, str]:
    return {"type": "continue", "previous_message_id": answer["id"]}


@pytest.fixture
def simulator() -> Simulator:
    return Simulator(clock=VirtualClock())


def marked(words: str) -> list[dict[str, Any]]:
    block = {"type": "text", "text": words, "cache_control": {"type": "ephemeral"}}
    return [{"role": "user", "content": [block]}]


def test_what_is_held_is_billed_like_what_is_sent(simulator: Simulator) -> None:
    _, first = ask(simulator, "Read it.", system=SYSTEM, tools=[TOOL], thread=CREATE)
    status, second = ask(simulator, "And now?", thread=continuing(first))
    assert status == 200
    whole = [
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "content": first["content"]},
        {"role": "user", "content": "And now?"},
    ]
    _, sent = ask(simulator, whole, system=SYSTEM, tools=[TOOL])
    assert sent["usage"] == second["usage"]
    assert second["usage"]["cache_read_input_tokens"] == first["usage"]["cache_creation_input_tokens"] > 4096


def test_markers_count_for_the_request_that_sends_them(simulator: Simulator) -> None:
    _, answer = ask(simulator, marked("Turn 0."), system=SYSTEM, thread=CREATE)
    read = 0
    for turn in range(1, 7):
        status, answer = ask(simulator, marked(f"Turn {turn}."), thread=continuing(answer))
        assert status == 200
        assert answer["usage"]["cache_read_input_tokens"] > read
        read = answer["usage"]["cache_read_input_tokens"]


def test_a_stream_is_continued_like_any_answer(simulator: Simulator) -> None:
    body = {"model": "claude-opus-4-6", "max_tokens": 100, "messages": marked("Hi."), "thread": CREATE, "stream": True}
    assert simulator.answer(HttpRequest("POST", "/v1/messages", ANTHROPIC, {}, json.dumps(body).encode())).status == 200
    status, _ = ask(simulator, "And now?", thread={"type": "continue", "previous_message_id": "msg_sim000000000001"})
    assert status == 200


@pytest.mark.parametrize(
    "words", ["And now?", [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]}]]
)
def test_a_thread_nobody_knows_is_named_by_a_code(simulator: Simulator, words: Any) -> None:
    status, answer = ask(simulator, words, thread={"type": "continue", "previous_message_id": "msg_gone"})
    assert status == 404
    assert answer["error"]["details"] == {"error_code": "thread_not_found"}
    assert simulator.requests()[-1]["state"] == "refused"


def test_the_key_is_asked_for_first(simulator: Simulator) -> None:
    thread = {"type": "continue", "previous_message_id": "msg_gone"}
    status, _ = ask(simulator, "And now?", {"anthropic-version": "2023-06-01"}, thread=thread)
    assert status == 401


def test_a_request_that_is_no_part_of_a_thread_cannot_be_continued(simulator: Simulator) -> None:
    _, first = ask(simulator, "Read it.")
    assert ask(simulator, "And now?", thread=continuing(first))[0] == 404


def test_a_reset_forgets_threads(simulator: Simulator) -> None:
    _, first = ask(simulator, "Read it.", thread=CREATE)
    simulator.reset()
    assert ask(simulator, "And now?", thread=continuing(first))[0] == 404


@pytest.mark.parametrize("thread", [None, "later", 7, {}, {"type": "continue"}])
def test_other_values_are_passed_over(simulator: Simulator, thread: Any) -> None:
    assert ask(simulator, "Read it.", thread=thread)[0] == 200
