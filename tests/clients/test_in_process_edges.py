"""HTTP clients with the engine inside: what breaks off, retries, proxies, several clients, cached contents."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest
from google import genai
from google.genai import errors

from holdfast.config.schema import Settings
from holdfast.config.sections.cache import Cache, Gemini
from holdfast.config.sections.serving import Gateway
from holdfast.engine import Engine
from holdfast.errors import HoldfastError
from holdfast.transport.clients import BESIDE

from . import test_anthropic_sdk as claude
from . import test_gemini_sdk as gemini
from . import test_openai_sdk as gpt
from .inside import LIMITS, Inside, opened, used
from .sessions import MANUAL, Control, Session, adrive, completed, drive
from .test_in_process import with_http

ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": claude.MODEL,
    "content": [{"type": "text", "text": "Yes."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 5, "output_tokens": 2},
}
each_library = pytest.mark.parametrize("library", ["httpx2", "httpx"])


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


def asked(words: str = "count", **members: Any) -> dict[str, Any]:
    return claude.asking(words, system=MANUAL, **members)


# Broken off


class TestBrokenOff:
    def test_a_stream_that_is_left_midway(self, client: anthropic.Anthropic, control: Control, inside: Inside) -> None:
        control.fault("stall", at="mid", seconds=60)
        with client.messages.stream(**asked()) as stream:
            next(iter(stream))
        assert inside.ends() == [("abandoned", None)]
        assert inside.rows()[0].first_token_at is not None

    def test_a_stream_that_is_dropped_midway(
        self, client: anthropic.Anthropic, control: Control, inside: Inside
    ) -> None:
        control.fault("stall", at="mid", seconds=60)
        with client.messages.create(**asked(), stream=True) as events:
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
                    async with client.messages.stream(**asked()) as stream:
                        seen.set()
                        async for _ in stream:
                            pass

                task = asyncio.create_task(ask())
                await seen.wait()
                if begun:
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
                task = asyncio.create_task(client.messages.create(**asked()))
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
            claude.streamed(client, asked())
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
            client.messages.create(**asked())
        assert [status for status, _ in inside.ends()] == ["failed"]

    def test_an_error_in_the_stream(self, client: anthropic.Anthropic, control: Control, inside: Inside) -> None:
        control.fault("sse_error", status=529)
        with pytest.raises(anthropic.APIStatusError) as caught:
            claude.streamed(client, asked())
        assert caught.value.type == "overloaded_error"
        assert inside.ends() == [("failed", "an error in the stream")]


class TestUnreachable:
    def test_the_sdks_say_it_in_their_words(self, inside: Inside, nobody: str) -> None:
        with inside.engine.http_client() as http:
            first = anthropic.Anthropic(base_url=nobody, api_key="k", max_retries=0, http_client=http)
            with pytest.raises(anthropic.APIConnectionError):
                first.messages.create(**asked())
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
                    await client.messages.create(**asked())

        asyncio.run(run())
        assert inside.ends() == [("failed", "ConnectError")]

    def test_time_limits_are_the_clients_own(
        self, client: anthropic.Anthropic, control: Control, inside: Inside
    ) -> None:
        control.fault("stall", at="early", seconds=60)
        with pytest.raises(anthropic.APITimeoutError):
            client.messages.create(**asked(), timeout=0.2)
        assert inside.ends() == [("failed", "ReadTimeout")]


class TestRetries:
    def test_each_is_a_call_of_the_same_lane(
        self, client: anthropic.Anthropic, control: Control, inside: Inside, slept: list[float]
    ) -> None:
        control.fault("status", times=2, status=429, retry_after=7)
        message = client.with_options(max_retries=2).messages.create(**asked())
        assert claude.texts(message) == ["one two three four five six"]
        assert slept == [7.0, 7.0]
        assert inside.ends() == [("failed", "HTTP 429"), ("failed", "HTTP 429"), ("settled", None)]
        assert len({row.lane for row in inside.rows()}) == 1

    def test_a_refusal_is_the_sdks_error(self, client: anthropic.Anthropic, control: Control, inside: Inside) -> None:
        control.fault("status", status=400, message="No such luck.")
        with pytest.raises(anthropic.BadRequestError, match="No such luck") as caught:
            client.messages.create(**asked())
        assert caught.value.request_id
        assert inside.ends() == [("failed", "HTTP 400")]

    def test_what_is_held_is_not_tried_again(
        self, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path))
        gateway = Gateway(preflight="hold", preflight_usd=0.001, limits=LIMITS)
        with opened(tmp_path, gateway=gateway) as inside, inside.engine.http_client() as http:
            client = anthropic.Anthropic(base_url=address, api_key="k", max_retries=2, http_client=http)
            with pytest.raises(anthropic.APIStatusError, match="Nothing was sent") as caught:
                client.messages.create(**asked())
            assert caught.value.status_code == 428
            message = client.messages.create(**asked(), extra_headers={"x-holdfast-preflight": "send"})
            assert claude.texts(message) == ["one two three four five six"]
            assert inside.ends() == [("failed", "held by pre-flight"), ("settled", None)]

    def test_and_asynchronously(self, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path))
        gateway = Gateway(preflight="hold", preflight_usd=0.001, limits=LIMITS)

        async def run(inside: Inside) -> None:
            async with inside.engine.async_http_client() as http:
                client = anthropic.AsyncAnthropic(base_url=address, api_key="k", max_retries=2, http_client=http)
                with pytest.raises(anthropic.APIStatusError, match="Nothing was sent"):
                    await client.messages.create(**asked())

        with opened(tmp_path, gateway=gateway) as inside:
            asyncio.run(run(inside))
            assert inside.ends() == [("failed", "held by pre-flight")]


# What goes beside


class TestOtherRequests:
    def test_they_go_as_they_are(self, client: anthropic.Anthropic, control: Control, inside: Inside) -> None:
        assert [model.id for model in client.models.list(limit=5)]
        counted = client.messages.count_tokens(model=claude.MODEL, messages=asked()["messages"], system=MANUAL)
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
        response = client.messages.with_raw_response.create(**asked())
        assert response.headers["x-holdfast-call"] == inside.rows()[0].id
        assert response.headers["x-holdfast-plan"].startswith("economic")
        assert claude.texts(response.parse()) == ["one two three four five six"]


@each_library
class TestRequests:
    """As the library itself sends them."""

    def post(self, inside: Inside, library: str, address: str, **more: Any) -> Any:
        headers = {"x-api-key": "k", "anthropic-version": "2023-06-01", "content-type": "application/json"}
        with inside.engine.http_client(library=library) as http:
            return http.post(f"{address}/v1/messages", headers=headers | more.pop("headers", {}), **more)

    def test_a_body_that_comes_in_pieces(self, inside: Inside, library: str, address: str) -> None:
        raw = json.dumps(asked()).encode()
        for headers in ({}, {"x-holdfast": "off"}):
            pieces = (raw[start : start + 1000] for start in range(0, len(raw), 1000))
            assert self.post(inside, library, address, content=pieces, headers=headers).status_code == 200
        assert [(row.kind, row.status) for row in inside.rows()] == [("request", "settled"), ("bypassed", "settled")]

    def test_a_compressed_body_that_is_planned(self, inside: Inside, library: str, address: str) -> None:
        raw = gzip.compress(json.dumps(asked()).encode())
        response = self.post(inside, library, address, content=raw, headers={"content-encoding": "gzip"})
        assert response.status_code == 200
        assert response.json()["usage"]["cache_creation_input_tokens"] > 5000


@each_library
def test_headers_as_they_reach_the_provider(inside: Inside, library: str) -> None:
    module: Any = {"httpx2": httpx2, "httpx": httpx}[library]
    sent: list[Any] = []

    def provider(request: Any) -> Any:
        sent.append(request)
        return module.Response(200, json=ANSWER, headers={"request-id": "req_1", "retry-after": "3"})

    raw = gzip.compress(json.dumps(asked()).encode(), mtime=0)
    headers = {"X-Api-Key": "k", "X-Holdfast-Session": "s", "x-holdfast-key": "q", "Content-Encoding": "gzip"}
    with inside.engine.http_client(library=library, transport=module.MockTransport(provider)) as http:
        planned = http.post("http://provider/v1/messages?beta=true", content=raw, headers=headers)
        off = http.post("http://provider/v1/messages", content=raw, headers=headers | {"x-holdfast": "off"})
    assert [str(each.url) for each in sent] == ["http://provider/v1/messages?beta=true", "http://provider/v1/messages"]
    for each in sent:
        assert each.headers["x-api-key"] == "k"
        assert each.headers["host"] == "provider"
        assert not [name for name in each.headers if name.startswith("x-holdfast")]
        assert int(each.headers["content-length"]) == len(each.content)
    assert "content-encoding" not in sent[0].headers
    assert json.loads(sent[0].content)["system"] != MANUAL  # it carries a marker
    assert (sent[1].headers["content-encoding"], sent[1].content) == ("gzip", raw)
    assert planned.headers["request-id"] == off.headers["request-id"] == "req_1"
    assert off.headers["x-holdfast-bypassed"] == "off"
    assert {row.session for row in inside.rows()} == {"s"}


def test_a_route_is_known_by_its_host(inside: Inside) -> None:
    def provider(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(
            200, json={"id": "g", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 1}}
        )

    with inside.engine.http_client(transport=httpx2.MockTransport(provider)) as http:
        client = openai.OpenAI(base_url="https://openrouter.ai/api/v1", api_key="k", http_client=http)
        client.chat.completions.create(model="anthropic/claude-sonnet-4.5", messages=[])
    assert [row.model.partition(":")[0] for row in inside.rows()] == ["openrouter"]


def test_an_answer_that_leads_elsewhere_is_followed(inside: Inside) -> None:
    def provider(request: httpx2.Request) -> httpx2.Response:
        if request.url.host == "old":
            return httpx2.Response(307, headers={"location": "http://new/v1/messages"})
        return httpx2.Response(200, json=ANSWER)

    with inside.engine.http_client(transport=httpx2.MockTransport(provider)) as http:
        client = anthropic.Anthropic(base_url="http://old", api_key="k", http_client=http)
        assert claude.texts(client.messages.create(**asked())) == ["Yes."]
    assert inside.ends() == [("failed", "HTTP 307"), ("settled", None)]


# The client that sends


class Proxy(BaseHTTPRequestHandler):
    """Answers every request by itself and keeps how it was asked for."""

    asked: list[str]

    def do_POST(self) -> None:
        self.asked.append(self.path)
        self.rfile.read(int(self.headers["content-length"]))
        raw = json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture
def proxy() -> Iterator[tuple[str, list[str]]]:
    """The address of an HTTP proxy, and what it was asked for."""
    seen: list[str] = []
    handler = type("Handler", (Proxy,), {"asked": seen})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", seen
        server.shutdown()
        thread.join()


class TestSending:
    @each_library
    @pytest.mark.parametrize("by", ["option", "environment"])
    def test_through_a_proxy(
        self, inside: Inside, proxy: tuple[str, list[str]], by: str, library: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        where, seen = proxy
        options = {"proxy": where} if by == "option" else {}
        if by == "environment":
            monkeypatch.setenv("HTTP_PROXY", where)
        with inside.engine.http_client(library=library, **options) as http:
            response = http.post("http://api.example.test/v1/messages", json=asked())
        assert response.json()["content"][0]["text"] == "Yes."
        assert seen == ["http://api.example.test/v1/messages"]
        assert inside.ends() == [("settled", None)]

    def test_through_a_proxy_asynchronously(self, inside: Inside, proxy: tuple[str, list[str]]) -> None:
        async def run() -> None:
            async with inside.engine.async_http_client(proxy=proxy[0]) as http:
                client = anthropic.AsyncAnthropic(base_url="http://api.example.test", api_key="k", http_client=http)
                await client.messages.create(**asked())

        asyncio.run(run())
        assert proxy[1] == ["http://api.example.test/v1/messages"]

    def test_without_the_environment(
        self, inside: Inside, proxy: tuple[str, list[str]], address: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTP_PROXY", proxy[0])
        monkeypatch.delenv("NO_PROXY")
        monkeypatch.delenv("no_proxy")
        with inside.engine.http_client(trust_env=False) as http:
            assert http.get(f"{address}/v1/models", headers={"x-api-key": "k"}).status_code == 200
        assert proxy[1] == []

    def test_with_the_certificates_that_were_given(self, inside: Inside, address: str) -> None:
        class Noting(ssl.SSLContext):
            used = 0

            def wrap_socket(self, *_args: Any, **_more: Any) -> Any:
                type(self).used += 1
                raise ssl.SSLError("not here")

        with inside.engine.http_client(verify=Noting(ssl.PROTOCOL_TLS_CLIENT)) as http:
            client = anthropic.Anthropic(
                base_url=address.replace("http:", "https:"), api_key="k", max_retries=0, http_client=http
            )
            with pytest.raises(anthropic.APIConnectionError):
                client.messages.create(**asked())
        assert Noting.used == 1

    def test_other_options_are_those_of_the_client_that_the_sdk_gets(self, inside: Inside, address: str) -> None:
        with inside.engine.http_client(base_url=address, headers={"x-api-key": "k"}, timeout=7.0) as http:
            assert http.timeout == httpx2.Timeout(7.0)
            assert http.get("/v1/models").status_code == 200

    def test_a_library_that_is_not_there(self, inside: Inside) -> None:
        with pytest.raises(HoldfastError, match="httpx9 is not installed"):
            inside.engine.http_client(library="httpx9")

    @each_library
    def test_closing_closes_both(self, inside: Inside, library: str) -> None:
        with inside.engine.http_client(library=library) as http:
            sending = http._transport._client
            assert not sending.is_closed
        assert http.is_closed
        assert sending.is_closed
        other = inside.engine.http_client(library=library)
        other.close()
        assert other._transport._client.is_closed

    @each_library
    def test_closing_closes_both_asynchronously(self, inside: Inside, library: str) -> None:
        async def run() -> None:
            async with inside.engine.async_http_client(library=library) as http:
                sending = http._transport._client
            assert http.is_closed
            assert sending.is_closed
            other = inside.engine.async_http_client(library=library)
            await other.aclose()
            assert other._transport._client.is_closed

        asyncio.run(run())

    def test_an_engine_without_a_store(self, address: str, control: Control) -> None:
        with Engine(Settings(gateway=Gateway(limits=LIMITS))).http_client() as http:
            client = anthropic.Anthropic(base_url=address, api_key="k", http_client=http)
            session = drive(claude.conversation(), lambda request: client.messages.create(**request))
        completed(session, control)


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
                client.messages.create(**asked())
        tenants = [row.tenant for row in inside.rows()]
        assert tenants[0] == tenants[2] != tenants[1]

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


# Gemini's cached contents


@pytest.fixture
def contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inside]:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path))
    with opened(tmp_path, Cache(gemini=Gemini(enabled=True))) as inside:
        yield inside


def turns(most: int = 8) -> Iterator[list[dict[str, Any]]]:
    """A conversation that grows."""
    said: list[dict[str, Any]] = []
    for number in range(most):
        said.append({"role": "user", "parts": [{"text": f"count {number}"}]})
        yield list(said)
        said.append({"role": "model", "parts": [{"text": gemini.COUNTED}]})


MODEL = "gemini-2.5-pro"
CONFIG: Any = {"system_instruction": MANUAL}


def beside() -> None:
    """Wait for what is done beside the requests."""
    for thread in threading.enumerate():
        if thread.name == BESIDE:
            thread.join(30)


def made(control: Control) -> int:
    return len([each for each in control.requests() if each["method"] == "POST" and "cachedContents" in each["path"]])


class TestCachedContents:
    def test_they_are_made_beside_and_named(self, address: str, control: Control, contents: Inside) -> None:
        with contents.engine.http_client() as http:
            client = genai.Client(api_key="k", http_options=with_http(address, httpx_client=http))
            reads = []
            for said in turns():
                response = client.models.generate_content(model=MODEL, contents=said, config=CONFIG)
                assert response.text
                reads.append(gemini.used(response).read)
                beside()
            assert made(control) >= 1
            assert all(read > 5000 for read in reads[-3:])
            assert used(contents.rows()) == control.used()
            self.vanishes(client, control, contents)

    def vanishes(self, client: genai.Client, control: Control, contents: Inside) -> None:
        """The objects are gone: the client does not notice."""
        before = len(contents.rows())
        control.reset()
        said = list(turns(9))[-1]
        assert client.models.generate_content(model=MODEL, contents=said, config=CONFIG).text
        statuses = [each["status"] for each in control.requests() if "generateContent" in each["path"]][-2:]
        assert statuses == [403, 200]
        assert contents.ends()[before:] == [("settled", None)]

    @pytest.mark.parametrize("streaming", [False, True])
    def test_a_refusal_of_another_kind_is_the_client_s(
        self, address: str, control: Control, contents: Inside, streaming: bool
    ) -> None:
        with contents.engine.http_client() as http:
            client = genai.Client(api_key="k", http_options=with_http(address, httpx_client=http))
            for said in turns(6):
                client.models.generate_content(model=MODEL, contents=said, config=CONFIG)
                beside()
            control.fault("status", status=429, message="Slow down.")
            ask: Any = client.models.generate_content_stream if streaming else client.models.generate_content
            with pytest.raises(errors.ClientError, match="Slow down"):
                list(ask(model=MODEL, contents=said, config=CONFIG))
        assert contents.ends()[-1] == ("failed", "HTTP 429")

    def test_and_asynchronously(self, address: str, control: Control, contents: Inside) -> None:
        async def run() -> None:
            async with contents.engine.async_http_client() as http:
                client = genai.Client(api_key="k", http_options=with_http(address, httpx_async_client=http))

                async def ask(said: list[dict[str, Any]]) -> str | None:
                    found = await client.aio.models.generate_content(model=MODEL, contents=said, config=CONFIG)
                    await asyncio.gather(*http._transport._tasks)
                    return found.text

                for said in turns(6):
                    assert await ask(said)
                assert made(control) >= 1
                assert used(contents.rows())[-1].read > 5000
                control.fault("status", status=429, message="Slow down.")
                with pytest.raises(errors.ClientError, match="Slow down"):
                    await ask(said)
                control.reset()
                assert await ask(said)

        asyncio.run(run())
        assert contents.ends()[-2:] == [("failed", "HTTP 429"), ("settled", None)]


def refusing(fails: Callable[[], None], raw: list[bytes]) -> Callable[[httpx2.Request], httpx2.Response]:
    """A provider that answers requests, and fails on cached contents."""

    def provider(request: httpx2.Request) -> httpx2.Response:
        raw.append(request.content)
        if request.url.path.endswith("/cachedContents"):
            fails()
        usage = {"promptTokenCount": 6000, "candidatesTokenCount": 1, "totalTokenCount": 6001}
        candidate = {"content": {"role": "model", "parts": [{"text": "Yes."}]}, "finishReason": "STOP"}
        return httpx2.Response(200, json={"candidates": [candidate], "usageMetadata": usage})

    return provider


class TestFailingBeside:
    """What is made beside the requests fails: nobody notices, and nothing waits for it."""

    @pytest.mark.parametrize("error", [httpx2.ConnectError("x"), RuntimeError("closed"), OSError("y")])
    def test_in_a_thread(self, contents: Inside, error: Exception) -> None:
        def fails() -> None:
            raise error

        raw: list[bytes] = []
        with contents.engine.http_client(transport=httpx2.MockTransport(refusing(fails, raw))) as http:
            client = genai.Client(api_key="k", http_options=with_http("http://p/prefix", httpx_client=http))
            for said in turns(6):
                assert client.models.generate_content(model=MODEL, contents=said, config=CONFIG).text == "Yes."
                beside()
        assert b"cachedContent" not in raw[-1]
        assert len(raw) == 7  # made once, not tried again yet
        assert set(contents.ends()) == {("settled", None)}

    def test_an_engine_that_fails(self, contents: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
        def fails(*_args: Any, **_more: Any) -> None:
            raise RuntimeError

        monkeypatch.setattr(contents.engine, "chore_done", fails)
        with contents.engine.http_client(transport=httpx2.MockTransport(refusing(lambda: None, []))) as http:
            client = genai.Client(api_key="k", http_options=with_http("http://p", httpx_client=http))
            for said in turns(4):
                assert client.models.generate_content(model=MODEL, contents=said, config=CONFIG).text == "Yes."
                beside()

    def test_a_client_that_is_closed_meanwhile(self, contents: Inside) -> None:
        class Slow(httpx2.AsyncBaseTransport):
            async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
                if request.url.path.endswith("/cachedContents"):
                    await asyncio.sleep(60)
                return refusing(lambda: None, [])(request)

        brought: list[int] = []
        under_way: list[int] = []
        done = contents.engine.chore_done

        def noting(lane: Any, call: Any, status: int, raw: bytes, *, now: float) -> None:
            brought.append(status)
            done(lane, call, status, raw, now=now)

        async def run() -> None:
            contents.engine.chore_done = noting  # type: ignore[method-assign]
            async with contents.engine.async_http_client(transport=Slow()) as http:
                client = genai.Client(api_key="k", http_options=with_http("http://p", httpx_async_client=http))
                for said in turns(4):
                    await client.aio.models.generate_content(model=MODEL, contents=said, config=CONFIG)
                    await asyncio.sleep(0)
                under_way.append(len(http._transport._tasks))

        asyncio.run(run())
        assert brought == [0] * under_way[0]
        assert brought

    def test_a_loop_of_another_kind(self, contents: Inside) -> None:
        """Nothing here waits, so that it needs no loop; and there is none to make calls beside it."""

        class Quick(httpx2.AsyncBaseTransport):
            async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
                return refusing(lambda: pytest.fail("made"), [])(request)

        http = contents.engine.async_http_client(transport=Quick())
        url = f"http://p/v1beta/models/{MODEL}:generateContent"
        for said in turns(4):
            body = {"contents": said, "systemInstruction": {"parts": [{"text": MANUAL}]}}
            sending = http.post(url, json=body, headers={"x-goog-api-key": "k"})
            with pytest.raises(StopIteration) as ended:
                sending.send(None)
            assert ended.value.value.status_code == 200
        assert contents.ends() == [("settled", None)] * 4
