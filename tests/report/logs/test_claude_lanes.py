"""Sub-agents, compactions and copies: whose a request is, why its prefix does not go on, and that it counts once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.report.logs import claude_code
from holdfast.report.logs.conversations import RecentHashes
from holdfast.report.logs.discovery import LogReader, sources
from holdfast.report.logs.records import LoggedRequest
from tests.report.logs import claude_logs, codex_logs, pi_logs
from tests.report.logs.claude_logs import START, Talk, all_given, given, reads, used


def test_a_message_kept_over_a_compaction_is_not_counted_again(tmp_path: Path) -> None:
    talk = Talk()
    talk.asks(START)
    talk.answers(START + 1, used(read=10, output=4), id="msg_a")
    talk.compacts(START + 2)
    talk.answers(START + 1, used(), id="msg_a")
    talk.answers(START + 1, used(read=10, output=4), id="msg_a")
    talk.asks(START + 8)
    talk.answers(START + 9, used(read=3), id="msg_b")
    records = given(talk.write(tmp_path / "s.jsonl"))
    assert [(record.source, record.reset) for record in records] == [("s.jsonl:2", None), ("s.jsonl:8", "compaction")]


@pytest.mark.parametrize(
    ("subtype", "summary", "reset"),
    [
        ("compact_boundary", True, "compaction"),
        ("compact_boundary", False, "compaction"),
        ("", True, "compaction"),  # early versions only mark the summary
        ("microcompact_boundary", False, "history_trimmed"),
        ("informational", False, None),
    ],
)
def test_a_boundary_is_the_reason_of_the_next_request_only(
    tmp_path: Path, subtype: str, summary: bool, reset: str | None
) -> None:
    talk = Talk()
    for number in range(4):
        if number == 2:
            talk.compacts(START + 20, subtype, summary)
        talk.asks(START + 10 * number + 1)
        talk.answers(START + 10 * number + 2, used(read=10))
    assert [record.reset for record in given(talk.write(tmp_path / "s.jsonl"))] == [None, None, reset, None]


def test_a_compaction_weighs_more_than_a_trimming_and_each_model_has_its_own_reset(tmp_path: Path) -> None:
    talk = Talk()
    for number, (model, cut) in enumerate(
        [
            ("big", ""),
            ("small", ""),
            ("big", "compact_boundary"),
            ("big", ""),
            ("small", ""),
            ("new", ""),
            ("small", ""),
        ]
    ):
        if cut:
            talk.compacts(START + 10 * number, "microcompact_boundary", summary=False)
            talk.compacts(START + 10 * number, cut)
        talk.asks(START + 10 * number + 1)
        talk.answers(START + 10 * number + 2, used(read=10), model=model)
    records = given(talk.write(tmp_path / "s.jsonl"))
    assert [record.reset for record in records] == [None, None, "compaction", None, "compaction", None, None]


@pytest.mark.parametrize("named", [True, False], ids=["agent ids", "chains"])
def test_sub_agents_in_the_sessions_file_are_lanes_of_their_own(tmp_path: Path, named: bool) -> None:
    """Their lines mix; a compaction between them belongs to the conversation it stands in."""
    talk = Talk("s1")
    one, two = talk.beside("a1", named), talk.beside("a2", named)
    talk.asks(START)
    talk.answers(START + 1, used(read=1000), ["tool_use", "tool_use"])
    one.asks(START + 2)
    two.asks(START + 3)
    one.block(START + 5, used(read=10, output=1), "text", "msg_one")
    two.block(START + 6, used(read=20, output=1), "tool_use", "msg_two")
    one.block(START + 7, used(read=10, output=9), "tool_use", "msg_one")
    two.block(START + 8, used(read=20, output=8), "tool_use", "msg_two")
    one.compacts(START + 9)
    two.asks(START + 10)
    two.answers(START + 12, used(read=21))
    one.asks(START + 11)
    one.answers(START + 13, used(read=11))
    talk.compacts(START + 20)
    two.asks(START + 21)
    two.answers(START + 22, used(read=22))
    talk.asks(START + 25)
    talk.answers(START + 26, used(read=1001))
    records = given(talk.write(tmp_path / "s1.jsonl"))

    assert {record.session for record in records} == {"s1"}
    agents = {record.agent for record in records}
    assert len(agents) == 3
    assert "" in agents
    if named:
        assert agents == {"", "a1", "a2"}
    rows = [(record.usage.read, record.at, record.reset) for record in records if record.usage is not None]
    assert rows == [
        (1000, START, None),
        (10, START + 2, None),
        (20, START + 3, None),
        (21, START + 10, None),
        (11, START + 11, "compaction"),
        (22, START + 21, None),
        (1001, START + 25, "compaction"),
    ]
    lanes = {
        agent: [read for read, record in zip(reads(records), records, strict=True) if record.agent == agent]
        for agent in agents
    }
    assert sorted(lanes.values()) == [[10, 11], [20, 21, 22], [1000, 1001]]
    assert [record.usage.output for record in records[1:3] if record.usage is not None] == [9, 8]


@pytest.mark.parametrize("layout", ["p/agent-{}.jsonl", "p/s1/subagents/agent-{}.jsonl"], ids=["beside", "below"])
def test_sub_agents_in_files_of_their_own_belong_to_the_session(tmp_path: Path, layout: str) -> None:
    talk, agent = Talk("s1"), Talk("s1", "f00d")
    for each in (talk, agent):
        each.asks(START)
        each.answers(START + 1, used(read=len(each.agent)))
        each.asks(START + 2)
        each.answers(START + 3, used(read=len(each.agent) + 1))
    nameless = Talk("s1", "beef", named=False)
    nameless.asks(START)
    nameless.answers(START + 1, used(read=77))
    agent.write(tmp_path / layout.format("f00d"))
    nameless.write(tmp_path / layout.format("beef"))
    talk.write(tmp_path / "p" / "s1.jsonl")
    Talk("s0").write(tmp_path / "p" / "s0.jsonl")
    records = all_given(tmp_path)
    assert [(record.session, record.agent) for record in records] == [
        *[("s1", ""), ("s1", "beef"), ("s1", "f00d"), ("s1", "f00d")],
    ]


def test_copies_in_other_files_and_in_the_same_one_are_not_counted(tmp_path: Path) -> None:
    """A fork repeats earlier lines under the new session's name, with their ids and times; the longer file is read
    first."""
    talk, fork = Talk("s1"), Talk("s2")
    for each in (talk, fork):
        each.asks(START)
        each.answers(START + 1, used(read=10), ["text", "tool_use"], id="msg_1")
        each.asks(START + 2)
        each.answers(START + 3, used(read=20), id="msg_2")
        each.compacts(START + 4)
        each.asks(START + 5)
        each.answers(START + 6, used(read=5), id="msg_3")
    talk.asks(START + 7)
    talk.answers(START + 8, used(read=6), id="msg_4")
    fork.asks(START + 17)
    fork.answers(START + 18, used(read=7), id="msg_5")
    fork.answers(START + 3, used(read=20), id="msg_2")
    talk.write(tmp_path / "s1.jsonl")
    fork.write(tmp_path / "s2.jsonl")
    rows = [(record.session, record.source, record.reset) for record in all_given(tmp_path)]
    assert rows == [
        ("s2", "s2.jsonl:2", None),
        ("s2", "s2.jsonl:5", None),
        ("s2", "s2.jsonl:9", "compaction"),
        ("s2", "s2.jsonl:11", None),
        ("s1", "s1.jsonl:11", None),
    ]
    assert reads(given(tmp_path / "s1.jsonl")) == [10, 20, 5, 6]


def test_two_requests_with_one_id_at_different_times_are_two_where_the_sessions_differ(tmp_path: Path) -> None:
    """A provider for tests counts from one each time it is started."""
    for number in range(2):
        talk = Talk(f"s{number}")
        talk.asks(START + 100 * number)
        talk.answers(START + 100 * number + 1, used(read=10), id="msg_1")
        talk.write(tmp_path / f"s{number}.jsonl")
    assert [record.session for record in all_given(tmp_path)] == ["s0", "s1"]


def test_a_request_that_waits_long_is_given_before_the_others_pile_up(tmp_path: Path) -> None:
    """A call of sub-agents stays open while they work; its turn comes first all the same."""
    talk = Talk("s1")
    talk.asks(START)
    talk.answers(START + 1, used(read=1), ["tool_use"])
    agent = talk.beside("a1")
    for number in range(200):
        agent.asks(START + 2 + number)
        agent.answers(START + 2.5 + number, used(read=100 + number))
    talk.asks(START + 300)
    talk.answers(START + 301, used(read=2))
    lines = iter(talk.lines)
    transcript = claude_code.Transcript(tmp_path / "s1.jsonl", RecentHashes())
    answered = most = 0
    found: list[LoggedRequest] = []
    for number, line in enumerate(lines):
        transcript.add(f"s1.jsonl:{number + 1}", line.encode())
        answered += json.loads(line)["type"] == "assistant"
        found += transcript.ready()
        most = max(most, answered - len(found))
    found += transcript.rest()
    assert len(found) == answered
    assert 0 < most <= claude_code.WAITING
    assert reads(found) == [1, *range(100, 300), 2]


def test_what_was_given_is_remembered_within_bounds() -> None:
    seen = RecentHashes(most=10)
    assert [seen.first_time("a", number % 4) for number in range(8)] == [True] * 4 + [False] * 4
    assert all(seen.first_time(number) for number in range(1000))
    assert not seen.first_time(999)
    assert seen.first_time(1)
    assert 0 < sum(not seen.first_time(number) for number in reversed(range(1000))) <= 10


def claude(top: Path) -> None:
    talk = claude_logs.Talk()
    talk.asks(START)
    talk.answers(START + 2, claude_logs.used(read=17_000, write_5m=9_000, output=5))
    talk.write(top / "backup" / "s.jsonl")
    talk.compacts(START + 20)
    talk.asks(START + 30)
    talk.answers(START + 32, claude_logs.used(read=17_000, write_5m=800, output=5))
    talk.write(top / "now" / "s.jsonl")


def pi(top: Path) -> None:
    session = pi_logs.Session()
    session.asks(START)
    session.answers(START + 1, pi_logs.used(read=17_000, written=9_000, output=5))
    session.save(top / "backup")
    session.compacts(START + 20)
    session.asks(START + 30)
    session.answers(START + 31, pi_logs.used(read=17_000, written=800, output=5))
    session.save(top / "now")


def codex(top: Path) -> None:
    rollout = codex_logs.Rollout()
    rollout.turn(START + 10)
    rollout.answers(START + 15, codex_logs.used(30_000, 20_000, 5))
    rollout.ends()
    rollout.save(top / "backup")
    rollout.turn(START + 60, asks=False)
    rollout.write("compacted", message="")  # by an endpoint of its own, whose use is not logged
    rollout.turn(START + 70)
    rollout.answers(START + 75, codex_logs.used(25_000, 12_000, 5))
    rollout.save(top / "now")


@pytest.mark.parametrize("write", [claude, pi, codex])
def test_a_compaction_after_what_a_copy_had(tmp_path: Path, write: Callable[[Path], None]) -> None:
    write(tmp_path)
    reading = LogReader()
    records = [each for source in sources([tmp_path]) for each in reading.records(source, lambda _: None)]
    assert [each.reset for each in records if isinstance(each, LoggedRequest)] == [None, "compaction"]
