"""What an agent's work costs with its prompt padded and not, and what a fan-out of sub-agents costs.

A scripted model does real work in a temporary workspace with the agent's own tools, and the files show whether it was
done. Every request goes through the whole agent and is billed by the simulator, on a virtual clock.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from benchmarks import Result
from benchmarks.agent_script import Reply, model
from benchmarks.agent_workloads import WORKLOADS, Workload
from holdfast import facts
from holdfast.agent import Host, Sessions
from holdfast.agent.contract import OutgoingRequest, ProviderAnswer, Task
from holdfast.config.keys import Settings
from holdfast.config.sections.agent import AgentSettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.core.call import Verdict
from holdfast.engine import EngineCore, PreparedCall
from holdfast.facts import estimate
from holdfast.records import Request, Text, Usage, usage
from holdfast.simulator import Simulator, VirtualClock
from holdfast.simulator.in_process import Simulated
from holdfast.simulator.script import Script
from holdfast.tools.confirmation import Decision, Question

Padding = Literal["off", "economic", "always"]

START = 1_700_000_000.0
THINKS, PAUSE = 4.0, 30.0
"""Seconds that the model takes for an answer, and the user for the next message."""

MODELS = ("anthropic:claude-haiku-4-5", "anthropic:claude-sonnet-5-5")
PADDINGS: tuple[Padding, ...] = ("off", "economic", "always")
CHILDREN, PARENT = 8, 20_000
LIMIT = 1.1
RULE = "A helper reads the part of the archive that it is given and says in one line what stands in it. "
LINE = "Letters of the year, in order."


def run(*, quick: bool) -> Iterator[Result]:
    for name in MODELS[:1] if quick else MODELS:
        yield from _padded(name, WORKLOADS[::3] if quick else WORKLOADS)
    for name in MODELS[:1] if quick else MODELS:
        yield from _fanned_out(name)


class Played(Struct, frozen=True, kw_only=True):
    """One session: what was sent and paid for, and whether the files are as they should be."""

    usage: Usage
    calls: int
    dollars: Decimal
    breaks: int
    done: bool


class Counting(EngineCore):
    """An engine that counts what it takes for a break of the cache."""

    breaks = 0

    def settle(self, prepared: PreparedCall, usage: Usage, *, now: float) -> Verdict:
        verdict = super().settle(prepared, usage, now=now)
        self.breaks += verdict.finding is not None
        return verdict


class Ticking:
    """A provider that takes its time, on a clock that nobody waits for."""

    def __init__(self, simulator: Simulator, clock: VirtualClock) -> None:
        self._simulated, self._clock = Simulated(simulator), clock

    def open(self, request: OutgoingRequest) -> AbstractAsyncContextManager[ProviderAnswer]:
        self._clock.advance(THINKS)
        return self._simulated.open(request)


def _padded(name: str, workloads: tuple[Workload, ...]) -> Iterator[Result]:
    short = name.rpartition("claude-")[2]
    for workload in workloads:
        arms = {padding: asyncio.run(play(workload, name, padding)) for padding in PADDINGS}
        for padding, arm in arms.items():
            used = arm.usage
            note = (
                f"${arm.dollars:.5f}, {arm.calls} calls, {used.read:,} read, {used.written:,} written, "
                f"{used.input:,} input, {used.output:,} output, {'done' if arm.done else 'NOT DONE'}"
            )
            ratio = float(arm.dollars / arms["off"].dollars)
            yield Result(f"{workload.name}, {short}, padding {padding}", ratio, "x", None, "lower", note)
        done, breaks = sum(arm.done for arm in arms.values()), sum(arm.breaks for arm in arms.values())
        yield Result(f"{workload.name}, {short}: done", float(done), "", len(arms), "higher", "by its files")
        yield Result(f"{workload.name}, {short}: breaks", float(breaks), "", 0, "lower", "of all three")


async def play(workload: Workload, name: str, padding: Padding) -> Played:
    """One workload from its first message to its last."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as scratch:
        workspace = Path(scratch, "workspace")
        workspace.mkdir()
        workload.lay_out(workspace)
        clock = VirtualClock(START)
        sessions, engine = _sessions(Path(scratch), name, model(workload.steps), clock, padding)
        session = await sessions.create()
        for message in workload.asked:
            await session.ask(message)
            clock.advance(PAUSE)
        total = session.totals()
        await session.end()
        return Played(
            usage=total.usage,
            calls=total.calls,
            dollars=total.cost or Decimal(0),
            breaks=engine.breaks,
            done=workload.done(workspace),
        )


