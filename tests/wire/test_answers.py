"""Answers of the simulator, read in every dialect and form, and sent back to it."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.records import Message, Opaque, Text, Thinking, ToolUse, canonical_json
from holdfast.records.request import validate
from holdfast.simulator.faults import Fault, Options
from holdfast.simulator.messages import Reply, Thought, ToolCall, Words
from holdfast.simulator.steps import SendBytes, plan
from holdfast.wire import DIALECTS, Body
from holdfast.wire.answers import Answer, AnswerReader

from ..simulator.replies import any_reply
from .simulator_client import (
    CLOCK,
    FULL,
    MODELS,
    NAMES,
    TEXT,
    THOUGHT,
    WEATHER,
    answered,
    asking,
    call_of,
    going_on,
    read,
    sent,
    simulator,
    words,
)

FORMS = [(True, True), (False, True), (True, False)]
"""Streamed or not, and whether a stream is one of events: Gemini has one that is a JSON array."""


def calls(message: Message) -> list[tuple[str, bytes]]:
    return [(block.name, block.input) for block in message.content if isinstance(block, ToolUse)]


def canonical(part: Any) -> bytes:
    assert isinstance(part, ToolCall)
    return canonical_json(part.input)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dialect", NAMES)
def test_an_answer_says_what_the_model_said(dialect: str, form: tuple[bool, bool]) -> None:
    stream, sse = form
    answer = answered(simulator(FULL), asking(dialect, stream=stream), stream=stream, sse=sse)
    assert (answer.whole, answer.error, answer.stop) == (True, None, "tools")
    assert words(answer.message) == [TEXT]
    assert calls(answer.message) == [("get_weather", canonical(WEATHER)), ("clock", b"{}")]
    assert answer.id
    assert answer.model
    assert answer.usage.output > 0
    assert answer.usage.prompt > 1000


@pytest.mark.parametrize("dialect", NAMES)
def test_streamed_or_not_the_message_is_the_same(dialect: str) -> None:
    streamed = answered(simulator(FULL), asking(dialect))
    plain = answered(simulator(FULL), asking(dialect, stream=False), stream=False)
    assert streamed.message == plain.message
    assert (streamed.stop, streamed.usage, streamed.id) == (plain.stop, plain.usage, plain.id)


@pytest.mark.parametrize("dialect", NAMES)
def test_thoughts_are_kept_as_the_provider_seals_them(dialect: str) -> None:
    message = answered(simulator(FULL), asking(dialect)).message
    first = message.content[0]
    match dialect:
        case "anthropic":
            assert isinstance(first, Thinking)
            assert first.text == THOUGHT.text
            assert first.signature
        case "gemini":
            assert isinstance(first, Thinking)
            assert first.text == THOUGHT.text
            call = next(block for block in message.content if isinstance(block, ToolUse))
            assert dict(call.extra)["thoughtSignature"]
        case "openai_responses":
            assert isinstance(first, Opaque)
            assert first.kind == "reasoning"
            item = msgspec.json.decode(first.raw)
            assert item["id"].startswith("rs_")
            assert item["encrypted_content"]
        case _:
            assert msgspec.json.decode(dict(message.extra)["reasoning_content"]) == THOUGHT.text


@pytest.mark.parametrize("dialect", NAMES)
def test_an_answer_goes_back_exactly_as_it_came(dialect: str) -> None:
    """The members of the response stand in the next request, as its provider wrote them."""
    here, request = simulator(FULL), asking(dialect, stream=False)
    response = msgspec.json.decode(sent(here.answer(call_of(request, stream=False))))
    again = msgspec.json.decode(DIALECTS[dialect].encode(going_on(request, answered(here, request))))
    match dialect:
        case "anthropic":
            assert again["messages"][1]["content"] == response["content"]
        case "gemini":
            assert again["contents"][1] == response["candidates"][0]["content"]
        case "openai_responses":
            mine = [{key: item[key] for key in item if key != "id"} for item in again["input"][1:5]]
            theirs = [{key: item[key] for key in item if key != "id"} for item in response["output"]]
            assert mine == theirs  # the ids are those of the second response
            assert all(item["id"] for item in again["input"][1:5])
        case _:
            message = {key: value for key, value in response["choices"][0]["message"].items() if value is not None}
            assert again["messages"][2] == message


@pytest.mark.parametrize("dialect", NAMES)
def test_the_next_request_is_accepted_and_reads_what_the_first_one_wrote(dialect: str) -> None:
    here = simulator(FULL, (THOUGHT, WEATHER), (Words("Done."),))
    request = asking(dialect)
    answers: list[Answer] = []
    for turn in range(3):
        assert not validate(request)
        answers.append(answered(here, request))
        request = going_on(request, answers[-1], f"This is number {turn}.")
    assert [answer.stop for answer in answers] == ["tools", "tools", "end"]
    records = here.journal.records()
    assert [record.status for record in records] == [200, 200, 200]
    for record in records[1:]:
        denied = dialect == "gemini" and "tokens are shared with an earlier prompt" in record.why[0]  # by chance
        assert record.usage.read > 1000 or denied, record.why
        assert not any("unlike the request before" in line for line in record.why), record.why


@pytest.mark.parametrize("dialect", NAMES)
def test_byte_by_byte_gives_the_same_answer(dialect: str) -> None:
    stream = sent(simulator((Words("Öne 😀"), CLOCK)).answer(call_of(asking(dialect))))
    assert read(dialect, *(stream[at : at + 1] for at in range(len(stream)))) == read(dialect, stream)


@pytest.mark.parametrize("dialect", ["anthropic", "gemini"])
def test_any_boundary_gives_the_same_answer(dialect: str) -> None:
    stream = sent(simulator((Words("Ö😀"), CLOCK)).answer(call_of(asking(dialect))))
    whole = read(dialect, stream)
    for at in range(len(stream) + 1):
        assert read(dialect, stream[:at], stream[at:]) == whole, at


@pytest.mark.parametrize("dialect", NAMES)
@settings(max_examples=30)
@given(cuts=st.lists(st.integers(0, 20_000), max_size=12))
def test_any_chunks_give_the_same_answer(dialect: str, cuts: list[int]) -> None:
    stream = sent(simulator(FULL).answer(call_of(asking(dialect))))
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    assert read(dialect, *(stream[a:b] for a, b in pairwise(edges))) == read(dialect, stream)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", NAMES)
@settings(max_examples=40)
@given(reply=any_reply())
def test_whatever_a_script_says_is_read_and_accepted_again(dialect: str, reply: Reply) -> None:
    here, request = simulator(reply.parts, (Words("Done."),), stop=reply.stop), asking(dialect)
    answer = answered(here, request)
    assert answer.whole
    said = "".join(part.text for part in reply.parts if isinstance(part, Words))
    if said.strip() and dialect not in ("anthropic", "openai_responses"):  # there each text is a block of its own
        assert "".join(words(answer.message)) == said
    assert all(text.strip() for text in words(answer.message))
    named, made = [name for name, _ in calls(answer.message)], [p for p in reply.parts if isinstance(p, ToolCall)]
    missing = 1 if reply.stop == "limit" and dialect == "openai_responses" and made else 0  # told to be incomplete
    assert named == [part.name for part in made][: len(made) - missing]
    if answer.message.content:
        assert not validate(going_on(request, answer))
        assert answered(here, going_on(request, answer)).whole


@pytest.mark.parametrize("dialect", NAMES)
def test_pieces_say_what_is_coming(dialect: str) -> None:
    _, pieces = read(dialect, *(simulator(FULL).answer(call_of(asking(dialect))).chunks or ()))
    shown = {kind: "".join(piece.text for piece in pieces if piece.kind == kind) for kind in ("thinking", "text")}
    assert shown == {"thinking": THOUGHT.text, "text": TEXT}
    assert sum(piece.kind == "text" for piece in pieces) > 1
    assert [piece.text for piece in pieces if piece.kind == "tool"] == ["get_weather", "clock"]


@pytest.mark.parametrize("dialect", NAMES)
def test_a_long_text_in_many_pieces_stays_one_block(dialect: str) -> None:
    answer = answered(simulator((Words("word " * 5_000 + "."),)), asking(dialect, limit=50_000))
    assert words(answer.message) == ["word " * 5_000 + "."]
    assert answer.stop == "end"


@pytest.mark.parametrize("dialect", NAMES)
def test_the_limit_is_told_and_what_came_before_is_kept(dialect: str) -> None:
    answer = answered(simulator((Words("word " * 500),)), asking(dialect, limit=20))
    assert (answer.whole, answer.stop) == (True, "length")
    assert words(answer.message)[0].startswith("word word")


@pytest.mark.parametrize("dialect", NAMES)
def test_thoughts_that_met_the_limit_are_not_sent_back(dialect: str) -> None:
    answer = answered(simulator((Thought("thinking " * 500),)), asking(dialect, limit=20))
    assert (answer.stop, answer.message) == ("length", Message("assistant", ()))


@pytest.mark.parametrize("dialect", NAMES)
def test_a_refusal_is_told_and_is_text(dialect: str) -> None:
    here = simulator((Words("I cannot help with that."),), (Words("ok"),), stop="refusal")
    request = asking(dialect)
    answer = answered(here, request)
    assert (answer.whole, answer.stop) == (True, "refusal")
    assert words(answer.message) == ["I cannot help with that."]
    assert answered(here, going_on(request, answer)).whole


@pytest.mark.parametrize("dialect", NAMES)
def test_an_answer_that_breaks_off_keeps_what_was_complete(dialect: str) -> None:
    """Wherever the stream ends: whole only at its end, texts only grow, a call is there in full or not at all."""
    frames = simulator((Words(TEXT), WEATHER, CLOCK)).answer(call_of(asking(dialect))).chunks or ()
    complete = read(dialect, *frames)[0].message
    before = ""
    for count in range(len(frames)):
        answer, _ = read(dialect, *frames[:count])
        assert not answer.whole
        assert answer.error
        said = "".join(words(answer.message))
        assert TEXT.startswith(said)
        assert len(said) >= len(before)
        before = said
        assert all(call in calls(complete) for call in calls(answer.message)), count
    assert before == TEXT


def test_a_cut_answer_has_the_calls_that_were_told_to_their_end() -> None:
    frames = simulator((WEATHER, CLOCK)).answer(call_of(asking("anthropic"))).chunks or ()
    second = next(i for i, frame in enumerate(frames) if b'"clock"' in frame)
    answer, _ = read("anthropic", *frames[: second + 1])
    assert calls(answer.message) == [("get_weather", canonical(WEATHER))]
    assert not answer.whole


@pytest.mark.parametrize("dialect", NAMES)
def test_an_error_in_the_stream_is_told(dialect: str) -> None:
    here = simulator(FULL)
    here.faults.add(Fault("sse_error", options=Options(message="Too busy.", at="mid")))
    exchange = here.begin(call_of(asking(dialect)))
    steps = plan(exchange.answer, exchange.fault, dialect=exchange.record.dialect)
    answer, _ = read(dialect, *(step.data for step in steps if isinstance(step, SendBytes)))
    assert (answer.whole, answer.error) == (False, "Too busy.")


@pytest.mark.parametrize("dialect", NAMES)
def test_an_event_that_is_no_json_spoils_the_answer(dialect: str) -> None:
    frames = list(simulator((Words(TEXT),)).answer(call_of(asking(dialect))).chunks or ())
    frames[2] = frames[2][:-9] + b"\n\n"
    answer, _ = read(dialect, *frames)
    assert not answer.whole
    assert answer.error


@pytest.mark.parametrize("dialect", NAMES)
@pytest.mark.parametrize("raw", [b"", b"\n\n", b"{}", b"[]", b"<html>busy</html>", b"data: {}\n\n", b'{"choices":0}'])
def test_what_is_no_answer_is_not_taken_for_one(dialect: str, raw: bytes) -> None:
    answer, pieces = read(dialect, raw)
    assert not answer.whole
    assert answer.error
    assert not pieces
    assert answer.message == Message("assistant", ())


def test_a_closed_reader_says_the_same_again() -> None:
    reader = AnswerReader("anthropic")
    for chunk in simulator(FULL).answer(call_of(asking("anthropic"))).chunks or ():
        reader.feed(chunk)
    assert reader.close() == reader.close()


@pytest.mark.parametrize("dialect", NAMES)
def test_a_reader_tells_when_the_model_begins(dialect: str) -> None:
    reader = AnswerReader(dialect)
    assert not reader.started
    reader.feed(b": waiting\n\n")
    assert not reader.started
    reader.feed((simulator(FULL).answer(call_of(asking(dialect))).chunks or ())[0])
    assert reader.started


def _stored(answer: Answer, dialect: str) -> None:
    """An answer can be stored and sent, whatever is in it."""
    message = msgspec.json.decode(msgspec.json.encode(answer.message), type=Message)
    assert message == answer.message
    body = DIALECTS[dialect].encode(asking(dialect, Message("user", (Text("x"),)), message))
    assert isinstance(DIALECTS[dialect].parse(body, model=MODELS[dialect]), Body)
    body.decode("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("dialect", NAMES)
@settings(max_examples=60)
@given(data=st.data())
def test_no_garbage_makes_a_reader_fail(dialect: str, data: st.DataObject) -> None:
    stream = bytearray(sent(simulator(FULL).answer(call_of(asking(dialect)))))
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(stream) - 1))
        stream[at : at + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=20))
    _stored(read(dialect, bytes(stream))[0], dialect)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", NAMES)
@settings(max_examples=30)
@given(data=st.data())
def test_members_of_any_type_make_no_reader_fail(dialect: str, data: st.DataObject) -> None:
    """Values within the events are replaced by others, as a server of another version may send them."""
    frames = list(simulator(FULL).answer(call_of(asking(dialect))).chunks or ())
    value = re.compile(rb':(?:"(?:[^"\\]|\\.)*"|\d+|null|true|\[\]|\{\})')
    for _ in range(data.draw(st.integers(1, 10))):
        at = data.draw(st.integers(0, len(frames) - 1))
        found = list(value.finditer(frames[at]))
        if found:
            place = data.draw(st.sampled_from(found))
            other = msgspec.json.encode(data.draw(_json))
            frames[at] = frames[at][: place.start() + 1] + other + frames[at][place.end() :]
    _stored(read(dialect, *frames)[0], dialect)
