"""What is rendered in every dialect can be read: by our own tap, whatever the cuts, and by the next request."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.records import Text, Thinking, ToolUse
from holdfast.simulator import replies
from holdfast.simulator.messages import Reply, ReplyEnvelope, ReplySettings, Thought, ToolCall, Words
from holdfast.simulator.replies import RENDERERS, gemini
from holdfast.wire import DIALECTS, Tap

from .conversations import DIALECT_NAMES, MODELS, body_of
from .replies import CALL, FULL, OTHER, any_reply, any_usage, envelope_of, reply_of


def tapped(dialect: str, data: bytes, cuts: list[int]) -> Tap:
    tap = DIALECTS[dialect].tap()
    borders = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, end in pairwise(borders):
        tap.feed(data[start:end])
    tap.close()
    return tap


FORMS = [*((dialect, form) for dialect in DIALECT_NAMES for form in ("whole", "events")), ("gemini", "array")]


@pytest.mark.parametrize(("dialect", "form"), FORMS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_usage_is_read_back_exactly_whole_or_streamed_in_any_pieces(
    dialect: str, form: str, data: st.DataObject
) -> None:
    reply, used = data.draw(any_reply()), data.draw(any_usage(dialect))
    cuts = data.draw(st.lists(st.integers(0, 10_000), max_size=6))
    envelope = envelope_of(dialect, reply, used)
    if form == "array":
        rendered = b"".join(gemini.array(reply, envelope))
    elif form == "events":
        rendered = b"".join(RENDERERS[dialect].events(reply, envelope))
    else:
        rendered = RENDERERS[dialect].body(reply, envelope)
    tap = tapped(dialect, rendered, cuts)
    assert tap.usage == used
    assert (tap.report.finished, tap.report.error, tap.report.response_id) == (True, None, "resp_1")
    assert tap.report.model == MODELS[dialect]


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_a_stream_is_one_frame_per_element_and_several_for_a_text(dialect: str) -> None:
    reply = reply_of(Words("ok then"))
    frames = RENDERERS[dialect].events(reply, envelope_of(dialect, reply))
    ending = b"\r\n\r\n" if dialect == "gemini" else b"\n\n"
    assert all(frame.endswith(ending) and frame.count(b"data: ") == 1 for frame in frames)
    assert len([frame for frame in frames if b"ok t" in frame or b"hen" in frame]) >= 2


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_a_long_text_does_not_make_an_endless_stream(dialect: str) -> None:
    reply = reply_of(Words("word " * 20_000))
    assert len(RENDERERS[dialect].events(reply, envelope_of(dialect, reply))) < 90


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_rendering_is_pure(dialect: str) -> None:
    reply = reply_of(*FULL)
    envelope = envelope_of(dialect, reply)
    assert RENDERERS[dialect].body(reply, envelope) == RENDERERS[dialect].body(reply, envelope)
    assert RENDERERS[dialect].events(reply, envelope) == RENDERERS[dialect].events(reply, envelope)


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_further_members_stand_at_the_top_level(dialect: str) -> None:
    reply = reply_of(Words("x"))
    envelope = envelope_of(dialect, reply, extra={"diagnostics": b'{"why":"because"}'})
    assert json.loads(RENDERERS[dialect].body(reply, envelope))["diagnostics"] == {"why": "because"}
    assert b'"diagnostics":{"why":"because"}' in RENDERERS[dialect].events(reply, envelope)[0]


def sent_back(dialect: str, response: dict[str, Any]) -> dict[str, Any]:
    """The request a client makes of a response: its assistant message as it came, then another question."""
    match dialect:
        case "anthropic":
            return {
                "messages": [{"role": "assistant", "content": response["content"]}, {"role": "user", "content": "x"}]
            }
        case "openai_chat":
            return {"messages": [response["choices"][0]["message"], {"role": "user", "content": "x"}]}
        case "openai_responses":
            return {"input": [*response["output"], {"role": "user", "content": "x"}]}
    return {"contents": [response["candidates"][0]["content"], {"role": "user", "parts": [{"text": "x"}]}]}


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
@settings(max_examples=40, deadline=None)
@given(reply=any_reply())
def test_the_next_request_brings_the_reply_back(dialect: str, reply: Reply) -> None:
    response = json.loads(RENDERERS[dialect].body(reply, envelope_of(dialect, reply)))
    request = DIALECTS[dialect].decode(body_of(dialect, sent_back(dialect, response)))
    blocks = [block for message in request.messages if message.role == "assistant" for block in message.content]
    calls = [(block.id, block.name, block.input) for block in blocks if isinstance(block, ToolUse)]
    assert calls == [(part.id, part.name, part.input) for part in reply.parts if isinstance(part, ToolCall)]
    if reply.stop != "refusal":
        said = "".join(block.text for block in blocks if isinstance(block, Text))
        assert said == "".join(part.text for part in reply.parts if isinstance(part, Words))
    if dialect in ("anthropic", "gemini"):
        thought = [block.text for block in blocks if isinstance(block, Thinking)]
        assert thought == [part.text for part in reply.parts if isinstance(part, Thought)]


def test_a_report_that_is_too_small_still_adds_up() -> None:
    reply = reply_of(*FULL)
    small = envelope_of("gemini", reply).usage
    envelope = ReplyEnvelope("r", "gemini-3-pro", 0, type(small)(input=1, output=2))
    counts = json.loads(gemini.body(reply, envelope))["usageMetadata"]
    assert (counts["thoughtsTokenCount"], counts["totalTokenCount"]) == (2, 3)
    assert "candidatesTokenCount" not in counts


@pytest.mark.parametrize("dialect", [*DIALECT_NAMES, "openrouter"])
def test_an_answer_is_whole_or_streamed_as_its_envelope_says(dialect: str) -> None:
    reply = reply_of(CALL, OTHER)
    model = MODELS.get(dialect, "openai/gpt-6.1-sol")
    whole = replies.answer(dialect, reply, ReplyEnvelope("r", model, 0, envelope_of("gemini", reply).usage))
    assert (whole.status, dict(whole.headers)["content-type"], whole.chunks) == (200, "application/json", None)
    assert json.loads(whole.body)
    streamed = replies.answer(
        dialect, reply, ReplyEnvelope("r", model, 0, envelope_of("gemini", reply).usage, stream=True)
    )
    assert dict(streamed.headers)["content-type"].startswith("text/event-stream")
    assert streamed.chunks


def test_gemini_without_sse_streams_one_array() -> None:
    reply = reply_of(*FULL)
    envelope = envelope_of("gemini", reply, stream=True, settings=ReplySettings(sse=False))
    answer = replies.answer("gemini", reply, envelope)
    assert dict(answer.headers)["content-type"] == "application/json"
    assert answer.chunks is not None
    chunks = json.loads(b"".join(answer.chunks))
    assert [chunk for chunk in chunks if "finishReason" in chunk["candidates"][0]] == chunks[-1:]
