"""The OpenAI SDK against the simulator, Chat Completions and Responses: sessions with tools, and what goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.clients.openai_sdk import (
    MODEL,
    TOOLS_OF_RESPONSES,
    astreamed,
    chained,
    chat,
    chat_astreamed,
    chat_streamed,
    chatting,
    responses,
    streamed,
    used,
)
from tests.clients.sessions import (
    ANSWER,
    BOTH_WAYS,
    FAREWELL,
    MANUAL,
    QUESTION,
    Control,
    Session,
    Used,
    adrive,
    completed,
    drive,
    grows,
)

pytestmark = [BOTH_WAYS, pytest.mark.slow]

EARLIER = "gpt-5.5"
KEY = "sk-dummy"
COUNTED = "one two three four five six"


@pytest.fixture
def client(address: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{address}/v1", api_key=KEY, max_retries=0) as client:
        yield client


class TestChatSession:
    def test_synchronous(self, client: openai.OpenAI, control: Control) -> None:
        session = drive(chat(), lambda request: client.chat.completions.create(**request))
        completed(session, control)
        grows(session)

    def test_streaming(self, client: openai.OpenAI, control: Control) -> None:
        session = drive(chat(), lambda request: chat_streamed(client, request))
        completed(session, control)
        grows(session)

    @pytest.mark.parametrize("streaming", [False, True])
    def test_asynchronous(self, address: str, control: Control, streaming: bool) -> None:
        async def run() -> Session:
            async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key=KEY, max_retries=0) as client:
                if streaming:
                    return await adrive(chat(), lambda request: chat_astreamed(client, request))
                return await adrive(chat(), lambda request: client.chat.completions.create(**request))

        session = asyncio.run(run())
        completed(session, control)
        grows(session)

    def test_an_earlier_model_reads_in_steps_and_writes_for_free(self, client: openai.OpenAI, control: Control) -> None:
        session = drive(chat(model=EARLIER), lambda request: client.chat.completions.create(**request))
        assert session.texts[-2:] == [ANSWER, FAREWELL]
        assert session.usage == control.used()
        reads = [use.read for use in session.usage]
        assert reads[0] == 0
        assert all(read > 5000 and read % 128 == 0 for read in reads[1:])
        assert not any(use.written for use in session.usage)


class TestResponsesSession:
    def test_synchronous(self, client: openai.OpenAI, control: Control) -> None:
        session = drive(responses(), lambda request: client.responses.create(**request))
        completed(session, control)
        grows(session)

    def test_streaming(self, client: openai.OpenAI, control: Control) -> None:
        session = drive(responses(), lambda request: streamed(client, request))
        completed(session, control)
        grows(session)

    @pytest.mark.parametrize("streaming", [False, True])
    def test_asynchronous(self, address: str, control: Control, streaming: bool) -> None:
        async def run() -> Session:
            async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key=KEY, max_retries=0) as client:
                if streaming:
                    return await adrive(responses(), lambda request: astreamed(client, request))
                return await adrive(responses(), lambda request: client.responses.create(**request))

        session = asyncio.run(run())
        completed(session, control)
        grows(session)

    def test_reasoning_that_is_sent_back_sealed(self, client: openai.OpenAI, control: Control) -> None:
        members = {"reasoning": {"effort": "low", "summary": "auto"}, "include": ["reasoning.encrypted_content"]}
        session = drive(responses(**members), lambda request: streamed(client, request))
        completed(session, control)
        grows(session)

    def test_a_chain_of_responses_costs_what_the_whole_costs(self, client: openai.OpenAI, control: Control) -> None:
        session = drive(chained(), lambda request: client.responses.create(**request))
        completed(session, control)
        grows(session)


class TestRequest:
    def test_models_are_listed(self, client: openai.OpenAI) -> None:
        listed = [model.id for model in client.models.list()]
        assert {MODEL, EARLIER} <= set(listed)
        assert client.models.retrieve(MODEL).id == MODEL
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("gpt-nobody")

    def test_reasoning_is_counted_and_summed_up(self, client: openai.OpenAI) -> None:
        response = streamed(
            client,
            {"model": MODEL, "input": "think of a number", "reasoning": {"effort": "low", "summary": "auto"}},
        )
        thought = response.output[0]
        assert thought.type == "reasoning"
        assert "seven" in thought.summary[0].text
        assert response.output_text == "Seven."
        assert response.usage.output_tokens > response.usage.output_tokens_details.reasoning_tokens > 0

        completion = client.chat.completions.create(**chatting("think of a number", reasoning_effort="low"))
        assert completion.choices[0].message.content == "Seven."
        assert completion.usage.completion_tokens_details.reasoning_tokens

    def test_stop_sequences_and_limits_end_the_text(self, client: openai.OpenAI) -> None:
        stopped = client.chat.completions.create(**chatting("count", stop=["four"])).choices[0]
        assert (stopped.finish_reason, stopped.message.content) == ("stop", "one two three ")
        cut = client.chat.completions.create(**chatting("count", max_completion_tokens=2))
        assert cut.choices[0].finish_reason == "length"
        assert cut.usage.completion_tokens == 2
        response = client.responses.create(model=MODEL, input="count", max_output_tokens=2)
        assert response.status == "incomplete"
        assert response.incomplete_details.reason == "max_output_tokens"
        assert COUNTED.startswith(response.output_text)

    def test_a_cache_key_separates_entries(self, client: openai.OpenAI) -> None:
        def read(key: str) -> int:
            response = client.responses.create(model=MODEL, instructions=MANUAL, input="count", prompt_cache_key=key)
            return used(response).read

        assert read("one") == 0
        assert read("one") > 5000
        assert read("two") == 0

    def test_explicit_breakpoints_decide_alone(self, client: openai.OpenAI) -> None:
        part = {"type": "input_text", "text": MANUAL}
        marked = part | {"prompt_cache_breakpoint": {"mode": "explicit"}}

        def ask(first: dict[str, Any], words: str) -> Used:
            items: Any = [{"role": "user", "content": [first, {"type": "input_text", "text": words}]}]
            return used(client.responses.create(model=MODEL, input=items, prompt_cache_options={"mode": "explicit"}))

        assert ask(part, "count")[1:3] == (0, 0)
        written = ask(marked, "count").written
        assert written > 5000
        assert ask(marked, "count again").read == written


class TestDiagnostics:
    def test_compares_with_an_earlier_response(self, client: openai.OpenAI) -> None:
        request: dict[str, Any] = {
            "model": MODEL,
            "instructions": MANUAL,
            "input": QUESTION,
            "tools": TOOLS_OF_RESPONSES,
            "prompt_cache_key": "one",
        }
        first = client.responses.create(**request)
        assert first.prompt_cache_diagnostics is None
        request["prompt_cache_options"] = {"comparison_response_id": first.id}
        same = streamed(client, request).prompt_cache_diagnostics
        assert same.type == "cache_hit"
        for change, reason in (
            ({"prompt_cache_key": "two"}, "prompt_cache_key_changed"),
            ({"tools": TOOLS_OF_RESPONSES[::-1]}, "tools_changed"),
            ({"instructions": "Today is Monday. " + MANUAL}, "input_changed"),
            ({"reasoning": {"effort": "high"}}, "reasoning_effort_changed"),
        ):
            found = client.responses.create(**request | change).prompt_cache_diagnostics
            assert found.type == "cache_miss"
            assert found.reason == reason
            assert found.cache_missed_tokens > 0

    def test_an_unknown_response_cannot_be_compared(self, client: openai.OpenAI) -> None:
        options: Any = {"comparison_response_id": "resp_unknown"}
        found = client.responses.create(model=MODEL, input="count", prompt_cache_options=options)
        assert found.prompt_cache_diagnostics.type == "comparison_response_not_found"


class TestErrors:
    def test_a_response_that_was_not_stored_cannot_be_continued(self, client: openai.OpenAI) -> None:
        unstored = client.responses.create(model=MODEL, input="count", store=False)
        with pytest.raises(openai.BadRequestError, match=f"Previous response with id '{unstored.id}' not found"):
            client.responses.create(model=MODEL, input="thank you", previous_response_id=unstored.id)

    def test_fields_of_the_other_generation(self, client: openai.OpenAI) -> None:
        with pytest.raises(openai.BadRequestError):
            client.responses.create(model=EARLIER, input="count", prompt_cache_options={"mode": "explicit"})
        with pytest.raises(openai.BadRequestError):
            client.responses.create(model=MODEL, input="count", prompt_cache_retention="24h")

    def test_a_call_without_a_key(self, client: openai.OpenAI) -> None:
        without = {"Authorization": openai.Omit()}
        with pytest.raises(openai.AuthenticationError):
            client.responses.create(model=MODEL, input="count", extra_headers=without)

    @pytest.mark.parametrize(
        ("status", "kind"),
        [
            (400, openai.BadRequestError),
            (401, openai.AuthenticationError),
            (429, openai.RateLimitError),
            (500, openai.InternalServerError),
            (503, openai.InternalServerError),
        ],
    )
    def test_a_status_raises_the_sdks_class(
        self, client: openai.OpenAI, control: Control, status: int, kind: type[openai.APIStatusError]
    ) -> None:
        control.fault("status", times=3, status=status)
        with pytest.raises(kind) as caught:
            client.chat.completions.create(**chatting("count"))
        assert caught.value.status_code == status
        with pytest.raises(kind):
            client.responses.create(model=MODEL, input="count")
        with pytest.raises(kind):
            streamed(client, {"model": MODEL, "input": "count"})
        assert client.responses.create(model=MODEL, input="count").output_text == COUNTED

    def test_a_limit_is_waited_for_as_long_as_it_says(
        self, client: openai.OpenAI, control: Control, slept: list[float]
    ) -> None:
        control.fault("status", times=2, status=429, retry_after=7)
        completion = client.with_options(max_retries=2).chat.completions.create(**chatting("count"))
        assert completion.choices[0].message.content == COUNTED
        assert slept == [7.0, 7.0]
        assert [request["status"] for request in control.requests()] == [429, 429, 200]

    def test_an_error_event_in_the_stream(self, client: openai.OpenAI, control: Control) -> None:
        control.fault("sse_error", times=2, status=500)
        with pytest.raises(openai.APIError):
            chat_streamed(client, chatting("count"))
        *_, last = client.responses.create(model=MODEL, input="count", stream=True)
        assert last.type == "error"
        assert last.message

    @pytest.mark.parametrize("at", ["early", "mid", "before_last"])
    def test_a_stream_that_is_cut(self, client: openai.OpenAI, control: Control, at: str) -> None:
        control.fault("cut", times=2, at=at)
        with pytest.raises(openai.APIConnectionError):
            chat_streamed(client, chatting("count"))
        with pytest.raises(openai.APIConnectionError):
            streamed(client, {"model": MODEL, "input": "count"})
        assert [request["state"] for request in control.requests()] == ["abandoned", "abandoned"]

    def test_an_answer_that_is_cut(self, client: openai.OpenAI, control: Control) -> None:
        control.fault("cut")
        with pytest.raises(openai.APIConnectionError):
            client.chat.completions.create(**chatting("count"))
