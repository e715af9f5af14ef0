"""Sub-agents in front of a simulated provider: a model that does what its task says, and a door before the provider
that a test shuts and opens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from holdfast import facts
from holdfast.agent.contract import DelegateResult, Task
from holdfast.agent.session import Session
from holdfast.config.keys import Settings
from holdfast.config.sections.agent import DelegatesSettings
from holdfast.records import Request, Text, ToolResult, Usage, usage
from holdfast.wire.answers import Unreachable
from tests.agent.bench import MODEL, Bench, settings

DO, SAY = "DO: ", "SAY: "
_TIMEOUT = 20.0
_SPINS = 200


def obliging(request: Request) -> object:
    """It makes the calls that the newest text names behind `DO:`, as JSON, and says what stands behind `SAY:`: both at
    the beginning of a line."""
    users = [message for message in request.messages if message.role == "user"]
    words = [block.text for message in users for block in message.content if isinstance(block, Text)]
    text = words[-1] if words else ""
    answered = any(isinstance(block, ToolResult) for block in request.messages[-1].content)
    wanted = "" if answered else _behind(text, DO)
    if wanted:
        made = json.loads(wanted.partition("\n")[0])
        return {"call": [{"tool": tool, "input": given} for tool, given in made]}
    return _behind(text, SAY) or "Done."


def _behind(text: str, mark: str) -> str:
    _, found, rest = f"\n{text}".partition(f"\n{mark}")
    return rest.partition("\n\nNobody answers")[0].strip() if found else ""


def do(*made: tuple[str, dict[str, Any]], say: str = "") -> str:
    """A message that makes the scripted model call these tools, then say this."""
    return DO + json.dumps([list(each) for each in made]) + (f"\n{SAY}{say}" if say else "")


def delegating(*tasks: dict[str, Any], **more: Any) -> str:
    """A message that makes it delegate."""
    return do(("delegate", {"tasks": list(tasks), **more}))


def tasks(*said: str, role: str = "helper") -> list[Task]:
    """Tasks whose reports are these texts."""
    return [Task(task=f"{SAY}{each}", role=role) for each in said]


def numbered(count: int) -> list[str]:
    """Reports that no other one holds."""
    return [f"report-{number}-ends" for number in range(count)]


def configured(*, model: str = MODEL, agent: dict[str, Any] | None = None, **delegates: Any) -> Settings:
    return settings(model=model, agent={"delegates": DelegatesSettings(**delegates), **(agent or {})})


def placed(place: Path, config: Settings | Any = None, **more: Any) -> Bench:
    return Bench(place, config=config or configured(), reply=obliging, **more)


async def parent(bench: Bench, *, tokens: int = 4_000, warm: bool = False) -> Session:
    """A session whose system text has about so many tokens; `warm` if it was asked something a moment ago."""
    text = "Everything is done in order and with care, and what was said before still holds. "
    session = await bench.sessions.create(system_prompt=text * (tokens // 16))
    if warm:
        await session.ask(f"{SAY}Hello.")
    return session


def dollars(used: Usage, model: str = MODEL) -> Decimal:
    """What the provider asks for the input side of a request."""
    priced = facts.price(usage(input=used.input, read=used.read, writes=dict(used.writes)), model)
    assert priced.cost is not None
    return priced.cost


def words(request: Request) -> list[list[str]]:
    """The texts of each message."""
    return [[block.text for block in each.content if isinstance(block, Text)] for each in request.messages]


class Door:
    """Stands before a provider. A request that holds a word which is shut waits before the first byte of its answer,
    with one that is slow before the last ones; with a broken word it never gets any."""

    def __init__(self, bench: Bench, *known: str) -> None:
        self._provider: Any = bench.sessions.provider
        self._came = {word: asyncio.Event() for word in known}
        self._open = {word: asyncio.Event() for word in known}
        self.broken: set[str] = set()
        self.slow: dict[str, asyncio.Event] = {}
        self.order: list[str] = []
        self.inside = self.most = 0
        for gate in self._open.values():
            gate.set()
        bench.sessions.provider = self

    def shut(self, *words: str) -> None:
        for word in words:
            self._open[word].clear()

    def let(self, *words: str) -> None:
        for word in words or self._open:
            self._open[word].set()

    async def came(self, *words: str) -> None:
        """Until requests with these words have left."""
        for word in words:
            await asyncio.wait_for(self._came[word].wait(), _TIMEOUT)

    async def nobody_else(self, *words: str) -> None:
        """Whatever can go on has gone on, and none of these has come."""
        for _ in range(_SPINS):
            await asyncio.sleep(0)
        assert [word for word in words if self._came[word].is_set()] == []

    @asynccontextmanager
    async def open(self, request: Any) -> AsyncIterator[Any]:
        here = [word for word in self._came if word.encode() in request.raw]
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            async with self._provider.open(request) as answering:
                for word in here:
                    if not self._came[word].is_set():
                        self.order.append(word)
                    self._came[word].set()
                for word in here:
                    await self._open[word].wait()
                    if word in self.broken:
                        raise Unreachable("the line is dead")
                gates = [self.slow[word] for word in here if word in self.slow]
                yield _Slow(answering, gates[0]) if gates else answering
        finally:
            self.inside -= 1


async def delegated(
    bench: Bench, reports: Sequence[str], *, shut: Sequence[str] = (), **options: Any
) -> tuple[Door, asyncio.Task[tuple[DelegateResult, ...]]]:
    """A session that gives a task to a sub-agent for each report, and the door that they go through."""
    session, door = await parent(bench, **options), Door(bench, *reports)
    door.shut(*shut)
    return door, asyncio.create_task(session.delegate(tasks(*reports)))


class _Slow:
    """An answer whose last chunk waits."""

    def __init__(self, answering: Any, gate: asyncio.Event) -> None:
        self._answering, self._gate = answering, gate
        self.status, self.headers = answering.status, answering.headers

    async def __aiter__(self) -> AsyncIterator[bytes]:
        before: bytes | None = None
        async for chunk in self._answering:
            if before is not None:
                yield before
            before = chunk
        await self._gate.wait()
        if before is not None:
            yield before
