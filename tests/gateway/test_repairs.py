"""Repairs through a gateway: what the client says now is what is said last, nobody is sent a text of another's
conversation, and nothing is stored that need not be."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holdfast.simulator.server import running as simulating
from tests.simulator.http_client import Client

from .gate import Gated, RecordingSimulator, gated

HOST = "You look after a loader that reads every record of a file. " * 20
KEY = {"x-api-key": "k", "anthropic-version": "2023-06-01"}


class Door:
    """A gateway with all repairs on, before a simulator."""

    def __init__(self, gate: Gated, witness: RecordingSimulator) -> None:
        self.gate, self.witness, self.client = gate, witness, Client(gate.address)

    def send(self, system: str, *texts: str, session: str = "", **more: Any) -> dict[str, Any]:
        """A request of one conversation; gives what the provider got."""
        messages = [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]
        body = {"model": "claude-opus-4-6", "max_tokens": 900, "system": system, "messages": messages, **more}
        headers = KEY | ({"x-holdfast-session": session} if session else {})
        self.response = self.client.post("/v1/messages", body, headers)
        assert self.response.status == 200, self.response
        return json.loads(self.witness.bodies[-1])

    @property
    def reset(self) -> str | None:
        return self.response.headers.get("x-holdfast-reset")


@contextlib.contextmanager
def opened(home: Path, **flags: Any) -> Iterator[Door]:
    witness = RecordingSimulator()
    with simulating(witness) as upstream, gated(home, upstream, **{"cache__repair": "on", **flags}) as gate:
        yield Door(gate, witness)


def told(body: dict[str, Any]) -> str:
    """All that the model is told, in its order."""
    return json.dumps([body["system"], body["messages"]], ensure_ascii=False)


def remembering(fact: str, minute: int = 0) -> str:
    return f"{HOST}\nIt is 2026-11-02T09:{minute:02}:00Z.\n\n# Memory\n- {fact}"


# What the client says now


def test_a_turn_sent_again_says_what_the_client_says_now(tmp_path: Path) -> None:
    with opened(tmp_path) as door:
        door.send(remembering("likes tabs", 0), "q0", session="s")
        door.send(remembering("likes spaces", 1), "q0", "a0", "q1", session="s")
        third = told(door.send(remembering("PROD IS FROZEN", 2), "q0", "a0", "q1", session="s"))
        assert third.rindex("PROD IS FROZEN") > third.rindex("likes spaces") > third.rindex("likes tabs")
        assert third.rindex("09:02") > third.rindex("09:01") > third.rindex("09:00")
        again = told(door.send(remembering("PROD IS FROZEN", 2), "q0", "a0", "q1", session="s"))
        assert again == third
        back = told(door.send(remembering("likes tabs", 0), "q0", "a0", "q1", session="s"))
        assert back.rindex("likes tabs") > back.rindex("PROD IS FROZEN")
        assert back.rindex("09:00") > back.rindex("09:02")


# Unambiguous values alone


def test_values_moves_a_clock_and_leaves_memory_where_the_client_says_it(tmp_path: Path) -> None:
    with opened(tmp_path, cache__repair="values") as door:
        first = door.send(remembering("likes tabs", 0), "q0", session="s")
        second = door.send(remembering("likes tabs", 1), "q0", "a0", "q1", session="s")
        assert second["system"] == first["system"]
        assert "09:01" in json.dumps(second["messages"][-1])
        assert "volatile-value" in door.response.headers["x-holdfast-repairs"]
        now = remembering("likes spaces", 2)
        third = door.send(now, "q0", "a0", "q1", "a1", "q2", session="s")
        assert third["system"] == now, "a changed memory stands where the client says it"
        assert "09:01" not in told(third)
        assert "likes spaces" not in json.dumps(third["messages"])
        fourth = door.send(remembering("likes spaces", 3), "q0", "a0", "q1", "a1", "q2", "a2", "q3", session="s")
        assert fourth["system"] == now
        assert "09:03" in json.dumps(fourth["messages"][-1])


@pytest.mark.parametrize(
    "line",
    [
        "The review is at {0:02}:30.",
        "branch: feature-{0}",
        "Spent ${0}.50 so far.",
        "# Notes\n- due 2026-11-{0:02}T09:00:00Z",
        "# Notes\n<item>\nTime: 2026-11-{0:02}T09:00:00Z\n</item>",
        "The deadline is 2026-11-{0:02} 15:00.",
        "Only edit project 4d3c2b1a-1111-2222-3333-4444555566{0:02}.",
        "Tokens must expire after 17672256{0:02}.",
        "Server A\nCurrent time: 10:{0:02}\nServer B\nCurrent time: 10:09",
    ],
)
def test_values_moves_nothing_that_somebody_may_have_written(tmp_path: Path, line: str) -> None:
    with opened(tmp_path, cache__repair="values") as door:
        door.send(f"{HOST}\n{line.format(1)}", "q0", session="s")
        now = f"{HOST}\n{line.format(2)}"
        second = door.send(now, "q0", "a0", "q1", session="s")
        assert second["system"] == now
        assert second["messages"][-1]["content"] == "q1"


def test_a_lane_goes_from_on_to_values_with_a_reason(tmp_path: Path) -> None:
    with opened(tmp_path) as door:
        door.send(remembering("likes tabs", 0), "q0", session="s")
        door.send(remembering("likes spaces", 1), "q0", "a0", "q1", session="s")
    with opened(tmp_path, cache__repair="values") as door:
        now = remembering("likes spaces", 2)
        third = door.send(now, "q0", "a0", "q1", "a1", "q2", session="s")
        assert (door.reset, third["system"]) == ("bypassed", now)
        door.send(remembering("likes spaces", 3), "q0", "a0", "q1", "a1", "q2", "a2", "q3", session="s")
        assert door.reset is None


# Conversations that began alike


def test_of_three_users_alike_so_far_none_gets_what_another_remembers(tmp_path: Path) -> None:
    random = Random(7)
    said = ["Hello"]
    for turn in range(20):
        said += ["So.", f"And record {turn}?"]
    turns, facts = [1, 1, 1], [0, 0, 0]
    with opened(tmp_path) as door:
        for _ in range(60):
            user = random.randrange(3)
            facts[user] += random.random() < 0.5
            body = told(door.send(remembering(f"user{user} fact{facts[user]}"), *said[: turns[user]]))
            turns[user] = min(turns[user] + (2 if random.random() < 0.8 else 0), len(said))
            assert f"user{user} fact{facts[user]}" in body
            assert not [other for other in range(3) if other != user and f"user{other} " in body]


@pytest.mark.parametrize("ahead", [5, 7])
def test_whoever_took_another_way_meanwhile_is_not_sent_what_another_remembers(tmp_path: Path, ahead: int) -> None:
    said = ["Hello", "So.", "And record 0?", "So.", "And record 1?", "So.", "And record 2?"]
    with opened(tmp_path) as door:
        for minute, (user, turns) in enumerate([("ann", 1), ("ben", 1), ("ann", 3), *([("ann", 5)] * (ahead > 5))]):
            door.send(remembering(f"{user} is here", minute), *said[:turns])
    with opened(tmp_path) as door:
        body = told(door.send(remembering("ben is here", 9), *said[:ahead]))
        assert "ann is here" not in body
        assert "ben is here" in body


def test_one_user_without_a_name_is_repaired_from_the_third_request_on(tmp_path: Path) -> None:
    said = ["Hello"]
    with opened(tmp_path) as door:
        for turn in range(8):
            body = door.send(remembering(f"fact {turn // 3}", turn), *said)
            assert ("09:01" in body["system"]) is (turn > 0), "of the second request on, the first value"
            repaired = "volatile-value" in door.response.headers.get("x-holdfast-repairs", "")
            assert repaired is (turn > 1)
            said += ["So.", f"And record {turn}?"]


# What is stored

SENTENCE = "The merger with Initech is announced on Friday"
SECRET = "sk-ant-api03-planted-key-0123456789"
TOOL = {"name": "bash", "input_schema": {"type": "object"}}


def stored(home: Path) -> bytes:
    """All that is left behind."""
    return b"".join(path.read_bytes() for path in sorted((home / "holdfast").rglob("*")) if path.is_file())


def lines(minute: int, *facts: str) -> str:
    return f"{SENTENCE}.\n{remembering(facts[0], minute)}\n" + "".join(f"- {fact}\n" for fact in facts[1:])


def in_one_line(minute: int, *_: str) -> str:
    return f"{HOST}{SENTENCE}; use {SECRET}. It is 2026-11-02T09:{minute:02}:00Z. {HOST}"


def with_key(minute: int, *facts: str) -> str:
    return f"{SENTENCE}. Use {SECRET} at all times.\n{lines(minute, *facts)}"


@pytest.mark.parametrize("system", [lines, in_one_line, with_key])
def test_of_a_system_text_nothing_is_stored_but_what_changed(tmp_path: Path, system: Callable[..., str]) -> None:
    facts = ("likes tea", "has a cat")

    def tools(minute: int) -> list[dict[str, Any]]:
        told = f"{HOST}{SENTENCE}. Use {SECRET}. It is 2026-11-02T09:{minute:02}:00Z now."
        return [TOOL | {"description": told}]

    with opened(tmp_path) as door:
        door.send(system(0, *facts), "q0", session="s", tools=tools(0))
        door.send(system(1, *facts), "q0", "a0", "q1", session="s", tools=tools(1))
        facts = ("likes coffee", "has a dog")
        before = door.send(system(2, *facts), "q0", "a0", "q1", "a1", "q2", session="s", tools=tools(2))
        killed = shutil.copytree(
            tmp_path, tmp_path.with_name(f"{tmp_path.name}-killed")
        )  # all that is left if it dies now
    kept = stored(killed) + stored(tmp_path)
    assert SENTENCE.encode() not in kept
    assert SECRET.encode() not in kept
    assert HOST[:59].encode() not in kept
    assert b"2026-11-02T09:00:00Z" in kept, "but the first values are"
    with opened(killed) as door:
        said = ("q0", "a0", "q1", "a1", "q2", "a2", "q3")
        after = door.send(system(3, *facts), *said, session="s", tools=tools(3))
        assert door.reset is None
        assert (after["system"], after["tools"]) == (before["system"], before["tools"])
        assert after["system"] == system(0, "likes tea", "has a cat")
        assert after["messages"][: len(before["messages"])] == before["messages"]
        assert "09:03" in json.dumps(after["messages"][-1])


def test_what_holds_a_key_stays_in_memory_and_is_forgotten_with_it(tmp_path: Path) -> None:
    with opened(tmp_path) as door:
        door.send(remembering(f"the key is {SECRET}", 0), "q0", session="s")
        door.send(remembering("the key was revoked", 1), "q0", "a0", "q1", session="s")
        third = door.send(remembering(f"the new key is {SECRET}-b", 2), "q0", "a0", "q1", "a1", "q2", session="s")
        assert f"{SECRET}-b" in json.dumps(third["messages"][-1])
        assert third["system"] == remembering(f"the key is {SECRET}", 0)
    assert SECRET.encode() not in stored(tmp_path)
    with opened(tmp_path) as door:
        now = remembering(f"the new key is {SECRET}-b", 3)
        last = door.send(now, "q0", "a0", "q1", "a1", "q2", "a2", "q3", session="s")
        assert (door.reset, last["system"]) == ("repair_forgotten", now)
        assert "revoked" not in told(last)
        door.send(remembering("nothing", 4), "q0", "a0", "q1", "a1", "q2", "a2", "q3", "a3", "q4", session="s")
        assert door.reset is None
    assert SECRET.encode() not in stored(tmp_path)


PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA{0}\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    "key",
    [
        "- the key is sk-ant-api03-{0}",
        "\tghp_{0}",
        "- “sk-proj-{0}”",
        "-\xa0ghp_{0}",
        "- postgres://loader:{0}@localhost/db",
        "- Authorization: Bearer {0}",
        PEM,
    ],
)
def test_no_part_of_a_key_that_was_renewed_is_stored(tmp_path: Path, key: str) -> None:
    values = [f"planted{number}7Qm2Rt9Vb4Lk8Zp3Ws6" for number in range(3)]
    said = ["q0"]
    with opened(tmp_path) as door:
        for turn, value in enumerate(values):
            tool = TOOL | {"description": f"Runs.\n{key.format(value)}"}
            body = door.send(remembering(f"a\n{key.format(value)}", turn), *said, session="s", tools=[tool])
            assert value in json.dumps(body)
            said += [f"a{turn}", f"q{turn + 1}"]
        assert "volatile-value" in door.response.headers["x-holdfast-repairs"]
    assert b"planted" not in stored(tmp_path)
