"""The demo's session done by Holdfast's own agent, in this process: real files, tools, skills, memory and sub-agents, a
simulated provider, a clock of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path

from msgspec import Struct

from holdfast import facts
from holdfast.agent import PERSONA, Equipment, Host, Session, Sessions, Task
from holdfast.config import Config, load
from holdfast.engine import EngineCore
from holdfast.errors import HoldfastError
from holdfast.memory import Knowledge
from holdfast.records import Usage, usage
from holdfast.records.events import (
    Bus,
    CacheBreak,
    CompactionCompleted,
    DelegateCompleted,
    Event,
    MemorySurfaced,
    SkillLoaded,
    ToolOffloaded,
    Ulids,
)
from holdfast.simulator import Script, Simulator, VirtualClock
from holdfast.store import Store, open_store

from . import library
from . import workspace as demo_workspace
from .arms import COMMON, Arm
from .model import asked, model, scout_task
from .provider import Provided
from .session import PARTS, DemoTurn, pause

START = 1_800_000_000.0
SCOUTS = 4
TENANT = "demo"
_READS = 60.0
"""Seconds that the user takes for the next message."""
_KEPT = 10_000
_TYPES = tuple(
    kind.type
    for kind in (CacheBreak, CompactionCompleted, DelegateCompleted, MemorySurfaced, SkillLoaded, ToolOffloaded)
)


class AgentRun(Struct, frozen=True, kw_only=True):
    """One session: what was sent and billed, what took place in it as its events say, and whether the files are as they
    should be."""

    calls: int
    prompt: int
    read: int
    cost: Decimal
    without: Decimal
    events: tuple[Event, ...]
    pauses: tuple[float, ...]
    done: bool

    def count(self, kind: type[Event]) -> int:
        return sum(isinstance(each, kind) for each in self.events)

    @property
    def told(self) -> int:
        """How often the conversation was told that memory had changed."""
        return sum(isinstance(each, MemorySurfaced) and each.why == "changed" for each in self.events)


def play(
    arm: Arm, folder: Path, name: str, turns: Sequence[DemoTurn], on_turn: Callable[[], None] = lambda: None
) -> AgentRun:
    """The session from its first message to its last, in a folder of its own."""
    workspace, home = folder / "shop", folder / "home"
    workspace.mkdir(parents=True)
    demo_workspace.lay_out(workspace, turns)
    library.write_skills(workspace)
    flags = {**COMMON, "agent.model": name, **arm.flags}
    config = load(workspace=None, home=home, environ={"HOME": str(folder)}, flags=flags)
    with open_store(config.settings.store.url) as store:
        return asyncio.run(_play(arm, workspace, config, store, turns, on_turn))


async def _play(
    arm: Arm, workspace: Path, config: Config, store: Store, turns: Sequence[DemoTurn], on_turn: Callable[[], None]
) -> AgentRun:
    clock, bus = VirtualClock(START), Bus()
    happened = bus.subscribe(limit=_KEPT, types=_TYPES)
    simulator = Simulator(script=Script(name="demo", function=model(turns)), clock=clock, keep=_KEPT)
    provider = Provided(simulator, clock, together=SCOUTS if arm.at_once else 0, cold_summary=arm.cold_summary)
    settings = config.settings
    engine = EngineCore(settings, store=store, bus=bus)
    sessions = Sessions(
        settings,
        workspace=workspace,
        home=config.home,
        host=Host(provider=provider, engine=engine, store=store, bus=bus, tenant=TENANT, clock=clock.now),
        equipment=Equipment(persona=f"{PERSONA}\n\n{library.all_bodies()}" if arm.pasted else None),
    )
    sessions.ids = Ulids(clock=lambda: int(clock.now() * 1000), entropy=bytes)  # ids stand in prompts
    knowledge = Knowledge(store, TENANT, project=library.PROJECT, clock=clock.now)
    try:
        pauses = await _converse(arm, sessions, knowledge, clock, turns, on_turn)
    finally:
        await sessions.close()
        engine.close(now=clock.now())
        bus.close()
    events = tuple(each.payload for each in happened.drain())
    done = demo_workspace.is_done(workspace, turns)
    return _played(provider.billed(), str(settings.agent.model), events, pauses, done)


async def _converse(
    arm: Arm,
    sessions: Sessions,
    knowledge: Knowledge,
    clock: VirtualClock,
    turns: Sequence[DemoTurn],
    on_turn: Callable[[], None],
) -> tuple[float, ...]:
    """All that is said; gives the pauses that were longer than five minutes."""
    entries, pauses = library.remember(knowledge), list[float]()
    session = await sessions.create()
    reports = "\n".join(f"- {report}" for report in await _scouts(arm, sessions, session))
    for number, turn in enumerate(turns):
        if (away := pause(number)) is not None:
            pauses.append(away)
        clock.advance(away or _READS)
        library.change(knowledge, entries, number)
        text = asked(number, turn)
        answer = await session.ask(text if number else f"Four scouts have read the shop:\n{reports}\n\n{text}")
        if answer.ended != "completed" or answer.text != turn.answer:
            raise HoldfastError(f"turn {number + 1} of the demo {answer.ended}: {answer.problem}; please report it.")
        on_turn()
    await session.end()
    return tuple(pauses)


async def _scouts(arm: Arm, sessions: Sessions, session: Session) -> list[str]:
    """What sub-agents report who read the first parts side by side."""
    parts = PARTS[:SCOUTS]
    if arm.own_prompts:
        return list(await asyncio.gather(*(_own_scout(sessions, part) for part in parts)))
    reports = await session.delegate([Task(task=scout_task(part), role="scout") for part in parts])
    return [each.text for each in reports]


async def _own_scout(sessions: Sessions, part: str) -> str:
    """A sub-agent as others have them: a session with a system text of its own."""
    session = await sessions.create(system_prompt=f"You are the scout for {part}.py.\n\n{PERSONA}")
    answer = await session.ask(scout_task(part))
    await session.end()
    return answer.text


def _played(used: list[Usage], name: str, events: tuple[Event, ...], pauses: tuple[float, ...], done: bool) -> AgentRun:
    plain = [usage(input=each.prompt, output=each.output) for each in used]
    return AgentRun(
        calls=len(used),
        prompt=sum(each.prompt for each in used),
        read=sum(each.read for each in used),
        cost=sum((facts.price(each, name).cost or Decimal(0) for each in used), Decimal(0)),
        without=sum((facts.price(each, name).cost or Decimal(0) for each in plain), Decimal(0)),
        events=events,
        pauses=pauses,
        done=done,
    )
