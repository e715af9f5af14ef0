"""What long-term memory costs: sessions of 40 turns in which memory changes at every third turn, beside the same
sessions without any.

Each placement goes through the whole agent and is billed by the simulator, on a virtual clock. `in system` is what most
agents do: all that is known stands in the system text and is written there anew when it changes (MEMORY.md with
`agent.volatile = "system"`). What they are compared with, `none`, has no store and none of its tools; `empty` has both
and knows nothing. The same for clients of the gateway is in `memory_gateway`.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Literal

from msgspec import Struct

from benchmarks import Result
from benchmarks.agent import START, Ticking
from holdfast import facts
from holdfast.agent import Host, Sessions
from holdfast.agent.log import log_path, read_log
from holdfast.agent.session import Session
from holdfast.config.keys import Settings
from holdfast.config.sections.agent import AgentSettings, MemorySettings
from holdfast.engine import EngineCore
from holdfast.facts import estimate
from holdfast.memory.entries import KnowledgeEntry
from holdfast.memory.knowledge import Knowledge
from holdfast.records import Request, Usage, usage
from holdfast.records.events.tools import MemorySurfaced
from holdfast.simulator import Simulator, VirtualClock
from holdfast.simulator.script import Script
from holdfast.store import Store, open_store

Arm = Literal["none", "empty", "deltas", "blocks", "in system"]

ARMS: tuple[Arm, ...] = ("none", "empty", "deltas", "blocks", "in system")
MODELS = ("anthropic:claude-sonnet-5-5", "anthropic:claude-haiku-4-5")
TURNS, EVERY, PAUSE = 40, 3, 40.0
LIMIT = 1.04
"""Of sessions that write nothing for an hour: what is told beside the entries is a larger share of these."""
TENANT = "bench"

PREFERENCES = ("Answers are short and in whole sentences.", "Commits are small and named in the imperative.")
SUBJECTS = ("release", "migration", "parser", "gateway", "scheduler", "importer")
SAID = "The {subject} was looked at again: step {step} waits for the one before it, and its log is kept for a week. "
ANSWER = (
    "This is what I found out about it, step by step, with the reason for each of the steps and what is left. " * 12
)
ASKED = "What is to be done next for the {subject}, given what we know of step {step}? "


class Played(Struct, frozen=True, kw_only=True):
    """One session: what was paid, what of it the entries' own tokens come to, and what broke."""

    usage: Usage
    dollars: Decimal
    own: Decimal
    breaks: int
    resets: int
    told: int


def run(*, quick: bool) -> Iterator[Result]:
    for name in MODELS[:1] if quick else MODELS:
        arms = {arm: asyncio.run(play(name, arm)) for arm in ARMS}
        yield from _told(name, arms)
    from benchmarks import memory_gateway  # which changes the same entries

    yield from memory_gateway.run(quick=quick)


def _told(name: str, arms: dict[Arm, Played]) -> Iterator[Result]:
    none, short = arms["none"], name.rpartition("claude-")[2]
    for arm, played in arms.items():
        used = played.usage
        note = (
            f"${played.dollars:.5f}, {used.read:,} read, {used.written:,} written, {used.input:,} input, told "
            f"{played.told} times, {played.resets} resets, {played.breaks} breaks"
        )
        yield Result(
            f"{TURNS} turns, {short}, memory {arm}", float(played.dollars / none.dollars), "x", None, "lower", note
        )
    deltas = arms["deltas"]
    beyond = float((deltas.dollars - deltas.own) / none.dollars)
    note = f"${deltas.own:.5f} are the entries' own tokens"
    yield Result(f"{TURNS} turns, {short}, deltas without the entries' own tokens", beyond, "x", LIMIT, "lower", note)
    yield Result(f"{TURNS} turns, {short}, deltas: breaks", float(deltas.breaks), "", 0, "lower")
    yield Result(f"{TURNS} turns, {short}, deltas: resets", float(deltas.resets), "", 0, "lower")


