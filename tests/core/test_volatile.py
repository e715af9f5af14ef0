"""Values that change by themselves, and what somebody chose."""

from __future__ import annotations

import pytest

from holdfast.core.volatile import between, masked


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("clock", "Current time: 2026-11-02T09:00:00.000+00:00", "Current time: 2026-12-31T23:59:59.123+00:00"),
        ("clock", "now 2026-11-02 09:00", "now 2026-11-03 10:15"),
        ("clock", "It is 9:59 AM", "It is 10:00 AM"),
        ("clock", "Mon Nov  2 09:00:00 UTC 2026", "Tue Nov 10 19:30:01 UTC 2026"),
        ("clock", "ts=1793610000", "ts=1793610001"),
        ("clock", "ts=1793610000000", "ts=1793610000001"),
        ("clock", "ts=1793610000.25", "ts=1793610001.5"),
        ("date", "Today's date is 2026-11-02.", "Today's date is 2027-01-01."),
        ("date", "Today is Monday, November 2, 2026", "Today is Tuesday, December 13, 2026"),
        ("date", "on 2 Nov 2026", "on 13 December 2026"),
        ("date", "on 11/02/2026", "on 1/12/2027"),
        ("date", "Today is Monday", "Today is Tuesday"),
        ("date", "Today: November 2", "Today: December 13"),
        ("uuid", "id 123e4567-e89b-12d3-a456-426614174000", "id 00000000-e89b-12d3-a456-4266141740ff"),
        ("uuid", "id: 3f2b8a9c1d2e4f5061728394", "id: 9f2b8a9c1d2e4f5061728394"),
        ("uuid", "Request: req_01ABCDEFGHJKMNPQ", "Request: req_01ABCDEFGHJKMNPZ9"),
        ("git", "Current branch: main", "Current branch: fix/thing-2"),
        ("git", "On branch main", "On branch fix/thing-2"),
        ("git", "at 1a2b3c4d", "at 9f8e7d6"),
        ("git", "at 1a2b3c4d" + "0a" * 16, "at 9f8e7d6a" + "b1" * 16),
        ("meter", "Context used: 12%", "Context used: 97.5%"),
        ("meter", "spent $0.12", "spent $13.40"),
        ("meter", "12,000 / 200,000 tokens remaining", "13,512 / 200,000 tokens remaining"),
        ("meter", "Keep it short. Time left: 3 hours", "Keep it short. Time left: 2 hours"),
        ("counter", "Request #17", "Request #18"),
        ("counter", "Turn 3 of 20", "Turn 11 of 20"),
        ("counter", "Day 5 of 30", "Day 6 of 30"),
        ("counter", "messages: 9", "messages: 10"),
        ("counter", "Tokens used: 9", "Tokens used: 10"),
    ],
)
def test_a_value_that_changes_by_itself_is_recognised(kind: str, one: str, other: str) -> None:
    assert between(one, other) == (kind,)
    assert masked(one) == masked(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Use at most 5 tools.", "Use at most 6 tools."),
        ("Call me Ann.", "Call me Bob."),
        ("port 8080", "port 8081"),
        ("version 1.2.3", "version 1.2.4"),
        ("the facade of the cafe", "the decade of the cafe"),
        ("Current time: 09:00", "Current time: unknown"),
        ("You have 14 open files.", "You have 15 open files."),
        ("Temperature: 21.5", "Temperature: 20.1"),
    ],
)
def test_what_somebody_chose_is_not(one: str, other: str) -> None:
    assert masked(one) != masked(other)
    assert between(one, other) == ()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Never spend more than $500.", "Never spend more than $50."),
        ("Answers have 100 tokens", "Answers have 200 tokens"),
        ("Sample 50% of the rows", "Sample 5% of the rows"),
        ("Sessions last 3 hours", "Sessions last 4 hours"),
        ("Stop when $5 of the budget is left.", "Stop when $1 of the budget is left."),
        ("Warn if more than 80% is used", "Warn if more than 90% is used"),
        ("Limit is 10 requests", "Limit is 3 requests"),
        ("Maximum requests: 10", "Maximum requests: 3"),
        ("Run 3 tests", "Run 4 tests"),
        ("Follow rule #5", "Follow rule #6"),
        ("Never deploy after 17:00.", "Never deploy after 18:00."),
        ("Deploy only on Friday.", "Deploy only on Monday."),
        (
            '{"description":"Waits for 30 seconds.","note":"what is left"}',
            '{"description":"Waits for 60 seconds.","note":"what is left"}',
        ),
    ],
)
def test_a_rule_is_never_a_value(one: str, other: str) -> None:
    assert between(one, other) == ()


def test_only_the_kinds_that_differ_are_named() -> None:
    assert between("It is 09:00 in turn 3.", "It is 09:01 in turn 3.") == ("clock",)
    assert between("It is 09:00, turn 3.", "It is 09:01, turn 4.") == ("clock", "counter")
    assert between("It is 09:00.", "It is 09:00.") == ()
    assert between("Say yes at 09:00.", "Say no at 09:01.") == ()


def test_the_ragged_end_of_a_cut_line_is_left_aside() -> None:
    one, other = "turn: 9 " + "so it goes on " * 20, "turn: 10 " + "so it goes on " * 20
    assert between(one[:200], other[:200]) == ()
    assert between(one[:200], other[:200], ragged=64) == ("counter",)
    assert between("turn: 9 and", "turn: 10 and", ragged=64) == ()
