"""The mechanisms that an agent has: sub-agents, offloaded results, tools that wait to be found.

Sessions of Holdfast's own agent, or its tools with the engine, against the simulated provider. Each is played with the
mechanism and without it, by a scripted model that does the same work.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from benchmarks import tools as searching
from benchmarks.agent import LINE, RULE, START, Ticking
from benchmarks.agent_script import Reply, Step, call, calls, fixed, model
from benchmarks.mechanisms_driving import QUICK, Effect, prompt_cost, ratio
from benchmarks.tools_catalogue import catalogue
from holdfast.agent import Equipment, Host, Sessions
from holdfast.agent.contract import Task
from holdfast.agent.session import Session
from holdfast.config.keys import Settings
from holdfast.config.sections.agent import (
    AgentSettings,
    DeferralSettings,
    DelegatesSettings,
    OffloadSettings,
    ToolsSettings,
)
from holdfast.config.sections.cache import CacheSettings
from holdfast.engine import EngineCore, Lane
from holdfast.facts import estimate
from holdfast.records import Message, Request, Text
from holdfast.simulator import Simulator, VirtualClock
from holdfast.simulator.script import Script
from holdfast.tools import Tool, Toolbox, ToolContext, ToolOutput, ToolSession
from holdfast.tools.offload import PREFIX

MODEL = "anthropic:claude-opus-4-6"
CHILDREN, PARENT = 8, 20_000
TURNS, TASKS = 8, 10
LONG = 48 * 3_600.0
"""Seconds after which no provider has anything left in its cache."""
LOG = "\n".join(f"{line:04} compiled module_{line % 37} in {line % 11} ms, no warnings" for line in range(500))


class Placed:
    """Sessions of an agent in a directory of their own, and what their requests cost."""

    def __init__(
        self, scratch: str, settings: Settings, reply: Callable[[Request], object], tools: Sequence[Tool] = ()
    ) -> None:
        workspace = Path(scratch, "workspace")
        workspace.mkdir()
        self.clock = VirtualClock(START)
        self.simulator = Simulator(script=Script(name="mechanisms", function=reply), clock=self.clock)
        self.sessions = Sessions(
            settings,
            workspace=workspace,
            home=Path(scratch, "home"),
            host=Host(
                provider=Ticking(self.simulator, self.clock),
                engine=EngineCore(settings, strict=True),
                clock=self.clock.now,
            ),
            equipment=Equipment(tools=tools),
        )

    def paid(self) -> Decimal:
        """What all prompts cost that the provider has seen."""
        used = [record.usage for record in self.simulator.journal.records()]
        return sum((prompt_cost(MODEL, each) for each in used if each is not None), Decimal(0))


# Sub-agents


def staggering() -> Iterator[Effect]:
    with_it, without = (asyncio.run(_fan_out(hold)) for hold in (DelegatesSettings().hold_s, 0.0))
    says = (
        f"{{}} of starting all at once: {CHILDREN} sub-agents of a parent with 20,000 tokens that nobody has asked yet"
    )
    yield ratio(f"staggered fan-out of {CHILDREN}", with_it, without, says)


async def _fan_out(hold: float) -> Decimal:
    with tempfile.TemporaryDirectory(prefix="holdfast-") as scratch:
        placed = Placed(
            scratch, Settings(agent=AgentSettings(model=MODEL, delegates=DelegatesSettings(hold_s=hold))), _helper
        )
        session = await _parent(placed)
        await _delegated(session)
        return placed.paid()


def priming() -> Iterator[Effect]:
    with_it, without = (asyncio.run(_helped(primed)) for primed in (True, False))
    says = f"{{}} of {CHILDREN} sub-agents whose own roles stand before the same 20,000 tokens"
    yield ratio(f"primed sub-agents, {CHILDREN} after a parent's turn", with_it, without, says)


async def _helped(primed: bool) -> Decimal:
    """What eight sub-agents cost after their parent: with its prefix, or with a role of their own in front of it."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as scratch:
        placed = Placed(scratch, Settings(agent=AgentSettings(model=MODEL)), _helper)
        session = await _parent(placed)
        await session.ask("What is in the archive?")
        before = placed.paid()
        if primed:
            await _delegated(session)
        else:
            for number in range(CHILDREN):
                alone = await placed.sessions.create(system_prompt=f"You are reader {number}.\n{_rules()}")
                turn = await alone.ask(f"Read part {number} of the archive.")
                _expect(turn.ended == "completed", turn)
                await alone.end()
        return placed.paid() - before


async def _parent(placed: Placed) -> Session:
    return await placed.sessions.create(system_prompt=_rules())


async def _delegated(session: Session) -> None:
    found = await session.delegate([Task(task=f"Read part {number}.", role="reader") for number in range(CHILDREN)])
    _expect(all(each.status == "completed" and each.text == LINE for each in found), found)


