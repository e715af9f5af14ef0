"""The `prompt_cache_key` of an agent's requests to OpenAI: who shares one, what it tells, and how long it stays."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from holdfast.records.events.calls import CacheVerdict
from holdfast.simulator import Simulator, VirtualClock
from holdfast.simulator.script import Script
from tests.agent.bench import START, calls, obey
from tests.agent.open_agents import opened

SOL = "openai:gpt-6.1-sol"
LONG = "Answer briefly, and name the file you mean. " * 400
OFF = {"cache.openai.cache_key": False}


def keys(bodies: list[dict[str, Any]]) -> list[Any]:
    return [body.get("prompt_cache_key") for body in bodies]


async def said(place: Path, *words: str, model: str = SOL, **more: Any) -> list[dict[str, Any]]:
    """What a new session sends."""
    flags = {"agent.model": model, "tools.confirm.mode": "allow"} | more.pop("flags", {})
    async with opened(place, flags=flags, **more) as agent:
        session = await agent.sessions.create()
        for each in words:
            await session.ask(each)
        return agent.bodies


@pytest.mark.parametrize("model", [SOL, "openai:gpt-5.5"])
async def test_every_request_of_a_session_and_of_the_next_one_has_the_same_key(tmp_path: Path, model: str) -> None:
    first = await said(tmp_path, "Hello.", "Go on.", model=model)
    second = await said(tmp_path, "Something else.", model=model)
    (key,) = set(keys(first + second))
    assert re.fullmatch("[0-9a-f]{40}", key)


async def test_other_workspaces_and_other_system_texts_have_other_keys(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    found = [*keys(await said(here, "Hello.")), *keys(await said(there, "Hello."))]
    (here / "work" / "AGENTS.md").write_text("Answer in verse.", "utf-8")
    found += keys(await said(here, "Hello."))
    assert len(set(found)) == 3


@pytest.mark.parametrize("model", ["anthropic:claude-opus-4-6", "gemini:gemini-2.5-pro", "deepseek:deepseek-chat"])
async def test_others_than_openai_get_none(tmp_path: Path, model: str) -> None:
    assert set(keys(await said(tmp_path, "Hello.", model=model))) == {None}


async def test_a_model_that_is_not_known_gets_none(tmp_path: Path) -> None:
    """A server that speaks like OpenAI's may refuse what it does not know."""
    assert set(keys(await said(tmp_path, "Hello.", model="openai:our-own-model"))) == {None}


async def test_the_next_session_reads_what_the_one_before_wrote(tmp_path: Path) -> None:
    clock = VirtualClock(START)
    simulator = Simulator(script=Script(name="agent", function=obey), clock=clock)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "AGENTS.md").write_text(LONG, "utf-8")
    delegate = calls(("delegate", {"tasks": [{"task": "Look."}]}))
    for _ in range(2):
        bodies = await said(tmp_path, "Hello.", delegate, clock=clock, simulator=simulator)
        clock.advance(30.0)
        assert len(set(keys(bodies))) == 1
    used = [record.usage for record in simulator.journal.records() if record.usage is not None]
    assert used[4].read > 3_000  # the first request of the second session


async def test_what_is_predicted_with_the_key_is_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "AGENTS.md").write_text(LONG, "utf-8")
    async with opened(tmp_path, flags={"agent.model": SOL}) as agent:
        session = await agent.sessions.create()
        for words in ("Hello.", "Go on.", "And?"):
            await session.ask(words)
            agent.clock.advance(20.0)
        store = session.sessions.store
        store.flush()
        told = [each.payload for each in store.events(session.sessions.tenant, session.id)]
        verdicts = [each for each in told if isinstance(each, CacheVerdict)]
        assert len(verdicts) > 1
        assert [each.predicted_read for each in verdicts] == [each.actual_read for each in verdicts]
        assert verdicts[-1].actual_read > 3_000


@pytest.mark.parametrize(("begun", "later"), [({}, OFF), (OFF, {})])
async def test_a_session_that_goes_on_sends_what_it_began_with(
    tmp_path: Path, begun: dict[str, object], later: dict[str, object]
) -> None:
    """Whatever is set by then; one that began before there were keys sends none."""

    async with opened(tmp_path, flags={"agent.model": SOL, **begun}) as agent:
        session = await agent.begin("Hello.")
        first = agent.bodies[-1]
    async with opened(tmp_path, flags={"agent.model": SOL, **later}) as agent:
        again = await agent.sessions.resume(session.id)
        await again.ask("Go on.")
        last = agent.bodies[-1]
    assert keys([first]) == keys([last])
    assert ("prompt_cache_key" in first) is (begun == {})
