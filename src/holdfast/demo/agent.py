"""The demo's session done by Holdfast's own agent, in this process: real files, tools, skills, memory and sub-agents, a
simulated provider, a clock of its own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast import facts
from holdfast.agent import PERSONA, Equipment, Host, OutgoingRequest, ProviderAnswer, Session, Sessions, Task
from holdfast.config import Config, load
from holdfast.engine import EngineCore
from holdfast.errors import HoldfastError
from holdfast.memory import Knowledge, KnowledgeEntry
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
from holdfast.simulator import Script, Simulated, Simulator, VirtualClock
from holdfast.store import Store, open_store

from . import workspace as demo_workspace
from .arms import COMMON, Arm
from .model import SUMMARIZE, asked, model, scout_task
from .session import MEMORY_EVERY, NOUNS, PARTS, SEED, VERBS, DemoTurn, pause

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
    """One session: what was sent and billed, its events, and whether the files are as expected."""

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
        """The number of notices in the conversation about changed memory."""
        return sum(isinstance(each, MemorySurfaced) and each.why == "changed" for each in self.events)


def play(
    arm: Arm, folder: Path, name: str, turns: Sequence[DemoTurn], on_turn: Callable[[], None] = lambda: None
) -> AgentRun:
    """The session from its first message to its last, in a folder of its own."""
    workspace, home = folder / "shop", folder / "home"
    workspace.mkdir(parents=True)
    demo_workspace.lay_out(workspace, turns)
    write_skills(workspace)
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
        equipment=Equipment(persona=f"{PERSONA}\n\n{all_bodies()}" if arm.pasted else None),
    )
    sessions.ids = Ulids(clock=lambda: int(clock.now() * 1000), entropy=bytes)  # ids stand in prompts
    knowledge = Knowledge(store, TENANT, project=PROJECT, clock=clock.now)
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
    """Run all turns; return the pauses longer than five minutes, in seconds."""
    entries, pauses = remember(knowledge), list[float]()
    session = await sessions.create()
    reports = "\n".join(f"- {report}" for report in await _scouts(arm, sessions, session))
    for number, turn in enumerate(turns):
        if (away := pause(number)) is not None:
            pauses.append(away)
        clock.advance(away or _READS)
        change(knowledge, entries, number)
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


_THINKS = 8.0
"""Seconds that the model takes for an answer."""
_SUMMARIZER = "You summarize conversations between a user and an agent."


class Provided:
    """`together` sub-agents begin in the same moment: none is answered before all have asked. With `cold_summary`, who
    asks for a summary sends the conversation as a text, without the tools and the system text that it had. The request
    that this takes the place of is sent too, so that the cache is as it would be, and not billed."""

    def __init__(self, simulator: Simulator, clock: VirtualClock, *, together: int = 0, cold_summary: bool = False):
        self._simulated, self._clock, self._cold = Simulated(simulator), clock, cold_summary
        self._left, self._all_here = together, asyncio.Event()
        self._unbilled: set[int] = set()

    @asynccontextmanager
    async def open(self, request: OutgoingRequest) -> AsyncIterator[ProviderAnswer]:
        self._clock.advance(_THINKS)
        cold = self._cold and SUMMARIZE.encode() in request.raw
        if cold:
            async with self._simulated.open(replace(request, raw=apart(request.raw))) as answer:
                async for _ in answer:
                    pass
        async with self._simulated.open(request) as answer:
            if cold:
                self._unbilled.add(self._simulated.simulator.journal.count)
            await self._gathered()
            yield answer

    def billed(self) -> list[Usage]:
        """What every request used."""
        records = self._simulated.simulator.journal.records()
        return [each.usage for each in records if each.usage is not None and each.number not in self._unbilled]

    async def _gathered(self) -> None:
        if not self._left:
            return
        self._left -= 1
        if not self._left:
            self._all_here.set()
        await self._all_here.wait()


def apart(raw: bytes) -> bytes:
    """The same question about the same conversation, as a request that has nothing in common with it."""
    body = json.loads(raw)
    *history, instruction = body["messages"]
    text = "\n\n".join(f"{message['role']}: {_text(message['content'])}" for message in history)
    body["messages"] = [{"role": "user", "content": f"{text}\n\n{_text(instruction['content'])}"}]
    body["system"] = _SUMMARIZER
    for name in ("tools", "tool_choice", "cache_control"):
        body.pop(name, None)
    return json.dumps(body).encode()


def _text(content: Any) -> str:
    """Return the text of blocks; for a call its tool and input."""
    if isinstance(content, str):
        return content
    parts = []
    for block in content:
        if block["type"] == "tool_use":
            parts.append(f"{block['name']} {json.dumps(block['input'])}")
        else:
            parts.append(_text(block["content"]) if block["type"] == "tool_result" else block.get("text", ""))
    return "\n".join(parts)


PROJECT = "shop"
_USES = {
    "fix-a-failing-test": "a test fails and nobody knows why",
    "measure-then-speed-up": "something is slow",
    "rename-with-an-alias": "a name that others use is to change",
    "add-a-switch": "a command gets a new option",
    "write-a-migration": "stored data has to take another form",
    "review-a-change": "somebody else's change is to be read",
    "release": "a version is to be published",
    "write-a-changelog": "users have to hear of what changed",
    "add-a-table": "a report needs one more table",
    "import-a-file": "a customer sends data in a file",
    "answer-a-complaint": "a customer is unhappy with an amount",
    "close-a-month": "the books of a month are to be closed",
}
_STEPS = 24
_KNOWN = 5


def write_skills(folder: Path) -> None:
    """One file for each, below the workspace's own directory of skills."""
    for name, use in _USES.items():
        place = folder / ".holdfast" / "skills" / name
        place.mkdir(parents=True)
        head = f"---\nname: {name}\ndescription: Use when {use}.\nmetadata:\n  version: '1'\n---\n"
        (place / "SKILL.md").write_text(f"{head}\n{_body(name, use)}\n")


def all_bodies() -> str:
    """Every skill in full, under the heading that a loaded one has."""
    return "\n\n".join(f"# Skill: {name} (source: workspace)\n\n{_body(name, use)}" for name, use in _USES.items())


def _body(name: str, use: str) -> str:
    rng = Random(f"{SEED} skill {name}")
    steps = [
        f"{number}. {rng.choice(VERBS).capitalize()} each {rng.choice(NOUNS)} of {rng.choice(PARTS)} before the "
        f"{rng.choice(NOUNS)} is looked at, and write down what differs from the {rng.choice(NOUNS)} before it."
        for number in range(1, _STEPS + 1)
    ]
    return "\n".join((f"What to do when {use}:", "", *steps))


def remember(knowledge: Knowledge) -> list[KnowledgeEntry]:
    """Add the knowledge that exists when the session begins."""
    knowledge.add("Answers are brief", "One sentence where one is enough.", category="preference", id="k0000000")
    return [
        knowledge.add(f"How {part} is run", _content(part, 0), category="gotcha", id=f"k000000{number}")
        for number, part in enumerate(PARTS[:_KNOWN], 1)
    ]


def change(knowledge: Knowledge, entries: list[KnowledgeEntry], turn: int) -> None:
    """Edit another entry before every `MEMORY_EVERY` turns, as another user would."""
    if turn and turn % MEMORY_EVERY == 0:
        place = turn // MEMORY_EVERY % len(entries)
        knowledge.edit(entries[place].id, content=_content(PARTS[place], turn))


def _content(part: str, step: int) -> str:
    return f"The nightly job of {part} stops at step {step}; its log is kept for a week. Ask before it is run by hand."
