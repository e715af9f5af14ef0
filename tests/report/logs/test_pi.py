"""A session of pi gives each answer of a model, with its time, usage, lane and reason for a reset."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import facts
from holdfast.records import UNSPLIT, usage
from holdfast.report.logs.pi import is_mine, reading
from holdfast.report.logs.records import BrokenSource
from holdfast.simulator.script import load_script
from holdfast.simulator.server import running
from tests.clients.agents.agent import FIRST
from tests.clients.agents.pi import PiAnthropic, PiChat, PiResponses
from tests.clients.programs import TIMEOUT, Place, Watched
from tests.report.logs.claude_logs import START, text
from tests.report.logs.log_records import (
    counts,
    given,
    gives_what_came_before,
    home,
    is_read_without_being_held,
    lanes,
    split,
)
from tests.report.logs.pi_logs import Session, used


def talk(session: Session) -> Session:
    session.asks(START + 10)
    session.answers(START + 11, used(4, 0, 1000, 20), stopReason="toolUse")
    session.result(START + 20)
    session.answers(START + 21, used(4, 1000, 50, 8))
    return session


def test_each_answer_is_a_request_sent_when_it_says(tmp_path: Path) -> None:
    path = talk(Session("01a1-s1")).save(tmp_path)
    found = given(reading(), path)
    assert [each.source for each in found] == [f"{path.name}:5", f"{path.name}:7"]
    assert [(each.session, each.model, each.client, each.agent, each.reset) for each in found] == [
        ("01a1-s1", "anthropic:claude-sonnet-4-5", "pi", "", None)
    ] * 2
    assert [each.at for each in found] == [START + 11, START + 21]
    assert [each.usage for each in found] == [
        usage(input=4, writes={UNSPLIT: 1000}, output=20),
        usage(input=4, read=1000, writes={UNSPLIT: 50}, output=8),
    ]


@pytest.mark.parametrize(
    ("called", "known"),
    [
        ("anthropic/claude-opus-4-5", "anthropic:claude-opus-4-5"),
        ("openai/gpt-5.5", "openai:gpt-5.5"),
        ("openai-codex/gpt-5.5", "openai:gpt-5.5"),
        ("google/gemini-2.5-pro", "gemini:gemini-2.5-pro"),
        ("amazon-bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", "bedrock:anthropic.claude-sonnet-4-5"),
        ("openrouter/anthropic/claude-sonnet-4.5", "openrouter:anthropic/claude-sonnet-4-5"),
        ("github-copilot/claude-sonnet-4.5", "anthropic:claude-sonnet-4-5"),
        ("mine/gpt-5.5", "openai:gpt-5.5"),
    ],
)
def test_models_are_named_so_that_facts_know_them(tmp_path: Path, called: str, known: str) -> None:
    session = Session()
    session.answers(START, used(10, output=1), called)
    (found,) = given(reading(), session.save(tmp_path))
    assert facts.model(found.model).ref == known
    assert facts.model(found.model).known


def test_what_openai_wrote_has_its_lifetime(tmp_path: Path) -> None:
    session = Session()
    session.answers(START, used(10, 20, 30, 1), "openai/gpt-5.6", api="openai-responses")
    (found,) = given(reading(), session.save(tmp_path))
    assert found.usage == usage(input=10, read=20, writes={"30m": 30}, output=1)


def test_after_a_compaction_every_model_is_reset_once(tmp_path: Path) -> None:
    session = Session()
    for number, model in enumerate(["sonnet-4-5", "haiku-4-5", "sonnet-4-5", "sonnet-4-5", "haiku-4-5", "opus-4-5"]):
        if number == 2:
            session.compacts(START + 100 * number)
        session.answers(START + 100 * number + 1, used(1000 + number), f"anthropic/claude-{model}")
    found = given(reading(), session.save(tmp_path))
    assert [each.reset for each in found] == [None, None, "compaction", None, "compaction", None]


def test_a_branch_is_a_lane_and_its_end_can_be_gone_on_from(tmp_path: Path) -> None:
    session = Session()
    first = session.asks(START)
    session.answers(START + 1, used(1000))
    session.asks(START + 10)
    old = session.answers(START + 11, used(1100))
    session.leaf = first  # back to the first question
    branch = session.entry("branch_summary", START + 20, fromId=old, summary=text(100))
    session.asks(START + 21)
    session.answers(START + 22, used(900))
    session.compacts(START + 30)
    new = session.answers(START + 31, used(500))
    session.leaf = old  # and to the end that was left
    session.answers(START + 41, used(1200))
    session.leaf = new
    session.answers(START + 51, used(600))
    session.leaf = None  # and to before everything
    begun = session.asks(START + 60)
    session.answers(START + 61, used(70))
    found = given(reading(), session.save(tmp_path))
    one, other = f"branch {branch}", f"branch {begun}"
    assert [each.agent for each in found] == ["", "", one, one, "", one, other]
    assert [each.reset for each in found] == [None, None, None, "compaction", None, None, None]


def test_what_a_fork_copied_belongs_to_the_session_it_was_asked_in(tmp_path: Path) -> None:
    parent = talk(Session("01a1-s1"))
    made = Session("01a1-s2", START + 100, parentSession=str(tmp_path / "parent.jsonl"))
    made.lines[1:] = parent.lines[1:]
    made.leaf = parent.leaf
    made.asks(START + 110)
    made.answers(START + 111, used(4, 1050, 20, 8))
    found = given(reading(), parent.save(tmp_path), made.save(tmp_path))
    assert [each.session for each in found] == ["01a1-s1", "01a1-s1", "01a1-s2"]
    assert found == given(reading(), parent.save(tmp_path), made.save(tmp_path), parent.save(tmp_path / "copy"))


def test_a_continued_session_without_a_parent_keeps_all_it_has(tmp_path: Path) -> None:
    """Only a fork's header is younger than what it holds for a reason."""
    session = talk(Session())
    header = json.loads(session.lines[0])
    session.lines[0] = json.dumps(header | {"timestamp": "2040-01-01T00:00:00.000Z"})
    assert len(given(reading(), session.save(tmp_path))) == 2


