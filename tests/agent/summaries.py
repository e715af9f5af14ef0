"""Sessions that are compacted: a model that writes summaries when asked to, and how requests extend each other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from holdfast import facts
from holdfast.agent.compaction.summary import INSTRUCTION, SECTIONS
from holdfast.agent.session import Session
from holdfast.agent.window.entries import Compacted
from holdfast.config.keys import Settings
from holdfast.records import Request, Text
from holdfast.records.events import Event
from holdfast.wire import DIALECTS
from holdfast.wire.prompts import PromptReader
from tests.agent.bench import Bench, obey, settings

GOOD = "\n".join(f"## {name}\nSomething of {name}." for name in SECTIONS)
PART = "All that was said in this part is needed later on. " * 150
"""Some 1,650 tokens."""

LIMITS: dict[str, Any] = {"limit_tokens": 16_500, "keep_recent_tokens": 3_000, "reserve_tokens": 4_000}


def small(**more: Any) -> Settings:
    """Settings under which a few turns are a long conversation."""
    given = dict(more)
    return settings(compaction=LIMITS | given.pop("compaction", {}), **given)


def asks_for_summary(request: Request) -> bool:
    texts = (block.text for message in request.messages[-3:] for block in message.content if isinstance(block, Text))
    return INSTRUCTION in texts


def summarizer(*summaries: object) -> Callable[[Request], object]:
    """A model that does what it is told, and answers each demand for a summary with the next of these, the last one
    for ever."""
    left = list(summaries or (GOOD,))

    def reply(request: Request) -> object:
        if not asks_for_summary(request):
            return obey(request)
        return left.pop(0) if len(left) > 1 else left[0]

    return reply


async def talk(session: Session, bench: Bench, turns: int, *, first: int = 0) -> None:
    """So many turns, each with a part that has to be remembered."""
    for number in range(first, first + turns):
        turn = await session.ask(f"Part {number}. {PART}")
        assert turn.ended == "completed", turn.problem
        bench.clock.advance(10)


async def begin_talk(bench: Bench, turns: int, **options: Any) -> Session:
    """A new session of so many turns."""
    session = await bench.begin(**options)
    await talk(session, bench, turns)
    return session


def summaries(session: Session) -> list[int]:
    """Where summaries stand in the window."""
    return [place for place, entry in enumerate(session.state.window.entries) if isinstance(entry, Compacted)]


def summary(session: Session) -> str:
    (place,) = summaries(session)
    entry = session.state.window.entries[place]
    assert isinstance(entry, Compacted)
    return entry.text


def events_of(bench: Bench, session: Session, *kinds: str) -> list[Event]:
    """What the session's log says of these kinds."""
    return [event.payload for event in bench.log(session.id) if event.payload.type in kinds]


def keys(bench: Bench, number: int) -> tuple[bytes, ...]:
    """A request as a cache sees it: one key for everything up to the end of each block."""
    dialect, model, raw = bench.sent[number]
    body = DIALECTS[dialect].parse(raw, model=model.partition(":")[2])
    return PromptReader().read(body, facts.model(model)).prompt.keys


def summary_requests(bench: Bench) -> list[int]:
    """Which requests asked for a summary."""
    return [number for number, request in enumerate(bench.bodies()) if asks_for_summary(request)]


class SilentProvider:
    """A provider that never answers a demand for a summary; `reached` once there is one."""

    def __init__(self, provider: Any) -> None:
        self._provider, self.reached = provider, asyncio.Event()

    @asynccontextmanager
    async def open(self, request: Any) -> AsyncIterator[Any]:
        async with self._provider.open(request) as answering:
            if b"Summarize this conversation" in request.raw:
                self.reached.set()
                await asyncio.Event().wait()
            yield answering
