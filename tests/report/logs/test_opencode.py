"""opencode's sessions give each provider request once, from the database as from the files that were before it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from holdfast.records import UNSPLIT, usage
from holdfast.report.logs.opencode import is_mine, reading
from holdfast.simulator.script import load_script
from holdfast.simulator.server import running
from tests.clients.agents.opencode import OpenCode
from tests.clients.programs import TIMEOUT, Place, Watched
from tests.report.logs.claude_logs import START
from tests.report.logs.log_records import counts, given, home, lanes, split
from tests.report.logs.opencode_logs import MODEL, Base, Store, Tree, start, talk, used


def test_each_message_of_a_model_is_a_request(opencode: Store) -> None:
    session = talk(opencode)
    path = opencode.save()
    assert is_mine(path, start(path))
    told: list[int] = []
    found, broken = split(reading()(path, told.append))
    assert not broken
    assert [(each.session, each.model, each.client, each.agent, each.reset) for each in found] == [
        (session, "anthropic:claude-sonnet-4-5", "opencode", "", None)
    ] * 2
    assert [each.at for each in found] == [START + 10, START + 20]
    assert [each.first_token_at for each in found] == [START + 11, START + 21]
    assert [each.usage for each in found] == [
        usage(input=4, writes={UNSPLIT: 1000}, output=20),
        usage(input=4, read=1000, writes={UNSPLIT: 50}, output=8),
    ]
    if path.is_dir():
        assert found[0].source == f"message/{session}/msg_000004.json"
        assert sum(told) == sum(each.stat().st_size for each in path.rglob("*.json") if "msg_000002" not in each.parts)
    else:
        assert found[0].source == "opencode.db:msg_000004"
        assert sum(told) == path.stat().st_size


def test_a_message_of_several_steps_is_several_requests(opencode: Store) -> None:
    session = opencode.session()
    opencode.answers(session, START, used(10, 0, 100, 5), used(2, 100, 20, 6), used(2, 120, 30, 7))
    found = given(reading(), opencode.save())
    assert counts(found) == [(10, 0, 100, 5), (2, 100, 20, 6), (2, 120, 30, 7)]
    # The next step is asked for when the calls of the one before are over.
    assert found[0].at == START
    assert all(START + 5 <= (each.at or 0) - 6 * number <= START + 6 for number, each in enumerate(found[1:]))
    assert [each.first_token_at for each in found] == [START + 1, START + 7, START + 13]


def test_it_is_told_how_far_the_reading_is(opencode: Store) -> None:
    session = opencode.session()
    for number in range(600):
        opencode.message(session, START + number, {"role": "user", "time": {"created": START * 1000}})
    path = opencode.save()
    told: list[int] = []
    assert not list(reading()(path, told.append))
    assert len(told) > 2
    assert min(told) > 0
    assert sum(told) == sum(each.stat().st_size for each in ([path] if path.is_file() else path.rglob("*.json")))


def test_reasoning_is_output_whether_or_not_it_was_counted_with_it(opencode: Store) -> None:
    session = opencode.session()
    opencode.answers(session, START, used(10, 20, 0, 5, reasoning=7), model="openai/gpt-5.5")
    opencode.answers(session, START + 10, used(10, 20, 0, 12, reasoning=7, total=False), model="openai/gpt-5.5")
    opencode.answers(session, START + 20, used(10, 20, 0, 12) | {"reasoning": 7}, model="openai/gpt-5.5")
    found = given(reading(), opencode.save())
    assert [each.usage for each in found] == [usage(input=10, read=20, output=12)] * 3
    assert {each.model for each in found} == {"openai:gpt-5.5"}


def test_what_failed_or_is_not_over_is_left_out(opencode: Store) -> None:
    session = opencode.session()
    opencode.answers(session, START, None, error={"name": "MessageAbortedError", "data": {}})
    opencode.answers(session, START + 10, used())
    opencode.answers(session, START + 20, used(5, 0, 0, 1), None)  # the second step was cut
    assert counts(given(reading(), opencode.save())) == [(5, 0, 0, 1)]


def test_where_no_step_is_stored_the_message_tells(opencode: Store) -> None:
    session = opencode.session()
    asked = {"role": "assistant", "modelID": "gpt-5.5", "providerID": "openai", "time": {"created": START * 1000}}
    opencode.message(session, START, asked | {"tokens": used(-3, 5, 0, 1, total=False)})  # disjoint, subtracted again
    found = given(reading(), opencode.save())
    assert (counts(found), found[0].first_token_at) == ([(0, 5, 0, 1)], None)


def test_sub_agents_belong_to_the_session_in_the_order_of_time(opencode: Store) -> None:
    main = opencode.session(START)
    opencode.answers(main, START + 1, used(1000))
    one = opencode.session(START + 5, main, "explore")
    two = opencode.session(START + 5, main, "explore")
    deep = opencode.session(START + 7, one)
    other = opencode.session(START + 8)
    for number, session in enumerate([two, one, deep, main, other]):
        opencode.answers(session, START + 10 + number, used(100 + number))
    path = opencode.save()
    found = given(reading(), path)
    named = "" if path.is_dir() or getattr(opencode, "early", False) else "explore "
    assert [(each.session, each.agent) for each in found] == [
        (main, ""),
        (main, f"{named}{two}"),
        (main, f"{named}{one}"),
        (main, deep),
        (main, ""),
        (other, ""),
    ]
    assert len(lanes(found)) == 5


def test_sessions_that_are_each_others_parents_are_read_all_the_same(tmp_path: Path) -> None:
    base = Base(tmp_path / "opencode.db")
    for number in range(3):
        base.answers(base.session(START + number), START + 10, used(100 + number))
    base.connection.execute("UPDATE session SET parent_id = 'ses_' || printf('%06d', 13 - substr(id, 5))")
    base.connection.execute("UPDATE session SET parent_id = id WHERE id LIKE '%11'")
    base.answers("ses_lost", START + 50, used(200))  # of no session
    base.answers(base.session(START, "ses_gone"), START + 60, used(300))
    found = given(reading(), base.save())
    assert sorted(each.usage.input for each in found if each.usage) == [100, 101, 102, 200, 300]


def test_a_summary_is_alone_and_every_model_is_reset_once_after_it(opencode: Store) -> None:
    session = opencode.session()
    opencode.answers(session, START, used(1000))
    opencode.answers(session, START + 10, used(1000), model="openai/gpt-5.5")
    summary = opencode.answers(session, START + 20, used(700), summary=True, mode="compaction", agent="compaction")
    for number, model in enumerate([MODEL, MODEL, "openai/gpt-5.5", "openai/gpt-5.6"]):
        opencode.answers(session, START + 30 + 10 * number, used(500 + number), model=model)
    found = given(reading(), opencode.save())
    assert [each.agent for each in found] == ["", "", f"compaction {summary}", "", "", "", ""]
    assert [each.reset for each in found] == [None, None, "compaction", "compaction", None, "compaction", None]


def test_results_of_tools_that_are_left_out_reset_what_follows(opencode: Store) -> None:
    session = opencode.session()
    for number in range(4):
        opencode.answers(session, START + 10 * number, used(1000 + number), trimmed=START + 15 if number < 2 else 0)
    assert [each.reset for each in given(reading(), opencode.save())] == [None, None, "history_trimmed", None]


def test_what_a_fork_copied_belongs_to_the_session_it_was_asked_in(opencode: Store) -> None:
    main = talk(opencode)
    fork = opencode.session(START + 100)
    opencode.answers(fork, START + 10, used(4, 0, 1000, 20))
    opencode.answers(fork, START + 20, used(4, 1000, 50, 8))
    opencode.answers(fork, START + 110, used(4, 1000, 60, 8))
    found = given(reading(), opencode.save())
    assert [each.session for each in found] == [main, main, fork]


def test_what_was_taken_back_was_paid_for(tmp_path: Path) -> None:
    base = Base(tmp_path / "opencode.db")
    session = base.session()
    base.answers(session, START, used(1000))
    gone = base.answers(session, START + 10, used(1100), parentID="msg_question")
    base.answers(session, START + 20, used(1050))
    base.reverts(session, gone)
    base.event(session, "message.removed.1", {"messageID": "msg_never"})
    base.event(session, "message.removed.1", {"messageID": 7})
    base.event(session, "message.updated.1", {"info": []})
    found = given(reading(), base.save())
    assert counts(found) == [(1000, 0, 0, 0), (1100, 0, 0, 0), (1050, 0, 0, 0)]
    assert [each.agent for each in found] == ["", "reverted msg_question", ""]


def test_files_that_were_taken_over_into_the_database_are_given_once(tmp_path: Path) -> None:
    stores: list[Any] = [Tree(tmp_path / "storage"), Base(tmp_path / "opencode.db")]
    for store in stores:
        talk(store)
    stores[1].answers("ses_000001", START + 50, used(7))
    paths = [store.save() for store in stores]
    for order in (paths, paths[::-1]):
        found = given(reading(), *order)
        assert sorted(each.at or 0 for each in found) == [START + 10, START + 20, START + 50]


# The client itself


SCRIPT = """
rules:
  - when: {contains: make a note}
    say: I write it down.
    call: {tool: bash, input: {command: "printf 'buy milk' > note.txt; ls", description: Do it}}
  - when: {contains: ask a helper}
    call: {tool: task, input: {description: Help, prompt: Hello helper, subagent_type: general}}
  - when: {contains: Hello helper}
    call: {tool: bash, input: {command: echo helping, description: Do it}}
  - when: {contains: think hard}
    think: This thought is counted, wherever it is said.
    say: It is so.
  - when: {tool_result: any}
    say: Done.
  - say: Well then.