def test_requests_that_failed_before_they_were_billed_are_left_out(tmp_path: Path) -> None:
    session = Session()
    session.answers(START, used(), stopReason="error", errorMessage="overloaded")
    session.answers(START + 1, used(0, 900, 100, 3), stopReason="aborted")
    session.answers(START + 2, None, stopReason="aborted")
    message = {"role": "assistant", "content": [], "provider": "anthropic", "model": "claude-sonnet-4-5"}
    session.entry("message", START + 3, message=message | {"stopReason": "error"})
    session.entry("message", START + 4, message=message | {"stopReason": "stop"})
    found, broken = split(reading()(session.save(tmp_path), lambda _: None))
    assert counts(found) == [(0, 900, 100, 3), None]  # of the last nothing is known
    assert found[1].at == START + 3  # it does not say when it was sent: after the entry before it
    assert [each.why for each in broken] == ["Expected `object`, got `null`"]


def test_the_first_version_had_no_tree(tmp_path: Path) -> None:
    session = talk(Session())
    lines = [json.loads(line) for line in session.lines]
    for line in lines[1:]:
        del line["id"], line["parentId"]
    lines[0] = {"type": "session", "id": "old", "timestamp": lines[0]["timestamp"], "cwd": "/", "provider": "x"}
    lines.insert(5, {"type": "compaction", "timestamp": lines[5]["timestamp"], "summary": "", "tokensBefore": 1})
    path = tmp_path / "2025_old.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    assert is_mine(path, path.read_bytes())
    found = given(reading(), path)
    assert [(each.session, each.agent, each.reset) for each in found] == [("old", "", None), ("old", "", "compaction")]


# What is broken


BROKEN = {
    '{"type":"message","id":"x","parentId":': "not JSON",
    "[]": "Expected `object`, got `array`",
    '{"type":"message","id":7}': "Expected `str | null`, got `int` - at `$.id`",
    '{"type":"message","message":"text"}': "Expected `object`, got `str`",
    '{"type":"message","message":{"role":"assistant","usage":[]}}': "Expected `object`, got `array`",
    '{"type":"message","message":{"role":"assistant","usage":{"input":-4}}}': "`int` >= 0 - at `$.input`",
    '{"type":"message","message":{"role":"assistant","usage":{"cacheRead":"9"}}}': "Expected `int`, got `str`",
    '{"type":"message","message":{"role":"assistant","usage":{"output":1e400}}}': "",
    '{"type":"message","message":{"role":"assistant","timestamp":"now"}}': "Expected `float | null`, got `str`",
    '{"type":"message","message":' + "[" * 5000 + "]" * 5000 + "}": "",
}


