"""Use of tools, counted on what clients really send, and the demotion of those that nobody uses."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from holdfast.config.sections.agent import LifecycleSettings
from holdfast.facts import model
from holdfast.records import Message, Opaque, Text, ToolUse
from holdfast.tools.lifecycle import ToolUsage, ToolUsageState, demotions, pays
from holdfast.wire import Body, dialect_of
from tests import shapes
from tests.tools.toolsets import CORE, MODELS, call, settings, through, tool, toolset, used


def decoded(shape: shapes.Shape) -> tuple[str, tuple[Message, ...]] | None:
    found = dialect_of(shape.path)
    if shape.body is None or found is None:
        return None
    dialect, named = found
    body = dialect.parse(shape.body, model=named)
    return (dialect.name, dialect.decode(body).messages) if isinstance(body, Body) else None


def test_calls_are_counted_in_the_recorded_requests_of_every_client_and_dialect() -> None:
    """Against what stands in the bytes: every name of a call, read without our codecs."""
    seen: Counter[str] = Counter()
    for shape in shapes.load():
        found = decoded(shape)
        if found is None:
            continue
        usage = ToolUsage()
        usage.observe(found[1])
        assert dict(usage.uses) == dict(_named(shape)), shape.id
        seen[found[0]] += sum(usage.uses.values())
    assert set(seen) >= {"anthropic", "openai_chat", "openai_responses", "gemini"}
    assert all(seen.values())


def _named(shape: shapes.Shape) -> Counter[str]:
    """The calls of a body by tool, each id once."""
    assert shape.body is not None
    body = msgspec.json.decode(shape.body)
    names: dict[str, str] = {}
    made = 0
    for message in body.get("messages", ()):
        for part in message["content"] if isinstance(message.get("content"), list) else ():
            if part.get("type") == "tool_use":
                names[part["id"]] = part["name"]
        for each in message.get("tool_calls") or ():
            names[each["id"]] = each["function"]["name"]
    for item in body["input"] if isinstance(body.get("input"), list) else ():
        if item.get("type") == "function_call":
            names[item["call_id"]] = item["name"]
    for content in body.get("contents", ()):
        for part in content.get("parts", ()):
            if "functionCall" in part:
                made += 1
                names[part["functionCall"].get("id") or f"made-{made}"] = part["functionCall"]["name"]
    return Counter(names.values())


def test_a_conversation_that_is_handed_over_again_and_again_counts_once() -> None:
    usage = ToolUsage()
    grown: list[Message] = []
    for n in range(5):
        grown += [used("bash", start=10 * n), Message("tool", ())]
        usage.observe(grown)
    assert usage.uses == {"bash": 5}


def test_numbered_ids_of_another_stretch_are_other_calls() -> None:
    """Gemini's calls have no ids: they are numbered anew after a compaction."""
    usage = ToolUsage()
    usage.observe([Message("assistant", (ToolUse("gemini-call-1", "ls", b'{"path":"a"}'),))])
    usage.observe([Message("assistant", (ToolUse("gemini-call-1", "grep", b"{}"),))])
    usage.observe([Message("assistant", (ToolUse("gemini-call-1", "ls", b'{"path":"b"}'),))])
    assert usage.uses == {"ls": 2, "grep": 1}


def test_the_same_call_under_the_same_number_is_another_one_if_it_is_fresh() -> None:
    """Gemini's calls without an id are numbered anew on every turn."""
    usage = ToolUsage()
    for _ in range(30):
        usage.observe([used("weather")], fresh=True)
        usage.turn()
    assert usage.uses["weather"] == 30
    assert usage.idle(["weather"]) == {"weather": 0}


def test_only_what_an_assistant_calls_counts() -> None:
    usage = ToolUsage()
    usage.observe([Message("user", (call("bash"), Text("bash"))), Message("assistant", (Text("bash"),))])
    assert usage.uses == {}


def test_what_call_tool_calls_is_the_use_of_that_tool() -> None:
    usage = ToolUsage()
    messages = [
        Message("assistant", (through("mcp__a__b", {"x": 1}),)),
        Message("assistant", (call("call_tool", b"[1]", "call-2"),)),  # says nothing
    ]
    usage.observe(messages)
    assert usage.uses == {"mcp__a__b": 1, "call_tool": 1}


