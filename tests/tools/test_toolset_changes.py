"""The tools array over time: tools that come, go and change, and what a reset makes of it."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.records import Message, Text, ToolResult
from holdfast.simulator.checks import anthropic as anthropic_checks
from holdfast.tools.contract import ResolvedCall
from holdfast.tools.lifecycle import ToolUsage
from holdfast.tools.toolset import ToolSet
from tests.tools.toolsets import (
    CARRIERS,
    CORE,
    GITHUB,
    HOST,
    MODELS,
    SEARCH,
    body,
    call,
    of,
    prefix,
    refused,
    resolves,
    settings,
    stored,
    tool,
    toolset,
    used,
)

# Tools that come and go


@pytest.mark.parametrize("carrier", CARRIERS)
def test_c64_tools_of_a_server_that_is_gone_leave_at_once_and_keep_the_prefix(carrier: str) -> None:
    tools = of(carrier, never=("mcp__github__search",))
    tools.discover([GITHUB[1]])
    before, version = prefix(tools), tools.version
    names = [each.name for each in GITHUB]
    assert tools.remove([*names, "mcp__other__x"], "the server github disconnected") == tuple(names)
    assert tools.version > version
    assert prefix(tools) == before
    assert (tools.findable(), tools.deferred) == ((), ())
    for name in names[:2]:  # declared, and found
        assert refused(tools, name) == f"The tool {name} is unavailable: the server github disconnected."
    assert refused(tools, names[2]).startswith("There is no tool named"), "the model never heard of it"
    assert tools.remove(names) == ()


@pytest.mark.parametrize("carrier", CARRIERS)
def test_c65_a_changed_list_removes_only_what_went_and_defers_what_came(carrier: str) -> None:
    tools = of(carrier)
    before = prefix(tools)
    assert tools.remove(["mcp__github__close"]) == ("mcp__github__close",)
    assert tools.add([GITHUB[0], tool("mcp__github__label")]) == ("mcp__github__label",)
    assert set(tools.deferred) == {"mcp__github__search", "mcp__github__create", "mcp__github__label"}
    tools.discover(tools.findable())
    assert all(resolves(tools, name) for name in tools.deferred)
    assert prefix(tools) == before


def test_c66_a_server_that_comes_back_is_callable_again_in_the_same_turn() -> None:
    tools = toolset((*CORE, *GITHUB))
    before = tools.definitions()
    tools.remove([each.name for each in GITHUB])
    tools.add(GITHUB)
    assert all(resolves(tools, each.name) for each in GITHUB)
    assert tools.definitions() == before
    assert tools.deferred == ()


def test_a_declared_tool_that_is_described_anew_keeps_its_bytes_and_runs_as_it_is_now() -> None:
    tools = toolset((*CORE, *GITHUB))
    before = tools.definitions()
    changed = replace(GITHUB[0], description="another text")
    assert tools.add([changed]) == ()
    assert tools.definitions() == before
    assert tools.resolve(call(changed.name)) == ResolvedCall(changed, {})
    redeclared = tools.at_reset()
    assert redeclared.changed == (changed.name,)
    assert (redeclared.added, redeclared.removed, redeclared.deferred) == ((), (), ())


def test_a_deferred_tool_that_is_described_anew_is_found_as_it_is_now() -> None:
    changed = replace(GITHUB[0], description="another text")
    for carrier in CARRIERS:
        tools = of(carrier)
        tools.add([changed])
        assert b"another text" in msgspec.json.encode(tools.state.deferred)
    tools = of("references")
    tools.discover([GITHUB[0]])
    before = body(tools).raw
    tools.add([changed])
    assert body(tools).raw == before, "where it was referred to, its definition is part of the history"
    tools = of("call_tool")
    tools.discover([GITHUB[0]])
    tools.add([changed])
    (block,) = tools.discover([changed]).blocks
    assert isinstance(block, Text)
    assert "another text" in block.text


def test_a_tool_that_was_referred_to_stays_declared_for_good() -> None:
    """The provider refuses a request that refers to a tool which is not in the array, also long after a compaction."""
    tools = of("references")
    found = tools.discover([GITHUB[0]])
    history = (
        Message("assistant", (call("discover_tools", {"query": "x"}),)),
        Message("user", (ToolResult("call-1", found.blocks),)),
    )
    tools.remove([GITHUB[0].name])
    for _ in range(2):
        assert not list(anthropic_checks.late_tools(body(tools, history)))
        tools.at_reset()
    again = of("references", CORE, state=stored(tools))
    assert not list(anthropic_checks.late_tools(body(again, history)))
    assert again.findable() == ()


def test_the_version_counts_what_can_be_found() -> None:
    tools = of("call_tool")
    version = tools.version
    tools.discover(tools.findable())
    assert tools.version == version
    tools.add([tool("mcp__a__b")])
    assert tools.version > version


# Resets


def test_at_a_reset_nothing_changes_if_nothing_happened() -> None:
    for carrier in CARRIERS:
        assert of(carrier, (*CORE, *HOST, *GITHUB, SEARCH)).at_reset() is None


@pytest.mark.parametrize("carrier", CARRIERS)
def test_at_a_reset_what_was_found_and_used_is_declared_and_the_rest_goes_back(carrier: str) -> None:
    tools = of(carrier)
    tools.discover(tools.findable())
    tools.usage.observe([used("mcp__github__search")])
    changed = tools.at_reset()
    assert changed.added == ("mcp__github__search",)
    assert tools.declared[-1] == "mcp__github__search"
    assert tools.deferred == ("mcp__github__close", "mcp__github__create")
    assert tools.pending == ()
    assert tools.at_reset() is None


def test_at_a_reset_what_an_item_still_declares_is_not_declared_twice() -> None:
    tools = of("additional")
    (message,) = tools.discover(GITHUB[:2]).messages
    tools.usage.observe([used("mcp__github__search", "mcp__github__create")])
    before = tools.definitions()
    assert tools.at_reset(None) is None, "all that was said is kept"
    assert tools.at_reset([Message("user", (Text("a summary"),)), message]) is None
    assert tools.definitions() == before
    assert tools.discover(GITHUB[:2]).messages == ()
    assert resolves(tools, "mcp__github__search")
    changed = tools.at_reset([Message("user", (Text("a summary"),))])
    assert changed.added == ("mcp__github__create", "mcp__github__search")


def test_at_a_reset_vanished_tools_leave_the_array() -> None:
    tools = toolset((*CORE, *HOST, *GITHUB))
    tools.remove(["zeta", "mcp__github__close"], "the server github disconnected")
    changed = tools.at_reset()
    assert changed.removed == ("zeta", "mcp__github__close")
    assert not {"zeta", "mcp__github__close"} & set(tools.declared)
    assert "unavailable" in refused(tools, "zeta"), "the history may still speak of it"
    assert tools.add(HOST[:1]) == ("zeta",)
    assert tools.deferred == ("zeta",)


def test_at_a_reset_the_mode_is_applied_anew() -> None:
    tools = toolset((*CORE, *GITHUB))
    tools.add([tool("mcp__late__x")])
    assert tools.deferred == ("mcp__late__x",), "what comes late is deferred in every mode"
    changed = tools.at_reset()
    assert changed.added == ("mcp__late__x",), "and declared where it fits"
    large = [tool(f"mcp__large__{n}", words=1_500) for n in range(90)]
    tools.add(large)
    tools.at_reset()
    assert 0 < len(tools.deferred) < 90


def test_a_demoted_tool_that_is_used_again_is_declared_again() -> None:
    tools = toolset((*CORE, *HOST), lifecycle={"demote_after_turns": 2})
    for turn in range(2):
        tools.usage.observe([used("eta", start=turn)])
        tools.usage.turn()
    changed = tools.at_reset()
    assert changed.demoted == (("zeta", 2),)
    tools.discover(tools.findable())
    tools.usage.observe([used("zeta", start=50)])
    changed = tools.at_reset()
    assert changed.added == ("zeta",)


def test_what_was_used_in_earlier_sessions_is_deferred_last() -> None:
    many = [tool(f"tool_{n}", words=400) for n in range(10)]
    tools = toolset(many, budget=0.002, uses={"tool_3": 5, "tool_7": 1})
    assert {"tool_3", "tool_7"} <= set(tools.declared)
    assert len(tools.deferred) >= 4


def test_usage_may_be_shared_with_whoever_counts() -> None:
    usage = ToolUsage()
    tools = ToolSet((*CORE, *GITHUB), settings=settings(), model=MODELS["gemini"], dialect="gemini", usage=usage)
    assert tools.usage is usage
    usage.turn()
    assert usage.idle(["mcp__github__search"]) == {"mcp__github__search": 1}


# OpenAI's allowed tools


def test_allowed_names_what_is_left_where_a_declared_tool_vanished() -> None:
    for dialect in ("openai_chat", "openai_responses"):
        tools = toolset((*CORE, *GITHUB), dialect=dialect)
        assert tools.allowed() is None
        tools.remove(["mcp__github__search"])
        allowed = tools.allowed()
        assert allowed == tuple(name for name in tools.declared if name != "mcp__github__search")
        tools.add(GITHUB)
        assert tools.allowed() is None


def test_allowed_knows_additional_tools() -> None:
    tools = of("additional")
    tools.discover(GITHUB[:2])
    tools.remove(["mcp__github__search"])
    assert tools.allowed() == ("read_file", "grep_files", "run_command", "discover_tools", "mcp__github__create")


def test_allowed_is_for_openai_only() -> None:
    for dialect in ("anthropic", "gemini", "openrouter"):
        tools = toolset((*CORE, *GITHUB), dialect=dialect)
        tools.remove(["mcp__github__search"])
        assert tools.allowed() is None


def test_allowed_is_not_for_others_that_speak_openai_s_dialects() -> None:
    tools = toolset((*CORE, *GITHUB), dialect="openai_chat", model="deepseek:deepseek-chat")
    tools.remove(["mcp__github__search"])
    assert tools.allowed() is None


def test_allowed_names_nothing_that_a_compacted_history_declared() -> None:
    """OpenAI refuses a choice of a tool that the request does not declare."""
    tools = of("additional", never=("mcp__github__close",))
    tools.discover(GITHUB[:2])
    tools.remove(["mcp__github__search"])
    tools.at_reset(())
    tools.remove(["mcp__github__close"])
    assert tools.allowed() == ("read_file", "grep_files", "run_command", "discover_tools")