def test_what_cannot_be_read_is_named_and_the_lane_goes_on(tmp_path: Path) -> None:
    session = Session()
    places: dict[int, str] = {}
    for number, (line, why) in enumerate(BROKEN.items()):
        session.lines.append(line)
        places[len(session.lines)] = why
        session.leaf = f"lost{number}"  # the entry that cannot be read was the parent of what follows
        session.asks(START + 10 * number)
        session.answers(START + 10 * number + 1, used(1000 + number))
    found, broken = split(reading()(session.save(tmp_path), lambda _: None))
    assert counts(found) == [(1000 + number, 0, 0, 0) for number in range(len(BROKEN))]
    assert {each.agent for each in found} == {""}
    assert [int(each.source.rpartition(":")[2]) for each in broken] == list(places)
    assert all(why in each.why for each, why in zip(broken, places.values(), strict=True))


def test_a_file_that_is_cut_anywhere_gives_what_came_before(tmp_path: Path) -> None:
    whole = talk(Session()).save(tmp_path)
    gives_what_came_before(reading, whole, step=11)


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    path = talk(Session()).save(tmp_path)
    path.write_bytes(path.read_bytes() + b'{"type":"custom","data":"\xff"}\n')
    found, broken = split(reading()(path, lambda _: None))
    assert (len(found), broken) == (2, [BrokenSource(f"{path.name}:8", "not UTF-8")])


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    session = Session()
    for number in range(300):
        session.result(START + 10 * number, 40_000)
        session.answers(START + 10 * number + 1, used(1000 + number))
    path = session.save(tmp_path)
    del session
    is_read_without_being_held(reading, path, 300, path.stat().st_size // 3)


def test_it_is_known_by_its_header() -> None:
    assert is_mine(Path("any"), "\n".join(Session().lines).encode())
    for other in (b"", b"[]", b'{"type":"session"}', "\n".join(Session().lines[1:]).encode()):
        assert not is_mine(Path("any"), other)


# The client itself


@contextmanager
def remote(command: list[str], place: Place, environment: dict[str, str]) -> Iterator[Any]:
    """pi, told what to do through its pipe; what it answers to a command."""
    process = subprocess.Popen(
        command, cwd=place.work, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None

    def ask(command: str, until: str = "response", /, **members: Any) -> Any:
        stdin.write(json.dumps({"type": command} | members) + "\n")
        stdin.flush()
        for line in stdout:
            told = json.loads(line)
            assert told.get("success", True), told
            if told["type"] == until and told.get("command", command) == command:
                return told.get("data")
        raise AssertionError(f"pi ended during `{command}`")

    try:
        yield ask
        stdin.close()
        assert process.wait(TIMEOUT) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        stdout.close()


@pytest.mark.slow
@pytest.mark.parametrize("agent", [PiAnthropic(), PiChat(), PiResponses()], ids=lambda agent: agent.name)
def test_what_pi_leaves_is_what_was_billed(tmp_path: Path, agent: PiAnthropic) -> None:
    pi = agent.find()
    script = tmp_path / "script.yaml"
    script.write_text(f"{agent.script()}  - say: Well then.\n", "utf-8")
    place, simulator = Place(tmp_path), Watched(script=load_script(script))
    with running(simulator) as address:
        environment = agent.environment(place, address)
        settings = {"compaction": {"keepRecentTokens": 20}}
        (place.home / ".pi" / "agent" / "settings.json").write_text(json.dumps(settings), "utf-8")
        first, again = agent.turns(pi, address)
        place.run(first, environment)
        place.run(again, environment)
        told = len(simulator.journal.records())
        with remote([*again[:-3], "--continue", "--mode", "rpc"], place, environment) as ask:
            ask("compact")
            summaries = len(simulator.journal.records()) - told
            ask("prompt", "agent_end", message="And now?")
            ask("prompt", "agent_end", message="And then?")
            questions = ask("get_fork_messages")["messages"]
            assert questions[0]["text"] == FIRST
            ask("fork", entryId=questions[1]["entryId"])
            ask("prompt", "agent_end", message="In the fork")
    billed = [each for each in simulator.journal.records() if each.method == "POST"]
    found = home(place.home, "pi")
    # What was asked for a summary is not in the file.
    assert counts(found) == counts(billed[:told] + billed[told + summaries :])
    assert summaries >= 1
    assert {each.model for each in found} == {agent.model}
    sent = billed[:told] + billed[told + summaries :]
    assert all(-1 < each.at - (one.at or 0) < 30 for one, each in zip(found, sent, strict=True))
    assert [each.reset for each in found] == ["compaction" if each == told else None for each in range(len(found))]
    assert [len(each) for each in sorted(lanes(found), key=len)] == [1, len(found) - 1]
