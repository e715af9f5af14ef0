"""Answers as they pass: in any pieces and encodings, whole, broken off, wrong; each call ends once."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.simulator.core import Exchange
from holdfast.simulator.faults import Fault, Options
from holdfast.simulator.plans import Abort, End, Send, plan
from holdfast.store import Call as Row
from holdfast.transport import Passage
from tests.engine.driving import MODELS, raw_of, talk

from .passing import ENCODERS, Door, whole_of

JSON = [(b"Content-Type", b"application/json")]
SSE = [(b"Content-Type", b"text/event-stream")]


def streaming(turns: int, dialect: str = "anthropic", **more: Any) -> dict[str, Any]:
    """The arguments of a request whose answer is a stream."""
    if dialect == "gemini":
        path = f"/v1beta/models/{MODELS['gemini']}:streamGenerateContent"
        return {"raw": raw_of(talk(turns), dialect), "dialect": dialect, "path": path, "query": "alt=sse"}
    options = {"stream_options": {"include_usage": True}} if dialect == "openai_chat" else {}
    return {"raw": raw_of(talk(turns), dialect, stream=True, **options | more), "dialect": dialect}


def cut_at(places: list[int]) -> Callable[[bytes], list[bytes]]:
    def cut(whole: bytes) -> list[bytes]:
        edges = [0, *sorted(place % (len(whole) + 1) for place in places), len(whole)]
        return [whole[start:end] for start, end in pairwise(edges)]

    return cut


def same(row: Row, exchange: Exchange) -> None:
    """What is stored is what was billed."""
    billed = exchange.record.usage
    assert row.usage is not None
    assert billed is not None
    assert (row.usage.input, row.usage.read, row.usage.output) == (billed.input, billed.read, billed.output)
    assert row.usage.written == billed.written


def believed(door: Door, passage: Passage) -> int:
    """How many blocks of the lane's last request are believed to be in the cache."""
    return door.engine.fence(passage.lane, now=door.clock.now())


@pytest.mark.parametrize("dialect", MODELS)
def test_a_whole_answer(door: Door, dialect: str) -> None:
    for turns in range(3):
        passage, exchange = door.send(raw_of(talk(turns), dialect), dialect)
        row = door.rows()[-1]
        assert (row.status, row.kind, row.id) == ("settled", "request", passage.call)
        same(row, exchange)
        assert row.first_token_at is not None


@pytest.mark.parametrize("encoding", ENCODERS)
@pytest.mark.parametrize("dialect", MODELS)
def test_a_stream(door: Door, dialect: str, encoding: str) -> None:
    door.clock.advance(1)
    passage = door.begin(**streaming(1, dialect))
    exchange = door.carry(passage, encoding=encoding, cut=cut_at(list(range(0, 40_000, 7))), query={"alt": "sse"})
    assert exchange.answer.chunks is not None
    (row,) = door.rows()
    assert row.status == "settled"
    same(row, exchange)


@settings(max_examples=60)
@given(
    dialect=st.sampled_from(sorted(MODELS)),
    encoding=st.sampled_from(sorted(ENCODERS)),
    places=st.lists(st.integers(0, 100_000), max_size=30),
)
def test_any_pieces(dialect: str, encoding: str, places: list[int]) -> None:
    door = Door()
    passage = door.begin(**streaming(1, dialect))
    exchange = door.carry(passage, encoding=encoding, cut=cut_at(places), query={"alt": "sse"})
    assert passage.prepared is not None
    assert passage.prepared.verdict is not None
    billed = exchange.record.usage
    assert billed is not None
    assert passage.prepared.verdict.usage.prompt == billed.prompt
    assert passage.prepared.verdict.usage.output == billed.output


def test_gemini_without_events_is_an_array(door: Door) -> None:
    asked = streaming(1, "gemini") | {"query": ""}
    passage = door.begin(**asked)
    exchange = door.carry(passage, cut=cut_at([5, 50, 500]))
    assert whole_of(exchange.answer).startswith(b"[")
    same(door.rows()[-1], exchange)