async def allow(_question: Question) -> Decision:
    return Decision(True)


def _sessions(
    scratch: Path, name: str, reply: Callable[[Request], object], clock: VirtualClock, padding: Padding
) -> tuple[Sessions, Counting]:
    settings = Settings(agent=AgentSettings(model=name), cache=CacheSettings(padding=padding))
    simulator = Simulator(script=Script(name="workload", function=reply), clock=clock)
    engine = Counting(settings, strict=True)
    sessions = Sessions(
        settings,
        workspace=scratch / "workspace",
        home=scratch / "home",
        host=Host(provider=Ticking(simulator, clock), engine=engine, clock=clock.now, confirm=allow),
    )
    return sessions, engine


def _fanned_out(name: str) -> Iterator[Result]:
    """Eight sub-agents on a prompt of 20,000 tokens: one writes it, the others read it. Where the parent has been asked
    before, all of them read."""
    short = name.rpartition("claude-")[2]
    for state in ("cold", "warm"):
        prefix, used = asyncio.run(fan_out(name, warm=state == "warm"))
        ratio, paid, best = relative(name, prefix, used)
        read, written = sum(each.read for each in used), sum(each.written for each in used)
        plain = sum(each.input for each in used)
        note = f"${paid:.5f} for ${best:.5f}; {read:,} read, {written:,} written, {plain:,} input"
        title = f"fan-out of {CHILDREN} on {prefix:,} tokens, {short}, {state} parent"
        yield Result(title, ratio, "x", LIMIT, "lower", note)


def relative(name: str, prefix: int, used: Sequence[Usage]) -> tuple[float, Decimal, Decimal]:
    """What sub-agents' prompts cost beside one write and seven reads of what they share, as a ratio and in dollars."""
    paid = sum((_prompt_cost(name, each) for each in used), Decimal(0))
    once, again = (_prompt_cost(name, each) for each in (usage(writes={"5m": prefix}), usage(read=prefix)))
    best = once + (len(used) - 1) * again
    return float(paid / best), paid, best


def _prompt_cost(name: str, used: Usage) -> Decimal:
    """What was asked; what is answered costs the same however the prompt is cached."""
    return facts.price(replace(used, output=0), name).cost or Decimal(0)


async def fan_out(name: str, *, warm: bool, children: int = CHILDREN) -> tuple[int, list[Usage]]:
    """The tokens of the parent's tools and system text, and what each of its sub-agents used."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as scratch:
        Path(scratch, "workspace").mkdir()
        clock = VirtualClock(START)
        sessions, _ = _sessions(Path(scratch), name, _helper, clock, "off")
        session = await sessions.create(system_prompt=RULE * (PARENT // estimate(RULE)))
        prefix = sum(shown.tokens for shown in session.inspect() if shown.path.startswith(("tools", "system")))
        if warm:
            await session.ask("What is in the archive? [parent]")
            clock.advance(PAUSE)
        tasks = [Task(task=f"Read part {number} of the archive.", role="reader") for number in range(children)]
        found = await session.delegate(tasks)
        await session.end()
    if any(each.status != "completed" or each.text != LINE for each in found):
        raise RuntimeError(f"a sub-agent did not end well: {found}")
    return prefix, [each.usage for each in found]


def _helper(request: Request) -> Reply:
    texts = [b.text for message in request.messages for b in message.content if isinstance(b, Text)]
    return "It is an archive." if any("[parent]" in text for text in texts) else LINE
