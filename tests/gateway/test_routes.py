"""Where requests go: by path and manner of credential, never by a model's name or by what a request says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest

from holdfast.config.sections.server import UpstreamSettings
from holdfast.errors import HoldfastError
from holdfast.gateway.auth import EntryPath, parse_entry
from holdfast.gateway.routes import NAMES, Routes, is_client
from holdfast.simulator.provider import Simulator
from holdfast.simulator.server import running
from holdfast.wire import dialect_of

from .gate import gated

ROUTES = Routes(UpstreamSettings())
ANTHROPIC = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
BEARER = {"authorization": "Bearer k"}
GOOGLE = {"x-goog-api-key": "k"}


def found(
    path: str, headers: dict[str, str] | None = None, query: str = "", method: str = "POST", routes: Routes = ROUTES
) -> tuple[str, str, str | None] | None:
    """Upstream, path and dialect of a request."""
    route = routes.find(method, path, query, headers or {})
    if route is None:
        return None
    return route.upstream.name, route.path, None if route.dialect is None else route.dialect.name


class TestCalls:
    @pytest.mark.parametrize("headers", [{}, ANTHROPIC, BEARER, GOOGLE])
    @pytest.mark.parametrize(
        ("path", "upstream", "dialect"),
        [
            ("/v1/messages", "anthropic", "anthropic"),
            ("/v1/chat/completions", "openai", "openai_chat"),
            ("/v1/responses", "openai", "openai_responses"),
            ("/v1beta/models/gemini-2.5-pro:generateContent", "gemini", "gemini"),
            ("/v1beta/models/gemini-2.5-pro:streamGenerateContent", "gemini", "gemini"),
            ("/v1/models/claude-opus-4-6:generateContent", "gemini", "gemini"),
        ],
    )
    def test_the_four_apis(self, path: str, upstream: str, dialect: str, headers: dict[str, str]) -> None:
        """Whatever the key looks like: pydantic-ai sends Anthropic a bearer."""
        assert found(path, headers) == (upstream, path, dialect)
        in_process = dialect_of(path)  # where paths may have anything in front of them
        assert in_process[0].name == dialect

    def test_the_model_is_in_geminis_path(self) -> None:
        route = ROUTES.find("POST", "/v1beta/models/gemini%2D2.5-pro:generateContent", "", {})
        assert (route.model, route.path) == ("gemini-2.5-pro", "/v1beta/models/gemini%2D2.5-pro:generateContent")

    @pytest.mark.parametrize(
        ("path", "upstream"),
        [
            ("/v1/messages/count_tokens", "anthropic"),
            ("/v1/messages/batches", "anthropic"),
            ("/v1/responses/resp_1/cancel", "openai"),
            ("/v1beta/models/gemini-2.5-pro:countTokens", "gemini"),
            ("/v1beta/models/gemini-2.5-pro:embedContent", "gemini"),
            ("/v1beta/cachedContents", "gemini"),
            ("/upload/v1beta/files", "gemini"),
            ("/v1beta/openai/chat/completions", "gemini"),
        ],
    )
    def test_what_is_not_planned_passes(self, path: str, upstream: str) -> None:
        assert found(path) == (upstream, path, None)

    @pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS"])
    def test_only_a_post_is_planned(self, method: str) -> None:
        assert found("/v1/messages", method=method) == ("anthropic", "/v1/messages", None)
        assert found("/v1/responses", method=method) == ("openai", "/v1/responses", None)


class TestAmbiguous:
    @pytest.mark.parametrize("path", ["/v1/models", "/v1/files", "/v1/models/claude-opus-4-6", "/v1/anything/else"])
    def test_by_the_manner_of_the_credential(self, path: str) -> None:
        assert found(path, ANTHROPIC, method="GET") == ("anthropic", path, None)
        assert found(path, {"anthropic-version": "1"} | BEARER, method="GET") == ("anthropic", path, None)
        assert found(path, GOOGLE, method="GET") == ("gemini", path, None)
        assert found(path, query="alt=json&key=k", method="GET") == ("gemini", path, None)
        assert found(path, BEARER, method="GET") == ("openai", path, None)
        assert found(path, method="GET") == ("openai", path, None)

    def test_claude_codes_side_calls(self) -> None:
        assert found("/api/event_logging/batch", BEARER) == ("anthropic", "/api/event_logging/batch", None)

    def test_a_client_looks_whether_its_provider_is_there(self) -> None:
        assert found("/", {"user-agent": "claude-cli/2.1 (external)"}, method="HEAD") == ("anthropic", "/", None)
        assert found("/", BEARER, method="HEAD") == ("openai", "/", None)
        assert found("/", {"user-agent": "Mozilla/5.0"}, method="GET") is None
        assert not is_client("", {"user-agent": "curl/8"})

    @pytest.mark.parametrize("path", ["/nothing", "/v2/messages", "/messagesx", "/chat", "/openaix/v1/m"])
    def test_nobodys_path(self, path: str) -> None:
        assert found(path, ANTHROPIC) is None
        assert ROUTES.style(path, "", ANTHROPIC).name == "anthropic"
        assert ROUTES.style(path, "", GOOGLE).name == "gemini"


class TestPrefixes:
    @pytest.mark.parametrize("name", [name for name in NAMES if name != "openrouter"])
    @pytest.mark.parametrize("path", ["/v1/messages", "/v1/models", "/v1/chat/completions", "/anything"])
    def test_a_prefix_chooses_the_upstream(self, name: str, path: str) -> None:
        route = found(f"/{name}{path}", ANTHROPIC)
        assert route[:2] == (name, path)

    def test_the_dialect_is_the_paths(self) -> None:
        """vLLM serves Anthropic's API beside OpenAI's."""
        assert found("/openai/v1/messages") == ("openai", "/v1/messages", "anthropic")
        assert found("/openai") == ("openai", "/", None)

    @pytest.mark.parametrize(
        "path", ["/api/v1/chat/completions", "/openrouter/v1/chat/completions", "/openrouter/api/v1/chat/completions"]
    )
    def test_openrouter(self, path: str) -> None:
        assert found(path, BEARER) == ("openrouter", "/api/v1/chat/completions", "openrouter")

    def test_openrouter_as_the_openai_upstream(self) -> None:
        routes = Routes(UpstreamSettings(openai="https://openrouter.ai/api/v1"))
        assert found("/v1/chat/completions", routes=routes) == ("openai", "/api/v1/chat/completions", "openrouter")
        assert found("/v1/responses", routes=routes) == ("openai", "/api/v1/responses", "openai_responses")


class TestSpelling:
    """What stands between our address and the provider's path: as much of a version as the user exported."""

    @pytest.mark.parametrize(
        ("path", "headers", "expected"),
        [
            ("/v1/v1/messages", ANTHROPIC, ("anthropic", "/v1/messages", "anthropic")),
            ("/v1/v1/v1/messages", ANTHROPIC, ("anthropic", "/v1/messages", "anthropic")),
            ("/messages", ANTHROPIC, ("anthropic", "/v1/messages", "anthropic")),
            ("//v1/messages", ANTHROPIC, ("anthropic", "/v1/messages", "anthropic")),
            ("/v1beta/v1/messages", ANTHROPIC, ("anthropic", "/v1/messages", "anthropic")),
            ("/anthropic/v1/v1/messages", ANTHROPIC, ("anthropic", "/v1/messages", "anthropic")),
            ("/anthropic/messages", ANTHROPIC, ("anthropic", "/v1/messages", "anthropic")),
            ("/messages/count_tokens", ANTHROPIC, ("anthropic", "/v1/messages/count_tokens", None)),
            ("/v1/api/event_logging/batch", ANTHROPIC, ("anthropic", "/api/event_logging/batch", None)),
            ("/chat/completions", BEARER, ("openai", "/v1/chat/completions", "openai_chat")),
            ("/v1/v1/chat/completions", BEARER, ("openai", "/v1/chat/completions", "openai_chat")),
            ("/responses", BEARER, ("openai", "/v1/responses", "openai_responses")),
            ("/responses/resp_1/cancel", BEARER, ("openai", "/v1/responses/resp_1/cancel", None)),
            ("/models", BEARER, ("openai", "/v1/models", None)),
            ("/models", GOOGLE, ("gemini", "/v1beta/models", None)),
            ("/models/g:generateContent", GOOGLE, ("gemini", "/v1beta/models/g:generateContent", "gemini")),
            ("/v1/v1beta/models/g:generateContent", GOOGLE, ("gemini", "/v1beta/models/g:generateContent", "gemini")),
            ("/v1beta/v1beta/cachedContents", GOOGLE, ("gemini", "/v1beta/cachedContents", None)),
            ("/cachedContents/c1", GOOGLE, ("gemini", "/v1beta/cachedContents/c1", None)),
            ("/api/v1/v1/chat/completions", BEARER, ("openrouter", "/api/v1/chat/completions", "openrouter")),
            ("/api/chat/completions", BEARER, ("openrouter", "/api/v1/chat/completions", "openrouter")),
            ("/api/v1/v1/messages", BEARER, ("openrouter", "/api/v1/messages", "anthropic")),
        ],
    )
    def test_one_address_serves_every_client(
        self, path: str, headers: dict[str, str], expected: tuple[str, str, str | None]
    ) -> None:
        assert found(path, headers) == expected

    def test_an_address_with_a_version_is_looked_at_too(self) -> None:
        claude = {"user-agent": "claude-cli/2.1 (external)"}
        assert found("/v1", claude, method="HEAD") == ("anthropic", "/", None)
        assert found("/v1", {"user-agent": "Mozilla/5.0"}, method="GET") is None

    @pytest.mark.parametrize("path", ["/v1/models/g:generateContent", "/v1/a/v1/messages", "/v1beta/openai/responses"])
    def test_what_a_provider_may_have_stays(self, path: str) -> None:
        route = ROUTES.find("POST", path, "", GOOGLE)
        assert route.path == path

    def test_azure_names_its_version_in_the_query(self) -> None:
        assert found("/openai/responses", {"api-key": "k"}, query="api-version=preview") == (
            "openai",
            "/responses",
            None,
        )


