"""Requests beside the conversation: recognised for known agents, and of unknown clients only a probe."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.engine.identity.desk import Desk, headers_of, run_of, words

CLAUDE = {"user-agent": "claude-cli/2.1.325 (external, cli)", "x-claude-code-session-id": "s1"}
GEMINI = {"user-agent": "GeminiCLI-tui/0.61.0/gemini-2.5-pro (linux; x64; terminal)"}
TOOLS = [{"name": "Bash", "input_schema": {"type": "object"}}]


def _is_side(headers: dict[str, str], content: dict[str, Any], dialect: str = "anthropic") -> bool:
    desk = Desk()
    found = desk.send(headers, desk.body(dialect, content, "gemini-2.5-pro" if dialect == "gemini" else ""))
    assert desk.reads == 0 or not found.side
    assert found.lane.id.endswith("/side") == found.side
    return found.side


def _gemini(*texts: str, **config: Any) -> dict[str, Any]:
    contents = [{"role": ("user", "model")[at % 2], "parts": [{"text": text}]} for at, text in enumerate(texts)]
    return {"contents": contents, "generationConfig": config}


@pytest.mark.parametrize(
    "content",
    [
        words("Write a title", output_config={"format": {"type": "json_schema", "schema": {}}}),
        words("Hi", "Hello", "Is it a new topic?", output_config={"format": {"type": "json_schema", "schema": {}}}),
        words("Hi", "Hello", "Is it a new topic?", output_format={"type": "json_schema", "schema": {}}),
        words("quota", max_tokens=1),
        words("Hi", "Hello", "quota", max_tokens=32),
        words("Sum this page up"),
        words("Sum this page up", tools=[]),
        words("Search for it", tools=[{"type": "web_search_20250305", "name": "web_search", "max_uses": 8}]),
    ],
)
def test_requests_beside_claude_codes_conversation(content: dict[str, Any]) -> None:
    assert _is_side(CLAUDE, content)


@pytest.mark.parametrize(
    "content",
    [
        words("Do it", tools=TOOLS),
        words("Do it", max_tokens=1, tools=TOOLS),
        words("Do it", "Done", "Now sum it all up", tools=TOOLS),
        words("Do it", "Done", "Now sum it all up"),
        words("Do it", "Done", "More", output_config={"effort": "medium"}),
        words("Do it", tools=[*TOOLS, {"type": "web_search_20250305", "name": "web_search"}]),
        words("Do it", "Done", "Search", tools=[{"type": "web_search_20250305", "name": "web_search"}]),
        words("Do it", tools=[{"name": "mine", "input_schema": {}}]),
    ],
)
def test_requests_of_claude_codes_conversation(content: dict[str, Any]) -> None:
    """A compaction too, which asks for a summary of the whole history."""
    assert not _is_side(CLAUDE, content)


def test_a_recorded_compaction_is_part_of_the_conversation() -> None:
    desk = Desk()
    *before, last = run_of("claude-code-2.1.325", "basic")
    found = [desk.replay(shape) for shape in before]
    content = json.loads(last.body or b"")
    content["messages"].append({"role": "user", "content": "Write a summary of the conversation so far."})
    compaction = desk.send(headers_of(last), desk.body("anthropic", content))
    assert not compaction.side
    assert compaction.lane == (found[0].lane if found[0] else None)


@pytest.mark.parametrize(
    ("content", "side"),
    [
        (_gemini("Hi", "Hello", "Who speaks next?", responseMimeType="application/json"), True),
        (_gemini("Hi", "Hello", "Who speaks next?", responseSchema={"type": "OBJECT"}), True),
        (_gemini("Hi", "Hello", "Who speaks next?", responseJsonSchema={"type": "object"}), True),
        (_gemini("Hi", "Hello", "Short", maxOutputTokens=8), True),
        (_gemini("Search", topK=1), True),
        ({**_gemini("Search"), "tools": [{"googleSearch": {}}]}, True),
        (_gemini("Hi", "Hello", "Go on", responseMimeType="text/plain"), False),
        (_gemini("Hi", "Hello", "Go on", responseSchema=None), False),
        ({**_gemini("Hi"), "tools": [{"functionDeclarations": [{"name": "read_file"}]}]}, False),
    ],
)
def test_requests_beside_gemini_clis_conversation(content: dict[str, Any], side: bool) -> None:
    assert _is_side(GEMINI, content, "gemini") is side


@pytest.mark.parametrize(
    ("dialect", "more", "side"),
    [
        ("openai_chat", {"response_format": {"type": "json_schema", "json_schema": {}}}, True),
        ("openai_chat", {"response_format": {"type": "text"}}, False),
        ("openai_chat", {"response_format": "odd"}, False),
        ("openai_chat", {"max_completion_tokens": 5}, True),
        ("openai_chat", {"functions": [{"name": "f"}], "max_completion_tokens": 5}, False),
        ("openai_responses", {"text": {"format": {"type": "json_schema", "schema": {}}}}, True),
        ("openai_responses", {"text": {"format": {"type": "text"}, "verbosity": "low"}}, False),
        ("openai_responses", {"text": {"verbosity": "low"}}, False),
        ("openai_responses", {"max_output_tokens": 16}, True),
    ],
)
def test_requests_with_a_history_beside_openai_conversations(dialect: str, more: dict[str, Any], side: bool) -> None:
    turns = [{"role": role, "content": "words"} for role in ("user", "assistant", "user")]
    content = {"model": "gpt-5", "messages" if dialect == "openai_chat" else "input": turns, **more}
    assert _is_side({"user-agent": "opencode/1.18.33"}, content, dialect) is side


@pytest.mark.parametrize(
    ("content", "side"),
    [
        (words("ping", max_tokens=1), True),
        (words("ping", max_tokens=16), True),
        (words("ping", max_tokens=17), False),
        (words("ping" * 200, max_tokens=1), False),
        (words("ping", "pong", "ping", max_tokens=1), False),
        (words("ping", max_tokens=1, tools=TOOLS), False),
        (words("Write a title"), False),
        (words("Write a title", output_config={"format": {"type": "json_schema", "schema": {}}}), False),
        (words("Search", tools=[{"type": "web_search_20250305", "name": "web_search"}]), False),
    ],
)
def test_of_an_unknown_client_only_a_probe_is_beside(content: dict[str, Any], side: bool) -> None:
    assert _is_side({"user-agent": "my-agent/1.0"}, content) is side


def test_a_side_request_leaves_no_trace() -> None:
    desk = Desk()
    title = desk.send(CLAUDE, desk.body("anthropic", words("Write a title", model="claude-haiku-4-5")))
    sub = {**CLAUDE, "x-claude-code-agent-id": "a1"}
    assert title.lane.id == "s1/side"
    assert desk.send(sub, desk.body("anthropic", words("Look", tools=TOOLS))).lane.parent is None


def test_side_requests_without_a_session_share_one_for_each_client() -> None:
    desk = Desk()
    ids = [
        desk.send(headers, desk.body("anthropic", words("ping", max_tokens=1))).lane.id
        for headers in (GEMINI, GEMINI, {"user-agent": "curl/8"}, {})
    ]
    assert ids == ["gemini-cli-side/side", "gemini-cli-side/side", "curl-side/side", "unknown-side/side"]
