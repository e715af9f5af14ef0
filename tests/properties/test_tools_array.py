"""The tools array between resets: whatever is found, comes, goes, changes, is used or restarted, the prefix stays."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.records import Message, Text, ToolResult, ToolUse
from holdfast.tools.contract import RefusedCall, ResolvedCall, Tool
from holdfast.tools.lifecycle import ToolUsage
from holdfast.tools.toolset import ToolSet, ToolSetState
from tests.tools.toolsets import CORE, call, chain, prefix, through, tool, toolset, used

WAYS: dict[str, dict[str, Any]] = {
    "references": {"dialect": "anthropic"},
    "additional": {"dialect": "openai_responses"},
    "call_tool, chat": {"dialect": "openai_chat"},
    "call_tool, gemini": {"dialect": "gemini"},
    "call_tool, openrouter": {"dialect": "openrouter"},
    "call_tool, anthropic": {"dialect": "anthropic", "carrier": "call_tool"},
    "redeclare": {"dialect": "anthropic", "carrier": "redeclare"},
}

NAMES = ("zeta", *(f"mcp__{server}__{name}" for server in ("a", "b") for name in ("one", "two", "three")))

steps = st.lists(
    st.tuples(
        st.sampled_from(("discover", "add", "remove", "change", "use", "turn", "restart")),
        st.sets(st.sampled_from(NAMES), min_size=1, max_size=4).map(sorted),
    ),
    max_size=12,
)
starts = st.sets(st.sampled_from(NAMES)).map(sorted)
modes = st.sampled_from(
    (
        {"mode": "auto"},
        {"mode": "auto", "budget": 0.0005},
        {"mode": "always"},
        {"mode": "never"},
        {"mode": "always", "never": ("mcp__a__*",), "always": ("zeta", "discover_tools")},
        {"mode": "always", "strip": "when_cold"},
    )
)


class World:
    """A session's tools, and what exists beside them."""

    def __init__(self, start: list[str], more: dict[str, Any]) -> None:
        self.existing: dict[str, Tool] = {name: tool(name) for name in start}
        self.more = more
        self.usage = ToolUsage()
        self.history: tuple[Message, ...] = ()
        self.calls = 0
        self.changes = 0
        self.tools = self.made(None)

    def made(self, state: ToolSetState | None) -> ToolSet:
        tools = (*CORE, *self.existing.values())
        return toolset(tools, discovery=True, usage=self.usage, state=state, **self.more)

    def step(self, kind: str, names: list[str]) -> None:
        if kind == "discover":
            found = self.tools.discover([each for each in self.tools.findable() if each.name in names])
            self.calls += 1
            asked = call("discover_tools", {"query": ",".join(names)}, f"call-{self.calls}")
            answered = Message("user", (ToolResult(asked.id, found.blocks),))
            self.history += (Message("assistant", (asked,)), answered, *found.messages)
        elif kind == "add":
            new = {name: tool(name) for name in names if name not in self.existing}
            assert set(self.tools.add(new.values())) == set(new)
            self.existing |= new
        elif kind == "remove":
            gone = [name for name in names if self.existing.pop(name, None)]
            assert set(self.tools.remove(names, "it was switched off")) == set(gone)
        elif kind == "change":
            self.changes += 1
            changed = {
                name: replace(each, description=f"changed {self.changes}")
                for name, each in self.existing.items()
                if name in names
            }
            assert self.tools.add(changed.values()) == ()
            self.existing |= changed
        elif kind == "use":
            message = used(*names, start=self.calls + 1)
            self.calls += len(names)
            self.usage.observe([message])
            results = (ToolResult(each.id, (Text("done"),)) for each in message.content if isinstance(each, ToolUse))
            self.history += (message, Message("user", tuple(results)))
        elif kind == "turn":
            for _ in range(21):
                self.usage.turn()
        else:
            stored = msgspec.msgpack.encode((self.tools.state, self.usage.state))
            state, counted = msgspec.msgpack.decode(stored, type=tuple[ToolSetState, Any])
            self.usage = ToolUsage(msgspec.convert(counted, type(self.usage.state)))
            self.tools = self.made(state)

    def check(self) -> None:
        tools = self.tools
        assert "discover_tools" in tools.declared
        assert ("call_tool" in tools.declared) == (tools.carrier == "call_tool")
        for name in NAMES:
            found = tools.resolve(call(name, {"subject": "x"}))
            if name not in self.existing:
                assert isinstance(found, RefusedCall)
                known = name in tools.declared or name in tools.state.discovered
                assert ("unavailable: " in found.text) >= known
            elif isinstance(found, RefusedCall):
                assert name in tools.deferred, "it exists, and is one search away"
                assert "select:" + name in found.text
                assert tools.carrier != "call_tool"
            else:
                assert found == ResolvedCall(self.existing[name], {"subject": "x"})
            if tools.carrier == "call_tool":
                assert isinstance(tools.resolve(through(name, {})), ResolvedCall) == (name in self.existing)
        assert {each.name for each in tools.findable()} == set(tools.deferred)
        assert set(tools.deferred) | set(tools.declared) >= set(self.existing)
        assert not set(tools.deferred) & set(tools.declared)
        allowed = tools.allowed()
        if allowed is not None:
            late = tools.state.recent if tools.carrier == "additional" else ()
            gone = {name for name in NAMES if name not in self.existing}
            assert gone & {*tools.declared, *late}
            assert set(allowed) == {*tools.declared, *late} - gone
        array = [getattr(each, "name", None) for each in tools.definitions()]
        assert len(array) == len(set(array)), "a name stands in the array once"


@pytest.mark.parametrize("way", WAYS)
@given(start=starts, mode=modes, taken=steps)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_without_a_reset_the_prefix_stays(way: str, start: list[str], mode: dict[str, Any], taken: list[Any]) -> None:
    world = World(start, WAYS[way] | mode)
    before = chain(world.tools)
    for kind, names in taken:
        world.step(kind, names)
        world.check()
        now = chain(world.tools, world.history)
        assert now[: len(before)] == before, "request n+1 begins with request n"
        before = now


@pytest.mark.parametrize("way", WAYS)
@given(start=starts, mode=modes, taken=steps, draw=st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_reset_changes_the_array_only_if_it_says_so(
    way: str, start: list[str], mode: dict[str, Any], taken: list[Any], draw: st.DataObject
) -> None:
    world = World(start, WAYS[way] | mode)
    for kind, names in taken:
        world.step(kind, names)
        before, declared = prefix(world.tools), world.tools.declared
        kept = draw.draw(st.sampled_from((None, (), world.history)))
        changed = world.tools.at_reset(kept)
        world.check()
        assert (prefix(world.tools) == before) == (changed is None)
        now = world.tools.declared
        assert set(now) - {"discover_tools", "call_tool"} <= {*world.existing, *(each.name for each in CORE)}
        assert world.tools.at_reset(kept) is None, "what is settled stays"
        if changed is not None:
            assert set(changed.added) == set(now) - set(declared)
            gone = (*changed.removed, *changed.deferred, *(name for name, _ in changed.demoted))
            assert sorted(gone) == sorted(set(declared) - set(now))
            assert not set(changed.removed) & set(world.existing)
