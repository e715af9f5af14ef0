"""Seed context-assembler, section 6: what a session of the agent shows where users look, under every strategy.

Ten turns of a whole agent with its own prompt and tools, kept in a real store; then a real gateway on the same store is
asked for `/analytics/cache_effectiveness`. Strategies that place markers run on an Anthropic model, where nothing is
cached without one. `passthrough` leaves requests as they are, and the agent marks nothing itself: it is judged on
models that cache by themselves, and a test of its own says what it comes to on one that does not.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, get_args

import pytest

from holdfast.agent import Host, Sessions
from holdfast.config.keys import Settings
from holdfast.config.sections.agent import AgentSettings
from holdfast.config.sections.cache import CacheSettings, Strategy
from holdfast.engine import EngineCore
from holdfast.records import Request, Text, ToolResult
from holdfast.simulator import Simulator, VirtualClock
from holdfast.simulator.in_process import Simulated
from holdfast.simulator.script import Script
from holdfast.store import open_store
from tests.gateway.gate import configured, gated
from tests.simulator.http_client import Client

TURNS = 10
NOWHERE = "http://127.0.0.1:9"
MARKING: dict[Strategy, str] = {
    strategy: "anthropic:claude-haiku-4-5" for strategy in get_args(Strategy) if strategy != "passthrough"
}


def reply(request: Request) -> object:
    """Every third message is looked into with a tool; all are answered at some length."""
    last = request.messages[-1].content
    looked = any(isinstance(block, ToolResult) for block in last)
    asked = "".join(block.text for block in last if isinstance(block, Text))
    if not looked and "look" in asked:
        return {"call": {"tool": "list_dir", "input": {"path": "."}}}
    return {"say": "This is what I found.", "tokens": 60}


async def session(home: Path, settings: Settings) -> int:
    """Ten turns, half a minute apart; how many requests that took."""
    workspace, clock = home / "workspace", VirtualClock()
    workspace.mkdir()
    (workspace / "notes.md").write_text("Nothing yet.\n")
    simulator = Simulator(script=Script(name="validation", function=reply), clock=clock)
    config = configured(home, NOWHERE)
    store = open_store(config.settings.store.url)
    try:
        engine = EngineCore(settings, store=store, strict=True)
        sessions = Sessions(
            settings,
            workspace=workspace,
            home=config.home,
            host=Host(provider=Simulated(simulator), engine=engine, store=store, clock=clock.now),
        )
        opened = await sessions.create()
        for number in range(TURNS):
            turn = await opened.ask(f"Question {number}: {'look at the files' if number % 3 == 0 else 'what next'}?")
            assert turn.ended == "completed", turn.problem
            clock.advance(30)
        await opened.end()
        engine.close(now=clock.now())
    finally:
        store.close()
    return len(simulator.journal.records())


def effectiveness(home: Path, settings: Settings) -> dict[str, Any]:
    """What the gateway says of a session that was held in its home."""
    calls = asyncio.run(session(home, settings))
    with gated(home, NOWHERE) as gate:
        headers = {"authorization": f"Bearer {gate.token}"}
        found: dict[str, Any] = Client(gate.address).send("GET", "/analytics/cache_effectiveness", headers=headers).json
    total: dict[str, Any] = found["total"]
    assert total["call_count"] == calls > TURNS
    whole = total["uncached_tokens"] + total["cached_tokens"] + total["creation_tokens"]
    assert total["hit_rate"] == pytest.approx(total["cached_tokens"] / whole)
    assert total["cache_write_share"] == pytest.approx(total["creation_tokens"] / whole)
    return total


@pytest.mark.slow
@pytest.mark.parametrize("strategy", MARKING)
def test_a85_ten_turns_of_the_agent_hit_under_every_strategy_that_marks(tmp_path: Path, strategy: Strategy) -> None:
    settings = Settings(
        agent=AgentSettings(model=MARKING[strategy]), cache=CacheSettings(strategy=strategy, padding="always")
    )
    total = effectiveness(tmp_path, settings)
    assert total["hit_rate"] > 0.5
    assert total["creation_tokens"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("model", ["openai:gpt-5.5", "openai:gpt-6.1-sol"])
def test_a85_ten_turns_of_the_agent_hit_without_markers_where_the_provider_caches_by_itself(
    tmp_path: Path, model: str
) -> None:
    settings = Settings(agent=AgentSettings(model=model), cache=CacheSettings(strategy="passthrough"))
    assert effectiveness(tmp_path, settings)["hit_rate"] > 0.5


@pytest.mark.slow
def test_a85_without_markers_nothing_is_read_where_only_markers_cache(tmp_path: Path) -> None:
    settings = Settings(
        agent=AgentSettings(model="anthropic:claude-haiku-4-5"),
        cache=CacheSettings(strategy="passthrough", padding="always"),
    )
    total = effectiveness(tmp_path, settings)
    assert (total["hit_rate"], total["cache_write_share"]) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["anthropic:claude-haiku-4-5", "anthropic:claude-sonnet-5-5"])
def test_a86_two_point_writes_at_most_one_token_in_as_many_as_there_are_turns(tmp_path: Path, model: str) -> None:
    settings = Settings(agent=AgentSettings(model=model), cache=CacheSettings(strategy="two-point", padding="always"))
    total = effectiveness(tmp_path, settings)
    assert total["hit_rate"] > 0
    assert 0 < total["cache_write_share"] <= 1 / TURNS
