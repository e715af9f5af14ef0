"""Conversations that wait for their user are kept cached where that pays, and nobody notices a ping that fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent import keepalive
from holdfast.agent.contract import OutgoingRequest, ProviderAnswer
from holdfast.agent.keepalive import KeepaliveLoop
from holdfast.agent.session import Session
from holdfast.config.sections.cache import CacheSettings
from holdfast.config.sections.cache import KeepaliveSettings as Allowed
from holdfast.simulator.faults import Fault, Options
from holdfast.tools.contract import Tool, ToolContext, ToolOutput
from tests.agent.bench import MODELS, Bench, calls, settings

ON = CacheSettings(strategy="rolling", keepalive=Allowed(enabled=True))
VISITS, PAUSE_S, STEP_S = 13, 420, 60


async def visit(bench: Bench, *, spoiled: bool = False) -> None:
    """Somebody who comes back after seven minutes, again and again. `spoiled` pings are refused."""
    session = await bench.sessions.create()
    for number in range(VISITS):
        assert (await session.ask(f"Visit {number}. " + "It goes on. " * 400)).ended == "completed"
        if spoiled:
            bench.simulator.faults.add(Fault("status", times=0, options=Options(status=529)))
        for _ in range(PAUSE_S // STEP_S):
            bench.clock.advance(STEP_S)
            await bench.sessions.keepalive.round()
        bench.simulator.faults.clear()


async def test_a_conversation_that_will_go_on_is_kept(tmp_path: Path) -> None:
    async with Bench(tmp_path, config=settings(cache=ON)) as bench:
        await visit(bench)
        assert bench.used()[-1].read > 0
        pings = bench.events("cache.ping")
        assert pings
        assert len(bench.sent) == VISITS + len(pings)


async def test_one_that_is_refused_is_no_more_than_that(tmp_path: Path) -> None:
    async with Bench(tmp_path, config=settings(cache=ON)) as bench:
        await visit(bench, spoiled=True)
        assert len(bench.sent) > VISITS
        assert not bench.events("cache.ping")
        bench.store.flush()
        failed = [call for call in bench.store.calls() if call.status == "failed"]
        assert failed
        assert {call.error for call in failed} == {"HTTP 529"}


async def test_it_ends_with_the_sessions_and_begins_only_where_it_is_switched_on(tmp_path: Path) -> None:
    async with Bench(tmp_path / "on", config=settings(cache=ON)) as bench:
        await bench.sessions.create()
        await bench.sessions.create()
        assert len(_running()) == 1
    assert not _running()
    async with Bench(tmp_path / "off") as bench:
        await bench.sessions.create()
        assert not _running()


async def test_a_round_that_fails_is_followed_by_the_next(tmp_path: Path) -> None:
    rounds = asyncio.Event()
    tries = 0

    class Failing(KeepaliveLoop):
        async def round(self) -> None:
            nonlocal tries
            tries += 1
            if tries > 1:
                rounds.set()
            raise RuntimeError("for this test")

    async with Bench(tmp_path) as bench:
        failing = Failing(bench.sessions)
        before, keepalive.TICK_S = keepalive.TICK_S, 0.001
        try:
            failing.start()
            await asyncio.wait_for(rounds.wait(), 10)
        finally:
            keepalive.TICK_S = before
            await failing.stop()
    assert tries > 1


def _running() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if "Keepalive" in repr(task.get_coro())]


# Nothing goes out for a conversation that does not wait


async def two_due(bench: Bench) -> tuple[Session, Session]:
    """Two sessions that are both to get a ping in the same round."""
    await visit(bench)
    first, second = await bench.sessions.create(), await bench.sessions.create()
    for session in (first, second):
        await session.ask(f"A visit of {session.id}. " + "It goes on. " * 400)
    bench.clock.advance(PAUSE_S - 2 * STEP_S)
    return first, second


@pytest.mark.parametrize("meanwhile", ["nothing", "closed", "another model", "a turn"])
async def test_while_one_ping_is_under_way_the_next_session_may_do_what_it_likes(
    tmp_path: Path, meanwhile: str
) -> None:
    held, free = asyncio.Event(), asyncio.Event()

    async def hold(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        held.set()
        await free.wait()
        return ToolOutput(content="held")

    tool = Tool(name="hold", description="Wait.", run=hold, effect="read", input_schema=b'{"type":"object"}')
    async with Bench(tmp_path, config=settings(cache=ON), tools=(tool,)) as bench:
        first, second = await two_due(bench)
        turn = None
        go_on = first.provider.open

        @asynccontextmanager
        async def slow(request: OutgoingRequest) -> AsyncIterator[ProviderAnswer]:
            nonlocal turn
            async with go_on(request) as answer:
                if meanwhile == "closed":
                    await second.close()
                elif meanwhile == "another model":
                    second.set_model(MODELS["openai_responses"])
                    await second.ask("hello")
                elif meanwhile == "a turn":
                    turn = asyncio.create_task(second.ask(calls(("hold", {}))))
                    await held.wait()
                before.append(len(bench.sent))
                yield answer

        before: list[int] = []
        first.provider = Replaced(slow)
        await bench.sessions.keepalive.round()
        pinged = [sender for sender, _ in bench.sent_by[before[0] :]]
        assert pinged == ([second.id] if meanwhile == "nothing" else [])
        free.set()
        if turn is not None:
            assert (await turn).ended == "completed"


class Replaced:
    def __init__(self, open: Callable[[OutgoingRequest], AbstractAsyncContextManager[ProviderAnswer]]) -> None:
        self.open = open
