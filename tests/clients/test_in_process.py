"""The official SDKs with the engine inside their HTTP client: the same conversations, and the engine saw them all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anthropic
import openai
import pytest
from google import genai

from tests.clients import anthropic_sdk as claude
from tests.clients import gemini_sdk as gemini
from tests.clients import openai_sdk as gpt
from tests.clients.engine_inside import Inside, used
from tests.clients.sdk_requests import with_http
from tests.clients.sessions import Control, Conversation, Session, adrive, completed, drive

pytestmark = pytest.mark.slow

Ask = Callable[[dict[str, Any]], Any]


@pytest.fixture
def address(provider: str) -> str:
    """The engine is in the client: nothing stands before the provider."""
    return provider


def kept(session: Session, control: Control, inside: Inside) -> None:
    """The client saw what it would have seen; the engine settled what the provider billed, all in one lane."""
    completed(session, control)
    rows = inside.rows()
    assert [(row.status, row.kind) for row in rows] == [("settled", "request")] * 4
    assert used(rows) == control.used()
    assert len({row.lane for row in rows}) == 1
    assert any(use.read for use in session.usage)


# One SDK after the other: how a client is made, and how it asks

SYNCHRONOUS: dict[str, tuple[Callable[[str, Any], Any], Callable[[], Conversation], Callable[[Any], Ask]]] = {
    "anthropic": (
        lambda address, http: anthropic.Anthropic(base_url=address, api_key="k", max_retries=0, http_client=http),
        claude.conversation,
        lambda client: lambda request: client.messages.create(**request),
    ),
    "anthropic, streaming": (
        lambda address, http: anthropic.Anthropic(base_url=address, api_key="k", max_retries=0, http_client=http),
        claude.conversation,
        lambda client: lambda request: claude.streamed(client, request),
    ),
    "openai chat": (
        lambda address, http: openai.OpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0, http_client=http),
        gpt.chat,
        lambda client: lambda request: client.chat.completions.create(**request),
    ),
    "openai chat, streaming": (
        lambda address, http: openai.OpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0, http_client=http),
        gpt.chat,
        lambda client: lambda request: gpt.chat_streamed(client, request),
    ),
    "openai responses": (
        lambda address, http: openai.OpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0, http_client=http),
        gpt.responses,
        lambda client: lambda request: client.responses.create(**request),
    ),
    "openai responses, streaming": (
        lambda address, http: openai.OpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0, http_client=http),
        gpt.responses,
        lambda client: lambda request: gpt.streamed(client, request),
    ),
    "openai responses, chained": (
        lambda address, http: openai.OpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0, http_client=http),
        gpt.chained,
        lambda client: lambda request: client.responses.create(**request),
    ),
    "gemini": (
        lambda address, http: genai.Client(api_key="k", http_options=with_http(address, httpx_client=http)),
        gemini.conversation,
        lambda client: lambda request: gemini.Whole([client.models.generate_content(**request)]),
    ),
    "gemini, streaming": (
        lambda address, http: genai.Client(api_key="k", http_options=with_http(address, httpx_client=http)),
        gemini.conversation,
        lambda client: lambda request: gemini.Whole(client.models.generate_content_stream(**request)),
    ),
}


async def _gemini_whole(client: Any, request: dict[str, Any]) -> gemini.Whole:
    return gemini.Whole([await client.aio.models.generate_content(**request)])


async def _gemini_streamed(client: Any, request: dict[str, Any]) -> gemini.Whole:
    return gemini.Whole([piece async for piece in await client.aio.models.generate_content_stream(**request)])


def _claude(address: str, http: Any) -> Any:
    return anthropic.AsyncAnthropic(base_url=address, api_key="k", max_retries=0, http_client=http)


def _gpt(address: str, http: Any) -> Any:
    return openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0, http_client=http)


def _gemini(address: str, http: Any) -> Any:
    return genai.Client(api_key="k", http_options=with_http(address, httpx_async_client=http))


ASYNCHRONOUS: dict[
    str, tuple[Callable[[str, Any], Any], Callable[[], Conversation], Callable[[Any, dict[str, Any]], Awaitable[Any]]]
] = {
    "anthropic": (_claude, claude.conversation, lambda client, request: client.messages.create(**request)),
    "anthropic, streaming": (_claude, claude.conversation, claude.astreamed),
    "openai chat": (_gpt, gpt.chat, lambda client, request: client.chat.completions.create(**request)),
    "openai chat, streaming": (_gpt, gpt.chat, gpt.chat_astreamed),
    "openai responses": (_gpt, gpt.responses, lambda client, request: client.responses.create(**request)),
    "openai responses, streaming": (_gpt, gpt.responses, gpt.astreamed),
    "gemini": (_gemini, gemini.conversation, _gemini_whole),
    "gemini, streaming": (_gemini, gemini.conversation, _gemini_streamed),
}


def libraries(names: list[str]) -> list[Any]:
    """Each SDK with httpx2, and with httpx where it takes that."""
    found = []
    for name in names:
        found.append(pytest.param(name, None, id=name))
        if not name.startswith("anthropic"):
            found.append(pytest.param(name, "httpx", id=f"{name}, httpx"))
    return found


@pytest.fixture
def seed() -> int:
    return gemini.SEED


class TestSession:
    @pytest.mark.parametrize(("name", "library"), libraries(list(SYNCHRONOUS)))
    def test_synchronous(self, address: str, control: Control, inside: Inside, name: str, library: str | None) -> None:
        make, conversation, asks = SYNCHRONOUS[name]
        with inside.engine.http_client(library=library) as http:
            session = drive(conversation(), asks(make(address, http)))
        kept(session, control, inside)

    @pytest.mark.parametrize(("name", "library"), libraries(list(ASYNCHRONOUS)))
    def test_asynchronous(self, address: str, control: Control, inside: Inside, name: str, library: str | None) -> None:
        make, conversation, ask = ASYNCHRONOUS[name]

        async def run() -> Session:
            async with inside.engine.async_http_client(library=library) as http:
                client = make(address, http)
                return await adrive(conversation(), lambda request: ask(client, request))

        kept(asyncio.run(run()), control, inside)
