"""Gemini's responses, read by Google's SDK, whose types accept nothing they do not know."""

from __future__ import annotations

import json

import httpx2
import pytest
from google import genai
from google.genai import types

from holdfast.simulator.messages import ReplySettings, Thought, Words
from holdfast.simulator.replies import gemini as rendering

from .replies import CALL, FULL, TEXT, WEATHER_TALK, envelope_of, reply_of, scripted

Content = types.GenerateContentResponse


def content(*parts, **members) -> Content:
    envelope = {key: members.pop(key) for key in ("settings",) if key in members}
    reply = reply_of(*parts, **members)
    return Content.model_validate_json(rendering.body(reply, envelope_of("gemini", reply, **envelope)))


def chunks(*parts, **members) -> list[Content]:
    reply = reply_of(*parts, **members)
    frames = rendering.events(reply, envelope_of("gemini", reply))
    return [Content.model_validate_json(frame[6:]) for frame in frames]


def test_a_response_is_what_the_sdk_expects() -> None:
    found = content(*FULL)
    thought, text, first, second = found.candidates[0].content.parts
    assert (thought.text, thought.thought, text.text) == (FULL[0].text, True, TEXT)
    assert (first.function_call.name, first.function_call.args) == ("get_weather", json.loads(CALL.input))
    assert first.thought_signature
    assert second.thought_signature is None
    assert found.candidates[0].finish_reason == types.FinishReason.STOP
    reply, used = reply_of(*FULL), found.usage_metadata
    assert (used.prompt_token_count, used.cached_content_token_count) == (1007, 1000)
    assert used.thoughts_token_count == reply.thought_tokens
    assert used.candidates_token_count + used.thoughts_token_count == reply.tokens
    assert used.total_token_count == 1007 + reply.tokens
    assert (found.response_id, found.model_version) == ("resp_1", "gemini-3-pro")


@pytest.mark.parametrize(
    ("stop", "reason"), [("end", "STOP"), ("limit", "MAX_TOKENS"), ("refusal", "SAFETY"), ("stop_sequence", "STOP")]
)
def test_finish_reasons(stop: str, reason: str) -> None:
    assert content(Words("x"), stop=stop).candidates[0].finish_reason == types.FinishReason(reason)


def test_silence_has_no_parts() -> None:
    silent = content(stop="limit").candidates[0]
    assert (silent.content.parts, silent.finish_reason) == (None, types.FinishReason.MAX_TOKENS)
    (chunk,) = chunks(stop="limit")
    assert chunk.candidates[0].finish_reason == types.FinishReason.MAX_TOKENS


def test_thoughts_that_are_not_shown_are_still_counted() -> None:
    hidden = content(Thought("hm hm"), Words("x"), settings=ReplySettings(show_thoughts=False))
    assert [part.text for part in hidden.candidates[0].content.parts] == ["x"]
    assert hidden.usage_metadata.thoughts_token_count == 2


def test_chunks_bring_texts_in_pieces_and_calls_whole() -> None:
    found = chunks(*FULL)
    parts = [part for chunk in found for part in chunk.candidates[0].content.parts]
    assert "".join(part.text for part in parts if part.text and not part.thought) == TEXT
    assert [part.function_call.name for part in parts if part.function_call] == ["get_weather", "clock"]
    assert [chunk.candidates[0].finish_reason for chunk in found[:-1]] == [None] * (len(found) - 1)
    assert {chunk.usage_metadata.prompt_token_count for chunk in found} == {1007}
    assert found[0].usage_metadata.candidates_token_count is None


CONFIG = types.GenerateContentConfig(
    tools=[
        types.Tool(
            function_declarations=[
                types.FunctionDeclaration(
                    name="get_weather",
                    parameters=types.Schema(
                        type=types.Type.OBJECT,
                        properties={"city": types.Schema(type=types.Type.STRING)},
                        required=["city"],
                    ),
                )
            ]
        )
    ],
    thinking_config=types.ThinkingConfig(include_thoughts=True),
    automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
)


@pytest.mark.parametrize("streamed", [False, True])
def test_the_sdk_completes_a_tool_session(streamed: bool) -> None:
    contents: list = [types.Content(role="user", parts=[types.Part(text="weather?")])]
    turns: list[list[types.Part]] = []
    with httpx2.Client(transport=scripted(WEATHER_TALK)) as http:
        options = types.HttpOptions(httpx_client=http)
        api = genai.Client(api_key="k", http_options=options)
        for _ in range(2):
            if streamed:
                stream = api.models.generate_content_stream(model="gemini-3-pro", contents=contents, config=CONFIG)
                parts = [part for chunk in stream for part in chunk.candidates[0].content.parts]
            else:
                found = api.models.generate_content(model="gemini-3-pro", contents=contents, config=CONFIG)
                parts = found.candidates[0].content.parts
            turns.append(parts)
            answers = [
                types.Part(
                    function_response=types.FunctionResponse(
                        id=part.function_call.id,
                        name="get_weather",
                        response={"result": part.function_call.args["city"]},
                    )
                )
                for part in parts
                if part.function_call
            ]
            contents += [types.Content(role="model", parts=parts), types.Content(role="user", parts=answers)]
        api.close()
    assert "".join(part.text for part in turns[0] if part.text and not part.thought) == TEXT
    assert "".join(part.text for part in turns[0] if part.thought) == "The city?"
    assert "".join(part.text for part in turns[1] if part.text) == "It is text\né."