async def play(name: str, arm: Arm) -> Played:
    """40 turns; somebody else changes what is known before every third of them."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as scratch:
        workspace = Path(scratch, "workspace")
        workspace.mkdir()
        clock = VirtualClock(START)
        with open_store(Path(scratch, "h.db")) as store:
            sessions = _sessions(Path(scratch), name, arm, clock, store)
            known = Knowledge(store, TENANT, project=str(workspace.resolve()), clock=clock.now)
            entries = [] if arm in ("none", "empty") else fill(known)
            _write(workspace, arm, entries)
            session = await sessions.create()
            for turn in range(TURNS):
                if turn and turn % EVERY == 0 and entries:
                    entries = change(known, entries, turn)
                    _write(workspace, arm, entries)
                subject = SUBJECTS[turn % len(SUBJECTS)]
                await session.ask(ASKED.format(subject=subject, step=turn))
                clock.advance(PAUSE)
            played = _played(session, name)
            await session.end()
            await sessions.close()
    return played


def _sessions(scratch: Path, name: str, arm: Arm, clock: VirtualClock, store: Store) -> Sessions:
    settings = Settings(
        agent=AgentSettings(model=name, volatile="system" if arm == "in system" else "tail"),
        memory=MemorySettings(
            placement="blocks" if arm == "blocks" else "deltas", notes_soft=65_536, notes_hard=65_536
        ),
    )
    simulator = Simulator(script=Script(name="memory", function=_answer), clock=clock)
    return Sessions(
        settings,
        workspace=scratch / "workspace",
        home=scratch / "home",
        host=Host(
            provider=Ticking(simulator, clock),
            engine=EngineCore(settings, strict=True),
            store=None if arm in ("none", "in system") else store,
            tenant=TENANT,
            clock=clock.now,
        ),
    )


def _answer(request: Request) -> str:
    return ANSWER


def fill(known: Knowledge) -> list[KnowledgeEntry]:
    for text in PREFERENCES:
        known.add(text.partition(" ")[0] + " as they are liked", text, category="preference")
    return [known.add(_title(subject), _content(subject, 0), category="gotcha") for subject in SUBJECTS]


def change(known: Knowledge, entries: list[KnowledgeEntry], turn: int) -> list[KnowledgeEntry]:
    """Another entry at each change, in turn."""
    place = turn // EVERY % len(entries)
    found = known.edit(entries[place].id, content=_content(SUBJECTS[place], turn))
    return [*entries[:place], found, *entries[place + 1 :]]


def _title(subject: str) -> str:
    return f"How the {subject} goes on"


def _content(subject: str, step: int) -> str:
    return SAID.format(subject=subject, step=step) * 3


def _write(workspace: Path, arm: Arm, entries: list[KnowledgeEntry]) -> None:
    """All that is known, as a text that stands in the system text."""
    if arm == "in system":
        (workspace / ".holdfast").mkdir(exist_ok=True)
        lines = [*PREFERENCES, *(f"{entry.title}: {entry.content}" for entry in entries)]
        (workspace / ".holdfast" / "MEMORY.md").write_text("".join(f"- {line}\n" for line in lines))


def _played(session: Session, name: str) -> Played:
    total = session.totals()
    return Played(
        usage=total.usage,
        dollars=total.cost or Decimal(0),
        own=_own(session, name),
        breaks=sum(line.breaks for line in session.lines),
        resets=sum(len(line.resets) for line in session.lines),
        told=session.state.deltas,
    )


def _own(session: Session, name: str) -> Decimal:
    """What the entries' own tokens cost at best: the stable block written once for an hour, each delta once as the rest
    of the conversation, and both read by every request after that."""
    composed = session.state.composed
    writes: dict[str, int] = {"1h": 0, "5m": 0}
    read = 0
    if composed is not None and composed.preferences:
        size = estimate(composed.preferences)
        writes["1h"] += size
        read += size * (TURNS - 1)
    sent = 0
    for envelope in read_log(log_path(session.sessions.directory, session.id)):
        if isinstance(envelope.payload, MemorySurfaced) and envelope.payload.place == "delta":
            writes["5m"] += envelope.payload.tokens
            read += envelope.payload.tokens * (TURNS - 1 - sent)
        sent += envelope.type == "turn.answered"
    return facts.price(usage(read=read, writes=writes), name).cost or Decimal(0)
