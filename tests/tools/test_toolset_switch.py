"""A session that goes on with another model: what its history refers to, declares or says of tools still holds."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.records import Message, Request, ToolResult
from holdfast.simulator.checks import anthropic as anthropic_checks
from holdfast.tools.carriers import fitting
from holdfast.tools.toolset import ToolSet
from holdfast.wire import DIALECTS
from tests.tools.toolsets import CORE, GITHUB, body, call, chain, of, refused, resolves, stored, toolset, used

OTHER = {"references": "anthropic:claude-haiku-4-5", "additional": "openai:gpt-5.6"}
NAMES = [each.name for each in GITHUB]


def found(tools: ToolSet, *names: str) -> tuple[Message, ...]:
    """The history of a search that finds these."""
    asked = call("discover_tools", {"query": "select:" + ",".join(names)})
    answer = tools.discover([each for each in tools.findable() if each.name in names])
    return (Message("assistant", (asked,)), Message("user", (ToolResult(asked.id, answer.blocks),)), *answer.messages)


@pytest.mark.parametrize("carrier", OTHER)
def test_what_was_found_stays_callable_with_another_model_of_the_same_carrier(carrier: str) -> None:
    tools = of(carrier)
    found(tools, *NAMES[:2])
    again = of(carrier, model=OTHER[carrier], state=stored(tools), usage=tools.usage)
    assert [resolves(again, name) for name in NAMES] == [True, True, False]
    assert set(NAMES[:2]) <= set(again.state.recent)


def test_what_an_item_in_the_history_declares_is_not_declared_twice() -> None:
    tools = of("additional")
    found(tools, *NAMES[:2])
    tools.usage.observe([used(NAMES[0])])
    again = of("additional", model=OTHER["additional"], state=stored(tools), usage=tools.usage)
    assert NAMES[0] not in again.declared
    assert NAMES[0] in again.deferred


def test_a_reference_to_a_tool_that_vanished_is_not_refused_after_a_switch() -> None:
    tools = of("references")
    history = found(tools, NAMES[0])
    tools.remove([NAMES[0]], "the server github disconnected")
    again = of("references", CORE, model=OTHER["references"], state=stored(tools), discovery=True)
    assert not list(anthropic_checks.late_tools(body(again, history)))
    assert refused(again, NAMES[0]).endswith("is unavailable: the server github disconnected.")


def test_a_reference_survives_a_stretch_with_another_carrier_and_its_resets() -> None:
    tools = of("references")
    history = found(tools, NAMES[0])
    tools.remove([NAMES[0]])
    between = of("additional", (*CORE, *GITHUB[1:]), state=stored(tools))
    between.at_reset(history)
    again = of("references", (*CORE, *GITHUB[1:]), state=stored(between))
    assert not list(anthropic_checks.late_tools(body(again, history)))


def test_what_is_referred_to_is_not_described_anew_while_the_history_stays() -> None:
    tools = of("references")
    history = found(tools, NAMES[0])
    before = chain(tools, history)
    tools.add([replace(GITHUB[0], description="Another text.")])
    assert tools.at_reset(None) is None
    assert chain(tools, history) == before
    tools.at_reset(())
    assert b"Another text." in body(tools).raw


def test_discover_tools_stays_though_nothing_can_be_found_at_the_moment() -> None:
    """A server that comes back later has to be found by the other model, too."""
    tools = toolset((*CORE, *GITHUB), dialect="openai_responses")
    again = toolset(CORE, dialect="anthropic", state=stored(tools))
    assert "discover_tools" in again.declared
    again.add(GITHUB)
    assert [each.name for each in again.findable()] == NAMES


def test_what_another_carrier_left_in_the_history_is_said_in_words() -> None:
    history = found(of("references"), *NAMES[:2])
    assert fitting(history, "references") == history
    said = fitting(history, "call_tool")
    raw = DIALECTS["anthropic"].encode(Request(model="anthropic:claude-opus-4", messages=said))
    assert b"tool_reference" not in raw
    assert b"Found: mcp__github__create, mcp__github__search. Search again" in raw


def test_items_are_left_out_for_a_model_that_does_not_know_them() -> None:
    history = found(of("additional"), NAMES[0])
    assert len(history) == 3
    assert fitting(history, "additional") == history
    assert fitting(history, "call_tool") == history[:2]


def test_what_is_pending_is_declared_at_a_reset_that_keeps_the_history() -> None:
    tools = of("redeclare")
    for _ in range(30):
        tools.usage.turn()
    found(tools, NAMES[0])
    changed = tools.at_reset(None)
    assert changed.added == (NAMES[0],)
    assert tools.pending == (), "else everything would be written a second time"
