"""Anthropic's responses, read by Anthropic's SDK."""

from __future__ import annotations

import json

import anthropic
import httpx2
import pytest
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from holdfast.simulator.messages import ReplySettings, Words
from holdfast.simulator.replies import anthropic as rendering

from .replies import CALL, CITY, FULL, TEXT, WEATHER_TALK, envelope_of, reply_of, scripted

EVENT: TypeAdapter[RawMessageStreamEvent] = TypeAdapter(RawMessageStreamEvent)


def events(*parts, **members) -> list[tuple[str, dict]]:
    reply = reply_of(*parts, **members)
    frames = [frame.decode().split("\n") for frame in rendering.events(reply, envelope_of("anthropic", reply))]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data, *_ in frames]


def test_a_message_is_what_the_sdk_expects() -> None:
    reply = reply_of(*FULL)
    message = Message.model_validate_json(rendering.body(reply, envelope_of("anthropic", reply)), strict=True)
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert message.content[2].input == json.loads(CALL.input)
    assert (message.stop_reason, message.stop_sequence, message.role) == ("tool_use", None, "assistant")
    used = message.usage
    assert (used.input_tokens, used.cache_read_input_tokens, used.cache_creation_input_tokens) == (7, 1000, 60)
    assert (used.cache_creation.ephemeral_5m_input_tokens, used.cache_creation.ephemeral_1h_input_tokens) == (40, 20)
    assert used.output_tokens == reply.tokens
    assert used.output_tokens_details.thinking_tokens == reply.thought_tokens


@pytest.mark.parametrize(
    ("stop", "reason"),
    [("end", "end_turn"), ("limit", "max_tokens"), ("stop_sequence", "stop_sequence"), ("refusal", "refusal")],
)
def test_stop_reasons(stop: str, reason: str) -> None:
    reply = reply_of(Words("x"), stop=stop, stop_sequence="S" if stop == "stop_sequence" else None)
    message = Message.model_validate_json(rendering.body(reply, envelope_of("anthropic", reply)), strict=True)
    assert message.stop_reason == reason
    assert message.stop_sequence == ("S" if stop == "stop_sequence" else None)


def test_a_prewarmed_prompt_has_no_content() -> None:
    reply = reply_of(stop="limit")
    message = Message.model_validate_json(rendering.body(reply, envelope_of("anthropic", reply)), strict=True)
    assert (message.content, message.stop_reason, message.usage.output_tokens) == ([], "max_tokens", 0)


def test_events_come_in_order_and_have_the_sdk_s_types() -> None:
    found = events(*FULL)
    for name, data in found:
        assert name == data["type"]
        if name != "ping":
            EVENT.validate_json(json.dumps(data), strict=True)
    names = [name for name, _ in found]
    assert names[:3] == ["message_start", "content_block_start", "ping"]
    assert names[-2:] == ["message_delta", "message_stop"]
    kinds = [data["delta"]["type"] for name, data in found if name == "content_block_delta" and data["index"] in (0, 3)]
    assert kinds == ["thinking_delta"] * 3 + ["signature_delta"] + ["input_json_delta"] * 3
    assert names.count("content_block_start") == names.count("content_block_stop") == 4


def test_the_start_tells_the_input_and_the_delta_the_output() -> None:
    found = dict(events(*FULL))
    start, end = found["message_start"]["message"]["usage"], found["message_delta"]["usage"]
    assert start["cache_creation"] == {"ephemeral_5m_input_tokens": 40, "ephemeral_1h_input_tokens": 20}
    assert start["output_tokens"] == 1
    assert end["output_tokens"] == reply_of(*FULL).tokens
    assert end["cache_read_input_tokens"] == start["cache_read_input_tokens"] == 1000


def test_thoughts_that_are_not_shown_keep_their_signature() -> None:
    reply = reply_of(*FULL)
    hidden = envelope_of("anthropic", reply, settings=ReplySettings(show_thoughts=False))
    shown = json.loads(rendering.body(reply, envelope_of("anthropic", reply)))["content"][0]
    block = json.loads(rendering.body(reply, hidden))["content"][0]
    assert (block["thinking"], block["signature"]) == ("", shown["signature"])
    assert b"thinking_delta" not in b"".join(rendering.events(reply, hidden))


TOOL = {"name": "get_weather", "input_schema": CITY}


def client() -> anthropic.Anthropic:
    return anthropic.Anthropic(api_key="k", http_client=httpx2.Client(transport=scripted(WEATHER_TALK)))


@pytest.mark.parametrize("streamed", [False, True])
def test_the_sdk_completes_a_tool_session(streamed: bool) -> None:
    messages: list = [{"role": "user", "content": "weather?"}]
    members = {"model": "claude-opus-5-5", "max_tokens": 3000, "tools": [TOOL], "thinking": {"type": "adaptive"}}
    with client() as api:
        turns = []
        for _ in range(2):
            if streamed:
                with api.messages.stream(messages=messages, **members) as stream:
                    message = stream.get_final_message()
            else:
                message = api.messages.create(messages=messages, **members)
            turns.append(message)
            uses = [block for block in message.content if block.type == "tool_use"]
            answers = [{"type": "tool_result", "tool_use_id": use.id, "content": use.input["city"]} for use in uses]
            messages += [{"role": "assistant", "content": message.content}, {"role": "user", "content": answers}]
    first, last = turns
    assert [block.type for block in first.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert first.content[1].text == TEXT
    assert (first.stop_reason, last.stop_reason) == ("tool_use", "end_turn")
    assert last.content[0].text == "It is text\né."
