"""What a session of `open_agent` keeps over restarts and in its sub-agents, and which settings act."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast import facts
from holdfast.agent.contract import Task
from holdfast.core import experience
from holdfast.engine.tenant_experience import LEARNED
from holdfast.simulator import Simulator, VirtualClock
from holdfast.simulator.faults import Fault, Options
from holdfast.simulator.script import Script
from holdfast.store import open_store
from tests.agent.bench import START, calls
from tests.agent.open_agents import SKILL, Opened, opened, tide
from tests.agent.open_agents import nothing_from_outside as nothing_from_outside
from tests.agent.subagents import delegating, do, obliging


def names(body: dict[str, Any]) -> list[str]:
    return [each["name"] for each in body["tools"]]


def said(agent: Opened, index: int = -1) -> str:
    return json.dumps(agent.bodies[index]["messages"])


def without_markers(value: Any) -> Any:
    if isinstance(value, list):
        return [without_markers(each) for each in value]
    if isinstance(value, dict):
        return {name: without_markers(each) for name, each in value.items() if name != "cache_control"}
    return value


async def test_c8_c21_what_was_declared_stays_so_when_it_is_resumed_and_for_its_sub_agents(tmp_path: Path) -> None:
    """The next process has no such tool: the array stays all the same, or the prefix would be lost."""

    async with opened(tmp_path, tools=[tide], reply=obliging) as agent:
        session = await agent.begin("SAY: Hello.")
        (before,) = agent.bodies
    async with opened(tmp_path, reply=obliging) as agent:
        session = await agent.sessions.resume(session.id)
        await session.ask(delegating({"task": "SAY: fine"}))
        mine, its, last = agent.bodies
    assert "tide" in names(before)
    for body in (mine, its, last):
        assert without_markers(body["tools"]) == without_markers(before["tools"])
        assert without_markers(body["system"]) == without_markers(before["system"])


async def test_c8_a_sub_agent_sees_the_surroundings_that_its_parent_began_with(tmp_path: Path) -> None:
    async with opened(tmp_path, reply=obliging) as agent:
        session = await agent.sessions.create()
        (tmp_path / "work" / "new.txt").write_text("x", "utf-8")
        agent.clock.advance(86_400)
        await session.ask(delegating({"task": "SAY: fine"}))
        mine, its, _ = (body["messages"][0]["content"][0]["text"] for body in agent.bodies)
        assert its == mine
        assert "new.txt" not in its


async def test_a69_a_body_that_was_loaded_before_a_restart_is_pointed_to(tmp_path: Path) -> None:
    folder = tmp_path / "work" / "library" / "pdf"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL.format(name="pdf"), "utf-8")
    toml = '[skills]\nroots = ["library"]\n'

    async with opened(tmp_path, toml) as agent:
        session = await agent.begin(calls(("skill_load", {"name": "pdf"})))
        assert "The body of pdf." in agent.results()[-1]
    async with opened(tmp_path, toml) as agent:
        session = await agent.sessions.resume(session.id)
        await session.ask(calls(("skill_load", {"name": "pdf"})))
        assert "The body of pdf." not in agent.results()[-1]


AROUND = """
[agent]
timezone = "Asia/Kolkata"
tree_entries = 2
output_tokens = 321
max_calls = 2

