"""What a program hands to `open_agent`, and what stands in `holdfast.toml`, reaches the provider's requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from holdfast.agent import open_agent
from holdfast.records.events import Bus
from holdfast.simulator import Simulator, VirtualClock
from holdfast.simulator.in_process import Simulated
from holdfast.tools import Decision, Question
from tests.agent.bench import MODEL, START, calls
from tests.agent.open_agents import SKILL, opened, tide
from tests.agent.open_agents import nothing_from_outside as nothing_from_outside


async def test_the_hosts_own_tools_are_declared_and_run(tmp_path: Path) -> None:
    async with opened(tmp_path, tools=[tide]) as agent:
        await agent.begin(calls(("tide", {"place": "Brest"})))
        assert "tide" in [each["name"] for each in agent.bodies[0]["tools"]]
        assert "3 m at Brest" in agent.results()[-1]


async def test_the_host_is_asked_before_a_tool_changes_something(tmp_path: Path) -> None:
    asked: list[Question] = []

    async def confirm(question: Question) -> Decision:
        asked.append(question)
        return Decision(False)

    async with opened(tmp_path, confirm=confirm, flags={"tools.confirm.mode": "ask"}) as agent:
        await agent.begin(calls(("write_file", {"path": "new.txt", "content": "x"})))
    assert [question.tool for question in asked] == ["write_file"]
    assert not (tmp_path / "work" / "new.txt").exists()


async def test_the_hosts_persona_takes_the_place_of_ours(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "AGENTS.md").write_text("Sort by date.", "utf-8")
    async with opened(tmp_path, persona="You sort the mail of a small company.") as agent:
        await agent.begin("hello")
        assert agent.system().startswith("You sort the mail of a small company.")
        assert "Sort by date." in agent.system()
        await agent.begin("hello", system_prompt="You are a clerk.")
        assert agent.system().startswith("You are a clerk.")
        assert "Sort by date." not in agent.system()


async def test_the_hosts_bus_hears_what_happens(tmp_path: Path) -> None:
    bus = Bus()
    heard = bus.subscribe()

    async with opened(tmp_path, bus=bus) as agent:
        await agent.begin("hello")
    types = {envelope.type for envelope in heard.drain()}
    bus.close()
    assert {"session.started", "turn.completed"} <= types  # of the sessions
    assert {"llm.call_completed", "cache.verdict"} <= types  # of the engine


async def test_times_come_from_the_hosts_clock(tmp_path: Path) -> None:
    async with opened(tmp_path) as agent:
        await agent.begin("hello")
        assert "2027-01-15" in json.dumps(agent.bodies[0]["messages"][0])


AGENTS = f"""
[cache]
strategy = "two-point"

[agents.clerk.agent]
instructions = ["CLERK.md"]

[agents.clerk.cache]
strategy = "passthrough"

[agent]
fallback = ["{MODEL}"]
"""


async def test_an_agents_own_settings_count_in_its_sessions_and_in_its_plans(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "CLERK.md").write_text("Sort by date.", "utf-8")
    async with opened(tmp_path, AGENTS) as agent:
        for name in ("", "clerk"):
            await agent.begin("hello", agent=name)
        assert ["Sort by date." in agent.system(index) for index in (0, 1)] == [False, True]
        assert [json.dumps(body).count("cache_control") for body in agent.bodies] == [2, 0]


async def test_it_is_told_who_chose_the_model(tmp_path: Path) -> None:
    toml = f'[agent]\nmodel = "{MODEL}"\n'
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "holdfast.toml").write_text(toml, "utf-8")
    simulated: Any = Simulated(Simulator(clock=VirtualClock(START)))
    bus = Bus()
    heard = bus.subscribe()
    async with open_agent(tmp_path / "work", home=tmp_path / "home", provider=simulated, bus=bus) as sessions:
        session = await sessions.create()
        await session.ask("hello")
    routed = [each.payload for each in heard.drain() if each.type == "model.routed"]
    bus.close()
    assert [(each.model, each.source) for each in routed] == [(MODEL, "workspace")]  # type: ignore[attr-defined]


LIMITS = """
[skills]
roots = ["library"]
max_activations = 2
warn_tokens = 30
hard_tokens = 60
"""


def library(place: Path, **sizes: int) -> None:
    for name, words in sizes.items():
        folder = place / "work" / "library" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(SKILL.format(name=name) + "word " * words, "utf-8")


async def test_a73_a_workspaces_own_limits_of_skills_act(tmp_path: Path) -> None:
    """Two activations instead of ten; 60 tokens instead of the constant."""

    library(tmp_path, one=5, two=5, three=5, long=400)
    async with opened(tmp_path, LIMITS) as agent:
        await agent.begin(calls(*(("skill_load", {"name": name}) for name in ("one", "two", "three"))))
        one, two, three = agent.results()
        assert "The body of one." in one
        assert "The body of two." in two
        assert "The body of three." not in three
        assert "(limit 2)" in three
        await agent.begin(calls(("skill_load", {"name": "long"})))
        (long,) = agent.results()
        assert "The body of long." not in long
        assert "60" in long
