"""The Google Gen AI SDK against the simulator: a session with tools, cached contents, and what goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from google import genai
from google.genai import errors, types

from tests.clients.gemini_sdk import COUNTED, MODEL, OFFERED, SEED, Whole, conversation, options, used
from tests.clients.sessions import (
    ANSWER,
    BOTH_WAYS,
    MANUAL,
    QUESTION,
    THANKS,
    Control,
    Session,
    Workshop,
    adrive,
    completed,
    drive,
)

# The SDK takes aiohttp where it finds it, and derives from what aiohttp would rather not have derived from.
pytestmark = [
    BOTH_WAYS,
    pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning"),
]


@pytest.fixture
def seed() -> int:
    """Whether an implicit hit comes is drawn from it: of four requests with this one the last three have theirs."""
    return SEED


@pytest.fixture
def client(address: str) -> Iterator[genai.Client]:
    with genai.Client(api_key="dummy", http_options=options(address)) as client:
        yield client


@asynccontextmanager
async def asynchronous(address: str) -> AsyncIterator[Any]:
    with genai.Client(api_key="dummy", http_options=options(address)) as client:
        async with client.aio as aio:
            yield aio


def grows_where_it_hits(session: Session) -> None:
    """Caching is implicit and promises nothing: where there is a hit it is a longer one than the hit before."""
    reads = [use.read for use in session.usage if use.read]
    assert len(reads) == 3
    assert reads == sorted(set(reads))
    assert reads[0] > 5000


class TestSession:
    def test_synchronous(self, client: genai.Client, control: Control) -> None:
        session = drive(conversation(), lambda request: Whole([client.models.generate_content(**request)]))
        completed(session, control)
        grows_where_it_hits(session)

    def test_streaming(self, client: genai.Client, control: Control) -> None:
        session = drive(conversation(), lambda request: Whole(client.models.generate_content_stream(**request)))
        completed(session, control)
        grows_where_it_hits(session)

    @pytest.mark.parametrize("streaming", [False, True])
    def test_asynchronous(self, address: str, control: Control, streaming: bool) -> None:
        async def run() -> Session:
            async with asynchronous(address) as aio:

                async def ask(request: dict[str, Any]) -> Whole:
                    if not streaming:
                        return Whole([await aio.models.generate_content(**request)])
                    return Whole([piece async for piece in await aio.models.generate_content_stream(**request)])

                return await adrive(conversation(), ask)

        session = asyncio.run(run())
        completed(session, control)
        grows_where_it_hits(session)

    def test_with_thoughts_that_are_sent_back(self, client: genai.Client, control: Control) -> None:
        thinking = types.ThinkingConfig(include_thoughts=True, thinking_budget=1024)
        session = drive(
            conversation(thinking_config=thinking),
            lambda request: Whole(client.models.generate_content_stream(**request)),
        )
        completed(session, control)

    def test_the_sdks_own_tool_loop(self, client: genai.Client, control: Control) -> None:
        workshop = Workshop()

        def get_weather(city: str) -> str:
            """The weather in a city."""
            return workshop.use("get_weather", {"city": city})

        def take_note(text: str) -> str:
            """Keep a text."""
            return workshop.use("take_note", {"text": text})

        chat = client.chats.create(model=MODEL, config={"tools": [get_weather, take_note]})
        assert chat.send_message(QUESTION).text == ANSWER
        assert [name for name, _ in workshop.calls] == ["get_weather", "get_weather", "take_note"]
        assert chat.send_message(THANKS).text == "You are welcome; this was turn 4."
        assert [request["status"] for request in control.requests()] == [200] * 4


class TestRequest:
    def test_counted_tokens_are_the_tokens_billed(self, client: genai.Client, control: Control) -> None:
        counted = client.models.count_tokens(model=MODEL, contents=MANUAL)
        response = client.models.generate_content(model=MODEL, contents=MANUAL)
        assert counted.total_tokens == response.usage_metadata.prompt_token_count
        assert len(control.used()) == 1  # counting is free

    def test_models_are_listed_over_several_pages(self, client: genai.Client) -> None:
        listed = [model.name for model in client.models.list(config={"page_size": 5})]
        assert len(listed) == len(set(listed)) > 5
        assert f"models/{MODEL}" in listed
        assert client.models.get(model=MODEL).input_token_limit
        with pytest.raises(errors.ClientError, match="NOT_FOUND"):
            client.models.get(model="gemini-nobody")

    def test_thoughts_are_marked_and_counted(self, client: genai.Client) -> None:
        config = types.GenerateContentConfig(thinking_config=types.ThinkingConfig(include_thoughts=True))
        response = client.models.generate_content(model=MODEL, contents="think of a number", config=config)
        assert response.text == "Seven."
        assert response.parts
        assert response.parts[0].thought
        assert response.usage_metadata.thoughts_token_count

    def test_stop_sequences_and_limits_end_the_text(self, client: genai.Client) -> None:
        stopped = client.models.generate_content(model=MODEL, contents="count", config={"stop_sequences": ["four"]})
        assert stopped.text == "one two three "
        cut = client.models.generate_content(model=MODEL, contents="count", config={"max_output_tokens": 2})
        assert cut.candidates
        assert cut.candidates[0].finish_reason == types.FinishReason.MAX_TOKENS
        assert COUNTED.startswith(cut.text or "-")


class TestCachedContents:
    def test_its_life(self, client: genai.Client, control: Control) -> None:
        made = client.caches.create(
            model=MODEL, config={"system_instruction": MANUAL, "tools": [OFFERED], "ttl": "600s", "display_name": "it"}
        )
        assert made.name
        assert made.model == f"models/{MODEL}"
        assert made.usage_metadata.total_token_count
        assert client.caches.get(name=made.name) == made
        assert [found.name for found in client.caches.list()] == [made.name]

        moved = client.caches.update(name=made.name, config={"ttl": "7200s"})
        assert moved.expire_time is not None
        assert made.expire_time is not None
        assert moved.expire_time > made.expire_time

        response = client.models.generate_content(model=MODEL, contents="count", config={"cached_content": made.name})
        assert response.text == COUNTED
        assert used(response).read == made.usage_metadata.total_token_count
        assert used(response) == control.used()[-1]

        client.caches.delete(name=made.name)
        assert list(client.caches.list()) == []
        with pytest.raises(errors.ClientError) as caught:
            client.models.generate_content(model=MODEL, contents="count", config={"cached_content": made.name})
        assert (caught.value.code, caught.value.status) == (403, "PERMISSION_DENIED")
        with pytest.raises(errors.ClientError):
            client.caches.get(name=made.name)

    def test_a_conversation_on_one(self, client: genai.Client, control: Control) -> None:
        made = client.caches.create(model=MODEL, config={"system_instruction": MANUAL})
        held = made.usage_metadata.total_token_count
        chat = client.chats.create(model=MODEL, config={"cached_content": made.name})
        for words in ("count", THANKS, "count", THANKS):
            response = chat.send_message(words)
            assert used(response).read >= (held or 0) > 5000
            assert used(response) == control.used()[-1]
        assert response.text == "You are welcome; this was turn 4."

    def test_a_session_with_the_tools_it_holds(self, client: genai.Client, control: Control) -> None:
        made = client.caches.create(model=MODEL, config={"system_instruction": MANUAL, "tools": [OFFERED]})
        held = made.usage_metadata.total_token_count or 0
        session = drive(
            conversation(cached_content=made.name, system_instruction=None, tools=None),
            lambda request: Whole(client.models.generate_content_stream(**request)),
        )
        completed(session, control)
        assert all(use.read >= held > 5000 for use in session.usage)

    def test_is_the_same_asynchronously(self, address: str) -> None:
        async def run() -> None:
            async with asynchronous(address) as aio:
                made = await aio.caches.create(model=MODEL, config={"contents": MANUAL})
                assert [found.name async for found in await aio.caches.list()] == [made.name]
                await aio.caches.delete(name=made.name)
                with pytest.raises(errors.ClientError):
                    await aio.caches.get(name=made.name)

        asyncio.run(run())

    def test_too_small_a_content(self, client: genai.Client) -> None:
        with pytest.raises(errors.ClientError, match="too small"):
            client.caches.create(model=MODEL, config={"contents": "short"})


class TestErrors:
    def test_an_unknown_model(self, client: genai.Client) -> None:
        with pytest.raises(errors.ClientError) as caught:
            client.models.generate_content(model="nobody", contents="count")
        assert (caught.value.code, caught.value.status) == (404, "NOT_FOUND")

    @pytest.mark.parametrize(
        ("status", "kind"),
        [
            (400, errors.ClientError),
            (401, errors.ClientError),
            (429, errors.ClientError),
            (500, errors.ServerError),
            (503, errors.ServerError),
        ],
    )
    def test_a_status_raises_the_sdks_class(
        self, client: genai.Client, control: Control, status: int, kind: type[errors.APIError]
    ) -> None:
        control.fault("status", times=2, status=status)
        with pytest.raises(kind) as caught:
            client.models.generate_content(model=MODEL, contents="count")
        assert caught.value.code == status
        with pytest.raises(kind):
            list(client.models.generate_content_stream(model=MODEL, contents="count"))
        assert client.models.generate_content(model=MODEL, contents="count").text == COUNTED

    def test_a_limit_is_tried_again(self, address: str, control: Control) -> None:
        control.fault("status", times=2, status=429, retry_after=0)
        with genai.Client(api_key="dummy", http_options=options(address, attempts=3)) as client:
            assert client.models.generate_content(model=MODEL, contents="count").text == COUNTED
        assert [request["status"] for request in control.requests()] == [429, 429, 200]

    @pytest.mark.parametrize("at", ["early", "mid", "before_last"])
    def test_a_stream_that_is_cut(self, client: genai.Client, control: Control, at: str) -> None:
        control.fault("cut", at=at)
        with pytest.raises(httpx2.ReadError):  # the SDK has no class of its own for it
            list(client.models.generate_content_stream(model=MODEL, contents="count"))
        assert control.requests()[-1]["state"] == "abandoned"

    def test_an_answer_that_is_cut(self, client: genai.Client, control: Control) -> None:
        control.fault("cut")
        with pytest.raises(httpx2.ReadError):
            client.models.generate_content(model=MODEL, contents="count")
