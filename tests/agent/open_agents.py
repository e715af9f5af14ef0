"""An agent opened as a program opens one, from a `holdfast.toml`, in front of a simulated provider."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent import Session, Sessions, open_agent
from holdfast.records import Request, Text, ToolResult
from holdfast.simulator import Simulator, VirtualClock
from holdfast.simulator.in_process import Simulated
from holdfast.simulator.script import Script
from holdfast.tools import tool
from holdfast.wire import DIALECTS
from tests.agent.bench import MODEL, MODELS, START, obey

SKILL = "---\nname: {name}\ndescription: About {name}.\n---\n\nThe body of {name}.\n"


@pytest.fixture(autouse=True)
def nothing_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("HOLDFAST_"):
            monkeypatch.delenv(name)


@tool(effect="read")
async def tide(place: str) -> str:
    """How high the water stands.

    Args:
        place: Which harbour.
    """
    return f"3 m at {place}"


class Opened:
    """An open agent and what its provider got."""

    def __init__(self, sessions: Sessions, sent: list[bytes], clock: VirtualClock, simulator: Simulator) -> None:
        self.sessions, self.clock, self.simulator, self._sent = sessions, clock, simulator, sent

    async def begin(self, *texts: str, **options: Any) -> Session:
        """A new session in which the user says these things, one after the other."""
        session = await self.sessions.create(**options)
        for text in texts:
            await session.ask(text)
        return session

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(raw) for raw in self._sent]

    def system(self, index: int = -1) -> str:
        return "\n\n".join(block["text"] for block in self.bodies[index]["system"])

    def results(self) -> list[str]:
        """The last results of tools that the model was told."""
        blocks = [block for message in self.bodies[-1]["messages"] for block in message["content"]]
        return [json.dumps(block["content"]) for block in blocks if block["type"] == "tool_result"]


class _Recorded:
    def __init__(self, provider: Simulated, sent: list[bytes]) -> None:
        self._provider, self._sent = provider, sent

    def open(self, request: Any) -> Any:
        self._sent.append(request.raw)
        return self._provider.open(request)


@asynccontextmanager
async def opened(
    place: Path,
    toml: str = "",
    *,
    reply: Callable[[Request], object] = obey,
    flags: dict[str, object] | None = None,
    clock: VirtualClock | None = None,
    simulator: Simulator | None = None,
    **more: Any,
) -> AsyncIterator[Opened]:
    work = place / "work"
    work.mkdir(exist_ok=True)
    (work / "holdfast.toml").write_text(toml, "utf-8")
    clock, sent = clock or VirtualClock(START), list[bytes]()
    simulator = simulator or Simulator(script=Script(name="agent", function=reply), clock=clock)
    given = {"agent.model": MODEL} | (flags or {})
    recorded: Any = _Recorded(Simulated(simulator), sent)
    async with open_agent(
        work, home=place / "home", provider=recorded, flags=given, clock=clock.now, **more
    ) as sessions:
        yield Opened(sessions, sent, clock, simulator)


ALLOW: dict[str, object] = {"tools.confirm.mode": "allow", "skills.roots": []}


class RecordingProvider:
    """A simulated provider that keeps what it is sent."""

    def __init__(self, clock: VirtualClock, reply: Any = obey) -> None:
        self._simulated = Simulated(Simulator(script=Script(name="agent", function=reply), clock=clock))
        self.sent: list[tuple[str, str, bytes]] = []
        self.sessions: list[str] = []

    def open(self, request: Any) -> Any:
        self.sent.append((request.dialect, request.model, request.raw))
        self.sessions.append(request.session)
        return self._simulated.open(request)

    def requests(self) -> list[Request]:
        made = []
        for dialect, model, raw in self.sent:
            body = DIALECTS[dialect].parse(raw, model=model.partition(":")[2])
            made.append(DIALECTS[dialect].decode(body))
        return made

    def results(self) -> list[str]:
        """All results in the newest request, each as one text."""
        blocks = [block for message in self.requests()[-1].messages for block in message.content]
        found = [block for block in blocks if isinstance(block, ToolResult)]
        return ["\n".join(each.text for each in block.content if isinstance(each, Text)) for block in found]


@asynccontextmanager
async def recorded_agent(
    place: Path, provider: RecordingProvider, clock: VirtualClock, *, model: str = MODELS["anthropic"], **more: Any
) -> AsyncIterator[Sessions]:
    flags = ALLOW | {"agent.model": model} | more.pop("flags", {})
    place.joinpath("work").mkdir(exist_ok=True)
    async with open_agent(
        place / "work", home=place / "home", provider=provider, flags=flags, clock=clock.now, **more
    ) as sessions:
        yield sessions
