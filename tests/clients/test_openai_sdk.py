"""The OpenAI SDK against the simulator, Chat Completions and Responses: sessions with tools, and what goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from .sessions import (
    ANSWER,
    BOTH_WAYS,
    FAREWELL,
    MANUAL,
    QUESTION,
    THANKS,
    TOOLS,
    Control,
    Conversation,
    Session,
    Used,
    Workshop,
    adrive,
    completed,
    drive,
    grows,
    schema,
)

pytestmark = [BOTH_WAYS, pytest.mark.slow]

MODEL = "gpt-5.6"
EARLIER = "gpt-5.5"
KEY = "sk-dummy"
FUNCTIONS = [
    {"name": name, "description": description, "parameters": schema(name)} for name, (description, _) in TOOLS.items()
]
CHAT_TOOLS = [{"type": "function", "function": function} for function in FUNCTIONS]
TOOLS_OF_RESPONSES = [{"type": "function", **function} for function in FUNCTIONS]
COUNTED = "one two three four five six"


@pytest.fixture
def client(address: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{address}/v1", api_key=KEY, max_retries=0) as client:
        yield client


def chat_used(completion: ChatCompletion) -> Used:
    """The SDK's inclusive counts taken apart."""
    usage = completion.usage
    assert usage is not None
    assert usage.prompt_tokens_details is not None
    read = usage.prompt_tokens_details.cached_tokens or 0
    written = usage.prompt_tokens_details.cache_write_tokens or 0
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    return Used(usage.prompt_tokens - read - written, read, written, usage.completion_tokens)


def used(response: Response) -> Used:
    usage = response.usage
    assert usage is not None
    read, written = usage.input_tokens_details.cached_tokens, usage.input_tokens_details.cache_write_tokens
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    return Used(usage.input_tokens - read - written, read, written, usage.output_tokens)


def chatting(words: str, **members: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": words}]} | members


def chat(**members: Any) -> Conversation:
    workshop, said, usage = Workshop(), [], []
    messages: list[Any] = [{"role": "developer", "content": MANUAL}]
    for words in (QUESTION, THANKS):
        messages.append({"role": "user", "content": words})
        while True:
            completion = yield chatting("", tools=CHAT_TOOLS) | {"messages": messages} | members
            choice = completion.choices[0]
            message = choice.message
            said.extend([message.content] if message.content else [])
            usage.append(chat_used(completion))
            messages.append(message.model_dump(exclude_none=True, exclude={"parsed"}))
            if choice.finish_reason != "tool_calls":
                assert choice.finish_reason == "stop"
                break
            for call in message.tool_calls:
                result = workshop.use(call.function.name, call.function.arguments)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    return Session(said, workshop.calls, usage)


def responses(**members: Any) -> Conversation:
    """The whole conversation is sent every time."""
    workshop, said, usage = Workshop(), [], []
    items: list[Any] = []
    for words in (QUESTION, THANKS):
        items.append({"role": "user", "content": words})
        while True:
            response = yield {
                "model": MODEL,
                "instructions": MANUAL,
                "tools": TOOLS_OF_RESPONSES,
                "input": items,
                "store": False,
                **members,
            }
            said.extend([response.output_text] if response.output_text else [])
            usage.append(used(response))
            items.extend(response.output)
            results = _results(response, workshop)
            if not results:
                break
            items.extend(results)
    return Session(said, workshop.calls, usage)


def chained() -> Conversation:
    """Only what is new is sent; the provider keeps the rest."""
    workshop, said, usage, previous = Workshop(), [], [], None
    for words in (QUESTION, THANKS):
        new: list[Any] = [{"role": "user", "content": words}]
        while new:
            response = yield {
                "model": MODEL,
                "instructions": MANUAL,
                "tools": TOOLS_OF_RESPONSES,
                "input": new,
                "previous_response_id": previous,
            }
            said.extend([response.output_text] if response.output_text else [])
            usage.append(used(response))
            previous = response.id
            new = _results(response, workshop)
    return Session(said, workshop.calls, usage)


def _results(response: Response, workshop: Workshop) -> list[Any]:
    assert response.status == "completed"
    return [
        {
            "type": "function_call_output",
            "call_id": item.call_id,
            "output": workshop.use(item.name, item.arguments),
        }
        for item in response.output
        if item.type == "function_call"
    ]


def chat_streamed(client: openai.OpenAI, request: dict[str, Any]) -> ChatCompletion:
    with client.chat.completions.stream(**request, stream_options={"include_usage": True}) as stream:
        pieces = "".join(event.delta for event in stream if event.type == "content.delta")
        completion = stream.get_final_completion()
    assert pieces == (completion.choices[0].message.content or "")
    return completion


async def chat_astreamed(client: openai.AsyncOpenAI, request: dict[str, Any]) -> ChatCompletion:
    async with client.chat.completions.stream(**request, stream_options={"include_usage": True}) as stream:
        pieces = "".join([event.delta async for event in stream if event.type == "content.delta"])
        completion = await stream.get_final_completion()
    assert pieces == (completion.choices[0].message.content or "")
    return completion


def streamed(client: openai.OpenAI, request: dict[str, Any]) -> Response:
    with client.responses.stream(**request) as stream:
        pieces = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        response = stream.get_final_response()
    assert pieces == response.output_text
    return response


async def astreamed(client: openai.AsyncOpenAI, request: dict[str, Any]) -> Response:
    async with client.responses.stream(**request) as stream:
        pieces = "".join([event.delta async for event in stream if event.type == "response.output_text.delta"])
        response = await stream.get_final_response()
    assert pieces == response.output_text
    return response


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
        assert response.usage is not None
        assert response.usage.output_tokens > response.usage.output_tokens_details.reasoning_tokens > 0

        completion = client.chat.completions.create(**chatting("think of a number", reasoning_effort="low"))
        assert completion.choices[0].message.content == "Seven."
        assert completion.usage is not None
        assert completion.usage.completion_tokens_details is not None
        assert completion.usage.completion_tokens_details.reasoning_tokens

    def test_stop_sequences_and_limits_end_the_text(self, client: openai.OpenAI) -> None:
        stopped = client.chat.completions.create(**chatting("count", stop=["four"])).choices[0]
        assert (stopped.finish_reason, stopped.message.content) == ("stop", "one two three ")
        cut = client.chat.completions.create(**chatting("count", max_completion_tokens=2))
        assert cut.choices[0].finish_reason == "length"
        assert cut.usage is not None
        assert cut.usage.completion_tokens == 2
        response = client.responses.create(model=MODEL, input="count", max_output_tokens=2)
        assert response.status == "incomplete"
        assert response.incomplete_details is not None
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
        assert same is not None
        assert same.type == "cache_hit"
        for change, reason in (
            ({"prompt_cache_key": "two"}, "prompt_cache_key_changed"),
            ({"tools": TOOLS_OF_RESPONSES[::-1]}, "tools_changed"),
            ({"instructions": "Today is Monday. " + MANUAL}, "input_changed"),
            ({"reasoning": {"effort": "high"}}, "reasoning_effort_changed"),
        ):
            found = client.responses.create(**request | change).prompt_cache_diagnostics
            assert found is not None
            assert found.type == "cache_miss"
            assert found.reason == reason
            assert found.cache_missed_tokens > 0

    def test_an_unknown_response_cannot_be_compared(self, client: openai.OpenAI) -> None:
        options: Any = {"comparison_response_id": "resp_unknown"}
        found = client.responses.create(model=MODEL, input="count", prompt_cache_options=options)
        assert found.prompt_cache_diagnostics is not None
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
