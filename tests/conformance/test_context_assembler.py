"""Seed context-assembler §2-§4: two system segments, breakpoints per dialect, the caching capability."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import facts
from holdfast.records import Message, Request, Text, ToolDefinition
from holdfast.wire import DIALECTS, Body

STABLE, VOLATILE = "You are a careful engineer.", "# MEMORY.md\nThe build uses make."
TOOLS = (ToolDefinition("read_file", "Read a file.", b'{"type":"object"}'), ToolDefinition("run_command", "Run."))


def request(model: str = "anthropic:claude-opus-5-5", **changes: Any) -> Request:
    base = Request(
        model=model,
        tools=TOOLS,
        system_prompt=STABLE,
        system_prompt_volatile=VOLATILE,
        messages=(Message("user", (Text("hello"),)),),
        output_limit=100,
    )
    return replace(base, **changes)


def sent(dialect: str, request: Request) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(DIALECTS[dialect].encode(request))
    return body


def prefix(dialect: str, request: Request) -> list[str]:
    """The paths of a request's blocks in the order in which the provider reads them."""
    body = DIALECTS[dialect].parse(DIALECTS[dialect].encode(request))
    assert isinstance(body, Body)
    return [block.path for block in body.blocks]


# §2 Two segments


@pytest.mark.parametrize("dialect", DIALECTS)
def test_2_both_segments_are_optional(dialect: str) -> None:
    bare = request(system_prompt=None, system_prompt_volatile=None)
    body = sent(dialect, bare)
    assert "system" not in body
    assert "systemInstruction" not in body
    assert "instructions" not in body
    assert all(message.get("role") != "system" for message in body.get("messages", []))


def test_2_stable_comes_first_volatile_second_on_anthropic() -> None:
    assert [block["text"] for block in sent("anthropic", request())["system"]] == [STABLE, VOLATILE]


@pytest.mark.parametrize("dialect", ["openai_chat", "openrouter"])
def test_2_stable_comes_first_volatile_second_in_chat(dialect: str) -> None:
    system = sent(dialect, request())["messages"][0]
    assert system == {"role": "system", "content": f"{STABLE}\n\n{VOLATILE}"}


def test_2_stable_comes_first_volatile_second_in_responses() -> None:
    assert sent("openai_responses", request())["instructions"] == f"{STABLE}\n\n{VOLATILE}"


def test_2_stable_comes_first_volatile_second_on_gemini() -> None:
    parts = sent("gemini", request())["systemInstruction"]["parts"]
    assert parts == [{"text": STABLE}, {"text": VOLATILE}]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_2_everything_in_one_segment_equals_an_unsegmented_request(dialect: str) -> None:
    """A caller that does not care gets what a client without segments would have sent."""
    whole = request(system_prompt=f"{STABLE}\n\n{VOLATILE}", system_prompt_volatile=None)
    for empty in ("", ()):
        assert DIALECTS[dialect].encode(replace(whole, system_prompt_volatile=empty)) == DIALECTS[dialect].encode(whole)
    decoded = DIALECTS[dialect].parse(DIALECTS[dialect].encode(whole), model="m")
    assert DIALECTS[dialect].decode(decoded).system_prompt == f"{STABLE}\n\n{VOLATILE}"
    if dialect in ("openai_chat", "openai_responses", "openrouter"):
        assert DIALECTS[dialect].encode(whole) == DIALECTS[dialect].encode(request())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_2_changing_the_volatile_text_keeps_the_bytes_before_it(dialect: str) -> None:
    one = DIALECTS[dialect].encode(request(messages=()))
    other = DIALECTS[dialect].encode(request(messages=(), system_prompt_volatile="# MEMORY.md\nIt moved."))
    border = one.index(b"The build uses")
    assert one[:border] == other[:border]
    assert STABLE.encode() in one[:border]


# §3 Breakpoints


def test_3_anthropic_order_is_tools_system_messages() -> None:
    assert prefix("anthropic", request()) == [
        "tools[0]",
        "tools[1]",
        "system[0]",
        "system[1]",
        "messages[0].content[0]",
    ]


@pytest.mark.parametrize(
    ("dialect", "paths"),
    [
        ("openai_chat", ["messages[0].content[0]", "tools[0]", "tools[1]", "messages[1].content[0]"]),
        ("openrouter", ["messages[0].content[0]", "tools[0]", "tools[1]", "messages[1].content[0]"]),
        ("openai_responses", ["instructions", "tools[0]", "tools[1]", "input[0].content[0]"]),
        (
            "gemini",
            [
                "systemInstruction.parts[0]",
                "systemInstruction.parts[1]",
                "tools[0].functionDeclarations[0]",
                "tools[0].functionDeclarations[1]",
                "contents[0].parts[0]",
            ],
        ),
    ],
)
def test_3_other_providers_read_system_tools_messages(dialect: str, paths: list[str]) -> None:
    assert prefix(dialect, request()) == paths


def test_3_openrouter_without_markers_is_openai_shape() -> None:
    chat = sent("openai_chat", request("openai:gpt-5.5"))
    routed = sent("openrouter", request("openrouter:openai/gpt-5.5"))
    assert routed["messages"] == chat["messages"]
    assert routed["tools"] == chat["tools"]


# §4 The capability


@pytest.mark.parametrize(
    ("dialect", "model"),
    [
        ("anthropic", "anthropic:claude-haiku-4-5"),
        ("openai_chat", "openai:gpt-5.5"),
        ("openai_responses", "openai:gpt-6.1-sol"),
        ("gemini", "gemini:gemini-2.5-pro"),
    ],
)
def test_4_caching_is_declared_where_breakpoints_or_automatic_caching_hold(dialect: str, model: str) -> None:
    assert DIALECTS[dialect].capabilities(facts.model(model)).supports_prompt_caching


@pytest.mark.parametrize(
    ("dialect", "model"), [("openai_chat", "openai:gpt-4-turbo"), ("openai_chat", "openai:gpt-3.5-turbo")]
)
def test_4_caching_is_not_declared_where_neither_holds(dialect: str, model: str) -> None:
    """A27: no breakpoints are written for these, and their provider caches nothing by itself."""
    known = facts.model(model)
    assert (known.caching, known.marker) == ("none", None)
    assert not DIALECTS[dialect].capabilities(known).supports_prompt_caching
    assert "cache" not in json.dumps(sent(dialect, request(model=model)))


def test_4_openrouter_declares_caching_only_once_a_read_was_seen() -> None:
    """The seed's answer (`never`) is one setting away; ours waits for the evidence."""
    from holdfast.wire.openrouter import OpenRouter

    route = facts.model("openrouter:anthropic/claude-sonnet-4.5")
    dialect = OpenRouter()
    assert not dialect.capabilities(route).supports_prompt_caching
    assert dialect.capabilities(route, read_seen=True).supports_prompt_caching
    assert not dialect.capabilities(route, caching="never", read_seen=True).supports_prompt_caching