"""
CLAUDE = {"providerID": "anthropic", "modelID": "claude-sonnet-4-5"}


@contextmanager
def served(command: list[str], place: Place, environment: dict[str, str]) -> Iterator[Callable[..., Any]]:
    """opencode as a server; asks it for something."""
    process = subprocess.Popen(
        command, cwd=place.work, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    stdout = process.stdout
    address = next(line.split()[-1] for line in stdout if "listening" in line)
    reader = threading.Thread(target=stdout.read, daemon=True)  # a program whose output nobody reads stops
    reader.start()

    def ask(path: str, body: object = None) -> Any:
        raw = None if body is None else json.dumps(body).encode()
        with urlopen(Request(address + path, raw, {"content-type": "application/json"}), timeout=TIMEOUT) as answer:
            return json.load(answer)

    try:
        yield ask
    finally:
        os.kill(process.pid, signal.SIGTERM)
        process.wait(TIMEOUT)
        reader.join(TIMEOUT)
        stdout.close()


@pytest.mark.slow
def test_what_opencode_leaves_is_what_was_billed(tmp_path: Path) -> None:
    agent = OpenCode()
    opencode = agent.find()
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT, "utf-8")
    place, simulator = Place(tmp_path), Watched(script=load_script(script))
    with running(simulator) as address:
        environment = agent.environment(place, address)
        settings = json.loads(environment["OPENCODE_CONFIG_CONTENT"])
        settings["provider"]["openai"] = {"options": {"baseURL": f"{address}/v1", "apiKey": "sk-dummy"}}
        settings["provider"]["google"] = {"options": {"baseURL": f"{address}/v1beta", "apiKey": "dummy"}}
        environment["OPENCODE_CONFIG_CONTENT"] = json.dumps(settings)
        with served([opencode, "serve", "--port", "0"], place, environment) as ask:

            def say(session: str, words: str, model: dict[str, str] = CLAUDE) -> None:
                ask(f"/session/{session}/message", {"parts": [{"type": "text", "text": words}], "model": model})

            main = ask("/session", {})["id"]
            say(main, "Please make a note.")
            say(main, "Now ask a helper.")
            ask(f"/session/{main}/summarize", CLAUDE)
            say(main, "And now?")
            say(main, "Please think hard.", {"providerID": "openai", "modelID": "gpt-5.5"})
            say(main, "Please think hard.", {"providerID": "google", "modelID": "gemini-2.5-pro"})
            asked = [each["info"]["id"] for each in ask(f"/session/{main}/message") if each["info"]["role"] == "user"]
            fork = ask(f"/session/{main}/fork", {"messageID": asked[1]})["id"]
            say(fork, "In the fork.")
            ask(f"/session/{main}/revert", {"messageID": asked[-2]})
            say(main, "After this.")
            in_use = home(place.home, "opencode")
    found = home(place.home, "opencode")
    assert found == in_use
    # A title is asked for first, beside the conversation, and is not stored.
    title, *billed = sorted(
        (each for each in simulator.journal.records() if each.method == "POST"),
        key=lambda each: ("haiku" not in each.model, each.at),
    )
    assert "haiku" in title.model
    assert counts(found) == counts(billed)
    assert [each.model.partition(":")[2] for each in found] == [each.model for each in billed]
    assert all(-1 < each.at - (one.at or 0) < 30 for one, each in zip(found, billed, strict=True))
    by_number = dict(enumerate(found))
    kinds = [each.agent.partition(" ")[0] for each in found]
    assert kinds == ["", "", "", "general", "general", "", "compaction", "", "reverted", "reverted", "", ""]
    assert [number for number, each in by_number.items() if each.reset] == [6, 7]
    assert {each.session for each in found} == {main, fork}
    assert [number for number, each in by_number.items() if each.session == fork] == [10]
