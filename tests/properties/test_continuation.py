"""Which conversation a request continues, asked at the three doors: gateway, logs of bodies and the pytest plugin.

They agree on whatever grows, forks or is sent again, and on all recorded clients. Where they differ, they do so on
purpose: the gateway takes nothing for a lane's own that does not repeat it, because text of the lane stands in its
later requests; logs and tests only compare.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.pytest_plugin.bodies import RecordedRequest
from holdfast.pytest_plugin.conversations import Conversations
from holdfast.pytest_plugin.request_reader import RequestReader
from holdfast.report.logs import bodies
from holdfast.report.logs.records import LoggedRequest
from holdfast.wire import dialect_of
from tests.engine.identity.desk import Desk, headers_of, words
from tests.shapes import Shape, conversations

BESIDE = "-"
"""Stands for a request beside the conversations, or one that holds only what is new."""


class Sent(NamedTuple):
    body: bytes
    dialect: str = "anthropic"
    model: str = ""
    user_agent: str = "my-agent/1.0"

    @property
    def headers(self) -> dict[str, str]:
        """Those that name no session: the conversation itself has to tell."""
        return {"user-agent": self.user_agent}


def at_the_gateway(requests: Sequence[Sent]) -> str:
    desk = Desk()
    found = [desk.send(each.headers, desk.body(each.dialect, each.body, each.model)) for each in requests]
    return _letters([None if each.side else each.lane.id for each in found])


def in_logs(requests: Sequence[Sent]) -> str:
    log, agents = bodies.Requests(Path("log.jsonl")), []
    for each in requests:
        usage = {"input_tokens": 9, "output_tokens": 1}
        line = {"dialect": each.dialect, "headers": each.headers, "model": each.model, "usage": usage}
        record = log.line("log.jsonl:1", json.dumps({**line, "body": each.body.decode("utf-8", "replace")}).encode())
        assert isinstance(record, LoggedRequest)
        agents.append(None if record.agent.startswith(bodies.SIDE) else record.agent)
    return _letters(agents)


def in_tests(requests: Sequence[Sent]) -> str:
    reader, conversations_, names = RequestReader(None), Conversations(), []
    for number, each in enumerate(requests, 1):
        one = RecordedRequest(
            number=number, body=each.body, dialect=each.dialect, model=each.model, headers=each.headers
        )
        request = reader.read(one, None)
        names.append(None if request.side or request.part else conversations_.find(request).conversation)
    return _letters(names)


DOORS = (at_the_gateway, in_logs, in_tests)


def _letters(names: Sequence[Hashable]) -> str:
    """Conversations by the order in which they begin: `aba` are two, the first of which went on."""
    order = list(dict.fromkeys(name for name in names if name is not None))
    return "".join(BESIDE if name is None else chr(97 + order.index(name)) for name in names)


def sent(*texts: str, **more: Any) -> Sent:
    return Sent(json.dumps(words(*texts, **more)).encode())


STEPS = st.lists(st.tuples(st.sampled_from(["open", "grow", "grow", "again", "edit"]), st.integers(0, 3)), max_size=24)


@given(STEPS)
def test_all_doors_tell_conversations_apart_that_grow_side_by_side(steps: list[tuple[str, int]]) -> None:
    """Of one client with one system text: they grow, are sent again and have their last question edited."""
    said: list[list[str]] = []
    requests: list[Sent] = []
    truth = ""
    for number, (action, which) in enumerate(steps):
        if action == "open" or not said:
            said.append([f"Question {number}"])
            which = len(said) - 1
        else:
            which %= len(said)
            if action == "grow" or len(said[which]) < 3:  # an opening sent again may be another conversation's
                said[which] += [f"Answer {number}", f"Question {number}"]
            elif action == "edit":
                said[which][-1] = f"Question {number}, edited"
        requests.append(sent(*said[which]))
        truth += chr(97 + which)
    assert {door.__name__: door(requests) for door in DOORS} == {door.__name__: truth for door in DOORS}


def _of(shape: Shape) -> Sent | None:
    known = dialect_of(shape.path)
    if known is None or shape.body is None:
        return None
    return Sent(shape.body, known[0].name, known[1], headers_of(shape).get("user-agent", ""))


RECORDED = {
    ("aider-0.86", "multi-openai"): ("abcd", "aaaa", "aaaa"),  # moves what it said before: nothing is repeated
    ("codex-0.166", "ws-accepted"): ("abcd", "abcd", "ab--"),  # names responses whose ids nobody has recorded
}
"""Recorded runs on which the doors differ."""


@pytest.mark.parametrize("run", conversations(), ids="/".join)
def test_all_doors_agree_on_recorded_clients(run: tuple[str, str]) -> None:
    requests = [each for each in map(_of, conversations()[run]) if each is not None]
    letters = tuple(door(requests) for door in DOORS)
    if run in RECORDED:
        assert letters == RECORDED[run]
    else:
        assert len(set(letters)) == 1


LONG = ("a", "b", "c", "d", "e", "f", "g")
DIFFERENCES = {
    # The gateway cannot know that it is a resend; a log tells what was billed; a test has one sender.
    "the same opening again": ([sent("a"), sent("a")], ("ab", "ab", "aa")),
    # A question alone under another system text may be anybody's, and no text of a lane may reach another's user.
    "a clock in the system text of the second request": (
        [sent("a", system="It is one."), sent("a", "b", "c", system="It is two.")],
        ("ab", "aa", "aa"),
    ),
    "a history that was rewritten": (
        [sent(*LONG[:5]), sent(*LONG), sent("a", "B", *LONG[2:], "h", "i")],
        ("aab", "aaa", "aaa"),
    ),
    "a history that was trimmed": (
        [sent(*LONG[:5]), sent(*LONG), sent(*LONG[2:], "h", "i")],
        ("aab", "aaa", "aaa"),
    ),
    # Logs hold the last request of a conversation only, tests whatever nobody has continued yet.
    "another answer to the same opening": (
        [sent("a"), sent("a", "b", "c"), sent("a", "x", "y")],
        ("aab", "aab", "aaa"),
    ),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_where_the_doors_differ_on_purpose(name: str) -> None:
    requests, letters = DIFFERENCES[name]
    assert tuple(door(requests) for door in DOORS) == letters