# Refused


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 529])
def test_an_error_status_wrote_nothing(door: Door, status: int) -> None:
    door.simulator.faults.add(Fault("status", options=Options(status=status)))
    passage, exchange = door.send(raw_of(talk(1)))
    assert exchange.answer.status == status
    (row,) = door.rows()
    assert (row.status, row.error, row.usage) == ("failed", f"HTTP {status}", None)
    assert row.first_token_at is None
    assert believed(door, passage) == 0
    again, exchange = door.send(raw_of(talk(1)))
    assert again.prepared is not None
    assert again.prepared.verdict is not None
    assert again.prepared.verdict.explained
    same(door.rows()[-1], exchange)


def test_a_refused_opening_that_is_sent_again_is_the_same_lane(door: Door) -> None:
    door.simulator.faults.add(Fault("status", options=Options(status=529)))
    refused, _ = door.send(raw_of(talk(0)), session=None)
    again, _ = door.send(raw_of(talk(0)), session=None)
    other, _ = door.send(raw_of(talk(0)), session=None)
    assert again.lane == refused.lane
    assert other.lane != again.lane  # this one was answered: another conversation that begins alike


# Broken off


def spoilt(door: Door, fault: Fault, asked: dict[str, Any]) -> tuple[Passage, Exchange]:
    """A request that a fault strikes, carried as a server and a client would."""
    door.simulator.faults.add(fault)
    door.clock.advance(10)
    passage = door.begin(**asked)
    exchange = door.ask(passage, {"alt": "sse"})
    headers = [(name.encode(), value.encode()) for name, value in exchange.answer.headers]
    passage.answer(exchange.answer.status, headers)
    for step in plan(exchange.answer, exchange.fault, dialect=exchange.record.dialect):
        if isinstance(step, Send):
            exchange.first_token()
            passage.feed(step.data)
        elif isinstance(step, Abort):
            exchange.abandon()
            passage.cut("ClientPayloadError")
        elif isinstance(step, End):
            (exchange.finish if step.whole else exchange.abandon)()
            passage.finish()
    return passage, exchange


@pytest.mark.parametrize("at", ["early", "mid", "before_last"])
@pytest.mark.parametrize("dialect", MODELS)
def test_a_stream_that_the_provider_cuts(door: Door, dialect: str, at: str) -> None:
    fault = Fault("cut", options=Options(at=at))  # type: ignore[arg-type]
    passage, _ = spoilt(door, fault, streaming(1, dialect))
    (row,) = door.rows()
    assert (row.status, row.error) == ("failed", "ClientPayloadError")
    assert (row.first_token_at is None) == (at == "early")
    blocks = believed(door, passage)
    again, exchange = door.send(**streaming(2, dialect))
    same(door.rows()[-1], exchange)
    if dialect != "gemini":  # whose cache promises nothing
        assert (blocks > 0) == (at != "early")
        assert again.prepared is not None
        assert again.prepared.verdict is not None
        assert again.prepared.verdict.explained


@pytest.mark.parametrize("dialect", MODELS)
def test_an_error_in_the_stream(door: Door, dialect: str) -> None:
    spoilt(door, Fault("sse_error"), streaming(1, dialect))
    (row,) = door.rows()
    assert (row.status, row.error, row.usage) == ("failed", "an error in the stream", None)


@pytest.mark.parametrize("dialect", MODELS)
def test_a_stream_without_an_end(door: Door, dialect: str) -> None:
    spoilt(door, Fault("close", options=Options(at="mid")), streaming(1, dialect))
    (row,) = door.rows()
    assert (row.status, row.error, row.usage) == ("failed", "no end of the stream", None)


