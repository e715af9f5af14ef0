"""Gemini's cached contents of an agent over HTTP: `open_agent` in front of a simulated provider that listens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent import open_agent
from holdfast.agent.session import Session
from holdfast.simulator import HttpRequest, Simulator, VirtualClock
from holdfast.simulator.server import running

KEY = "AIza-this-is-the-key-of-the-user"
START = 1_800_000_000.0
PERSONA = "You keep the records of a library, and answer questions about them. " * 500


class Watched(Simulator):
    """A simulator that keeps what reaches it."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock=clock)
        self.calls: list[HttpRequest] = []

    def begin(self, call: HttpRequest) -> Any:
        self.calls.append(call)
        return super().begin(call)

    def beside(self, method: str) -> list[str]:
        return [call.path for call in self.calls if "cachedContents" in call.path and call.method == method]

    def live(self) -> list[str]:
        answer = super().begin(HttpRequest("GET", "/v1beta/cachedContents", {"x-goog-api-key": KEY})).answer
        return [each["name"] for each in json.loads(answer.body).get("cachedContents", [])]

    def named(self) -> list[str | None]:
        return [json.loads(call.body).get("cachedContent") for call in self.calls if "enerateContent" in call.path]


@pytest.fixture(params=["", "/v1beta"], ids=["plain", "versioned"])
def served(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Watched, dict[str, object]]]:
    simulator = Watched(VirtualClock(START))
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    with running(simulator) as address:
        flags: dict[str, object] = {
            "agent.model": "gemini:gemini-2.5-pro",
            "cache.gemini.enabled": True,
            "upstream.gemini": address + request.param,
            "store.url": f"sqlite:///{tmp_path}/h.db",
        }
        yield simulator, flags


async def talk(simulator: Watched, session: Session, turns: int, pause: float = 30.0) -> None:
    assert isinstance(simulator.clock, VirtualClock)
    for number in range(turns):
        turn = await session.ask(f"question {number}")
        assert turn.ended == "completed", turn.problem
        while session.sessions.contents.under_way:
            await asyncio.sleep(0.001)
        simulator.clock.advance(pause)


async def test_created_named_refreshed_and_deleted(tmp_path: Path, served: tuple[Watched, dict[str, object]]) -> None:
    simulator, flags = served

    async with open_agent(
        tmp_path, home=tmp_path / "home", flags=flags, persona=PERSONA, clock=simulator.clock.now
    ) as sessions:
        session = await sessions.create()
        await talk(simulator, session, 6)
        (name,) = simulator.live()
        assert simulator.named()[-1] == name
        await talk(simulator, session, 10, pause=240.0)
        assert simulator.beside("PATCH") == [f"/v1beta/{name}"]
        assert simulator.live() == [name]
    assert simulator.live() == []  # the agent is closed
    assert simulator.beside("DELETE") == [f"/v1beta/{name}"]
    used = [record.usage for record in simulator.journal.records() if record.usage is not None]
    assert used[-1].read > 4_096
    for call in simulator.calls:  # the key goes in a header, and nowhere else
        assert call.headers["x-goog-api-key"] == KEY
        assert KEY not in call.path + json.dumps(dict(call.query)) + call.body.decode()


async def test_a_forgotten_one_is_not_noticed(tmp_path: Path, served: tuple[Watched, dict[str, object]]) -> None:
    simulator, flags = served

    async with open_agent(
        tmp_path, home=tmp_path / "home", flags=flags, persona=PERSONA, clock=simulator.clock.now
    ) as sessions:
        session = await sessions.create()
        await talk(simulator, session, 6)
        (name,) = simulator.live()
        simulator.answer(HttpRequest("DELETE", f"/v1beta/{name}", {"x-goog-api-key": KEY}))
        await talk(simulator, session, 1)
        assert simulator.named()[-2:] == [name, None]
    statuses = [record.status for record in simulator.journal.records() if "enerateContent" in record.path]
    assert statuses[-2:] == [403, 200]