class TestAddresses:
    @pytest.mark.parametrize(
        ("base", "path", "sent"),
        [
            ("http://h", "/v1/messages", "/v1/messages"),
            ("http://h/", "/v1/messages", "/v1/messages"),
            ("http://h/v1", "/v1/messages", "/v1/messages"),
            ("http://h/proxy/v1/", "/v1/messages", "/proxy/v1/messages"),
            ("http://h/proxy", "/v1/messages", "/proxy/v1/messages"),
            ("http://h/v1", "/api/event", "/v1/api/event"),
        ],
    )
    def test_a_version_is_not_doubled(self, base: str, path: str, sent: str) -> None:
        routes = Routes(UpstreamSettings(anthropic=base))
        assert found(path, ANTHROPIC, routes=routes) == (
            "anthropic",
            sent,
            "anthropic" if path == "/v1/messages" else None,
        )

    def test_ports(self) -> None:
        routes = Routes(UpstreamSettings(anthropic="http://[::1]:8080", openai="http://h", gemini="https://h"))
        addresses = routes.addresses
        assert (addresses["anthropic"].host, addresses["anthropic"].port) == ("::1", 8080)
        assert (addresses["openai"].port, addresses["gemini"].port) == (80, 443)

    @pytest.mark.parametrize(
        "text", ["http://u:secret@h", "http://h:99999", "http://h?a=b", "http://h#x", "http://:80"]
    )
    def test_what_is_no_upstream(self, text: str) -> None:
        with pytest.raises(HoldfastError, match=r"upstream\.anthropic") as problem:
            Routes(UpstreamSettings(anthropic=text))
        assert "secret" not in str(problem.value)


