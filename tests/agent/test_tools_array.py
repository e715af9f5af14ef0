"""Through an agent's sessions: when its tools array changes, and that the log says why."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.agent.contract import Task, Watch
from holdfast.agent.log import Log
from holdfast.config.sections.agent import LifecycleSettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.errors import HoldfastError
from holdfast.records.events import Envelope
from holdfast.records.events.agent import SessionRedeclared
from tests.agent.bench import MODELS, sound
from tests.agent.toolbench import answers, declared, deferring, keeps_law_5, opened, resets, says, steps

FIND = [("discover_tools", {"query": "select:weather"})]
CALL = [("weather", {"city": "Oslo"})]
PROVIDERS = {
    "anthropic": MODELS["anthropic"],
    "openai_responses": MODELS["openai_responses"],
    "openai_chat": MODELS["openai_chat"],
    "gemini": MODELS["gemini"],
}
COLD_S = 7_200.0
"""Longer than any entry lives."""


class Notices(Watch):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def notice(self, text: str) -> None:
        self.texts.append(text)


# Found tools are declared in the same turn


@pytest.mark.parametrize("model", PROVIDERS.values(), ids=PROVIDERS)
async def test_c53_a_found_tool_is_declared_before_the_next_request_of_its_turn_and_runs(
    tmp_path: Path, model: str
) -> None:
    ran: list[str] = []
    config = deferring(model=model, mode="always", carrier="redeclare")
    async with opened(tmp_path, config, says("weather", ran=ran), says("other")) as bench:
        session = await bench.sessions.create()
        turn = await session.ask(steps(FIND, CALL))
        assert turn.ended == "completed", turn.problem
        assert ran == ["weather"]
        first, second, third = bench.bodies()
        assert "weather" not in declared(first)
        assert declared(second) == [*declared(first), "weather"]
        assert second.tools == third.tools
        assert answers(second)[-1].startswith("[Discovery loaded: 1 tool(s) are now callable]\n- weather")
        assert answers(third)[-1] == "weather says Oslo"
        assert resets(bench, session.id) == [None, "tools_redeclared", None]
        assert len(bench.events("tool.discovered")) == 1
        keeps_law_5(bench)
        sound(session)


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
async def test_c53_what_was_declared_late_is_declared_with_the_same_bytes_after_a_restart(
    tmp_path: Path, clean: bool
) -> None:
    config = deferring(mode="always", carrier="redeclare")
    async with opened(tmp_path, config, says("weather"), says("other")) as bench:
        session = await bench.begin(steps(FIND, CALL))
        await bench.resumed(session, steps(CALL), clean=clean)
        bodies = bench.bodies()
        assert bodies[-1].tools == bodies[-2].tools == bodies[1].tools
        assert answers(bodies[-1])[-1] == "weather says Oslo"
        assert resets(bench, session.id)[3:] == [None, None]
        keeps_law_5(bench)


async def test_c53_killed_between_the_search_and_the_next_request_the_tool_is_declared_when_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = deferring(mode="always", carrier="redeclare")
    async with opened(tmp_path, config, says("weather"), says("other")) as bench:
        session = await bench.sessions.create()
        answered = session.tools_answered

        def killed(*given: Any) -> None:
            answered(*given)
            raise KeyboardInterrupt

        monkeypatch.setattr(session, "tools_answered", killed)
        with pytest.raises(KeyboardInterrupt):
            await session.ask(steps(FIND, CALL))
        await bench.resumed(session, steps(CALL), clean=False)
        first, second, third = bench.bodies()
        assert "weather" not in declared(first)
        assert "weather" in declared(second)
        assert answers(third)[-1] == "weather says Oslo"
        assert resets(bench, session.id) == [None, "tools_redeclared", None]
        keeps_law_5(bench)


async def test_c53_a_sub_agent_declares_what_it_finds(tmp_path: Path) -> None:
    ran: list[str] = []
    config = deferring(mode="always", carrier="redeclare")
    async with opened(tmp_path, config, says("weather", ran=ran), says("other")) as bench:
        session = await bench.begin("hello")
        (report,) = await session.delegate([Task(task=f"\n{steps(FIND, CALL)}\n")])
        assert report.status == "completed"
        assert ran == ["weather"]
        mine = [body for body, (sender, _) in zip(bench.bodies(), bench.sent_by, strict=True) if sender == report.id]
        assert ["weather" in declared(body) for body in mine] == [False, True, True]
        assert resets(bench, report.id) == [None, "tools_redeclared", None]
        assert "weather" not in session.box.toolset.declared
        keeps_law_5(bench)


async def test_c53_compaction_between_the_search_and_the_call_leaves_the_tool_callable(tmp_path: Path) -> None:
    config = deferring(mode="always", carrier="redeclare", compaction={"keep_recent_tokens": 400, "anchor_turns": 0})
    async with opened(tmp_path, config, says("weather"), says("other")) as bench:
        session = await bench.sessions.create()
        for number in range(6):
            await session.ask(f"something long {number} " + "and more of it " * 200)
        await session.ask(steps(FIND))
        assert "weather" in session.box.toolset.declared
        await session.compact()
        assert session.state.compactions == 1
        assert "weather" in session.box.toolset.declared
        await session.ask(steps(CALL))
        assert answers(bench.bodies()[-1])[-1] == "weather says Oslo"
        keeps_law_5(bench)


async def test_c53_another_model_has_what_was_found_declared_too(tmp_path: Path) -> None:
    config = deferring(mode="always", carrier="redeclare")
    async with opened(tmp_path, config, says("weather"), says("other")) as bench:
        session = await bench.begin(steps(FIND))
        session.set_model(PROVIDERS["gemini"])
        turn = await session.ask(steps(CALL))
        assert turn.ended == "completed", turn.problem
        assert answers(bench.bodies()[-1])[-1] == "weather says Oslo"
        assert resets(bench, session.id)[2:] == ["model_switch", None]


@pytest.mark.parametrize("mode", ["always", "auto"])
async def test_c53_a_pin_does_not_take_back_what_was_found(tmp_path: Path, mode: str) -> None:
    config = deferring(mode=mode, carrier="redeclare", always=("weather", "other"))
    async with opened(tmp_path, config, says("weather"), says("other")) as bench:
        session = await bench.sessions.create()
        turn = await session.ask(steps(FIND, CALL))
        assert turn.ended == "completed", turn.problem
        session.set_model(PROVIDERS["gemini"])
        await session.ask(steps(CALL))
        bodies = bench.bodies()
        assert ["weather" in declared(body) for body in bodies] == [False, True, True, True, True]
        assert not any("other" in declared(body) for body in bodies)
        assert answers(bodies[-1])[-1] == "weather says Oslo"


async def test_c53_a_declaration_that_could_not_be_written_is_before_the_next_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = deferring(mode="always", carrier="redeclare")
    async with opened(tmp_path, config, says("weather"), says("other")) as bench:
        session = await bench.sessions.create()
        append, full = Log.append, True

        def appended(log: Log, events: Sequence[Envelope]) -> None:
            if full and any(isinstance(event.payload, SessionRedeclared) for event in events):
                raise HoldfastError("the disk is full")
            append(log, events)

        monkeypatch.setattr(Log, "append", appended)
        with pytest.raises(HoldfastError, match="the disk is full"):
            await session.ask(steps(FIND, CALL))
        full = False
        await session.ask(steps(CALL))
        assert answers(bench.bodies()[-1])[-1] == "weather says Oslo"
        assert resets(bench, session.id) == [None, "tools_redeclared", None]
        keeps_law_5(bench)


async def test_c53_a_pause_gives_no_other_order_to_what_was_declared_late(tmp_path: Path) -> None:
    """It stands behind the others, and goes on to: with the same tools there is nothing to announce."""

    config = deferring(mode="never", carrier="redeclare", always=("weather",), strip="when_cold")
    async with opened(tmp_path, config, says("weather"), says("zoo")) as bench:
        session = await bench.begin(steps(FIND, CALL))
        bench.clock.advance(COLD_S)
        await session.ask("back again")
        await bench.restart()
        bench.clock.advance(COLD_S)
        await (await bench.sessions.resume(session.id)).ask("and again")
        assert declared(bench.bodies()[-1])[-2:] == ["zoo", "weather"]
        redeclared = [event for event in bench.log(session.id) if isinstance(event.payload, SessionRedeclared)]
        assert len(redeclared) == 1
        assert "tools_redeclared" not in resets(bench, session.id)[2:]
        keeps_law_5(bench)


# Tools that nobody uses


LARGE = [says(f"large_{number}", words=900) for number in range(20)]
IDLE = 20


async def idle(bench: Any, *, turns: int = IDLE, words: int = 1) -> Any:
    session = await bench.sessions.create()
    for number in range(turns):
        await session.ask(f"{number} " + "and more of it " * words)
    return session


def demoted(bench: Any) -> list[str]:
    return [event.payload.tool for event in bench.events("tool.demoted")]


@pytest.mark.parametrize("model", PROVIDERS.values(), ids=PROVIDERS)
async def test_c82_what_nobody_used_for_twenty_turns_is_demoted_between_turns_if_that_pays(
    tmp_path: Path, model: str
) -> None:
    async with opened(tmp_path, deferring(model=model, budget=1.0), *LARGE) as bench:
        session, notices = await idle(bench), Notices()
        assert demoted(bench) == []
        await session.ask(steps([("list_dir", {"path": "."})]), watch=notices)
        names = [tool.name for tool in LARGE]
        assert demoted(bench) == names
        assert "Not used for 20 turns and no longer declared: large_0," in notices.texts[-1]
        before, now, last = bench.bodies()[-3:]
        assert set(names) <= set(declared(before))
        assert not set(names) & set(declared(now))
        assert declared(now) == declared(last)
        assert resets(bench, session.id)[-2:] == ["tools_redeclared", None]
        await bench.resumed(session, "and on", clean=False)
        assert bench.bodies()[-1].tools == now.tools
        keeps_law_5(bench)


@pytest.mark.parametrize("carrier", ["native", "call_tool", "redeclare"])
async def test_c82_a_demoted_tool_is_found_and_callable_again(tmp_path: Path, carrier: str) -> None:
    async with opened(tmp_path, deferring(carrier=carrier), *LARGE) as bench:
        session = await idle(bench)
        find = [("discover_tools", {"query": "select:large_3"})]
        call = ("large_3", {"city": "Rome"})
        if carrier == "call_tool":
            call = ("call_tool", {"name": call[0], "arguments": call[1]})
        turn = await session.ask(steps(find, [call]))
        assert turn.ended == "completed", turn.problem
        assert "large_3" not in declared(bench.bodies()[-3])
        assert answers(bench.bodies()[-1])[-1] == "large_3 says Rome"
        keeps_law_5(bench)


async def test_c82_what_does_not_pay_stays_declared(tmp_path: Path) -> None:
    small = [says("small_0", words=400), says("small_1", words=400)]
    async with opened(tmp_path, deferring(), *small) as bench:
        session = await idle(bench, turns=IDLE + 3, words=300)
        assert session.box.toolset.unused == ("small_0", "small_1")
        assert demoted(bench) == []
        bodies = bench.bodies()
        assert all(body.tools == bodies[0].tools for body in bodies)
        assert set(resets(bench, session.id)) == {None}
        keeps_law_5(bench)


async def test_c82_after_a_pause_that_nothing_cached_outlives_they_are_demoted_whatever_it_pays(tmp_path: Path) -> None:
    small = [says("small_0"), says("small_1")]
    async with opened(tmp_path, deferring(), *small) as bench:
        session = await idle(bench, words=300)
        bench.clock.advance(COLD_S)
        await session.ask("back again")
        assert demoted(bench) == ["small_0", "small_1"]
        assert "small_0" not in declared(bench.bodies()[-1])
        assert resets(bench, session.id)[-1] == "tools_redeclared"
        keeps_law_5(bench)


@pytest.mark.parametrize("turns", [IDLE - 1, IDLE])
async def test_c82_it_takes_twenty_turns(tmp_path: Path, turns: int) -> None:
    async with opened(tmp_path, deferring(), says("small_0")) as bench:
        session = await idle(bench, turns=turns)
        bench.clock.advance(COLD_S)
        await session.ask("back again")
        assert bool(demoted(bench)) == (turns == IDLE)


async def test_c82_turns_of_the_process_before_count(tmp_path: Path) -> None:
    async with opened(tmp_path, deferring(), says("small_0")) as bench:
        session = await idle(bench, turns=IDLE // 2)
        again = await bench.resumed(session, clean=True)
        for number in range(IDLE // 2):
            await again.ask(f"more {number}")
        bench.clock.advance(COLD_S)
        await again.ask("back again")
        assert "small_0" in demoted(bench)


async def test_c81_switched_off_nothing_is_ever_demoted(tmp_path: Path) -> None:
    async with opened(tmp_path, deferring(lifecycle=LifecycleSettings(enabled=False)), *LARGE) as bench:
        session = await idle(bench, turns=IDLE + 2)
        bench.clock.advance(COLD_S)
        await session.ask("back again")
        assert demoted(bench) == []
        bodies = bench.bodies()
        assert all(body.tools == bodies[0].tools for body in bodies)


async def test_c82_where_no_edits_are_wanted_the_array_stays_until_the_next_reset(tmp_path: Path) -> None:
    config = replace(deferring(), cache=CacheSettings(edits="never"))
    async with opened(tmp_path, config, *LARGE) as bench:
        session = await idle(bench)
        bench.clock.advance(COLD_S)
        await session.ask("back again")
        assert demoted(bench) == []
        bodies = bench.bodies()
        assert all(body.tools == bodies[0].tools for body in bodies)


async def test_c82_a_sub_agent_begins_with_its_parents_tools_whatever_is_unused(tmp_path: Path) -> None:
    small = [says("small_0"), says("small_1")]
    async with opened(tmp_path, deferring(), *small) as bench:
        session = await idle(bench, words=300)
        (report,) = await session.delegate([Task(task="say something")])
        mine = bench.bodies()[-1]
        assert bench.sent_by[-1][0] == report.id
        assert mine.tools == bench.bodies()[0].tools
        assert bench.used()[-1].read > 0


async def test_the_model_of_these_tests_calls_nothing_that_is_not_declared(tmp_path: Path) -> None:
    """Else it would show nothing that the tools above run."""

    ran: list[str] = []
    config = deferring(mode="always", carrier="redeclare")
    async with opened(tmp_path, config, says("weather", ran=ran), says("other")) as bench:
        session = await bench.sessions.create()
        turn = await session.ask(steps(CALL))
        assert ran == []
        assert turn.ended == "failed"
