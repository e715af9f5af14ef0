"""A passage and whoever gives memory to its requests: what it asks, what it does with the answer, what it survives."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.engine import Lane
from holdfast.engine.identity import Identities
from holdfast.engine.passage.client_request import Wishes, wishes
from holdfast.engine.passage.memory_hook import Remembered, Reminder
from holdfast.wire import DIALECTS, Body
from tests.engine.driver import raw_of, talk
from tests.engine.passage.door import KEY, Door

OURS = Identities(KEY).tenant({"x-api-key": "k"}, "")
TOO_LONG = b'{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}'


class Fixed:
    """Puts a word into every request, and keeps what it was asked and told."""

    def __init__(self) -> None:
        self.asked: list[Reminder] = []
        self.refusals: list[tuple[int, str]] = []
        self.gone = 0

    def concerns(self, tenant: str) -> bool:
        return tenant == OURS

    def remember(self, reminder: Reminder) -> Remembered | None:
        self.asked.append(reminder)
        body = DIALECTS["anthropic"].parse(reminder.body.raw.replace(b"finds faults", b"FINDS faults"))
        assert isinstance(body, Body)
        return Remembered(body=body, says="stable", went=self._went)

    def _went(self) -> None:
        self.gone += 1

    def refused(self, lane: Lane, status: int, text: str) -> None:
        self.refusals.append((status, text))


@pytest.fixture
def fixed(door: Door) -> Fixed:
    found = Fixed()
    door.passages.remembering = found
    return found


@pytest.mark.parametrize(
    ("headers", "wanted"),
    [
        ({"x-holdfast-memory": " OFF "}, Wishes(no_memory=True)),
        ({"x-holdfast-memory": "on"}, Wishes()),
        ({"x-holdfast-project": " /home/me/app "}, Wishes(project="/home/me/app")),
        ({"x-holdfast-project": "/home/me/caf\u00c3\u00a9"}, Wishes(project="/home/me/café")),
        ({"x-holdfast-project": "/home/me/caf\u00e9"}, Wishes(project="/home/me/café")),
        ({"x-holdfast-project": "/home/me/app/"}, Wishes(project="/home/me/app")),
        ({"x-holdfast-project": "/home/me/./other/../app"}, Wishes(project="/home/me/app")),
        ({"x-holdfast-project": "team/../app/"}, Wishes(project="team/../app/")),  # no path: a name to the letter
        ({"x-holdfast-project": "x" * 5_000}, Wishes()),
        ({"x-holdfast-project": "a\tb"}, Wishes()),
    ],
)
def test_wishes(headers: dict[str, str], wanted: Wishes) -> None:
    assert wishes(headers) == wanted


def test_what_is_prepared_is_the_request_with_memory_and_identity_sees_the_clients(door: Door, fixed: Fixed) -> None:
    raw = raw_of(talk())
    passage, exchange = door.send(raw, memory="off", project="/x")
    assert exchange.answer.status == 200
    assert b"FINDS faults" in passage.raw
    assert passage.prepared.verdict is not None
    (asked,) = fixed.asked
    assert (asked.body.raw, asked.off, asked.project, fixed.gone) == (raw, True, "/x", 1)
    assert asked.read().prompt.blocks


@pytest.mark.parametrize("how", ["switch", "side", "unreadable"])
def test_nothing_is_asked_for_what_is_not_planned(door: Door, fixed: Fixed, how: str) -> None:
    if how == "switch":
        door.send(raw_of(talk()), switch="off")
    elif how == "side":
        door.send(
            b'{"model":"claude-sonnet-5-5","max_tokens":1,"messages":[{"role":"user","content":"x"}]}', session=None
        )
    else:
        door.begin(b"{")
    assert (fixed.asked, fixed.gone) == ([], 0)


def test_an_error_is_ours_alone(door: Door, fixed: Fixed, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Reminder) -> Any:
        raise RuntimeError("words of a prompt")

    first, _ = door.send(raw_of(talk()))
    monkeypatch.setattr(fixed, "remember", broken)
    second, exchange = door.send(raw_of(talk(1)))
    assert exchange.answer.status == 200
    assert b"FINDS" in first.raw
    assert b"FINDS" not in second.raw
    assert second.bypass is None
    assert second.prepared.reset == "bypassed"


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize(("status", "told"), [(400, True), (413, True), (429, False), (500, False)])
def test_a_refusal_is_told(door: Door, fixed: Fixed, status: int, told: bool, pack: Callable[[bytes], bytes]) -> None:
    passage = door.begin(raw_of(talk()))
    headers = [(b"content-encoding", b"gzip")] if pack is gzip.compress else []
    passage.answer(status, headers)
    passage.feed(pack(TOO_LONG))
    passage.finish()
    assert fixed.refusals == ([(status, TOO_LONG.decode())] if told else [])


def test_whose_requests_may_wait(door: Door, fixed: Fixed) -> None:
    assert door.passages.remembers(OURS)
    assert not door.passages.remembers("u")
    door.passages.remembering = None
    assert not door.passages.remembers(OURS)


def test_of_whom_it_does_not_concern_nothing_is_asked(
    door: Door, fixed: Fixed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fixed, "concerns", lambda tenant: tenant != OURS)
    passage, _ = door.send(raw_of(talk()))
    assert fixed.asked == []
    assert b"FINDS" not in passage.raw
