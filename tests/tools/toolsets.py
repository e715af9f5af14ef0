"""Tools to put into sets, and what the requests that declare them look like to a cache."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from holdfast.config.sections.agent import DeferralSettings, LifecycleSettings, ToolsSettings
from holdfast.facts import model
from holdfast.records import Message, Opaque, Request, Text, ToolUse
from holdfast.tools.contract import MCP_PREFIX, RefusedCall, ResolvedCall, Tool, ToolContext, ToolOutput
from holdfast.tools.lifecycle import ToolUsage
from holdfast.tools.toolset import ToolSet, ToolSetState
from holdfast.wire import DIALECTS, Body
from holdfast.wire.prompts import PromptReader

MODELS = {
    "anthropic": "anthropic:claude-opus-5-5",
    "openai_responses": "openai:gpt-6.1-sol",
    "openai_chat": "openai:gpt-6.1-sol",
    "gemini": "gemini:gemini-3-pro",
    "openrouter": "openrouter:anthropic/claude-opus-5-5",
}
"""A model for each dialect."""


async def run(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    return ToolOutput(content=f"ran with {json.dumps(dict(input))}")


def tool(name: str, *, words: int = 10, core: bool = False, **more: Any) -> Tool:
    """A tool whose description has about so many words. A name that begins as those of MCP servers do makes it one."""
    if name.startswith(MCP_PREFIX):
        more = {"source": "mcp", "server": name.split("__")[1]} | more
    schema = {"type": "object", "properties": {"subject": {"type": "string"}}, "additionalProperties": False}
    described = {
        "description": f"What {name} does. " + "word " * words,
        "input_schema": json.dumps(schema, separators=(",", ":")).encode(),
    }
    return Tool(name=name, run=run, effect="read", core=core, **(described | more))


CORE = tuple(tool(name, core=True, source="builtin") for name in ("read_file", "grep_files", "run_command"))


def settings(lifecycle: Mapping[str, Any] | None = None, **deferral: Any) -> ToolsSettings:
    return ToolsSettings(deferral=DeferralSettings(**deferral), lifecycle=LifecycleSettings(**(lifecycle or {})))


def toolset(tools: Iterable[Tool], *, dialect: str = "anthropic", **more: Any) -> ToolSet:
    """A set for a dialect; what is no parameter of a set is a setting of deferral."""
    named = {key: more.pop(key) for key in ("state", "usage", "discovery") if key in more}
    set_model, lifecycle = more.pop("model", MODELS[dialect]), more.pop("lifecycle", None)
    if "uses" in more:
        named["usage"] = ToolUsage(earlier=more.pop("uses"))
    return ToolSet(tools, settings=settings(lifecycle, **more), model=set_model, dialect=dialect, **named)


def call(name: str, input: object = None, id: str = "call-1") -> ToolUse:
    raw = (
        input
        if isinstance(input, bytes)
        else json.dumps({} if input is None else input, separators=(",", ":")).encode()
    )
    return ToolUse(id, name, raw)


def through(name: str, arguments: object) -> ToolUse:
    return call("call_tool", {"name": name, "arguments": arguments})


def used(*names: str, start: int = 0) -> Message:
    """An assistant message that calls these tools."""
    return Message("assistant", tuple(call(name, id=f"call-{start + at}") for at, name in enumerate(names)))


def body(tools: ToolSet, messages: Iterable[Message] = ()) -> Body:
    """A request that declares what the set declares, as its dialect writes it."""
    request = Request(
        model=MODELS[tools.dialect],
        system_prompt="You are careful.",
        messages=(Message("user", (Text("Begin."),)), *messages),
        tools=tools.definitions(),
        output_limit=64,
        dialect=tools.dialect,
    )
    dialect = DIALECTS[tools.dialect]
    found = dialect.parse(dialect.encode(request), model=MODELS[tools.dialect].partition(":")[2])
    assert isinstance(found, Body)
    return found


def chain(tools: ToolSet, messages: Iterable[Message] = ()) -> tuple[bytes, ...]:
    """The keys of everything that a cache sees of a request."""
    prompt = PromptReader().read(body(tools, messages), model(MODELS[tools.dialect])).prompt
    assert any(block.section == "tools" for block in prompt.blocks)
    return prompt.keys


def prefix(tools: ToolSet) -> tuple[bytes, ...]:
    """The keys of a request that has only begun: what a change of the tools loses."""
    return chain(tools)


GITHUB = tuple(tool(f"mcp__github__{name}") for name in ("search", "create", "close"))
HOST = (tool("zeta"), tool("eta"))
SEARCH = Opaque("web_search_20250305", b'{"type":"web_search_20250305","name":"web_search"}')
CARRIERS = {
    "references": {"dialect": "anthropic"},
    "additional": {"dialect": "openai_responses"},
    "call_tool": {"dialect": "gemini"},
    "redeclare": {"dialect": "openai_chat", "carrier": "redeclare"},
}


def of(carrier: str, tools: object = (*CORE, *GITHUB), **more: object) -> ToolSet:
    """A set with this carrier that defers all but core tools."""
    made = toolset(tools, **({"mode": "always"} | CARRIERS[carrier] | more))  # type: ignore[arg-type]
    assert made.carrier == carrier
    return made


def stored(tools: ToolSet) -> ToolSetState:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(tools.state), type=ToolSetState)


def refused(tools: ToolSet, name: str, *, via: bool = False) -> str:
    found = tools.resolve(through(name, {}) if via else call(name))
    assert isinstance(found, RefusedCall)
    return found.text


def resolves(tools: ToolSet, name: str) -> bool:
    found = tools.resolve(call(name))
    assert not isinstance(found, ResolvedCall) or found.tool.name == name
    return isinstance(found, ResolvedCall)
