"""One exported address serves every client: what it appends reaches the provider as the provider spells it.

The simulator refuses every other spelling, as the providers do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest

from holdfast.simulator.provider import Simulator
from holdfast.simulator.server import running

from .gate import gated

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