class TestEscapes:
    @pytest.mark.parametrize(
        "path",
        [
            "/v1/../admin",
            "/v1/messages/..",
            "/v1/%2e%2e/admin",
            "/v1/%2E./admin",
            "/v1/..%2fadmin",
            "/v1/..%5cadmin",
            "/v1/%252e%252e/admin",
            "/v1/..\\admin",
            "/openai/../anthropic/v1/messages",
            "/v1/./messages",
            "//evil.test/v1/messages",
        ],
    )
    def test_no_path_leads_out(self, path: str) -> None:
        assert found(path, ANTHROPIC) is None

    @pytest.mark.parametrize("path", ["/v1//other", "/v1/a%2Fb", "/v1/files/a..b", "/v1/files/x.y"])
    def test_other_oddities_stay_with_their_upstream(self, path: str) -> None:
        route = ROUTES.find("GET", path, "", ANTHROPIC)
        assert (route.upstream.host, route.path) == ("api.anthropic.com", path)

    def test_an_encoded_slash_is_no_slash(self) -> None:
        assert found("/v1%2Fmessages") is None
        assert found("/v1/messages%2F..") is None


class TestDoors:
    @pytest.mark.parametrize(
        ("path", "entry"),
        [
            ("/v1/messages", EntryPath("/v1/messages")),
            ("/run/a1/v1/messages", EntryPath("/v1/messages", run="a1")),
            ("/k/secret/v1/messages", EntryPath("/v1/messages", key="secret")),
            ("/k/secret/run/a1/v1/messages", EntryPath("/v1/messages", key="secret", run="a1")),
            ("/run/a1/k/secret/v1/messages", EntryPath("/v1/messages", key="secret", run="a1")),
            ("/run/a1", EntryPath("/", run="a1")),
            ("/run/a1/run/a2/x", EntryPath("/run/a2/x", run="a1")),
            ("/run//v1", EntryPath("/run//v1")),
            ("/run/a b/v1", EntryPath("/run/a b/v1")),
            ("/runs/a1", EntryPath("/runs/a1")),
            ("/run/a%2Fb/v1", EntryPath("/run/a%2Fb/v1")),
        ],
    )
    def test_our_prefixes_are_taken_off(self, path: str, entry: EntryPath) -> None:
        assert parse_entry(path) == entry


