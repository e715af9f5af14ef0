"""A rollout gives each provider request once, with its time, usage, lane and reason for a reset."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import zstandard

from holdfast import facts
from holdfast.records import usage
from holdfast.report.logs.codex import is_mine, reading
from holdfast.report.logs.records import LoggedRequest
from holdfast.simulator.script import load_script
from holdfast.simulator.server import running
from tests.clients.agents.codex import Codex
from tests.clients.programs import Place, Watched, program
from tests.report.logs.claude_logs import START, text
from tests.report.logs.codex_logs import BOTH, Rollout, talk, thread, used
from tests.report.logs.log_records import counts, given, home, lanes


@BOTH
def test_each_request_is_given_once_with_disjoint_counts(tmp_path: Path, records: bool) -> None:
    path = talk(Rollout(records=records)).save(tmp_path)
    found = given(reading(), path)
    lines = [int(each.source.removeprefix(f"{path.name}:")) for each in found]
    assert all(("token_usage_record" in path.read_text().splitlines()[line - 1]) == records for line in lines)
    assert [(each.session, each.model, each.client, each.agent) for each in found] == [
        (thread(1), "openai:gpt-5.5", "codex", "")
    ] * 3
    assert facts.model(found[0].model).known
    # A request is sent when the last thing it answers is there: what the user says, or a tool's result.
    assert [each.at for each in found] == [START + 11, START + 17, START + 61]
    assert [each.usage for each in found] == [
        usage(input=1000, output=20),
        usage(input=200, read=900, output=7),
        usage(input=100, read=1100, output=8),
    ]
    assert [each.reset for each in found] == [None] * 3


@BOTH
def test_what_a_chatgpt_plan_paid_for_is_told(tmp_path: Path, records: bool) -> None:
    for plan in (None, "plus"):
        rollout = Rollout(records=records, plan=plan)
        rollout.turn(START)
        rollout.answers(START + 5, used(1000, 0, 20))
        (found,) = given(reading(), rollout.save(tmp_path))
        assert found.subscription is (plan is not None)


def test_written_tokens_are_part_of_the_input_and_live_half_an_hour(tmp_path: Path) -> None:
    rollout = Rollout()
    rollout.turn(START)
    rollout.answers(START + 5, used(1000, 600, 20, written=300))
    (found,) = given(reading(), rollout.save(tmp_path))
    assert found.usage == usage(input=100, read=600, writes={"30m": 300}, output=20)


@BOTH
def test_counts_that_are_repeated_or_empty_are_no_requests(tmp_path: Path, records: bool) -> None:
    rollout = Rollout(records=records)
    rollout.counts(None)
    rollout.turn(START)
    rollout.answers(START + 5, used(1000, 0, 20))
    rollout.counts(used(1000, 0, 20))
    rollout.counts(None)
    rollout.ends()
    rollout.turn(START + 50)
    rollout.counts(used(1000, 0, 20))
    rollout.answers(START + 55, used(1000, 0, 20))  # the same once more, which its total tells
    rollout.counts(used(0, 0, 0) | {"total_tokens": 800})  # the size of the history
    assert counts(given(reading(), rollout.save(tmp_path))) == [(1000, 0, 0, 20), (1000, 0, 0, 20)]


def test_a_record_that_stands_in_the_file_twice_is_one_request(tmp_path: Path) -> None:
    rollout = talk(Rollout())
    rollout.lines += [line for line in rollout.lines if "token_usage_record" in line]
    assert len(given(reading(), rollout.save(tmp_path))) == 3


def test_a_full_window_is_told_like_a_usage_and_is_none(tmp_path: Path) -> None:
    rollout = talk(Rollout(records=False))
    full = used() | {"total_tokens": 258_400}
    rollout.counts(full, full)
    assert len(given(reading(), rollout.save(tmp_path))) == 3


def test_calls_whose_results_come_before_the_answer_is_over_do_not_move_its_time(tmp_path: Path) -> None:
    rollout = Rollout(records=False)
    rollout.turn(START)
    for number in (5, 8):
        rollout.at = START + number
        rollout.item("function_call", name="exec_command", call_id=f"c{number}")
        rollout.at += 1
        rollout.item("function_call_output", call_id=f"c{number}", output="")
    rollout.counts(used(1000, 0, 20), used(1000, 0, 20))
    rollout.answers(START + 15, used(1100, 900, 7))
    assert [each.at for each in given(reading(), rollout.save(tmp_path))] == [START + 1, START + 9]


def test_where_only_totals_are_told_their_difference_counts(tmp_path: Path) -> None:
    rollout = Rollout(records=False)
    rollout.turn(START)
    for total in (used(1000, 0, 20), used(2100, 900, 27)):
        rollout.event("token_count", info={"total_token_usage": total})
    assert counts(given(reading(), rollout.save(tmp_path))) == [(1000, 0, 0, 20), (200, 900, 0, 7)]


@BOTH
def test_a_compaction_is_a_reset_and_its_request_is_alone(tmp_path: Path, records: bool) -> None:
    rollout = talk(Rollout(records=records))
    rollout.turn(START + 90, asks=False)
    rollout.answers(START + 95, used(800, 0, 300), response="resp-summary")
    named = {"compaction_response_id": "resp-summary"} if records else {}
    rollout.write("compacted", message=text(300), replacement_history=[], **named)
    rollout.counts(used(0, 0, 0) | {"total_tokens": 400})
    rollout.event("context_compacted")
    rollout.at = START + 96
    rollout.item("message", role="user", content=[])
    rollout.answers(START + 99, used(700, 400, 9))
    rollout.ends()
    rollout.turn(START + 120)
    rollout.answers(START + 125, used(800, 700, 9))
    found = given(reading(), rollout.save(tmp_path))
    assert [(each.agent, each.reset) for each in found[3:]] == [
        ("compaction 1", "compaction"),
        ("", "compaction"),
        ("", None),
    ]
    assert [each.at for each in found[3:5]] == [START + 90, START + 96]


@BOTH
def test_a_compaction_between_calls_is_told_from_the_answers_around_it(tmp_path: Path, records: bool) -> None:
    rollout = Rollout(records=records)
    rollout.turn(START)
    rollout.answers(START + 5, used(1000, 0, 20), calls=True)
    rollout.answers(START + 9, used(900, 0, 300), response="resp-summary")
    named = {"compaction_response_id": "resp-summary"} if records else {}
    rollout.write("compacted", message=text(300), **named)
    rollout.answers(START + 15, used(600, 400, 9), calls=True)
    rollout.write("compacted", message="")  # by an endpoint of its own, whose use is not logged
    rollout.answers(START + 25, used(500, 400, 9))
    found = given(reading(), rollout.save(tmp_path))
    assert [(each.agent, each.reset) for each in found] == [
        ("", None),
        ("compaction 1", "compaction"),
        ("", "compaction"),
        ("", "compaction"),
    ]


def test_every_model_is_told_of_a_compaction_once(tmp_path: Path) -> None:
    rollout = Rollout()
    for number, model in enumerate(["gpt-5.5", "gpt-5.6", "gpt-5.5", "gpt-5.6", "gpt-5.5", "gpt-5.6-mini"]):
        if number == 2:
            rollout.write("compacted", message="")
        rollout.turn(START + 100 * number, model)
        rollout.answers(START + 100 * number + 5, used(1000 + number, 0, 20))
        rollout.ends()
    found = given(reading(), rollout.save(tmp_path))
    assert [each.reset for each in found] == [None, None, "compaction", "compaction", None, None]
    assert [each.model.partition(":")[2] for each in found[:2]] == ["gpt-5.5", "gpt-5.6"]


def fork(parent: Rollout, number: int, *, named: bool = True) -> Rollout:
    """A fork as earlier versions made it: with all lines of its parent, at the time of the fork."""
    made = Rollout(number, records=parent.records, forked_from_id=parent.id)
    made.at = START + 200
    for line in parent.lines:
        known = json.loads(line)
        if named or known["type"] != "session_meta":
            made.write(known["type"], **known["payload"])
    made.total = parent.total
    made.turn(START + 300)
    made.answers(START + 305, used(1300 + number, 1200, 9))
    return made


@BOTH
def test_what_a_fork_copied_is_given_once_whichever_is_read_first(tmp_path: Path, records: bool) -> None:
    parent = talk(Rollout(1, records=records))
    forks = [fork(parent, 2), fork(parent, 3)]
    second = fork(forks[0], 4)
    parent.turn(START + 400)
    parent.answers(START + 405, used(1250, 1200, 9))
    paths = [each.save(tmp_path) for each in (parent, *forks, second)]
    expected = sorted([1000, 1100, 1200, 1250, 1302, 1303, 1304])
    for order in (paths, paths[::-1], [paths[2], paths[0], paths[3], paths[1]]):
        found = given(reading(), *order)
        assert sorted(each.usage.prompt for each in found if each.usage) == expected
    assert counts(given(reading(), paths[0], paths[0])) == counts(given(reading(), paths[0]))
    # Alone, a fork shows what it copied where the copies do not say whose they are.
    assert len(given(reading(), paths[1])) == (1 if records else 4)


def test_a_fork_of_a_fork_knows_its_family_without_their_first_lines(tmp_path: Path) -> None:
    parent = talk(Rollout(1, records=False))
    child = fork(parent, 2, named=False)
    paths = [each.save(tmp_path) for each in (parent, child, fork(child, 3, named=False))]
    found = given(reading(), *paths)
    assert [each.usage.prompt for each in found if each.usage] == [1000, 1100, 1200, 1302, 1303]


def test_a_fork_that_copied_nothing_is_a_session_of_its_own(tmp_path: Path) -> None:
    parent = talk(Rollout(1))
    other = Rollout(2, forked_from_id=thread(1), history_base={"thread_id": thread(1), "end_ordinal_exclusive": 62})
    other.total = parent.total
    other.turn(START + 300)
    other.answers(START + 305, used(1300, 0, 9))
    found = given(reading(), parent.save(tmp_path), other.save(tmp_path))
    assert [each.session for each in found] == [thread(1)] * 3 + [thread(2)]


def test_sub_agents_belong_to_the_session_that_the_user_began(tmp_path: Path) -> None:
    def spawned(parent: int, **more: Any) -> dict[str, Any]:
        return {"subagent": {"thread_spawn": {"parent_thread_id": thread(parent), "depth": 1} | more}}

    main = talk(Rollout(1))
    named = Rollout(2, session_id=thread(1), source=spawned(1, agent_path="/root/one"), agent_path="/root/one")
    early = Rollout(3, records=False, source=spawned(1, agent_role="explorer"))
    nested = Rollout(4, records=False, source=spawned(3))
    review = Rollout(5, records=False, source={"subagent": "review"}, parent_thread_id=thread(1))
    other = Rollout(6, records=False, source={"subagent": {"other": "guardian"}}, parent_thread_id=thread(1))
    threads = [main, named, early, nested, review, other]
    for agent in threads[1:]:
        agent.turn(START + 20)
        agent.answers(START + 25, used(500, 0, 5))
    found = given(reading(), *(each.save(tmp_path) for each in threads))
    assert {each.session for each in found} == {thread(1)}
    assert [each.agent for each in found[3:]] == [
        "/root/one 00000002",
        "explorer 00000003",
        "sub-agent 00000004",
        "review 00000005",
        "sub-agent 00000006",
    ]
    assert len(lanes(found)) == 6


def test_turns_that_were_taken_back_make_a_lane_of_what_follows(tmp_path: Path) -> None:
    rollout = talk(Rollout())
    rollout.event("thread_rolled_back", num_turns=1)
    rollout.turn(START + 100)
    rollout.answers(START + 105, used(1150, 1000, 9))
    found = given(reading(), rollout.save(tmp_path))
    assert [each.agent for each in found] == ["", "", "", "branch 1"]
    assert found[3].reset is None


def test_old_rollouts_are_packed(tmp_path: Path) -> None:
    path = talk(Rollout()).save(tmp_path)
    packed = path.with_name(f"{path.name}.zst")
    packed.write_bytes(zstandard.compress(path.read_bytes()))
    told: list[int] = []
    found = list(reading()(packed, told.append))
    assert counts([each for each in found if isinstance(each, LoggedRequest)]) == counts(given(reading(), path))
    assert sum(told) == packed.stat().st_size


def test_it_is_known_by_what_it_holds(tmp_path: Path) -> None:
    for records in (True, False):
        body = talk(Rollout(records=records)).save(tmp_path).read_bytes()
        assert is_mine(Path("any"), body)
        assert is_mine(Path("any"), b"\n".join(body.split(b"\n")[1:]))
    long = Rollout(base_instructions={"text": text(100_000)}).save(tmp_path).read_bytes()[: 64 * 1024]
    assert is_mine(Path("any"), long)
    for other in (b"", b"{}", b'{"type":"session_meta"}', b'{"type":"message","timestamp":"x","payload":{}}', b"\xff"):
        assert not is_mine(Path("any"), other)
    assert not is_mine(tmp_path, b"")


# The client itself


SCRIPT = """
rules:
  - when: {contains: make a note}
    say: I write it down.
    call: {tool: exec_command, input: {cmd: "printf 'buy milk' > note.txt; ls"}}
  - when: {tool_result: exec_command}
    say: The note is written.
  - when: {contains: nothing at all}
    say: Nothing.
  - say: Here is what happened so far.
