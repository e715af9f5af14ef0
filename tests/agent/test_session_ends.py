"""What stands in a session's log at its edges: the first decision, the last event, how turns ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast.agent.log import log_path, read_log, stored
from holdfast.errors import HoldfastError
from holdfast.records import Text
from holdfast.records.events.agent import ModelRouted
from holdfast.records.events.sessions import SessionEnded, TurnCompleted
from holdfast.simulator.faults import Fault, Options
from tests.agent.bench import MODELS, Bench, settings


async def test_the_first_decision_is_recorded_and_later_ones_where_something_changes(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        session = await bench.sessions.create()
        for words in ("hello", "and again", "@haiku-4-5 and you?"):
            await session.ask(words)
        routed = [each.payload for each in bench.events("model.routed")]
        assert [each.source for each in routed if isinstance(each, ModelRouted)] == ["settings", "message"]


async def test_the_end_of_a_session_is_the_last_that_is_said_of_it(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        session = await bench.begin("hello")
        await session.end()
        (path,) = [log_path(bench.sessions.directory, each.id) for each in stored(bench.sessions.directory)]
        last = read_log(path)[-1].payload
        assert isinstance(last, SessionEnded)
        assert last.turns == 1
        assert bench.sessions.stored()[0].ended


class _Silent:
    """A provider that takes a request and says nothing."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    @asynccontextmanager
    async def open(self, request: object) -> AsyncIterator[object]:
        self.asked.set()
        await asyncio.Event().wait()
        yield


async def test_closing_a_session_ends_the_turn_that_it_is_in(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        session = await bench.begin("hello")
        session.provider = silent = _Silent()  # type: ignore[assignment]
        turn = asyncio.create_task(session.ask("and now?"))
        await silent.asked.wait()
        await session.close()
        assert (await turn).ended == "cancelled"
        again = await bench.sessions.resume(session.id)
        assert (await again.ask("go on")).ended == "completed"


async def test_a_turn_that_cannot_even_be_asked_has_an_end_too(tmp_path: Path) -> None:
    class _Wrong:
        def open(self, request: object) -> object:
            raise HoldfastError("the server sends requests elsewhere; correct its address.")

    async with Bench(tmp_path) as bench:
        session = await bench.sessions.create()
        session.provider = _Wrong()  # type: ignore[assignment]
        with pytest.raises(HoldfastError, match="elsewhere"):
            await session.ask("hello")
        (over,) = [each.payload for each in bench.events("turn.completed")]
        assert isinstance(over, TurnCompleted)
        assert over.ended == "failed"


async def test_a_turn_without_an_answer_is_told_as_failed(tmp_path: Path) -> None:
    async with Bench(tmp_path, config=settings(agent={"retries": 0})) as bench:
        session = await bench.sessions.create()
        bench.simulator.faults.add(Fault(kind="status", options=Options(status=500)))
        assert (await session.ask("hello")).ended == "failed"
        assert (await session.ask("again")).ended == "completed"
        over = [each.payload for each in bench.events("turn.completed")]
        assert [each.ended for each in over if isinstance(each, TurnCompleted)] == ["failed", "completed"]


async def test_memory_leaves_the_system_text_when_the_setting_changes(tmp_path: Path) -> None:
    bench = Bench(tmp_path, config=settings(agent={"volatile": "system"}))
    try:
        (bench.workspace / ".holdfast").mkdir()
        (bench.workspace / ".holdfast" / "MEMORY.md").write_text("- the build needs make\n")
        session = await bench.begin("hello")
        assert "needs make" in str(bench.bodies()[-1].system_prompt_volatile)
        bench.config = settings()
        session = await bench.resumed(session, "and now?")
        sent = bench.bodies()[-1]
        assert "needs make" not in str(sent.system_prompt) + str(sent.system_prompt_volatile)
        texts = [block.text for each in sent.messages for block in each.content if isinstance(block, Text)]
        assert sum("needs make" in text for text in texts) == 1
        assert bench.sent_by[-1][1] == "volatile_system_changed"
    finally:
        await bench.close()


async def test_a19_a_block_with_volatile_text_carries_no_marker_where_the_stable_text_is_in_it_too(
    tmp_path: Path,
) -> None:
    config = settings(model=MODELS["openrouter"], agent={"volatile": "system"})
    async with Bench(tmp_path, config=config) as bench:
        (bench.workspace / ".holdfast").mkdir()
        (bench.workspace / ".holdfast" / "USER.md").write_text("- likes tea\n")
        session = await bench.sessions.create()
        for _ in range(3):
            await session.ask("Please go on. " * 200)
        for _, _, raw in bench.sent:
            system = raw.index(b"likes tea")
            end = raw.index(b"}", system)
            assert b"cache_control" not in raw[system:end]
