"""Through an agent's sessions on Anthropic: schemas that discovery has put into the history become a line, and never
where they are all that the model has of a tool."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.contract import Watch
from tests.agent.bench import MODEL, Bench
from tests.agent.toolbench import answers, declared, deferring, keeps_law_5, opened, resets, says, steps

FIND = [("discover_tools", {"query": "select:weather"})]
CALL = [("weather", {"city": "Oslo"})]
THROUGH = [("call_tool", {"name": "weather", "arguments": {"city": "Oslo"}})]
SHORT = "[Discovery loaded: 1 tool(s) are now callable]\n- weather"
REFERRING = "anthropic:claude-opus-4-6"
COLD_S = 7_200.0
TOOLS = (says("weather", words=400), says("other"))


def config(strip: str = "when_cold", *, model: str = MODEL, **deferral: Any) -> Any:
    return deferring(model=model, mode="always", strip=strip, **deferral)


def found(bench: Bench) -> str:
    """What discover_tools has answered, as the last request says it."""
    return answers(bench.bodies()[-1])[0]


async def test_c18_schemas_are_shortened_when_the_lane_is_cold_and_stay_so(tmp_path: Path) -> None:
    async with opened(tmp_path, config(carrier="redeclare"), *TOOLS) as bench:
        session = await bench.begin(steps(FIND, CALL), "and on")
        assert found(bench).startswith("<functions>")
        bench.events()
        bench.clock.advance(COLD_S)
        await session.ask("back again")
        assert found(bench) == SHORT
        assert "weather" in declared(bench.bodies()[-1])
        assert [event.payload.tool for event in bench.events("tool.masked")] == ["discover_tools"]
        await session.ask(steps(CALL))
        await bench.resumed(session, "and on", clean=False)
        assert found(bench) == SHORT
        later = bench.bodies()[4:]
        assert all(after.messages[: len(before.messages)] == before.messages for before, after in pairwise(later))
        assert resets(bench, session.id)[4] is not None
        assert set(resets(bench, session.id)[5:]) == {None}
        keeps_law_5(bench)


async def test_c63_in_a_warm_lane_they_stay_while_that_does_not_pay(tmp_path: Path) -> None:
    async with opened(tmp_path, config(carrier="redeclare"), *TOOLS) as bench:
        session = await bench.begin("something long " * 2_000, steps(FIND, CALL))
        for number in range(4):
            await session.ask(f"and on {number}")
        assert found(bench).startswith("<functions>")
        assert resets(bench, session.id)[3:] == [None] * 5
        keeps_law_5(bench)


async def test_c18_by_default_the_answer_is_short_from_the_first_time(tmp_path: Path) -> None:
    async with opened(tmp_path, config("at_once", carrier="redeclare"), *TOOLS) as bench:
        await bench.begin(steps(FIND, CALL))
        assert found(bench) == SHORT


async def test_c63_where_the_answer_is_all_that_the_model_has_its_schemas_stay(tmp_path: Path) -> None:
    async with opened(tmp_path, config(carrier="call_tool"), *TOOLS) as bench:
        session = await bench.begin(steps(FIND))
        bench.clock.advance(COLD_S)
        await session.ask("back again")
        assert "weather" not in declared(bench.bodies()[-1])
        assert found(bench).startswith("<functions>")
        await session.ask(steps(THROUGH))
        assert answers(bench.bodies()[-1])[-1] == "weather says Oslo"
        keeps_law_5(bench)


async def test_c18_once_a_reset_declares_what_was_found_and_used_its_schemas_are_shortened_too(tmp_path: Path) -> None:
    async with opened(tmp_path, config(carrier="call_tool"), *TOOLS) as bench:
        session = await bench.begin(steps(FIND, THROUGH))
        bench.clock.advance(COLD_S)
        await session.ask("back again")
        assert "weather" in declared(bench.bodies()[-1])
        assert found(bench) == SHORT
        await session.ask(steps(CALL))
        assert answers(bench.bodies()[-1])[-1] == "weather says Oslo"
        keeps_law_5(bench)


class Notices(Watch):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def notice(self, text: str) -> None:
        self.texts.append(text)


@pytest.mark.parametrize("strip", ["when_cold", "at_once"])
async def test_c18_with_references_there_is_nothing_to_shorten_and_whoever_sets_it_is_told(
    tmp_path: Path, strip: str
) -> None:
    async with opened(tmp_path, config(strip, model=REFERRING), *TOOLS) as bench:
        session, notices = await bench.sessions.create(), Notices()
        await session.ask(steps(FIND, CALL), watch=notices)
        await session.ask("and on", watch=notices)
        assert found(bench) == '{"type":"tool_reference","tool_name":"weather"}'
        told = [text for text in notices.texts if "tools.deferral.strip" in text]
        assert len(told) == (strip == "when_cold")
        assert all("claude-opus-4-6" in text for text in told)