[memory]
notes_hard = 80
retrieve_max = 1
"""


async def test_settings_of_the_workspace_act(tmp_path: Path) -> None:
    for name in ("a", "b", "c", "d"):
        (tmp_path / "work").mkdir(exist_ok=True)
        (tmp_path / "work" / f"{name}.txt").write_text("x", "utf-8")
    evening = VirtualClock(START - START % 86_400 + 20 * 3_600)  # the next day has begun in Kolkata
    async with opened(tmp_path, AROUND, clock=evening) as agent:
        session = await agent.sessions.create()
        assert session.static.timezone == "Asia/Kolkata"
        await session.ask("hello")
        assert agent.bodies[-1]["max_tokens"] == 321
        around = agent.bodies[0]["messages"][0]["content"][0]["text"]
        assert "Date: 2027-01-16" in around
        assert "a.txt" in around
        assert "d.txt" not in around
        await session.ask(calls(("memory_add", {"file": "memory", "text": "word " * 40})))
        assert not (tmp_path / "work" / ".holdfast" / "MEMORY.md").exists()
        adding = [("knowledge_add", {"title": f"Ships {n}", "content": f"make ship {n}"}) for n in range(3)]
        await session.ask(calls(*adding))
        await session.ask(calls(("recall", {"query": "ship"})))
        assert sum(f"make ship {n}" in agent.results()[-1] for n in range(3)) == 1


async def test_a32_in_system_mode_what_the_agent_writes_is_said_in_the_system_text_alone(tmp_path: Path) -> None:
    async with opened(tmp_path, '[agent]\nvolatile = "system"\n') as agent:
        await agent.begin(calls(("memory_add", {"file": "memory", "text": "the build needs make"})), "and on")
        assert "the build needs make" in agent.system()
        assert "MEMORY.md says" not in said(agent)


@pytest.mark.parametrize("status", [400, 529])
async def test_a_request_that_was_refused_is_told_as_failed(tmp_path: Path, status: int) -> None:
    clock = VirtualClock(START)
    simulator = Simulator(script=Script(name="agent", function=lambda _: "Yes."), clock=clock)
    simulator.faults.add(Fault("status", times=0, options=Options(status=status)))
    toml = "[agent]\nretries = 0\n"
    async with opened(tmp_path, toml, simulator=simulator, clock=clock) as agent:
        session = await agent.sessions.create()
        assert (await session.ask("hello")).ended == "failed"
    (place,) = (tmp_path / "home").glob("*.db")
    with open_store(place) as store:
        assert [(call.status, call.error) for call in store.calls()] == [("failed", f"status {status}")]


async def test_a_model_that_takes_over_gets_tools_in_its_own_form(tmp_path: Path) -> None:
    """As in a session that began with it: what Anthropic is told of deferred tools is nothing for others."""
    other = "deepseek:deepseek-chat"

    async with opened(tmp_path, '[tools.deferral]\nmode = "always"\ncarrier = "native"\n', tools=[tide]) as agent:
        session = await agent.begin("hello")
        session.set_model(other)
        await session.ask("hello")
        await agent.begin("hello", model=other)
        first, switched, its = agent.bodies
        assert "defer_loading" in json.dumps(first["tools"])
        assert switched["tools"] == its["tools"]


async def test_a_session_that_has_ended_leaves_no_open_lane(tmp_path: Path) -> None:
    async with opened(tmp_path) as agent:
        session = await agent.begin("hello")
        await session.end()
        lane = session.lane.id
    (place,) = (tmp_path / "home").glob("*.db")
    with open_store(place) as store:
        assert store.ledger("local", lane) is None


@pytest.mark.parametrize(("overrides", "marked"), [('["seed-floors"]', True), ("[]", False)])
async def test_a34_the_documents_floors_are_one_setting_away(tmp_path: Path, overrides: str, marked: bool) -> None:
    """A prefix of some 3,000 tokens is above the document's floor of Haiku 4.5 and below the one that it really has."""

    toml = f'[facts]\noverrides = {overrides}\n[cache]\nstrategy = "two-point"\npadding = "off"\n'
    async with opened(tmp_path, toml, flags={"agent.model": "anthropic:claude-haiku-4-5"}) as agent:
        await agent.begin("hello")
        assert ("cache_control" in json.dumps(agent.bodies[0])) is marked
    assert facts.model("anthropic:claude-haiku-4-5").floor == 4_096  # of the process again


async def test_what_was_learned_of_a_tenant_is_kept(tmp_path: Path) -> None:
    """What later plans rest on, and the account of law 7."""

    async with opened(tmp_path) as agent:
        session = await agent.sessions.create()
        for turn in range(3):
            await session.ask(f"turn {turn}")
    (place,) = (tmp_path / "home").glob("*.db")
    with open_store(place) as store:
        row = store.pool("local", LEARNED)
        assert experience.decode(row.data).clients["holdfast"].requests == 3


@pytest.mark.parametrize("when", ["from the beginning", "since", "never"])
async def test_sub_agents_of_a_session_that_keeps_nothing_keep_nothing(tmp_path: Path, when: str) -> None:
    allowed: dict[str, object] = {"tools.confirm.mode": "allow"}
    forgetful = "[agents.private.memory]\namnesia = true\n"
    add = do(("memory_add", {"file": "user", "text": "Likes tea."}))

    first = forgetful if when == "from the beginning" else ""
    async with opened(tmp_path, first, reply=obliging, flags=allowed) as agent:
        session = await agent.sessions.create(agent="private")
    async with opened(tmp_path, forgetful if when == "since" else first, reply=obliging, flags=allowed) as agent:
        session = await agent.sessions.resume(session.id)
        (report,) = await session.delegate([Task(task=add, role="reviewer")])
        assert report.status == "completed"
    assert (tmp_path / "work" / ".holdfast" / "USER.md").exists() == (when == "never")
