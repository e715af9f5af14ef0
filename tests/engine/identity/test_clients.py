"""Clients by their own words: the recorded user-agents, SDKs, and whatever else may come."""

from __future__ import annotations

import pytest

from holdfast.engine.identity import client_of
from tests.engine.identity.desk import headers_of
from tests.shapes import load

NAMES = {
    "aider-0.86": {"openai-python", "litellm"},
    "claude-agent-sdk": {"claude-agent-sdk"},
    "claude-code-2.1.325": {"claude-code"},
    "claude-code-tui": {"claude-code"},
    "cline": {"ai-sdk"},
    "codex-0.166": {"codex"},
    "continue-cn": {"node-fetch"},
    "deepagents-0.7": {"langchain", "openai-python"},
    "gemini-cli-0.61": {"gemini-cli"},
    "llm-0.36": {"anthropic-python", "openai-python"},
    "openai-agents-0.24": {"openai-agents"},
    "opencode-1.18": {"opencode"},
    "pi-0.73": {"anthropic-js", "openai-js"},
    "pydantic-ai-2.66": {"pydantic-ai"},
    "qwen-code": {"qwen-code"},
}


@pytest.mark.parametrize("client", NAMES)
def test_recorded_clients_have_their_names(client: str) -> None:
    assert {client_of(headers_of(shape)) for shape in load(client) if shape.body} == NAMES[client]


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("codex_cli_rs/0.166.0 (Mac OS)", "codex"),
        ("AsyncAnthropic/Python 1.17.0", "anthropic-python"),
        ("AsyncOpenAI/Python 3.49.0", "openai-python"),
        ("Agents/JS 0.1", "openai-agents"),
        ("google-genai-sdk/1.30.0 gl-python/3.11", "google-genai"),
        ("claude-cli/2.1.325 (external, sdk-ts, agent-sdk/0.2)", "claude-agent-sdk"),
        ("My Agent/1.0", "my"),
        ("curl/8.5.0", "curl"),
        ("Zoë's bot/2", "zo-s"),
        ("x" * 10_000, "x" * 32),
        ("  ", ""),
        ("\x00\ud800/1", ""),
    ],
)
def test_a_name_is_short_and_plain(agent: str, name: str) -> None:
    assert client_of({"user-agent": agent}) == name


def test_the_same_client_after_an_upgrade() -> None:
    assert client_of({"user-agent": "opencode/1.18.33"}) == client_of({"user-agent": "opencode/2.0"})


def test_an_application_may_tell_its_name_beside_its_sdks() -> None:
    assert client_of({"user-agent": "OpenAI/JS 6.26.0", "x-title": "Cline"}) == "cline"
    assert client_of({"user-agent": "litellm/1.81.10", "x-title": "Aider"}) == "aider"
    assert client_of({"user-agent": "OpenAI/JS 6.26.0", "x-title": "My shop"}) == "openai-js"


def test_nothing_said_is_no_name() -> None:
    assert client_of({}) == ""