"""


@pytest.mark.slow
@pytest.mark.parametrize("model", ["gpt-5.5", "gpt-5.6"])
def test_what_codex_leaves_is_what_was_billed(tmp_path: Path, model: str) -> None:
    codex = program("codex", "Codex")
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT, "utf-8")
    place, simulator, agent = Place(tmp_path), Watched(script=load_script(script)), Codex()
    with running(simulator) as address:
        environment = agent.environment(place, address)
        options = [model if word == "gpt-5.5" else word for word in agent.turns(codex, address)[0][2:-1]]

        def ask(*words: str, settings: tuple[str, ...] = ()) -> None:
            more = [word for each in settings for word in ("-c", each)]
            place.run([codex, "exec", *words[:-1], *options, *more, words[-1]], environment)

        ask("Please make a note.")
        ask("resume", "--last", "And nothing at all?")
        before = len(simulator.journal.records())
        ask("resume", "--last", "And nothing at all now?", settings=("model_auto_compact_token_limit=5000",))
        ask("resume", "--last", "Still nothing at all?")
        ask("fork", home(place.home, "codex")[0].session, "And nothing at all here?")
    billed = [each for each in simulator.journal.records() if each.method == "POST"]
    found = home(place.home, "codex")
    assert counts(found) == counts(billed)
    assert [each.model for each in found] == [each.model for each in billed]
    if model == "gpt-5.6":
        assert [each.usage for each in found] == [each.usage for each in billed]  # with the lifetime of what it wrote
    assert all(0 <= sent.at - (each.at or 0) < 30 for each, sent in zip(found, billed, strict=True))
    assert all((one.at or 0) <= (other.at or 0) for one, other in pairwise(found))
    assert [each.reset for each in found] == [
        "compaction" if before <= number <= before + 1 else None for number in range(len(found))
    ]
    assert [each.agent for each in found] == [
        "compaction 1" if number == before else "" for number in range(len(found))
    ]
    assert [each.session for each in found] == [each.session for each in billed]
    assert len({each.session for each in found}) == 2
