"""What padding a short prefix costs or saves: on short workloads in dollars of input on haiku-4-5, and in sessions of
Holdfast's own agent, which has no skills, by model, number of turns and how much each of them adds.

The workloads have a short system text and five tools, far below the model's floor. `always` pads as its document says,
`economic` only where rule 5.6 pays; markers as `two-point` and as `economic` place them.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from benchmarks import Result
from holdfast.agent import Host, Sessions
from holdfast.config.keys import Settings
from holdfast.config.sections.agent import AgentSettings, SkillsSettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.core.economics import costs
from holdfast.core.padding import Outlook, PaddingRules, SkillBody, pad
from holdfast.engine import EngineCore, Lane
from holdfast.facts import model
from holdfast.simulator import HttpRequest, Simulator, VirtualClock
from holdfast.simulator.in_process import Simulated
from holdfast.simulator.script import Script
from holdfast.wire import DIALECTS, Body

MODEL = "claude-haiku-4-5"
WORKLOADS = {"fix-a-bug-small": (4, 300), "write-a-doc-from-notes": (3, 900), "multi-turn-refactor": (14, 700)}
"""By name: calls, and about how many tokens each adds."""
PERSONA = (
    "You are a coding agent. Work in small steps, run the tests, and say plainly what you did and what is left. " * 6
)
TOOLS = [
    {"name": name, "description": f"{name} a file or directory of the workspace.", "input_schema": {"type": "object"}}
    for name in ("read", "write", "list", "grep", "run")
]
SKILL = SkillBody(
    "release-notes", "workspace", "Collect what changed, group it by reader, and write one line for each. " * 60
)
Mode = Literal["off", "economic", "always"]
Strategy = Literal["two-point", "economic"]
MODES: tuple[Mode, ...] = ("off", "economic", "always")
STRATEGIES: tuple[Strategy, ...] = ("two-point", "economic")

MODELS = ("claude-haiku-4-5", "claude-opus-4-6", "claude-sonnet-5-5")
TURNS = (1, 3, 12, 30)
LONG = 12
"""Turns from which on sessions of all kinds together must not cost more by economic padding."""
ADDED = (110, 420, 1130)
"""Tokens that a turn of a session adds, question and answer, as `agent.composing.EXPECTED_GROWTH` has them."""


def run(*, quick: bool) -> Iterator[Result]:
    yield from _workloads()
    for name in MODELS[:1] if quick else MODELS:
        for turns in TURNS[1:3] if quick else TURNS:
            yield from _agent(name, turns)


def _agent(name: str, turns: int) -> Iterator[Result]:
    """Sessions of the agent, each beside the same one without padding, and what all three cost together."""
    whole: dict[Mode, Decimal] = dict.fromkeys(MODES, Decimal(0))
    short = name.removeprefix("claude-")
    for added in ADDED:
        paid = {mode: asyncio.run(session_cost(name, mode, turns, added)) for mode in MODES}
        for mode, dollars in paid.items():
            whole[mode] += dollars
            title = f"agent, {short}, {turns} turns of {added} tokens, padding {mode}"
            yield Result(title, float(dollars / paid["off"]), "x", None, "lower", f"${dollars:.4f}")
    for mode, dollars in whole.items():
        title = f"agent, {short}, {turns} turns, padding {mode}, all"
        limit = 1.0 if mode == "economic" and turns >= LONG else None
        yield Result(title, float(dollars / whole["off"]), "x", limit, "lower", f"${dollars:.4f}")


async def session_cost(name: str, mode: Mode, turns: int, added: int) -> Decimal:
    """Dollars of a session in an empty workspace, answers included."""
    words = added // 2 - 10
    clock = VirtualClock(1_700_000_000.0)
    simulator = Simulator(script=Script(name="talk", function=lambda _: "word " * words), clock=clock)
    settings = Settings(
        agent=AgentSettings(model=f"anthropic:{name}"),
        cache=CacheSettings(padding=mode),
        skills=SkillsSettings(roots=()),
    )
    with tempfile.TemporaryDirectory(prefix="holdfast-") as scratch:
        workspace = Path(scratch, "workspace")
        workspace.mkdir()
        sessions = Sessions(
            settings,
            workspace=workspace,
            home=Path(scratch, "home"),
            host=Host(provider=Simulated(simulator), engine=EngineCore(settings, strict=True), clock=clock.now),
        )
        session = await sessions.create()
        for number in range(turns):
            await session.ask(f"Question {number}: " + "again " * words)
            clock.advance(30)
        paid = session.totals().cost
        await session.end()
    assert paid is not None
    return paid


def _workloads() -> Iterator[Result]:
    for name, (calls, added) in WORKLOADS.items():
        plain = _paid(calls, added, "off", "two-point")
        for strategy in STRATEGIES:
            for mode in MODES:
                paid = _paid(calls, added, mode, strategy)
                note = f"${paid:.5f} of input"
                yield Result(f"{name}, padding {mode}, {strategy}", paid / plain, "x", None, "lower", note)


def _paid(calls: int, added: int, mode: Mode, strategy: Strategy) -> float:
    facts = model(f"anthropic:{MODEL}")
    texts = [json.dumps(tool) for tool in TOOLS]
    stable = pad(texts, PERSONA, [SKILL], [facts], PaddingRules(mode=mode, outlook=Outlook(calls=calls))).text
    clock = VirtualClock(1_700_000_000.0)
    simulator, engine = (
        Simulator(clock=clock),
        EngineCore(Settings(cache=CacheSettings(strategy=strategy)), strict=True),
    )
    lane, paid = Lane(tenant="t", session="s", id="l", client="bench"), 0.0
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Please begin. " * (added // 3)}]
    for number in range(calls):
        request = {"model": MODEL, "max_tokens": 1, "system": stable, "tools": TOOLS, "messages": messages}
        body = engine.parse(DIALECTS["anthropic"], json.dumps(request).encode())
        assert isinstance(body, Body)
        prepared = engine.prepare(body, lane=lane, now=clock.now())
        exchange = simulator.bill(HttpRequest("POST", "/v1/messages", {"x-api-key": "k"}, {}, prepared.raw))
        exchange.first_token()
        exchange.finish()
        usage = exchange.record.usage
        assert usage is not None
        engine.settle(prepared, usage, now=clock.now())
        paid += costs(facts, usage.prompt).of(usage)
        messages += [
            {"role": "assistant", "content": f"step {number} " * (added // 6)},
            {"role": "user", "content": f"result {number} " * (added // 6)},
        ]
        clock.advance(20)
    return paid
