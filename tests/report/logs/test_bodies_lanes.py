"""Logs of request bodies: whose they are, where the log says it and where only the bodies do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from holdfast.lab import ReplayOptions, read
from holdfast.lab import run as replay
from holdfast.records import usage
from holdfast.report.logs import bodies
from holdfast.report.logs.records import LoggedRequest
from tests.lab.recordings import OWN
from tests.report.logs.request_logs import BILLED, asked, body_of, is_mine, lanes, requests, talk, write


def agents(tmp_path: Path, lines: list[Any]) -> list[str]:
    return [agent for _, agent in lanes(requests(bodies, write(tmp_path / "log.jsonl", lines)))]


def test_a_session_is_named_by_the_log_then_by_the_client_then_by_the_file(tmp_path: Path) -> None:
    code, codex = asked("claude-code-2.1.325", "agent"), asked("codex-0.166", "basic")[0]
    parent = code[0].header("x-claude-code-session-id")
    lines = [
        {"session_id": "mine", "run": "r", "headers": code[0].headers, "body": body_of(code[0])},
        {"run": "r", "headers": code[0].headers, "body": body_of(code[0])},
        {"run": "r", "headers": dict(code[1].headers), "body": body_of(code[1])},
        {"headers": codex.headers, "body": body_of(codex)},
        {"run": "r", "body": talk(0)},
        {"body": talk(0, first="Hello")},
        {"conversation": {"id": "c-1"}, "agent": "scout", "body": talk(0)},
        {"session": 17, "body": talk(0)},
        {"session": "a\x1b[31mb" + "x" * 500, "body": talk(0)},
    ]
    found = lanes(requests(bodies, write(tmp_path / "log.jsonl", lines)))
    file = f"{tmp_path.name}/log"
    assert found[:8] == [
        ("mine", ""),
        (parent, ""),
        (parent, code[1].header("x-claude-code-agent-id")),
        (codex.header("session-id"), ""),
        (f"{file}:r", ""),
        (file, ""),
        ("c-1", "scout"),
        ("17", ""),
    ]
    assert len(found[8][0]) == 200
    assert "\x1b" not in found[8][0]


def test_titles_and_checks_are_lanes_of_their_own(tmp_path: Path) -> None:
    [title, *rest] = asked("opencode-1.18", "anthropic")
    lines = [{"headers": shape.headers, "body": body_of(shape)} for shape in (title, rest[0], title, rest[1], rest[3])]
    found = requests(bodies, write(tmp_path / "log.jsonl", lines))
    session = rest[0].header("x-session-id")
    assert {record.session for record in found} == {session}
    assert [record.agent for record in found] == ["side", "", "side#2", "", rest[3].header("x-session-id")]


def test_conversations_of_one_file_are_told_apart(tmp_path: Path) -> None:
    one, two = (lambda turns: {"body": talk(turns, first="One")}), (lambda turns: {"body": talk(turns, first="Two")})
    lines = [one(0), one(1), two(0), one(2), two(1), one(3), two(2)]
    assert agents(tmp_path, lines) == ["", "", "#2", "", "#2", "", "#2"]


def test_a_changed_prefix_stays_in_its_conversation(tmp_path: Path) -> None:
    clock = [{"body": talk(turns, system=f"It is {turns} o'clock.")} for turns in range(4)]
    assert agents(tmp_path, clock) == [""] * 4
    greeted = [{"body": talk(turns)} for turns in range(4)]
    for number, line in enumerate(greeted):  # a clock in the first message
        line["body"]["messages"][0]["content"] = f"It is {number} o'clock. Why is the sky blue?"
    assert agents(tmp_path, greeted) == [""] * 4
    trimmed = [{"body": talk(turns)} for turns in range(9)]
    for line in trimmed:  # a window of three turns
        line["body"]["messages"] = line["body"]["messages"][-7:]
    assert agents(tmp_path, trimmed) == [""] * 9
    edited = [{"body": talk(4)}, {"body": talk(5)}]
    edited[1]["body"]["messages"][1]["content"] = "[answer removed]"
    edited[1]["body"]["messages"][4]["content"] = "[question removed]"
    assert agents(tmp_path, [*({"body": talk(turns)} for turns in range(4)), *edited]) == [""] * 6


def test_real_clients_that_rewrite_what_they_said_stay_in_one_conversation(tmp_path: Path) -> None:
    lines = [{"body": body_of(shape)} for shape in asked("aider-0.86", "multi-openai")]
    assert agents(tmp_path, lines) == [""] * 4
    for client in ("pi-0.73", "pydantic-ai-2.66", "deepagents-0.7", "qwen-code", "cline", "continue-cn"):
        for run in {shape.run for shape in asked(client)} - {"anthropic-agent"}:
            lines = [{"body": body_of(shape)} for shape in asked(client, run)]
            assert agents(tmp_path, lines) == [""] * len(lines), (client, run)


def test_sub_agents_without_a_name_are_conversations_of_their_own(tmp_path: Path) -> None:
    lines = [{"session": "s", "body": body_of(shape)} for shape in asked("claude-code-2.1.325", "agent")]
    assert agents(tmp_path, lines) == ["", "#2", "", "#2", ""]
    handed_over = [{"session": "s", "body": body_of(shape)} for shape in asked("openai-agents-0.24", "chat")]
    assert agents(tmp_path, handed_over) == ["", "", "", "#2"]


def test_examples_that_all_conversations_begin_with_do_not_join_them(tmp_path: Path) -> None:
    def shot(question: str, *more: str) -> dict[str, Any]:
        body = talk(2, first="Example")
        body["messages"][-1]["content"] = question
        for number, text in enumerate(more):
            body["messages"].append({"role": "user" if number % 2 else "assistant", "content": text})
        return {"body": body}

    lines = [shot("A"), shot("B"), shot("A", "a", "More"), shot("B", "b", "More"), shot("C")]
    assert agents(tmp_path, lines) == ["", "#2", "", "#2", "#3"]


def test_the_same_opening_again_is_another_conversation_unless_the_first_came_to_nothing(tmp_path: Path) -> None:
    billed, failed = {"body": talk(0), "usage": BILLED}, {"body": talk(0)}
    assert agents(tmp_path, [billed, billed, {"body": talk(1), "usage": BILLED}]) == ["", "#2", "#2"]
    assert agents(tmp_path, [failed, billed, {"body": talk(1), "usage": BILLED}]) == ["", "", ""]


def test_a_compaction_stays_in_a_session_that_was_named(tmp_path: Path) -> None:
    turns = [talk(turns) for turns in range(6)]
    summary = talk(0, first="So far: the sky.")
    goes_on = talk(1, first="So far: the sky.")
    named = [{"session": "s", "body": body} for body in (*turns, summary, goes_on)]
    assert agents(tmp_path, named) == [""] * 8
    # In a file alone it may as well be the next conversation.
    assert agents(tmp_path, [{"body": body} for body in (*turns, summary, goes_on)]) == [""] * 6 + ["#2"] * 2
    # If the long one goes on, the short one was another.
    back = [*named[:7], {"session": "s", "body": talk(6)}, named[7]]
    assert agents(tmp_path, back) == [""] * 8 + ["#2"]


def test_a_name_for_each_request_does_not_take_a_conversation_apart(tmp_path: Path) -> None:
    lines = [{"trace_id": f"t{turns}", "body": talk(turns), "usage": BILLED} for turns in range(4)]
    found = lanes(requests(bodies, write(tmp_path / "log.jsonl", lines)))
    assert len(set(found)) == 1
    again = [{"trace_id": "other", "body": talk(turns), "usage": BILLED} for turns in range(2)]
    found = lanes(requests(bodies, write(tmp_path / "log.jsonl", [*lines, *again])))
    assert len(set(found[:4])) == len(set(found[4:])) == 1
    assert found[0] != found[4]


def test_responses_that_name_the_one_before_have_no_body_of_their_own(tmp_path: Path) -> None:
    def line(number: int, **more: Any) -> dict[str, Any]:
        item = {"role": "user", "content": f"Question {number}"}
        return {
            "body": {"model": "gpt-5", "input": [item], **more},
            "response": {
                "object": "response",
                "id": f"resp_{number}",
                "usage": {"input_tokens": 9, "output_tokens": 1},
            },
        }

    lines = [line(1), line(10), line(2, previous_response_id="resp_1"), line(11, previous_response_id="resp_10")]
    found = requests(bodies, write(tmp_path / "log.jsonl", lines))
    assert [record.agent for record in found] == ["", "#2", "", "#2"]
    assert [record.body is None for record in found] == [False, False, True, True]
    assert all(record.usage == usage(input=9, output=1) for record in found)


def test_memory_stays_bounded_whatever_the_number_of_conversations(tmp_path: Path) -> None:
    reading = bodies.Requests(tmp_path / "log.jsonl")
    for number in range(2_000):
        line = json.dumps({"run": f"r{number}", "body": talk(3, first=f"Question {number}")}).encode()
        assert isinstance(reading.line("x", line), LoggedRequest)
    assert len(reading.threads) <= 256


def test_what_was_replayed_under_several_strategies_is_so_many_sessions(tmp_path: Path) -> None:
    path = tmp_path / "dump.jsonl"
    replay(read(OWN / "session.json"), ["rolling", "economic"], ["anthropic:claude-opus-5-5"], ReplayOptions(dump=path))
    assert is_mine(bodies, path)
    found = requests(bodies, path)
    assert all(record.usage is not None and record.body is not None for record in found)
    assert [session for session, _ in dict.fromkeys(lanes(found))] == ["session rolling 11", "session economic 11"]
