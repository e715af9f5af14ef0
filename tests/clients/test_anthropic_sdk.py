"""The Anthropic SDK against the simulator: a session with tools in every manner of calling, and what goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import pytest

from tests.clients.anthropic_sdk import KEY, MODEL, OFFERED, asking, astreamed, conversation, streamed, texts, used
from tests.clients.sessions import (
    BOTH_WAYS,
    FAREWELL,
    MANUAL,
    QUESTION,
    THANKS,
    Control,
    Session,
    Workshop,
    adrive,
    completed,
    drive,
    grows,
)

pytestmark = [BOTH_WAYS, pytest.mark.slow]

MARKED: list[Any] = [{"type": "text", "text": MANUAL, "cache_control": {"type": "ephemeral"}}]


@pytest.fixture
def client(address: str) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=address, api_key=KEY, max_retries=0) as client:
        yield client


class TestSession:
    def test_synchronous(self, client: anthropic.Anthropic, control: Control) -> None:
        session = drive(conversation(), lambda request: client.messages.create(**request))
        completed(session, control)
        grows(session)

    def test_streaming(self, client: anthropic.Anthropic, control: Control) -> None:
        session = drive(conversation(), lambda request: streamed(client, request))
        completed(session, control)
        grows(session)

    @pytest.mark.parametrize("streaming", [False, True])
    def test_asynchronous(self, address: str, control: Control, streaming: bool) -> None:
        async def run() -> Session:
            async with anthropic.AsyncAnthropic(base_url=address, api_key=KEY, max_retries=0) as client:
                if streaming:
                    return await adrive(conversation(), lambda request: astreamed(client, request))
                return await adrive(conversation(), lambda request: client.messages.create(**request))

        session = asyncio.run(run())
        completed(session, control)
        grows(session)

    def test_with_thinking_that_is_sent_back(self, client: anthropic.Anthropic, control: Control) -> None:
        thinking = {"type": "enabled", "budget_tokens": 1024}
        session = drive(conversation(thinking=thinking, max_tokens=2000), lambda request: streamed(client, request))
        completed(session, control)
        grows(session)

    def test_the_sdks_own_tool_loop(self, client: anthropic.Anthropic, control: Control) -> None:
        workshop = Workshop()

        @anthropic.beta_tool
        def get_weather(city: str) -> str:
            """The weather in a city."""
            return workshop.use("get_weather", {"city": city})

        @anthropic.beta_tool
        def take_note(text: str) -> str:
            """Keep a text."""
            return workshop.use("take_note", {"text": text})

        runner = client.beta.messages.tool_runner(**asking(QUESTION, tools=[get_weather, take_note]))
        final = runner.until_done()
        assert [block.text for block in final.content if block.type == "text"] == ["Sunny in Paris, rain in Rome."]
        assert [name for name, _ in workshop.calls] == ["get_weather", "get_weather", "take_note"]
        assert [request["status"] for request in control.requests()] == [200, 200, 200]

    def test_a_thread_that_sends_only_what_is_new(self, client: anthropic.Anthropic, control: Control) -> None:
        thread = client.beta.messages.thread(
            model=MODEL, max_tokens=500, system=MANUAL, cache_control={"type": "ephemeral"}, messages=[]
        )
        for words in ("count", THANKS, "count", THANKS):
            reply = thread.send({"role": "user", "content": words})
        assert [block.text for block in reply.content if block.type == "text"] == [FAREWELL]
        usage = control.used()
        grows(Session([], [], usage))
        assert reply.usage.cache_read_input_tokens == usage[-1].read

    def test_a_thread_that_was_lost_is_sent_again(self, client: anthropic.Anthropic, control: Control) -> None:
        thread = client.beta.messages.thread(model=MODEL, max_tokens=500, messages=[])
        thread.send({"role": "user", "content": "count"})
        control.reset()
        reply = thread.send({"role": "user", "content": THANKS})
        assert [block.text for block in reply.content if block.type == "text"] == ["You are welcome; this was turn 2."]
        assert [request["status"] for request in control.requests()] == [200, 404, 200]


class TestRequest:
    def test_counted_tokens_are_the_tokens_billed(self, client: anthropic.Anthropic, control: Control) -> None:
        request = asking(QUESTION, system=MANUAL, tools=OFFERED)
        counted = client.messages.count_tokens(**{name: request[name] for name in request if name != "max_tokens"})
        billed = used(client.messages.create(**request))
        assert counted.input_tokens == billed.input + billed.written > 5000
        assert len(control.used()) == 1  # counting is free

    def test_models_are_listed_over_several_pages(self, client: anthropic.Anthropic) -> None:
        listed = [model.id for model in client.models.list(limit=5)]
        assert len(listed) == len(set(listed)) > 5
        assert MODEL in listed
        assert client.models.retrieve(MODEL).display_name == "Claude Sonnet 4.6"
        with pytest.raises(anthropic.NotFoundError):
            client.models.retrieve("claude-nobody")

    def test_thoughts_come_signed_before_the_text(self, client: anthropic.Anthropic) -> None:
        thinking = {"type": "enabled", "budget_tokens": 1024}
        for message in (
            client.messages.create(**asking("think of a number", thinking=thinking, max_tokens=2000)),
            streamed(client, asking("think of a number", thinking=thinking, max_tokens=2000)),
        ):
            thought, said = message.content
            assert thought.type == "thinking"
            assert thought.thinking == "The first number that comes to mind is seven."
            assert thought.signature
            assert said.type == "text"
            assert said.text == "Seven."

    def test_stop_sequences_and_limits_end_the_text(self, client: anthropic.Anthropic) -> None:
        stopped = client.messages.create(**asking("count", stop_sequences=["four"]))
        assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "four")
        assert texts(stopped) == ["one two three "]
        cut = streamed(client, asking("count", max_tokens=2))
        assert cut.stop_reason == "max_tokens"
        assert cut.usage.output_tokens == 2
        assert "one two three four five six".startswith(texts(cut)[0])

    def test_a_request_without_output_warms_the_cache(self, client: anthropic.Anthropic) -> None:
        warmed = client.messages.create(**asking("count", system=MARKED, max_tokens=0))
        assert warmed.content == []
        assert warmed.usage.output_tokens == 0
        later = client.messages.create(**asking("count to six", system=MARKED))
        assert later.usage.cache_read_input_tokens == warmed.usage.cache_creation_input_tokens
        assert later.usage.cache_read_input_tokens

    def test_writes_are_told_apart_by_lifetime(self, client: anthropic.Anthropic) -> None:
        system = [{"type": "text", "text": MANUAL, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
        usage = client.messages.create(**asking("count", system=system, cache_control={"type": "ephemeral"})).usage
        assert usage.cache_creation.ephemeral_1h_input_tokens > 5000
        assert usage.cache_creation.ephemeral_5m_input_tokens > 0
        assert usage.cache_creation_input_tokens == (
            usage.cache_creation.ephemeral_1h_input_tokens + usage.cache_creation.ephemeral_5m_input_tokens
        )


class TestDiagnostics:
    def test_names_the_section_that_changed(self, client: anthropic.Anthropic) -> None:
        request = asking(QUESTION, system=MARKED, tools=OFFERED, diagnostics={"previous_message_id": None})
        first = client.messages.create(**request)
        assert first.diagnostics is None
        compared = {"diagnostics": {"previous_message_id": first.id}}
        assert client.messages.create(**request | compared).diagnostics is None

        system = [MARKED[0] | {"text": "Today is Monday. " + MANUAL}]
        for change, reason in (
            ({"system": system}, "system_changed"),
            ({"tools": OFFERED[::-1]}, "tools_changed"),
            ({"model": "claude-sonnet-5"}, "model_changed"),
            ({"messages": [{"role": "user", "content": "Something else."}]}, "messages_changed"),
        ):
            found = client.messages.create(**request | compared | change).diagnostics
            assert found.cache_miss_reason.type == reason
            assert found.cache_miss_reason.cache_missed_input_tokens > 0

    def test_an_unknown_message_cannot_be_compared(self, client: anthropic.Anthropic) -> None:
        message = streamed(client, asking("count", diagnostics={"previous_message_id": "msg_unknown"}))
        assert message.diagnostics.cache_miss_reason.type == "previous_message_not_found"


class TestErrors:
    def test_too_many_markers(self, client: anthropic.Anthropic) -> None:
        with pytest.raises(anthropic.BadRequestError, match="A maximum of 4 blocks with cache_control") as caught:
            client.messages.create(**asking("count", system=MARKED * 5))
        assert caught.value.type == "invalid_request_error"
        assert caught.value.request_id

    def test_a_call_without_a_key(self, client: anthropic.Anthropic) -> None:
        without = {"X-Api-Key": anthropic.Omit(), "Authorization": anthropic.Omit()}
        with pytest.raises(anthropic.AuthenticationError, match="x-api-key"):
            client.messages.create(**asking("count"), extra_headers=without)

    @pytest.mark.parametrize(
        ("status", "kind"),
        [
            (400, anthropic.BadRequestError),
            (401, anthropic.AuthenticationError),
            (429, anthropic.RateLimitError),
            (500, anthropic.InternalServerError),
            (503, anthropic.InternalServerError),
            (529, anthropic.OverloadedError),
        ],
    )
    def test_a_status_raises_the_sdks_class(
        self, client: anthropic.Anthropic, control: Control, status: int, kind: type[anthropic.APIStatusError]
    ) -> None:
        control.fault("status", times=2, status=status)
        with pytest.raises(kind) as caught:
            client.messages.create(**asking("count"))
        assert caught.value.status_code == status
        with pytest.raises(kind):
            streamed(client, asking("count"))
        assert texts(client.messages.create(**asking("count"))) == ["one two three four five six"]

    def test_a_limit_is_waited_for_as_long_as_it_says(
        self, client: anthropic.Anthropic, control: Control, slept: list[float]
    ) -> None:
        control.fault("status", times=2, status=429, retry_after=7)
        message = client.with_options(max_retries=2).messages.create(**asking("count"))
        assert texts(message) == ["one two three four five six"]
        assert slept == [7.0, 7.0]
        assert [request["status"] for request in control.requests()] == [429, 429, 200]

    def test_an_error_event_in_the_stream(self, client: anthropic.Anthropic, control: Control) -> None:
        control.fault("sse_error", status=529)
        with pytest.raises(anthropic.APIStatusError) as caught:
            streamed(client, asking("count"))
        assert caught.value.type == "overloaded_error"

    @pytest.mark.parametrize("at", ["early", "mid", "before_last"])
    def test_a_stream_that_is_cut(self, client: anthropic.Anthropic, control: Control, at: str) -> None:
        control.fault("cut", at=at)
        with pytest.raises(httpx2.ReadError):  # the SDK wraps what happens before the first byte only
            streamed(client, asking("count"))
        assert control.requests()[-1]["state"] == "abandoned"

    def test_an_answer_that_is_cut(self, client: anthropic.Anthropic, control: Control) -> None:
        control.fault("cut")
        with pytest.raises(anthropic.APIConnectionError):
            client.messages.create(**asking("count"))

    def test_a_cut_answer_is_asked_for_again(
        self, client: anthropic.Anthropic, control: Control, slept: list[float]
    ) -> None:
        control.fault("cut")
        message = client.with_options(max_retries=1).messages.create(**asking("count"))
        assert texts(message) == ["one two three four five six"]
        assert [request["state"] for request in control.requests()] == ["abandoned", "complete"]
