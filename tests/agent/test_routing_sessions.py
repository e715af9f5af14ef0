"""Routing in a whole session: what the user named is asked, what fails is replaced, and the log says why."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from holdfast.agent import Host, Sessions
from holdfast.agent.contract import Watch
from holdfast.agent.log import read_log
from holdfast.agent.session import Session
from holdfast.config.keys import Settings
from holdfast.config.sections.agent import AgentSettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.engine import EngineCore
from holdfast.records.events.agent import ModelRouted
from holdfast.simulator import Simulator, VirtualClock
from holdfast.simulator.faults import Fault, FaultMatch, Options
from holdfast.simulator.in_process import Simulated

HAIKU, SONNET, SOL = "anthropic:claude-haiku-4-5", "anthropic:claude-sonnet-5-5", "openai:gpt-6.1-sol"


class Heard(Watch):
    def __init__(self) -> None:
        self.notices: list[str] = []

    def notice(self, text: str) -> None:
        self.notices.append(text)


async def _no_pause(_seconds: float) -> None:
    return None


class Room:
    """A session with two providers in one simulator, and what came of it."""

    def __init__(self, home: Path) -> None:
        self.simulator = Simulator(clock=(clock := VirtualClock()))
        settings = Settings(
            agent=AgentSettings(model=SONNET, fallback=(SONNET, SOL), retries=1), cache=CacheSettings(padding="always")
        )
        workspace = home / "workspace"
        workspace.mkdir()
        self.home, self.clock, self.heard = home, clock, Heard()
        self.sessions = Sessions(
            settings,
            workspace=workspace,
            home=home,
            host=Host(
                provider=Simulated(self.simulator),
                engine=EngineCore(settings, strict=True),
                clock=clock.now,
                sleep=_no_pause,
            ),
        )

    def run(self, play: Callable[[Session], Awaitable[None]]) -> list[ModelRouted]:
        """What was decided behind the first decision."""

        async def whole() -> str:
            session = await self.sessions.create()
            await play(session)
            await session.end()
            return session.id

        made = asyncio.run(whole())
        events = [each.payload for each in read_log(self.home / "sessions" / f"{made}.jsonl")]
        return [payload for payload in events if isinstance(payload, ModelRouted)][1:]

    @property
    def asked(self) -> list[str]:
        return [record.model or "" for record in self.simulator.journal.records()]


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def test_a_mention_counts_for_its_message_and_the_way_back_is_warm(room: Room) -> None:
    async def play(session: Session) -> None:
        await session.ask("first")
        await session.ask("@haiku-4-5 second", watch=room.heard)
        turn = await session.ask("third", watch=room.heard)
        assert turn.line.usage.read > 0

    there, back = room.run(play)
    assert [name.rpartition(":")[2] for name in room.asked] == [
        "claude-sonnet-5-5",
        "claude-haiku-4-5",
        "claude-sonnet-5-5",
    ]
    assert (there.model, there.source, there.before) == (HAIKU, "message", SONNET)
    assert (back.model, back.before) == (SONNET, HAIKU)
    assert 0 <= back.cold_tokens < there.cold_tokens
    assert there.cold_cost is not None
    assert back.cold_cost is not None
    assert there.cold_cost > 0
    assert room.heard.notices[0].startswith(f"{HAIKU} answers now: ")


def test_what_names_no_model_is_said_to_the_user_and_stays_in_the_message(room: Room) -> None:
    async def play(session: Session) -> None:
        await session.ask("@somebody hello", watch=room.heard)
        assert "@somebody hello" in str(session.state.window.entries)

    assert room.run(play) == []
    assert room.heard.notices == ["@somebody names no model that is known; it stays in the text."]


@pytest.mark.parametrize(("status", "attempts"), [(529, 2), (429, 2), (401, 1), (404, 1)])
def test_a_model_that_does_not_answer_is_replaced_by_the_next(room: Room, status: int, attempts: int) -> None:
    fault = Fault("status", times=0, match=FaultMatch(model="claude-sonnet-5-5"), options=Options(status=status))
    room.simulator.faults.add(fault)

    async def play(session: Session) -> None:
        turn = await session.ask("first", watch=room.heard)
        assert (turn.ended, turn.line.model) == ("completed", SOL)

    (routed,) = room.run(play)
    assert [name.rpartition(":")[2] for name in room.asked] == [*["claude-sonnet-5-5"] * attempts, "gpt-6.1-sol"]
    assert (routed.model, routed.source, routed.before) == (SOL, "fallback", SONNET)
    assert routed.passed_over[0][0] == SONNET
    assert str(status) in routed.passed_over[0][1]


def test_a_request_that_is_wrong_goes_nowhere_else(room: Room) -> None:
    fault = Fault("status", times=0, options=Options(status=400, message="messages: wrong"))
    room.simulator.faults.add(fault)

    async def play(session: Session) -> None:
        turn = await session.ask("first")
        assert turn.ended == "failed"
        assert "messages: wrong" in turn.problem

    assert room.run(play) == []
    assert len(room.asked) == 1
