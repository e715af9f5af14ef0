"""Answers as they pass: in any pieces and encodings, whole, broken off, wrong."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.engine.passage import Passage
from holdfast.simulator.faults import Fault, Options
from holdfast.simulator.provider import Exchange
from holdfast.simulator.steps import Abort, EndResponse, SendBytes, plan
from holdfast.store import Call as Row
from tests.engine.driver import MODELS, raw_of, talk
from tests.engine.passage.door import ENCODERS, SSE, Door, believed, same, whole_of


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


def estimated(row: Row, exchange: Exchange) -> None:
    """What is stored of an answer without its end is what was billed for the prompt, and an estimate."""
    billed = exchange.record.usage
    assert (row.usage.input, row.usage.read, row.usage.written) == (billed.input, billed.read, billed.written)
    assert 0 < row.usage.output <= billed.output
    assert row.verdict is not None
    assert b'"estimated":true' in row.verdict


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
    billed = exchange.record.usage
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
        if isinstance(step, SendBytes):
            exchange.first_token()
            passage.feed(step.data)
        elif isinstance(step, Abort):
            exchange.abandon()
            passage.cut("ClientPayloadError")
        elif isinstance(step, EndResponse):
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
        assert again.prepared.verdict.explained


@pytest.mark.parametrize("dialect", MODELS)
def test_an_error_in_the_stream(door: Door, dialect: str) -> None:
    _, exchange = spoilt(door, Fault("sse_error"), streaming(1, dialect))
    (row,) = door.rows()
    assert (row.status, row.error) == ("failed", "an error in the stream")
    estimated(row, exchange)


@pytest.mark.parametrize("dialect", MODELS)
def test_a_stream_that_is_nothing_but_an_error_is_not_billed(door: Door, dialect: str) -> None:
    spoilt(door, Fault("sse_error", options=Options(at="early")), streaming(1, dialect))
    (row,) = door.rows()
    assert (row.status, row.error, row.usage) == ("failed", "an error in the stream", None)


@pytest.mark.parametrize("dialect", MODELS)
def test_a_stream_without_an_end(door: Door, dialect: str) -> None:
    _, exchange = spoilt(door, Fault("close", options=Options(at="mid")), streaming(1, dialect))
    (row,) = door.rows()
    assert (row.status, row.error) == ("failed", "no end of the stream")
    estimated(row, exchange)


@pytest.mark.parametrize("at", ["early", "mid"])
@pytest.mark.parametrize("dialect", MODELS)
def test_a_stream_with_an_event_that_breaks_off(door: Door, dialect: str, at: str) -> None:
    fault = Fault("malformed", options=Options(at=at))  # type: ignore[arg-type]
    spoilt(door, fault, streaming(1, dialect))
    assert [row.status for row in door.rows()] in (["failed"], ["settled"])


def test_a_stream_without_usage(door: Door) -> None:
    """OpenAI tells it only if asked; what was written is believed all the same."""
    passage = door.begin(raw_of(talk(1), "openai_chat", stream=True), "openai_chat")
    exchange = door.carry(passage)
    (row,) = door.rows()
    assert (row.status, row.error) == ("abandoned", None)
    estimated(row, exchange)
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
        if isinstance(step, SendBytes):
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
