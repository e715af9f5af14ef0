"""HTTP clients with the engine inside: calls that break off, fail, are tried again, and share an engine."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from google import genai

from holdfast.config.sections.server import GatewaySettings
from tests.clients import anthropic_sdk as claude
from tests.clients import gemini_sdk as gemini
from tests.clients import openai_sdk as gpt
from tests.clients.engine_inside import LIMITS, Inside, opened, used
from tests.clients.sdk_requests import anthropic_request, with_http
from tests.clients.sessions import MANUAL, Control, Session, adrive, completed, drive

pytestmark = pytest.mark.slow


@pytest.fixture
def address(provider: str) -> str:
    return provider


@pytest.fixture
def client(inside: Inside, address: str) -> Iterator[anthropic.Anthropic]:
    with inside.engine.http_client() as http:
        yield anthropic.Anthropic(base_url=address, api_key=claude.KEY, max_retries=0, http_client=http)


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address where nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


class TestBrokenOff:
    def test_a_stream_that_is_left_midway(self, client: anthropic.Anthropic, control: Control, inside: Inside) -> None:
        control.fault("stall", at="mid", seconds=60)
        with client.messages.stream(**anthropic_request()) as stream:
            next(iter(stream))
        assert inside.ends() == [("abandoned", None)]
        deadline = time.monotonic() + 30
        while control.requests()[-1]["state"] == "open" and time.monotonic() < deadline:
            time.sleep(0.01)
        assert control.requests()[-1]["state"] == "abandoned"  # the connection was let go, the client is still open
        assert inside.rows()[0].first_token_at is not None

    def test_a_stream_that_is_dropped_midway(
        self, client: anthropic.Anthropic, control: Control, inside: Inside
    ) -> None:
        control.fault("stall", at="mid", seconds=60)
        with client.messages.create(**anthropic_request(), stream=True) as events:
            for _ in events:
                break
        assert inside.ends() == [("abandoned", None)]

    @pytest.mark.parametrize("begun", [False, True])
    def test_a_task_that_is_cancelled(self, address: str, control: Control, inside: Inside, begun: bool) -> None:
        control.fault("stall", at="mid" if begun else "early", seconds=60)

        async def run() -> None:
            seen = asyncio.Event()
            async with inside.engine.async_http_client() as http:
                client = anthropic.AsyncAnthropic(base_url=address, api_key="k", max_retries=0, http_client=http)

                async def ask() -> None:
                    async with client.messages.stream(**anthropic_request()) as stream:
                        seen.set()
                        async for _ in stream:
                            pass

                task = asyncio.create_task(ask())
                await seen.wait()
                if begun:
                    async with asyncio.timeout(30):
                        while not inside.rows()[0].first_token_at:
                            await asyncio.sleep(0.01)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

        asyncio.run(run())
        assert inside.ends() == [("abandoned", None)]
        assert (inside.rows()[0].first_token_at is not None) == begun

    def test_a_task_that_is_cancelled_before_the_head(self, inside: Inside) -> None:
        class Silent(httpx2.AsyncBaseTransport):
            async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
                asked_for.set()
                await asyncio.sleep(60)
                raise AssertionError

        async def run() -> None:
            async with inside.engine.async_http_client(transport=Silent()) as http:
                client = anthropic.AsyncAnthropic(base_url="http://provider", api_key="k", http_client=http)
                task = asyncio.create_task(client.messages.create(**anthropic_request()))
                await asked_for.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

        asked_for = asyncio.Event()
        asyncio.run(run())
        assert inside.ends() == [("abandoned", None)]

    @pytest.mark.parametrize("at", ["early", "mid", "before_last"])
    def test_a_stream_that_is_cut(self, client: anthropic.Anthropic, control: Control, inside: Inside, at: str) -> None:
        control.fault("cut", at=at)
        with pytest.raises(httpx2.ReadError):
            claude.streamed(client, anthropic_request())
        assert inside.ends() == [("failed", "ReadError")]

    @pytest.mark.parametrize("at", ["early", "mid"])
    def test_a_stream_that_is_cut_asynchronously(self, address: str, control: Control, inside: Inside, at: str) -> None:
        async def run() -> None:
            async with inside.engine.async_http_client() as http:
                client = openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0, http_client=http)
                with pytest.raises(openai.APIConnectionError):
                    await gpt.astreamed(client, {"model": gpt.MODEL, "input": "count"})

        control.fault("cut", at=at)
        asyncio.run(run())
        assert inside.ends() == [("failed", "ReadError")]

    def test_an_answer_that_is_cut(self, client: anthropic.Anthropic, control: Control, inside: Inside) -> None:
        control.fault("cut")
        with pytest.raises(anthropic.APIConnectionError):
            client.messages.create(**anthropic_request())
        assert [status for status, _ in inside.ends()] == ["failed"]

    def test_an_error_in_the_stream(self, client: anthropic.Anthropic, control: Control, inside: Inside) -> None:
        control.fault("sse_error", status=529)
        with pytest.raises(anthropic.APIStatusError) as caught:
            claude.streamed(client, anthropic_request())
        assert caught.value.type == "overloaded_error"
        assert inside.ends() == [("failed", "an error in the stream")]


class TestUnreachable:
    def test_the_sdks_say_it_in_their_words(self, inside: Inside, nobody: str) -> None:
        with inside.engine.http_client() as http:
            first = anthropic.Anthropic(base_url=nobody, api_key="k", max_retries=0, http_client=http)
            with pytest.raises(anthropic.APIConnectionError):
                first.messages.create(**anthropic_request())
            second = openai.OpenAI(base_url=nobody, api_key="k", max_retries=0, http_client=http)
            with pytest.raises(openai.APIConnectionError):
                second.responses.create(model=gpt.MODEL, input="count")
            third = genai.Client(api_key="k", http_options=with_http(nobody, httpx_client=http))
            with pytest.raises(httpx2.ConnectError):
                third.models.generate_content(model=gemini.MODEL, contents="count")
        assert inside.ends() == [("failed", "ConnectError")] * 3

    def test_and_asynchronously(self, inside: Inside, nobody: str) -> None:
        async def run() -> None:
            async with inside.engine.async_http_client() as http:
                client = anthropic.AsyncAnthropic(base_url=nobody, api_key="k", max_retries=0, http_client=http)
                with pytest.raises(anthropic.APIConnectionError):
                    await client.messages.create(**anthropic_request())

        asyncio.run(run())
        assert inside.ends() == [("failed", "ConnectError")]

    def test_time_limits_are_the_clients_own(
        self, client: anthropic.Anthropic, control: Control, inside: Inside
    ) -> None:
        control.fault("stall", at="early", seconds=60)
        with pytest.raises(anthropic.APITimeoutError):
            client.messages.create(**anthropic_request(), timeout=0.2)
        assert inside.ends() == [("failed", "ReadTimeout")]


class TestRetries:
    def test_each_is_a_call_of_the_same_lane(
        self, client: anthropic.Anthropic, control: Control, inside: Inside, slept: list[float]
    ) -> None:
        control.fault("status", times=2, status=429, retry_after=7)
        message = client.with_options(max_retries=2).messages.create(**anthropic_request())
        assert claude.texts(message) == ["one two three four five six"]
        assert slept == [7.0, 7.0]
        assert inside.ends() == [("failed", "HTTP 429"), ("failed", "HTTP 429"), ("settled", None)]
        assert len({row.lane for row in inside.rows()}) == 1

    def test_a_refusal_is_the_sdks_error(self, client: anthropic.Anthropic, control: Control, inside: Inside) -> None:
        control.fault("status", status=400, message="No such luck.")
        with pytest.raises(anthropic.BadRequestError, match="No such luck") as caught:
            client.messages.create(**anthropic_request())
        assert caught.value.request_id
        assert inside.ends() == [("failed", "HTTP 400")]

    def test_what_is_held_is_not_tried_again(
        self, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path))
        gateway = GatewaySettings(preflight="hold", preflight_usd=0.001, limits=LIMITS)
        with opened(tmp_path, gateway=gateway) as inside, inside.engine.http_client() as http:
            client = anthropic.Anthropic(base_url=address, api_key="k", max_retries=2, http_client=http)
            with pytest.raises(anthropic.APIStatusError, match="Nothing was sent") as caught:
                client.messages.create(**anthropic_request())
            assert caught.value.status_code == 428
            message = client.messages.create(**anthropic_request(), extra_headers={"x-holdfast-preflight": "send"})
            assert claude.texts(message) == ["one two three four five six"]
            assert inside.ends() == [("failed", "held by pre-flight"), ("settled", None)]

    def test_and_asynchronously(self, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path))
        gateway = GatewaySettings(preflight="hold", preflight_usd=0.001, limits=LIMITS)

        async def run(inside: Inside) -> None:
            async with inside.engine.async_http_client() as http:
                client = anthropic.AsyncAnthropic(base_url=address, api_key="k", max_retries=2, http_client=http)
                with pytest.raises(anthropic.APIStatusError, match="Nothing was sent"):
                    await client.messages.create(**anthropic_request())

        with opened(tmp_path, gateway=gateway) as inside:
            asyncio.run(run(inside))
            assert inside.ends() == [("failed", "held by pre-flight")]


class TestOtherRequests:
    def test_they_go_as_they_are(self, client: anthropic.Anthropic, control: Control, inside: Inside) -> None:
        assert [model.id for model in client.models.list(limit=5)]
        counted = client.messages.count_tokens(
            model=claude.MODEL, messages=anthropic_request()["messages"], system=MANUAL
        )
        assert counted.input_tokens > 5000
        with pytest.raises(anthropic.NotFoundError):
            client.models.retrieve("claude-nobody")
        assert inside.rows() == []

    def test_and_asynchronously(self, address: str, inside: Inside) -> None:
        async def run() -> int:
            async with inside.engine.async_http_client() as http:
                client = genai.Client(api_key="k", http_options=with_http(address, httpx_async_client=http))
                counted = await client.aio.models.count_tokens(model=gemini.MODEL, contents=MANUAL)
                return counted.total_tokens or 0

        assert asyncio.run(run()) > 5000
        assert inside.rows() == []

    def test_a_client_is_told_of_its_call(self, client: anthropic.Anthropic, inside: Inside) -> None:
        response = client.messages.with_raw_response.create(**anthropic_request())
        assert response.headers["x-holdfast-call"] == inside.rows()[0].id
        assert response.headers["x-holdfast-plan"].startswith("economic")
        assert claude.texts(response.parse()) == ["one two three four five six"]


class TestSharing:
    def test_two_clients_of_one_engine_share_lanes(self, address: str, control: Control, inside: Inside) -> None:
        with inside.engine.http_client() as one, inside.engine.http_client(library="httpx") as other:
            clients = [
                openai.OpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0, http_client=http)
                for http in (one, other)
            ]
            turn = iter([0, 1, 1, 0])
            session = drive(gpt.chat(), lambda request: clients[next(turn)].chat.completions.create(**request))
        completed(session, control)
        rows = inside.rows()
        assert len({row.lane for row in rows}) == 1
        assert used(rows) == control.used()

    def test_other_credentials_are_other_tenants(self, address: str, inside: Inside) -> None:
        with inside.engine.http_client() as http:
            for key in ("one", "two", "one"):
                client = anthropic.Anthropic(base_url=address, api_key=key, http_client=http)
                client.messages.create(**anthropic_request())
        tenants = [row.tenant for row in inside.rows()]
        assert tenants[0] == tenants[2] != tenants[1]

    @pytest.mark.slow
    def test_many_threads_with_one_client(self, client: anthropic.Anthropic, control: Control, inside: Inside) -> None:
        def run(number: int) -> Session:
            conversation = claude.conversation(system=f"Station {number}. {MANUAL}")
            return drive(conversation, lambda request: claude.streamed(client, request))

        with ThreadPoolExecutor(8) as threads:
            sessions = list(threads.map(run, range(8)))
        rows = inside.rows()
        assert [(row.status, row.kind) for row in rows] == [("settled", "request")] * 32
        assert sorted(used(rows)) == sorted(control.used()) == sorted(use for each in sessions for use in each.usage)
        assert len({row.lane for row in rows}) == 8
        assert all(use.read > 0 for each in sessions for use in each.usage[1:])

    @pytest.mark.slow
    def test_many_tasks_with_one_client(self, address: str, control: Control, inside: Inside) -> None:
        async def run() -> list[Session]:
            async with inside.engine.async_http_client() as http:
                client = anthropic.AsyncAnthropic(base_url=address, api_key="k", max_retries=0, http_client=http)

                def one(number: int) -> Any:
                    conversation = claude.conversation(system=f"Station {number}. {MANUAL}")
                    return adrive(conversation, lambda request: claude.astreamed(client, request))

                return await asyncio.gather(*(one(number) for number in range(8)))

        sessions = asyncio.run(run())
        rows = inside.rows()
        assert sorted(used(rows)) == sorted(control.used()) == sorted(use for each in sessions for use in each.usage)
        assert len({row.lane for row in rows}) == 8
