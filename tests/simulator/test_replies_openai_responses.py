"""Responses, read by OpenAI's SDK."""

from __future__ import annotations

import json

import httpx2
import openai
import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from holdfast.records import usage
from holdfast.simulator.messages import ReplySettings, Thought, Words
from holdfast.simulator.replies import openai_responses as rendering

from .replies import CALL, CITY, FULL, TEXT, WEATHER_TALK, envelope_of, reply_of, scripted

EVENT: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)


def response(*parts, **members) -> Response:
    envelope = {key: members.pop(key) for key in ("model", "used", "settings") if key in members}
    reply = reply_of(*parts, **members)
    raw = rendering.body(reply, envelope_of("openai_responses", reply, **envelope))
    return Response.model_validate_json(raw, strict=True)


def events(*parts, **members) -> list[dict]:
    reply = reply_of(*parts, **members)
    found = []
    for frame in rendering.events(reply, envelope_of("openai_responses", reply)):
        name, data, *_ = frame.decode().split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        EVENT.validate_json(json.dumps(event), strict=True)
        found.append(event)
    return found


def test_a_response_is_what_the_sdk_expects() -> None:
    found = response(*FULL)
    assert [item.type for item in found.output] == ["reasoning", "message", "function_call", "function_call"]
    assert (found.status, found.output_text, found.incomplete_details) == ("completed", TEXT, None)
    assert found.output[0].summary[0].text == FULL[0].text
    assert (found.output[2].call_id, found.output[2].arguments.encode()) == ("call_1", CALL.input)
    assert len({item.id for item in found.output}) == 4
    used = found.usage
    assert (used.input_tokens, used.input_tokens_details.cached_tokens) == (1307, 1000)
    assert used.input_tokens_details.cache_write_tokens == 300
    assert used.output_tokens_details.reasoning_tokens == reply_of(*FULL).thought_tokens


def test_models_that_write_for_free_report_no_writes() -> None:
    free = response(Words("x"), model="gpt-5.5", used=usage(input=1, read=128, writes={"in_memory": 5}, output=1))
    assert (free.usage.input_tokens, free.usage.input_tokens_details.cache_write_tokens) == (134, 0)


def test_a_limit_makes_it_incomplete() -> None:
    found = response(Words("x"), stop="limit", settings=ReplySettings(limit=1))
    assert (found.status, found.incomplete_details.reason, found.max_output_tokens) == (
        "incomplete",
        "max_output_tokens",
        1,
    )
    assert found.output[0].status == "incomplete"
    assert response(stop="limit").output == []
    assert response(Thought("hm"), stop="limit").output[0].type == "reasoning"
    assert events(Words("x"), stop="limit")[-1]["type"] == "response.incomplete"


def test_a_refusal_is_a_part_of_its_own() -> None:
    assert response(Words("no"), stop="refusal").output[0].content[0].refusal == "no"
    kinds = [event["type"] for event in events(Words("no"), stop="refusal")]
    assert kinds.count("response.refusal.delta") == 2
    assert "response.refusal.done" in kinds


def test_thoughts_are_summed_up_or_sealed_as_asked() -> None:
    plain = response(*FULL, settings=ReplySettings(show_thoughts=False)).output[0]
    assert (plain.summary, plain.encrypted_content) == ([], None)
    sealed = response(*FULL, settings=ReplySettings(show_thoughts=False, encrypted_thoughts=True)).output[0]
    assert (sealed.summary, bool(sealed.encrypted_content)) == ([], True)


def test_events_are_numbered_and_tell_every_item_whole() -> None:
    found = events(*FULL)
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    kinds = [event["type"] for event in found]
    assert kinds[:3] == ["response.created", "response.in_progress", "response.output_item.added"]
    final = found[-1]["response"]
    assert kinds[-1] == "response.completed"
    assert [event["item"] for event in found if event["type"] == "response.output_item.done"] == final["output"]
    text = "".join(event["delta"] for event in found if event["type"] == "response.output_text.delta")
    arguments = [e["delta"] for e in found if e["type"].endswith("arguments.delta") and e["output_index"] == 2]
    assert (text, "".join(arguments).encode()) == (TEXT, CALL.input)
    assert found[0]["response"]["usage"] is None


TOOL = {"type": "function", "name": "get_weather", "parameters": CITY, "strict": False}


@pytest.mark.parametrize("streamed", [False, True])
def test_the_sdk_completes_a_tool_session(streamed: bool) -> None:
    items: list = [{"role": "user", "content": "weather?"}]
    members = {
        "model": "gpt-6.1-sol",
        "tools": [TOOL],
        "store": False,
        "reasoning": {"effort": "low", "summary": "auto"},
    }
    with openai.OpenAI(api_key="k", http_client=httpx2.Client(transport=scripted(WEATHER_TALK))) as api:
        found = []
        for _ in range(2):
            if streamed:
                with api.responses.stream(input=items, **members) as stream:
                    answer = stream.get_final_response()
            else:
                answer = api.responses.create(input=items, **members)
            found.append(answer)
            items += [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in answer.output]
            for item in answer.output:
                if item.type == "function_call":
                    city = json.loads(item.arguments)["city"]
                    items.append({"type": "function_call_output", "call_id": item.call_id, "output": city})
    assert [item.type for item in found[0].output] == ["reasoning", "message", "function_call", "function_call"]
    assert (found[0].output_text, found[1].output_text) == (TEXT, "It is text\né.")
    assert found[1].usage.input_tokens_details.cached_tokens == 5