def _rules() -> str:
    return RULE * (PARENT // estimate(RULE))


def _helper(_request: Request) -> Reply:
    return LINE


# Long results


def offloading() -> Iterator[Effect]:
    with_it, without = (asyncio.run(_built(limit)) for limit in (None, OffloadSettings().hard_cap_chars))
    says = f"{{}} of keeping them inline: {TURNS} results of {len(LOG):,} characters, every fourth looked into again"
    yield ratio("offloaded results", with_it, without, says)


async def _built(limit: int | None) -> Decimal:
    async def run(_input: Mapping[str, Any], _context: ToolContext) -> ToolOutput:
        return ToolOutput(content=LOG)

    build = Tool(name="build", description="Build the project and show its log.", run=run, effect="read")
    settings = Settings(
        agent=AgentSettings(model=MODEL), tools=ToolsSettings(offload=OffloadSettings(max_result_chars=limit))
    )
    with tempfile.TemporaryDirectory(prefix="holdfast-") as scratch:
        placed = Placed(scratch, settings, model([_steps(number) for number in range(TURNS)]), [build])
        session = await placed.sessions.create()
        for number in range(TURNS):
            turn = await session.ask(f"Build it once more. [task {number + 1}]")
            _expect(turn.ended == "completed" and turn.text == "It is built.", turn)
            placed.clock.advance(QUICK)
        return placed.paid()


def _steps(number: int) -> tuple[Step, ...]:
    """A build; in every fourth turn forty lines of its log are wanted, which an inline log has already shown."""

    def look(scene: Any) -> Reply:
        shown = scene.last("build").text
        if number % 4 != 3 or not shown.startswith(PREFIX):
            return "It is built."
        path = shown.partition("]")[0].rpartition(", ")[2]
        return calls("I look at the middle.", call("read_file", path=path, offset=200, limit=40))

    return fixed(calls("I build.", call("build"))), look, fixed("It is built.")


# Tools


def stripping() -> Iterator[Effect]:
    at_once, when_cold = (
        DeferralSettings(mode="always", strip="at_once"),
        DeferralSettings(mode="always", strip="when_cold"),
    )
    cost, answers = asyncio.run(_searched(at_once, CacheSettings()))
    cold, late = asyncio.run(_searched(when_cold, CacheSettings()))
    never, plain = asyncio.run(_searched(when_cold, CacheSettings(edits="never")))
    _expect(answers == late == plain, "the arms did not end alike")
    says = f"{{}} of leaving schemas in the history, in {TASKS} tasks with 60 tools on gpt-6.1-sol and a long pause"
    yield ratio("schemas left out at once (default)", cost, never, says)
    yield ratio("schemas shortened when cold", cold, never, "{} when shortened later (`when_cold`)")


async def _searched(deferral: DeferralSettings, cache: CacheSettings) -> tuple[Decimal, tuple[str, ...]]:
    ref, dialect, clock = "openai:gpt-6.1-sol", "openai_responses", VirtualClock(START)
    simulator = Simulator(script=Script(name="mechanisms", function=searching.reply), clock=clock)
    engine, lane = EngineCore(Settings(cache=cache), strict=True), Lane(tenant="t", session="s", id="s", client="bench")
    paid, messages, answers = Decimal(0), list[Message](), list[str]()
    with tempfile.TemporaryDirectory(prefix="holdfast-") as scratch:
        room = Path(scratch, "workspace")
        room.mkdir()
        toolbox = Toolbox(
            [searching._tool(each) for each in catalogue()],
            model=ref,
            dialect=dialect,
            settings=ToolsSettings(deferral=deferral),
            session=ToolSession(id="s", workspace=room, home=Path(scratch, "home")),
        )
        async with toolbox:
            for number, task in enumerate(searching.workload_tasks(TASKS)):
                clock.advance(LONG if number == TASKS // 2 else QUICK)
                messages.append(Message("user", (Text(task),)))
                while True:
                    request = Request(
                        model=ref,
                        tools=toolbox.definitions(),
                        system_prompt=searching.SYSTEM,
                        messages=tuple(messages),
                        output_limit=1_000,
                    )
                    now = clock.now()
                    _, verdict, raw = searching.exchanged(engine, simulator, toolbox, request, dialect, lane, now)
                    paid += prompt_cost(ref, verdict.usage)
                    messages.append(searching.said(dialect, raw))
                    ran = await toolbox.run(messages[-1])
                    if not ran.answers:
                        break
                    messages += ran.messages
                    clock.advance(3)
                answers.append("".join(block.text for block in messages[-1].content if isinstance(block, Text)))
                toolbox.turn_over()
    return paid, tuple(answers)


def deferral() -> Iterator[Effect]:
    tasks = searching.workload_tasks(TASKS)
    for name, mode in (("anthropic:claude-haiku-4-5", "auto"), ("anthropic:claude-opus-4-6", "always")):
        arm, plain = (
            asyncio.run(searching.play(name, "anthropic", each, "auto", tasks))  # type: ignore[arg-type]
            for each in (mode, "never")
        )
        _expect(arm.answers == plain.answers, "the arms did not end alike")
        saved, short = 100 * (1 - arm.definitions / plain.definitions), name.rpartition(":")[2]
        says = (
            f"`{mode}` on {short}: {{}} of declaring 60 tools, answers included, with {saved:.0f}% fewer tokens of "
            f"definitions and {arm.searches} searches for {len(tasks)} tasks"
        )
        yield ratio(f"deferral {mode}, {short}", arm.dollars, plain.dollars, says)


def _expect(fine: bool, found: object) -> None:
    if not fine:
        raise RuntimeError(f"a session of the mechanisms did not end well: {found}")
