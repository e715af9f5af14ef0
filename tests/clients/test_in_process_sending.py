"""HTTP clients with the engine inside: what reaches the provider, and by which way."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest

from holdfast import Engine
from holdfast.config.keys import Settings
from holdfast.config.sections.server import GatewaySettings
from holdfast.errors import HoldfastError
from tests.clients import anthropic_sdk as claude
from tests.clients.engine_inside import LIMITS, Inside
from tests.clients.sdk_requests import ANSWER, anthropic_request
from tests.clients.sessions import MANUAL, Control, completed, drive

each_library = pytest.mark.parametrize("library", ["httpx2", "httpx"])


@pytest.fixture
def address(provider: str) -> str:
    return provider


@each_library
class TestRequests:
    """As the library itself sends them."""

    def post(self, inside: Inside, library: str, address: str, **more: Any) -> Any:
        headers = {"x-api-key": "k", "anthropic-version": "2023-06-01", "content-type": "application/json"}
        with inside.engine.http_client(library=library) as http:
            return http.post(f"{address}/v1/messages", headers=headers | more.pop("headers", {}), **more)

    def test_a_body_that_comes_in_pieces(self, inside: Inside, library: str, address: str) -> None:
        raw = json.dumps(anthropic_request()).encode()
        for headers in ({}, {"x-holdfast": "off"}):
            pieces = (raw[start : start + 1000] for start in range(0, len(raw), 1000))
            assert self.post(inside, library, address, content=pieces, headers=headers).status_code == 200
        assert [(row.kind, row.status) for row in inside.rows()] == [("request", "settled"), ("bypassed", "settled")]

    def test_a_compressed_body_that_is_planned(self, inside: Inside, library: str, address: str) -> None:
        raw = gzip.compress(json.dumps(anthropic_request()).encode())
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

    raw = gzip.compress(json.dumps(anthropic_request()).encode(), mtime=0)
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
        assert claude.texts(client.messages.create(**anthropic_request())) == ["Yes."]
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
            response = http.post("http://api.example.test/v1/messages", json=anthropic_request())
        assert response.json()["content"][0]["text"] == "Yes."
        assert seen == ["http://api.example.test/v1/messages"]
        assert inside.ends() == [("settled", None)]

    def test_through_a_proxy_asynchronously(self, inside: Inside, proxy: tuple[str, list[str]]) -> None:
        async def run() -> None:
            async with inside.engine.async_http_client(proxy=proxy[0]) as http:
                client = anthropic.AsyncAnthropic(base_url="http://api.example.test", api_key="k", http_client=http)
                await client.messages.create(**anthropic_request())

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
                client.messages.create(**anthropic_request())
        assert Noting.used == 1

    def test_other_options_are_those_of_the_client_that_the_sdk_gets(self, inside: Inside, address: str) -> None:
        with inside.engine.http_client(base_url=address, headers={"x-api-key": "k"}, timeout=7.0) as http:
            assert http.timeout == httpx2.Timeout(7.0)
            assert http.get("/v1/models").status_code == 200

    def test_a_library_that_is_not_there(self, inside: Inside) -> None:
        with pytest.raises(HoldfastError, match="knows no library 'httpx9'; give 'httpx2' or 'httpx'"):
            inside.engine.http_client(library="httpx9")

    @each_library
    def test_closing_closes_both(self, inside: Inside, library: str) -> None:
        class Sending(import_module(library).BaseTransport):
            closed = False

            def close(self) -> None:
                self.closed = True

        sending, other = Sending(), Sending()
        with inside.engine.http_client(library=library, transport=sending) as http:
            assert not sending.closed
        assert http.is_closed
        assert sending.closed
        inside.engine.http_client(library=library, transport=other).close()
        assert other.closed

    @each_library
    def test_closing_closes_both_asynchronously(self, inside: Inside, library: str) -> None:
        class Sending(import_module(library).AsyncBaseTransport):
            closed = False

            async def aclose(self) -> None:
                self.closed = True

        async def run() -> None:
            sending, other = Sending(), Sending()
            async with inside.engine.async_http_client(library=library, transport=sending) as http:
                assert not sending.closed
            assert http.is_closed
            assert sending.closed
            await inside.engine.async_http_client(library=library, transport=other).aclose()
            assert other.closed

        asyncio.run(run())

    def test_an_engine_without_a_store(self, address: str, control: Control) -> None:
        with Engine(Settings(gateway=GatewaySettings(limits=LIMITS))).http_client() as http:
            client = anthropic.Anthropic(base_url=address, api_key="k", http_client=http)
            session = drive(claude.conversation(), lambda request: client.messages.create(**request))
        completed(session, control)
