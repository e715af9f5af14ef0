"""Sessions that end and go on: after a clean end and a kill, warm and cold, as forks, and with what ran meanwhile."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.session import Session
from holdfast.config.sections.cache import CacheSettings
from holdfast.errors import HoldfastError
from holdfast.records.events import Envelope
from holdfast.records.events.agent import SessionRefreshed, SurroundingsChanged, TurnAnswered
from holdfast.records.events.sessions import ProcessStarted
from holdfast.tools import Tool, ToolContext, ToolOutput
from tests.agent.bench import MODELS, Bench, calls, extends, settings, sound
from tests.agent.sample_tools import ECHO
from tests.agent.transcripts import same_head, texts

DAY = 86_400.0


async def _detached(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    context.emit(ProcessStarted(process=input["name"], command="make watch", background=True))
    return ToolOutput(content="started")


DETACH = Tool(name="detach", description="Starts a process.", run=_detached, effect="read")


async def _begun(bench: Bench) -> Session:
    return await bench.begin(calls(("echo", {"n": 1}), ("echo", {"n": 2})), "thanks", goal="Ship it")


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("dialect", MODELS)
async def test_c21_after_a_restart_the_same_bytes_are_sent(tmp_path: Path, dialect: str, clean: bool) -> None:
    config = settings(model=MODELS[dialect], cache=CacheSettings(padding="always"))
    async with Bench(tmp_path, config=config, tools=(ECHO,)) as bench:
        session = await _begun(bench)
        before = session.request()
        again = await bench.resumed(session, clean=clean)
        assert again.request() == before
        turn = await again.ask("go on")
        assert turn.ended == "completed"
        *_, last, next_one = bench.bodies()
        assert same_head(last, next_one)
        assert extends(last.messages, next_one.messages)
        if dialect == "anthropic":
            billed = bench.used()
            assert billed[-1].read >= billed[-2].prompt - billed[-2].input
        assert not bench.breaks()


async def test_a_beginning_of_the_id_is_enough_if_there_is_only_one(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        one = await bench.begin("hello")
        await one.close()
        again = await bench.sessions.resume(one.id[:20])
        assert again.id == one.id
        with pytest.raises(HoldfastError, match="no session"):
            await bench.sessions.resume("nobody")


def _loaded(bench: Bench, id: str) -> list[str]:
    kinds = (SessionRefreshed, SurroundingsChanged)
    return [event.type for event in bench.log(id) if isinstance(event.payload, kinds)]


@pytest.mark.parametrize(
    ("mode", "pause", "expected"),
    [
        ("auto", 10.0, ["surroundings.changed"]),
        ("auto", 3 * DAY, ["session.refreshed"]),
        ("refresh", 10.0, ["session.refreshed"]),
        ("replay", 10.0, []),
        ("replay", 3 * DAY, []),
    ],
)
async def test_b7_b8_b9_the_surroundings_of_a_session_that_is_loaded(
    tmp_path: Path, mode: str, pause: float, expected: list[str]
) -> None:
    """Read again where nothing is cached; where something is, told at the end. Either way the next turn is stable."""

    config = settings(agent={"on_load": mode}, cache=CacheSettings(padding="always"))
    async with Bench(tmp_path, config=config, tools=(ECHO,)) as bench:
        session = await _begun(bench)
        await bench.restart()
        (bench.workspace / "new.txt").write_text("new\n")
        bench.clock.advance(pause)
        again = await bench.sessions.resume(session.id)
        assert _loaded(bench, session.id) == expected
        sent = len(bench.sent)
        await again.ask("go on")
        await again.ask("and on")
        before, loaded, after = bench.bodies()[sent - 1 :]
        first = texts(loaded.messages[0])[0]
        if "session.refreshed" in expected:
            assert "new.txt" in first
            assert loaded.messages[1:][: len(before.messages) - 1] == before.messages[1:]
        else:
            assert extends(before.messages, loaded.messages)
            news = [text for text in texts(loaded.messages[-1]) if "new.txt" in text]
            assert len(news) == (1 if expected else 0)
        assert same_head(before, loaded)
        assert extends(loaded.messages, after.messages)
        assert bench.used()[-1].read > 0
        sound(again)
        causes = {found.cause for found in bench.breaks()}
        assert causes <= ({"ttl_expired_5m", "ttl_expired_1h"} if pause > 3_600 else set())


async def test_news_of_the_surroundings_is_told_once(tmp_path: Path) -> None:
    async with Bench(tmp_path, config=settings(cache=CacheSettings(padding="always"))) as bench:
        session = await bench.begin("hello")
        (bench.workspace / "new.txt").write_text("new\n")
        for _ in range(3):
            session = await bench.resumed(session, "go on")
        assert _loaded(bench, session.id) == ["surroundings.changed"]


async def test_after_a_cold_load_the_surroundings_are_compared_with_those_that_were_read_then(tmp_path: Path) -> None:
    async with Bench(tmp_path, config=settings(cache=CacheSettings(padding="always"))) as bench:
        session = await bench.begin("hello")
        (bench.workspace / "one.txt").write_text("1\n")
        session = await bench.resumed(session, "go on")
        (bench.workspace / "one.txt").rename(bench.workspace / "two.txt")
        bench.clock.advance(3 * DAY)
        for _ in range(2):  # cold, then warm: nothing happened in between
            session = await bench.resumed(session, "and on")
        assert _loaded(bench, session.id) == ["surroundings.changed", "session.refreshed"]


async def test_a_change_that_was_undone_is_told_after_a_cold_load_too(tmp_path: Path) -> None:
    """Entry 0 says how it is now, and what was told since is no longer so."""

    async with Bench(tmp_path, config=settings(cache=CacheSettings(padding="always"))) as bench:
        session = await bench.begin("hello")
        (bench.workspace / "one.txt").write_text("1\n")
        session = await bench.resumed(session, "go on")
        (bench.workspace / "one.txt").unlink()
        bench.clock.advance(5_000)  # the cache has forgotten, and it is still the same day
        session = await bench.resumed(session, "and on")
        assert _loaded(bench, session.id) == ["surroundings.changed"] * 2
        assert "Gone: one.txt." in texts(bench.bodies()[-1].messages[-1])[0]


async def test_tools_that_were_declared_anew_at_a_load_are_declared_so_after_a_kill(tmp_path: Path) -> None:
    async with Bench(tmp_path, config=settings(cache=CacheSettings(padding="always")), tools=(ECHO,)) as bench:
        session = await bench.begin("hello")
        bench.more = {}  # the tool is gone
        bench.clock.advance(3 * DAY)
        session = await bench.resumed(session)
        write = session.disk_log.append

        def append(envelopes: Sequence[Envelope]) -> None:
            if any(isinstance(each.payload, TurnAnswered) for each in envelopes):
                raise KeyboardInterrupt
            write(envelopes)

        session.disk_log.append = append  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            await session.ask("one")
        session.disk_log.append = write  # type: ignore[method-assign]
        session = await bench.resumed(session, "two", clean=False)
        first, loaded, after = bench.bodies()
        assert len(loaded.tools) == len(first.tools) - 1
        assert after.tools == loaded.tools
        assert extends(loaded.messages, after.messages)


async def test_a_session_whose_beginning_is_torn_was_never_begun(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        session = await bench.sessions.create()
        await bench.restart(clean=False)
        path = bench.home / "sessions" / f"{session.id}.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        for count in range(3):  # without entry 0, which is the third
            path.write_bytes(b"".join(lines[:count]))
            for take_up in (bench.sessions.resume, bench.sessions.fork, bench.sessions.resume):
                with pytest.raises(HoldfastError, match="was never begun; begin a new one"):
                    await take_up(session.id)
        path.write_bytes(b"".join(lines[:3]))
        again = await bench.sessions.resume(session.id)
        assert (await again.ask("hello")).ended == "completed"


async def test_a_session_whose_state_is_damaged_goes_on_from_what_stands_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Bench(tmp_path, tools=(ECHO,)) as bench:
        session = await _begun(bench)
        await session.close()
        path = bench.home / "sessions" / f"{session.id}.jsonl"
        *lines, last = path.read_bytes().splitlines(keepends=True)
        assert b"session.state" in last
        cut = re.sub(rb'("tools":"[A-Za-z0-9+/]{40})[A-Za-z0-9+/=]+"', rb'\1x"', last)
        unchecked = cut[: cut.rindex(b',"crc"')] + b"}\n"  # as older logs have it
        path.write_bytes(b"".join(lines) + unchecked)
        forked = await bench.sessions.fork(session.id)
        assert f"session {session.id} stays as it is" in caplog.text
        assert forked.messages() == session.messages()
        again = await bench.sessions.resume(session.id)
        assert again.messages() == session.messages()
        assert f"{path}.damaged" in caplog.text
        assert (await again.ask("go on")).text
        assert not bench.breaks()


async def test_what_ran_when_the_program_ended_has_ended(tmp_path: Path) -> None:
    async with Bench(tmp_path, tools=(DETACH,)) as bench:
        session = await bench.begin(calls(("detach", {"name": "p1"})))
        assert [each.process for each in session.state.running_processes] == ["p1"]
        again = await bench.resumed(session, clean=False)
        assert not again.state.running_processes
        await again.ask("what of it?")
        news = texts(bench.bodies()[-1].messages[-1])
        assert len([text for text in news if "p1" in text]) == 1
        assert not bench.breaks()
        again = await bench.resumed(session)
        assert not again.state.queue


@pytest.mark.parametrize("dialect", MODELS)
async def test_a_fork_reads_what_its_parent_wrote_and_both_go_on(tmp_path: Path, dialect: str) -> None:
    config = settings(model=MODELS[dialect], cache=CacheSettings(padding="always"))
    async with Bench(tmp_path, config=config, tools=(ECHO,)) as bench:
        session = await _begun(bench)
        forked = await bench.sessions.fork(session.id)
        assert forked.id != session.id
        assert forked.request() == session.request()
        await forked.ask("this way")
        await session.ask("that way")
        *_, parent, mine, theirs = bench.bodies()
        assert same_head(parent, mine)
        assert extends(parent.messages, mine.messages)
        assert extends(parent.messages, theirs.messages)
        assert texts(mine.messages[-1]) == ["this way"]
        assert texts(theirs.messages[-1]) == ["that way"]
        if dialect == "anthropic":
            billed = bench.used()
            assert billed[-2].read >= billed[-3].prompt - billed[-3].input
        assert forked.state.forked_from == session.id
        assert forked.state.cost < session.state.cost
        await bench.resumed(forked, "on")
        assert extends(mine.messages, bench.bodies()[-1].messages)
        chance = {"likely_server_side"} if dialect == "gemini" else set()  # whose hits come by chance
        assert {found.cause for found in bench.breaks()} <= chance


async def test_a_fork_of_a_session_with_a_process_does_not_have_it(tmp_path: Path) -> None:
    async with Bench(tmp_path, tools=(DETACH,)) as bench:
        session = await bench.begin(calls(("detach", {"name": "p1"})))
        forked = await bench.sessions.fork(session.id)
        assert not forked.state.running_processes
        assert session.state.running_processes
        await forked.ask("hello")
        assert any("p1" in text for text in texts(bench.bodies()[-1].messages[-1]))


async def test_a_session_that_is_over_stays_on_disk_and_can_be_taken_up(tmp_path: Path) -> None:
    async with Bench(tmp_path, tools=(ECHO,)) as bench:
        session = await _begun(bench)
        await session.end()
        (stored,) = bench.sessions.stored()
        assert (stored.id, stored.ended, stored.turns) == (session.id, True, 2)
        with pytest.raises(HoldfastError, match="closed"):
            await session.ask("hello?")
        again = await bench.sessions.resume(session.id)
        assert not again.state.ended
        turn = await again.ask("one more thing")
        assert turn.ended == "completed"
        bench.assert_sound(again)


async def test_the_newest_session_is_listed_first(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        made = []
        for number in range(3):
            session = await bench.sessions.create()
            bench.clock.advance(60)
            await session.ask(f"number {number}")
            made.append(session.id)
        found = bench.sessions.stored()
        assert [each.id for each in found] == made[::-1]
        assert [each.title for each in found] == ["number 2", "number 1", "number 0"]
