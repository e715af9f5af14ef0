"""A call ends once, whatever fails on our side by then, and its response can be gone on with."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.engine.passage import Passage
from tests.engine.driver import MODELS, raw_of, talk
from tests.engine.passage.door import SSE, Door, believed, same, whole_of

JSON = [(b"Content-Type", b"application/json")]

ENDS: dict[str, Callable[[Passage], None]] = {
    "finish": lambda passage: passage.finish(),
    "cut": lambda passage: passage.cut("late"),
    "left": lambda passage: passage.cut(),
    "feed": lambda passage: passage.feed(b'{"type":"message","usage":{"input_tokens":1,"output_tokens":1}}'),
}


@pytest.mark.parametrize("how", [None, "off"])
@pytest.mark.parametrize("then", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("first", ["finish", "cut"])
def test_after_the_end_nothing_counts(door: Door, first: str, then: Callable[[Passage], None], how: str | None) -> None:
    asked = {} if how is None else {"switch": how}
    if first == "finish":
        passage, _ = door.send(raw_of(talk(1)), **asked)
    else:
        passage = door.begin(raw_of(talk(1)), **asked)
        passage.answer(200, JSON)
        passage.cut("ReadError")
    before, _ = door.rows(), door.told()
    then(passage)
    then(passage)
    assert door.rows() == before
    assert door.told() == []


# What fails on our side afterwards


def fails(*_args: Any, **_more: Any) -> Any:
    raise RuntimeError("the client's words")


@pytest.mark.parametrize("name", ["settle", "first_token"])
def test_an_engine_that_fails_does_not_disturb(
    door: Door, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(door.engine, name, fails)
        door.send(raw_of(talk(0), stream=True))
    status = {"settle": "abandoned", "first_token": "settled"}[name]
    assert [row.status for row in door.rows()] == [status]
    assert "the client's words" not in caplog.text
    assert f"{name} failed: RuntimeError" in caplog.text
    _, exchange = door.send(raw_of(talk(1)))
    same(door.rows()[-1], exchange)


def test_an_engine_that_cannot_abandon_does_not_disturb(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(door.engine, "abandon", fails)
        door.begin(raw_of(talk(0))).cut("ReadError")
    _, exchange = door.send(raw_of(talk(1)))
    same(door.rows()[-1], exchange)


@pytest.mark.parametrize("name", ["note", "bypassed"])
def test_an_engine_that_fails_on_what_passed_by_does_not_disturb(
    door: Door, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(door.engine, name, fails)
        _, exchange = door.send(raw_of(talk(0)), switch="off")
    assert exchange.answer.status == 200
    assert [row.kind for row in door.rows()] == ([] if name == "note" else ["bypassed"])


@pytest.mark.parametrize("name", ["answered", "unanswered"])
def test_an_identity_that_fails_leaves_nothing_pending(door: Door, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door.identities, name, fails)
    door.send(raw_of(talk(0)))
    door.begin(raw_of(talk(1))).cut("ConnectError")
    assert [row.status for row in door.rows()] == ["settled", "failed"]


class Broken:
    """A tap that cannot read what it gets."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.usage = None
        self.report = type("Report", (), {"started": False, "finished": False, "counts": None})()

    def feed(self, chunk: bytes) -> None:
        if self._where == "feed":
            fails()

    def close(self) -> None:
        fails()


@pytest.mark.parametrize("where", ["feed", "close", "tap"])
def test_an_answer_that_we_cannot_read_does_not_disturb(
    door: Door, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    passage = door.begin(raw_of(talk(0)))
    monkeypatch.setattr(type(passage.dialect), "tap", fails if where == "tap" else lambda _self: Broken(where))
    door.carry(passage)
    (row,) = door.rows()
    assert (row.status, row.error) == ("abandoned", None)
    assert row.first_token_at is not None  # something was answered
    assert believed(door, passage) > 0


@pytest.mark.parametrize(
    ("encoding", "content"), [("compress", b"\x1f\x9d"), ("gzip", b"not gzip at all"), ("gzip, br", b"x")]
)
def test_an_encoding_that_is_not_what_it_says(door: Door, encoding: str, content: bytes) -> None:
    passage = door.begin(raw_of(talk(0)))
    passage.answer(200, [*SSE, (b"content-encoding", encoding.encode())])
    passage.feed(content)
    passage.feed(content)
    passage.finish()
    (row,) = door.rows()
    assert (row.status, row.error) == ("abandoned", None)
    assert believed(door, passage) > 0


# Responses that are gone on with


@pytest.mark.parametrize("stream", [False, True])
def test_the_id_of_a_response_finds_the_lane_again(door: Door, stream: bool) -> None:
    raw = raw_of(talk(0), "openai_responses", stream=stream, store=True)
    first = door.begin(raw, "openai_responses", session=None)
    exchange = door.carry(first)
    whole = whole_of(exchange.answer)
    start = whole.index(b'"id":"resp_') + 6
    response = whole[start : whole.index(b'"', start)].decode()
    following = {
        "model": MODELS["openai_responses"],
        "input": [{"role": "user", "content": "and then?"}],
        "previous_response_id": response,
    }
    second, exchange = door.send(json.dumps(following).encode(), "openai_responses", session=None)
    assert exchange.answer.status == 200
    assert second.lane == first.lane
    assert second.identity.why == "field previous_response_id"
    following["previous_response_id"] = "resp_unknown"
    third = door.begin(json.dumps(following).encode(), "openai_responses", session=None)
    assert third.lane != first.lane
