"""The one owner of the tools array: order and bytes that stay, what is found, what a call means."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.records import Opaque, Text
from holdfast.tools.contract import RefusedCall, ResolvedCall
from holdfast.wire import DIALECTS
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
    stored,
    through,
    tool,
    toolset,
    used,
)

# Order and bytes


def test_the_order_is_built_in_host_mcp_by_name_and_the_providers_own() -> None:
    tools = toolset((*HOST, *reversed(GITHUB), *CORE, SEARCH))
    assert tools.declared == (
        *("read_file", "grep_files", "run_command", "discover_tools"),
        *("zeta", "eta"),
        *("mcp__github__close", "mcp__github__create", "mcp__github__search"),
    )
    assert tools.definitions()[-1] == SEARCH


def test_the_order_in_which_servers_answer_makes_no_difference() -> None:
    one, other = toolset((*CORE, *GITHUB)), toolset((*CORE, *reversed(GITHUB)))
    assert one.definitions() == other.definitions()


def test_c52_deferred_tools_leave_the_array_and_stay_findable() -> None:
    tools = of("call_tool", (*CORE, *HOST, *GITHUB))
    assert tools.declared == ("read_file", "grep_files", "run_command", "discover_tools", "call_tool")
    assert tools.deferred == ("zeta", "eta", "mcp__github__close", "mcp__github__create", "mcp__github__search")
    assert [each.name for each in tools.findable()] == list(tools.deferred)


def test_c19_deferral_makes_requests_smaller() -> None:
    many = [tool(f"mcp__many__tool_{n:02}", words=150) for n in range(60)]
    sizes = {mode: len(body(toolset((*CORE, *many), dialect="gemini", mode=mode)).raw) for mode in ("always", "never")}
    assert sizes["always"] < 0.19 * sizes["never"]


@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_restart_gives_the_same_bytes(carrier: str) -> None:
    tools = of(carrier, (*CORE, *HOST, *GITHUB, SEARCH), never=("zeta",))
    tools.discover(tools.findable()[:2])
    tools.remove(["zeta", "mcp__github__create"], "the server github disconnected")
    changed = [replace(each, description="another text") for each in (*CORE, *HOST[1:], GITHUB[0], GITHUB[2])]
    again = of(carrier, (*changed, tool("mcp__new__one"), SEARCH), state=stored(tools))
    assert prefix(again) == prefix(tools)
    assert again.declared == tools.declared
    assert again.pending == tools.pending
    assert refused(again, "zeta") == "The tool zeta is unavailable: the server github disconnected."
    assert "mcp__new__one" in again.deferred


def test_after_a_restart_tools_whose_server_has_yet_to_answer_come_back_by_themselves() -> None:
    tools = toolset((*CORE, *GITHUB))
    again = toolset(CORE, state=stored(tools))
    assert again.definitions() == tools.definitions()
    assert refused(again, "mcp__github__search").endswith("is unavailable: nothing offers it at the moment.")
    assert set(again.add(GITHUB)) == {each.name for each in GITHUB}
    assert resolves(again, "mcp__github__search")
    assert again.state == tools.state


def test_a_state_for_another_model_says_only_what_was_of_use() -> None:
    tools = of("references")
    tools.discover(tools.findable())
    tools.usage.observe([used("mcp__github__search")])
    again = of("additional", state=stored(tools), usage=tools.usage)
    assert again.declared == ("read_file", "grep_files", "run_command", "discover_tools", "mcp__github__search")


def test_settings_that_changed_wait_for_the_next_reset() -> None:
    tools = toolset((*CORE, *GITHUB))
    again = toolset((*CORE, *GITHUB), state=stored(tools), mode="always", carrier="call_tool")
    assert again.definitions() == tools.definitions()
    assert again.carrier == "references"
    changed = again.at_reset()
    assert set(changed.deferred) == {each.name for each in GITHUB}


def test_two_tools_of_one_name_are_an_error() -> None:
    with pytest.raises(HoldfastError, match="two tools are named zeta"):
        toolset((*HOST, tool("zeta")))
    with pytest.raises(HoldfastError, match="two tools are named web_search"):
        toolset((tool("web_search"), SEARCH))
    tools = toolset(HOST, discovery=True)
    with pytest.raises(HoldfastError, match="two tools are named zeta"):
        tools.add([tool("zeta", source="mcp", server="z")])
    with pytest.raises(HoldfastError, match="discover_tools"):
        tools.add([tool("discover_tools")])
    assert tools.deferred == ()


def test_the_hosts_further_members_are_declared() -> None:
    tools = toolset((tool("strict", extra=(("strict", b"true"),)),), dialect="openai_responses")
    assert b'"strict":true' in body(tools).raw


# discover_tools


def test_discover_tools_is_declared_where_it_may_be_needed() -> None:
    assert toolset((*CORE, *HOST)).declared == ("read_file", "grep_files", "run_command", "zeta", "eta")
    for tools in (
        toolset((*CORE, *GITHUB)),  # the list of a server may change
        toolset((*CORE, *HOST), mode="always"),
        toolset((*CORE, *HOST), mode="never", always=("zeta",)),
        toolset(CORE, discovery=True),  # servers that have yet to answer
        toolset((*CORE, *GITHUB), mode="never"),
    ):
        assert "discover_tools" in tools.declared
        assert "call_tool" not in tools.declared
    assert toolset(()).definitions() == ()


def test_call_tool_is_declared_with_its_carrier_only() -> None:
    for dialect in MODELS:
        tools = toolset(CORE, dialect=dialect, discovery=True)
        assert ("call_tool" in tools.declared) == (tools.carrier == "call_tool")


def test_without_discovery_nothing_is_deferred_and_late_tools_wait_for_a_reset() -> None:
    tools = toolset((*CORE, *GITHUB), discovery=False, mode="always")
    assert tools.deferred == ()
    before = tools.definitions()
    assert tools.add([tool("mcp__late__x")]) == ("mcp__late__x",)
    assert tools.definitions() == before
    assert tools.findable() == ()
    assert resolves(tools, "mcp__late__x")
    changed = tools.at_reset()
    assert changed.added == ("mcp__late__x",)


def test_discover_tools_stays_once_it_was_declared() -> None:
    tools = toolset((*CORE, *GITHUB))
    tools.remove([each.name for each in GITHUB])
    assert tools.at_reset() is not None
    assert "discover_tools" in tools.declared


# Discovery


@pytest.mark.parametrize("carrier", CARRIERS)
def test_c53_what_was_found_is_callable_at_once(carrier: str) -> None:
    tools = of(carrier)
    name = "mcp__github__search"
    assert resolves(tools, name) == (carrier == "call_tool")
    before = prefix(tools)
    tools.discover([each for each in tools.findable() if each.name == name])
    assert resolves(tools, name)
    assert prefix(tools) == before


def test_a_tool_that_was_not_found_yet_says_how_to_find_it() -> None:
    text = refused(of("references"), "mcp__github__search")
    assert text == (
        "The tool mcp__github__search is not loaded yet. Call discover_tools with the query "
        "`select:mcp__github__search`, then mcp__github__search."
    )


def test_c62_what_is_declared_already_needs_no_schema() -> None:
    tools = of("call_tool", (*CORE, *HOST), never=("zeta",))
    found = tools.discover(HOST)
    (block,) = found.blocks
    assert isinstance(block, Text)
    assert '"eta"' in block.text
    assert '"zeta"' not in block.text
    (block,) = tools.discover(HOST[:1]).blocks
    assert block == Text("[Discovery loaded: 1 tool(s) are now callable]\n- zeta")
    assert tools.discover([tool("unheard")]).blocks == (Text("[Discovery loaded: 0 tool(s) are now callable]"),)


def test_strip_when_cold_puts_the_schemas_into_the_answer() -> None:
    for carrier in ("additional", "redeclare"):
        (block,) = of(carrier, strip="when_cold").discover(GITHUB).blocks
        assert isinstance(block, Text)
        assert block.text.startswith("<functions>\n")
    blocks = of("references", strip="when_cold").discover(GITHUB).blocks
    assert [block.kind for block in blocks if isinstance(block, Opaque)] == ["tool_reference"] * 3


def test_what_was_found_is_declared_when_that_is_decided() -> None:
    tools = of("redeclare")
    before = tools.definitions()
    assert tools.redeclare() is None
    tools.discover(tools.findable()[1:])
    assert tools.definitions() == before, "finding alone changes nothing"
    assert tools.pending == ("mcp__github__create", "mcp__github__search")
    assert resolves(tools, "mcp__github__create")
    changed = tools.redeclare()
    assert changed.added == ("mcp__github__create", "mcp__github__search")
    assert tools.definitions()[: len(before)] == before, "appended: what stands before keeps its bytes"
    assert tools.declared[-2:] == changed.added
    assert (tools.pending, tools.deferred) == ((), ("mcp__github__close",))
    assert tools.redeclare() is None


def test_only_redeclare_has_something_pending() -> None:
    for carrier in ("references", "additional", "call_tool"):
        tools = of(carrier)
        tools.discover(tools.findable())
        assert tools.pending == ()
        assert tools.redeclare() is None


# Calls


def test_call_tool_calls_what_it_names() -> None:
    tools = of("call_tool")
    found = tools.resolve(through("mcp__github__search", {"subject": "x"}))
    assert found == ResolvedCall(GITHUB[0], {"subject": "x"}, "call_tool")
    assert tools.resolve(through("mcp__github__search", '{"subject":"x"}')) == found
    assert tools.resolve(through("read_file", {})) == ResolvedCall(CORE[0], {}, "call_tool"), "declared ones too"
    assert tools.resolve(call("mcp__github__search", {"subject": "x"})) == ResolvedCall(GITHUB[0], {"subject": "x"})


def test_call_tool_does_not_call_itself() -> None:
    tools = of("call_tool")
    for name in ("call_tool", "discover_tools"):
        assert refused(tools, name, via=True) == (
            f"{name} cannot be called through call_tool. Call it by its own name."
        )
    assert isinstance(tools.resolve(call("discover_tools", {"query": "x"})), ResolvedCall)


def test_a_model_that_imitates_call_tool_is_understood_where_it_is_not_declared() -> None:
    tools = of("references")
    assert refused(tools, "mcp__github__search", via=True).startswith("The tool mcp__github__search is not loaded yet.")
    assert tools.resolve(through("read_file", {})) == ResolvedCall(CORE[0], {}, "call_tool")


def test_unknown_names_are_answered_with_the_nearest() -> None:
    tools = of("call_tool")
    assert "read_file" in refused(tools, "readfile")
    assert "mcp__github__search" in refused(tools, "mcp__github__serach", via=True)
    assert refused(tools, "create") == "There is no tool named 'create'. Did you mean mcp__github__create?"
    assert "There is no tool named" in refused(tools, "x\n" * 5_000)
    assert len(refused(tools, "x" * 100_000)) < 1_000


def test_input_that_is_no_object_is_refused_and_text_of_one_is_read() -> None:
    tools = toolset(CORE)
    assert isinstance(tools.resolve(call("read_file", b"[1]")), RefusedCall)
    assert tools.resolve(call("read_file", b'"{\\"path\\":\\"a\\"}"')) == ResolvedCall(CORE[0], {"path": "a"})


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_declares_what_the_set_says(dialect: str) -> None:
    tools = toolset((*CORE, *HOST, *GITHUB), dialect=dialect)
    request = DIALECTS[dialect].decode(body(tools))
    assert request.tools == tools.definitions()