@pytest.mark.parametrize("at", ["early", "mid"])
@pytest.mark.parametrize("dialect", MODELS)
def test_a_stream_with_an_event_that_breaks_off(door: Door, dialect: str, at: str) -> None:
    fault = Fault("malformed", options=Options(at=at))  # type: ignore[arg-type]
    spoilt(door, fault, streaming(1, dialect))
    assert [row.status for row in door.rows()] in (["failed"], ["settled"])


def test_a_stream_without_usage(door: Door) -> None:
    """OpenAI tells it only if asked; what was written is believed all the same."""
    passage = door.begin(raw_of(talk(1), "openai_chat", stream=True), "openai_chat")
    door.carry(passage)
    (row,) = door.rows()
    assert (row.status, row.error, row.usage) == ("abandoned", None, None)
    assert row.first_token_at is not None
    assert believed(door, passage) > 0


@pytest.mark.parametrize("begun", [False, True])
def test_a_client_that_leaves(door: Door, begun: bool) -> None:
    passage = door.begin(**streaming(1))
    exchange = door.ask(passage)
    passage.answer(200, SSE)
    if begun:
        for chunk in (exchange.answer.chunks or ())[:3]:
            passage.feed(chunk)
    passage.cut()
    (row,) = door.rows()
    assert (row.status, row.error) == ("abandoned", None)
    assert (believed(door, passage) > 0) == begun
    (event,) = door.told("llm.call_failed")
    assert event.payload.abandoned


@pytest.mark.parametrize("dialect", MODELS)
def test_a_client_that_leaves_at_the_last_event_has_left_nothing_out(door: Door, dialect: str) -> None:
    passage = door.begin(**streaming(1, dialect))
    exchange = door.ask(passage, {"alt": "sse"})
    passage.answer(200, SSE)
    exchange.first_token()
    for chunk in exchange.answer.chunks or ():
        passage.feed(chunk)
    exchange.finish()
    passage.cut()
    (row,) = door.rows()
    assert (row.status, row.error) == ("settled", None)
    same(row, exchange)


def test_a_client_that_leaves_because_of_an_error_in_the_stream(door: Door) -> None:
    door.simulator.faults.add(Fault("sse_error"))
    passage = door.begin(**streaming(1))
    exchange = door.ask(passage)
    passage.answer(200, SSE)
    for step in plan(exchange.answer, exchange.fault):
        if isinstance(step, Send):
            passage.feed(step.data)
    passage.cut()
    assert [(row.status, row.error) for row in door.rows()] == [("failed", "an error in the stream")]


def test_what_breaks_off_behind_the_last_event_has_no_part_in_it(door: Door) -> None:
    passage = door.begin(**streaming(1))
    exchange = door.ask(passage)
    passage.answer(200, SSE)
    passage.feed(whole_of(exchange.answer) + b'event: ping\ndata: {"type": "pi')
    passage.cut("ReadError")
    (row,) = door.rows()
    assert (row.status, row.error) == ("settled", None)
    same(row, exchange)


def test_a_client_that_leaves_before_there_is_an_answer(door: Door) -> None:
    passage = door.begin(raw_of(talk(1)))
    passage.cut()
    (row,) = door.rows()
    assert (row.status, row.error) == ("abandoned", None)
    assert believed(door, passage) == 0


# An end comes once


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


@pytest.mark.parametrize("name", ["settle", "first_token", "abandon"])
def test_an_engine_that_fails_does_not_disturb(
    door: Door, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(door.engine, name, fails)
        door.send(raw_of(talk(0)))
    status = {"settle": "abandoned", "first_token": "settled", "abandon": "settled"}[name]
    assert [row.status for row in door.rows()] == [status]
    assert "the client's words" not in caplog.text
    assert f"{name} failed: RuntimeError" in caplog.text
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
    monkeypatch.setattr(type(passage._dialect), "tap", fails if where == "tap" else lambda _self: Broken(where))
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
    assert second.found is not None
    assert second.found.why == "field previous_response_id"
    following["previous_response_id"] = "resp_unknown"
    third = door.begin(json.dumps(following).encode(), "openai_responses", session=None)
    assert third.lane != first.lane
