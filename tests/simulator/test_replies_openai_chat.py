"""Chat Completions, read by OpenAI's SDK; DeepSeek's words in the same shape."""

from __future__ import annotations

import json

import httpx2
import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from holdfast.records import usage
from holdfast.simulator.messages import ReplySettings, Thought, Words
from holdfast.simulator.replies import openai_chat as rendering

from .replies import CALL, CITY, FULL, TEXT, WEATHER_TALK, envelope_of, reply_of, scripted


def completion(*parts, **members) -> ChatCompletion:
    envelope = {key: members.pop(key) for key in ("model", "used", "settings") if key in members}
    reply = reply_of(*parts, **members)
    raw = rendering.body(reply, envelope_of("openai_chat", reply, **envelope))
    return ChatCompletion.model_validate_json(raw, strict=True)


def chunks(*parts, **envelope) -> list[ChatCompletionChunk]:
    reply = reply_of(*parts)
    frames = rendering.events(reply, envelope_of("openai_chat", reply, **envelope))
    assert frames[-1] == b"data: [DONE]\n\n"
    return [ChatCompletionChunk.model_validate_json(frame[6:], strict=True) for frame in frames[:-1]]


def test_a_completion_is_what_the_sdk_expects() -> None:
    found = completion(*FULL)
    (choice,) = found.choices
    assert (choice.message.content, choice.message.refusal, choice.finish_reason) == (TEXT, None, "tool_calls")
    assert [call.function.name for call in choice.message.tool_calls] == ["get_weather", "clock"]
    assert choice.message.tool_calls[0].function.arguments.encode() == CALL.input
    used = found.usage
    assert (used.prompt_tokens, used.prompt_tokens_details.cached_tokens) == (1307, 1000)
    assert used.prompt_tokens_details.cache_write_tokens == 300
    assert used.completion_tokens_details.reasoning_tokens == reply_of(*FULL).thought_tokens
    assert used.total_tokens == used.prompt_tokens + used.completion_tokens


def test_models_that_write_for_free_report_no_writes() -> None:
    free = completion(Words("x"), model="gpt-5.5", used=usage(input=1, read=128, writes={"in_memory": 5}, output=1))
    assert free.usage.prompt_tokens == 134
    assert free.usage.prompt_tokens_details.cache_write_tokens is None


@pytest.mark.parametrize(("stop", "reason"), [("end", "stop"), ("limit", "length"), ("stop_sequence", "stop")])
def test_finish_reasons(stop: str, reason: str) -> None:
    assert completion(Words("x"), stop=stop).choices[0].finish_reason == reason


def test_a_refusal_stands_in_the_place_of_the_content() -> None:
    message = completion(Words("no"), stop="refusal").choices[0].message
    assert (message.content, message.refusal) == (None, "no")


def test_calls_alone_have_no_content_and_silence_is_empty() -> None:
    assert completion(CALL).choices[0].message.content is None
    silent = completion(stop="limit").choices[0]
    assert (silent.message.content, silent.finish_reason) == ("", "length")


def test_thoughts_are_counted_and_shown_by_deepseek_only() -> None:
    assert not hasattr(completion(*FULL).choices[0].message, "reasoning_content")
    assert not hasattr(
        completion(*FULL, model="deepseek-reasoner", settings=ReplySettings(show_thoughts=False)).choices[0].message,
        "reasoning_content",
    )
    used = usage(input=50, read=64, output=9)
    deep = completion(Thought("hm"), Words("x"), model="deepseek-reasoner", used=used)
    assert deep.choices[0].message.reasoning_content == "hm"
    assert (deep.usage.prompt_cache_hit_tokens, deep.usage.prompt_cache_miss_tokens) == (64, 50)
    assert deep.usage.prompt_tokens == 114
    streamed = chunks(Thought("hm"), Words("x"), model="deepseek-reasoner", used=used)
    pieces = [getattr(chunk.choices[0].delta, "reasoning_content", "") for chunk in streamed if chunk.choices]
    assert "".join(piece or "" for piece in pieces) == "hm"


def test_usage_is_streamed_when_it_is_asked_for() -> None:
    asked = chunks(*FULL)
    assert [chunk.usage for chunk in asked[:-1]] == [None] * (len(asked) - 1)
    assert (asked[-1].choices, asked[-1].usage.prompt_tokens) == ([], 1307)
    silent = chunks(*FULL, settings=ReplySettings(include_usage=False))
    assert all(chunk.usage is None and chunk.choices for chunk in silent)
    assert silent[-1].choices[0].finish_reason == "tool_calls"


def test_deltas_come_in_order() -> None:
    deltas = [chunk.choices[0].delta for chunk in chunks(*FULL) if chunk.choices]
    assert (deltas[0].role, deltas[0].content) == ("assistant", "")
    assert "".join(delta.content or "" for delta in deltas) == TEXT
    calls = [call for delta in deltas for call in delta.tool_calls or ()]
    assert [call.id for call in calls if call.id] == ["call_1", "call_2"]
    assert "".join(call.function.arguments for call in calls if call.index == 0).encode() == CALL.input
    assert chunks(CALL)[0].choices[0].delta.content is None


TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}


@pytest.mark.parametrize("streamed", [False, True])
def test_the_sdk_completes_a_tool_session(streamed: bool) -> None:
    messages: list = [{"role": "user", "content": "weather?"}]
    members = {"model": "gpt-6.1-sol", "tools": [TOOL]}
    with openai.OpenAI(api_key="k", http_client=httpx2.Client(transport=scripted(WEATHER_TALK))) as api:
        choices = []
        for _ in range(2):
            if streamed:
                with api.chat.completions.stream(
                    messages=messages, stream_options={"include_usage": True}, **members
                ) as stream:
                    found = stream.get_final_completion()
            else:
                found = api.chat.completions.create(messages=messages, **members)
            (choice,) = found.choices
            choices.append(choice)
            assert found.usage.prompt_tokens_details.cached_tokens == 5
            messages.append(choice.message.model_dump(exclude_none=True))
            for call in choice.message.tool_calls or ():
                city = json.loads(call.function.arguments)["city"]
                messages.append({"role": "tool", "tool_call_id": call.id, "content": city})
    assert (choices[0].message.content, choices[0].finish_reason) == (TEXT, "tool_calls")
    assert (choices[1].message.content, choices[1].finish_reason) == ("It is text\né.", "stop")