@pytest.mark.parametrize(
    "raw",
    [
        b'{"type":"custom_tool_call","call_id":"c","name":"apply_patch","input":"x"}',
        b'{"id":"c","type":"custom","custom":{"name":"apply_patch","input":"x"}}',
        b'{"functionCall":{"name":"apply_patch","args":{},"more":1}}',
    ],
)
def test_calls_of_a_kind_that_only_a_dialect_knows_count_too(raw: bytes) -> None:
    usage = ToolUsage()
    usage.observe([Message("assistant", (Opaque("custom", raw, "c"), Opaque("reasoning", b'{"name":"x"}')))])
    assert usage.uses == {"apply_patch": 1}


def test_idle_counts_from_the_last_use_or_from_when_a_tool_came() -> None:
    usage = ToolUsage()
    usage.first_seen(["old", "busy"])
    for turn in range(5):
        usage.observe([used("busy", start=turn)])
        usage.turn()
    usage.first_seen(["late", "old"])
    usage.turn()
    assert usage.idle(["old", "busy", "late", "unheard"]) == {"old": 6, "busy": 1, "late": 1, "unheard": 0}


def test_the_state_survives_a_restart() -> None:
    usage = ToolUsage()
    usage.first_seen(["a", "b"])
    usage.observe([used("a", "a", "b")])
    usage.turn()
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(usage.state), type=ToolUsageState)
    again = ToolUsage(stored)
    again.observe([used("a", "a", "b")])
    assert again.uses == usage.uses == {"a": 2, "b": 1}
    assert again.state == usage.state
    assert again.state.turns == 1


def test_c82_twenty_turns_without_use_demote_a_tool() -> None:
    assert LifecycleSettings().demote_after_turns == 20
    tools = (*CORE, tool("idle"), tool("busy"))
    idle = {"idle": 20, "busy": 19, "read_file": 99}
    assert demotions(tools, settings(), idle) == {"idle": 20}
    assert demotions(tools, settings({"demote_after_turns": 19}), idle) == {"idle": 20, "busy": 19}


def test_c81_the_lifecycle_can_be_switched_off() -> None:
    assert LifecycleSettings().enabled
    assert demotions((tool("idle"),), settings({"enabled": False}), {"idle": 99}) == {}
    assert demotions((tool("idle"),), settings(mode="never"), {"idle": 99}) == {}, "where nothing is deferred"


def test_pinned_tools_are_not_demoted() -> None:
    tools = (tool("mcp__a__x"), tool("mcp__b__x"))
    assert demotions(tools, settings(never=("mcp__a__*",)), dict.fromkeys(("mcp__a__x", "mcp__b__x"), 50)) == {
        "mcp__b__x": 50
    }


def test_a_demotion_pays_by_rule_5_5_or_waits() -> None:
    facts = model(MODELS["anthropic"])  # r = 0.05, w = 1.25: 10,000 behind 1,000 pay after 240 requests
    assert not pays(facts, behind=10_000, removed=1_000, requests=240)
    assert pays(facts, behind=10_000, removed=1_000, requests=241)
    assert not pays(facts, behind=10_000, removed=0, requests=1e9)


def test_turn_21_demotes_what_nobody_used_and_nothing_else() -> None:
    """Seen elsewhere: use was looked for in blocks that never occur, and at turn 21 every tool was demoted."""
    tools = toolset((*CORE, tool("used_early"), tool("used_now"), tool("never_used")))
    assert tools.deferred == ()
    tools.usage.observe([used("used_early")])
    for turn in range(20):
        tools.usage.observe([used("used_now", start=100 + turn)])
        tools.usage.turn()
    assert tools.declared[:3] == ("read_file", "grep_files", "run_command")
    before = tools.definitions()
    tools.usage.observe([used("used_early", start=500)])
    assert tools.definitions() == before, "nothing happens between resets"
    changed = tools.at_reset()
    assert changed.demoted == (("never_used", 20),)
    assert changed.added == ("discover_tools",)
    assert (changed.removed, changed.deferred, changed.changed) == ((), (), ())
    assert tools.deferred == ("never_used",)
    assert "used_early" in tools.declared
    assert tools.at_reset() is None, "it stays where it is"


def test_a_demotion_without_a_reset_happens_only_where_it_pays() -> None:
    tools = toolset((*CORE, tool("large", words=2_000), tool("small")))
    for _ in range(20):
        tools.usage.observe([used("small", start=tools.usage.state.turns)])
        tools.usage.turn()
    before = tools.definitions()
    assert tools.demote(behind=100_000, requests=100) is None
    assert tools.definitions() == before
    changed = tools.demote(behind=10_000, requests=1_000)
    assert changed.demoted == (("large", 20),)
    assert tools.demote(behind=0, requests=1_000) is None, "nothing is left to demote"