BASES = ("", "/", "/v1", "/v1/", "/v1beta")
ASKED = [{"role": "user", "content": "hi"}]
GEMINI = "models/gemini-2.5-pro:generateContent"


class Api(NamedTuple):
    """What a provider serves, and what its clients append to an address."""

    path: str
    appended: tuple[str, ...]
    headers: dict[str, str]
    body: dict[str, Any]


MESSAGES = Api(
    "/v1/messages",
    ("/v1/messages", "/messages"),
    {"x-api-key": "k", "anthropic-version": "2023-06-01"},
    {"model": "claude-sonnet-4-6", "max_tokens": 900, "messages": ASKED},
)
CHAT = Api(
    "/v1/chat/completions",
    ("/chat/completions", "/v1/chat/completions"),
    {"authorization": "Bearer k"},
    {"model": "gpt-5.5", "messages": ASKED},
)
RESPONSES = Api(
    "/v1/responses", ("/responses", "/v1/responses"), {"authorization": "Bearer k"}, {"model": "gpt-5.5", "input": "hi"}
)
CONTENT = Api(
    f"/v1beta/{GEMINI}",
    (f"/v1beta/{GEMINI}", f"/{GEMINI}"),
    {"x-goog-api-key": "k"},
    {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
)
APIS = (MESSAGES, CHAT, RESPONSES, CONTENT)
CASES = [(api, base, appended) for api in APIS for base in BASES for appended in api.appended]


class Ways(NamedTuple):
    simulator: Simulator
    provider: str
    gateway: str


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    simulator = Simulator()
    with running(simulator) as provider, gated(tmp_path_factory.mktemp("home"), provider) as gate:
        yield Ways(simulator, provider, gate.address)


@pytest.mark.parametrize(
    ("api", "base", "appended"), CASES, ids=lambda each: each if isinstance(each, str) else each.path
)
def test_whatever_a_client_appends(ways: Ways, api: Api, base: str, appended: str) -> None:
    answer = httpx.post(f"{ways.gateway}{base}{appended}", headers=api.headers, content=json.dumps(api.body))
    assert answer.status_code == 200, answer.text
    assert "x-holdfast-plan" in answer.headers
    other = f"/v1/{GEMINI}"  # LiteLLM appends no version: with /v1 in front that is Gemini's older one, and stays
    expected = other if f"{base}{appended}".replace("//", "/") == other else api.path
    assert ways.simulator.requests(limit=1)[0]["path"] == expected


@pytest.mark.parametrize(
    ("api", "path"),
    [(api, f"{base}{each}") for api, base, each in CASES],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_provider_refuses_what_is_none_of_its_paths(ways: Ways, api: Api, path: str) -> None:
    answer = httpx.post(f"{ways.provider}{path}", headers=api.headers, content=json.dumps(api.body))
    served = path in (api.path, f"/v1/{GEMINI}")
    assert answer.status_code == (200 if served else 404), path
