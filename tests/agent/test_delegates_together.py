"""Sub-agents that start side by side: who goes first, how long the others wait, and how many work at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.agent.delegation.prefix_warmup import PrefixWarmup
from holdfast.config.sections.cache import CacheSettings
from tests.agent.bench import MODELS, Bench, settings
from tests.agent.subagents import Door, configured, delegated, delegating, do, numbered, parent, placed, tasks

PATIENT = 60.0
"""Seconds that nobody waits for: what happens sooner was told to happen."""
MOST_OF_IT = 0.85
"""Caches that work by themselves keep whole units."""


async def test_the_others_wait_for_the_first_ones_first_token(tmp_path: Path) -> None:
    first, *others = reports = numbered(4)
    async with placed(tmp_path, configured(hold_s=PATIENT)) as bench:
        door, work = await delegated(bench, reports, shut=[first])
        await door.came(first)
        await door.nobody_else(*others)
        door.let(first)
        await door.came(*others)
        assert [each.text for each in await work] == reports
        writer, *readers = bench.used()
        assert writer.read == 0
        assert all(used.read > 0.98 * writer.written for used in readers)


async def test_they_do_not_wait_for_the_rest_of_its_answer(tmp_path: Path) -> None:
    first, *others = reports = numbered(3)
    async with placed(tmp_path, configured(hold_s=PATIENT)) as bench:
        session = await parent(bench)
        door = Door(bench, *reports)
        door.slow[first] = asyncio.Event()
        work = asyncio.create_task(session.delegate(tasks(*reports)))
        await door.came(first, *others)
        door.slow[first].set()
        await work
        assert [used.read > 0 for used in bench.used()] == [False, True, True]


async def test_they_wait_no_longer_than_they_are_told(tmp_path: Path) -> None:
    reports = numbered(3)
    async with placed(tmp_path, configured(hold_s=0.01)) as bench:
        door, work = await delegated(bench, reports, shut=[reports[0]])
        await door.came(*reports)  # and the first one's answer has not begun
        door.let()
        assert [each.status for each in await work] == ["completed"] * 3


@pytest.mark.parametrize("model", ["anthropic", "openai_responses", "openai_chat"])
async def test_nobody_waits_where_the_parents_prefix_is_warm(tmp_path: Path, model: str) -> None:
    reports = numbered(4)
    async with placed(tmp_path, configured(model=MODELS[model], hold_s=PATIENT)) as bench:
        door, work = await delegated(bench, reports, shut=reports, tokens=20_000, warm=True)
        await door.came(*reports)
        door.let()
        await work
        assert all(used.read > MOST_OF_IT * used.prompt for used in bench.used()[1:])


@pytest.mark.parametrize("model", ["anthropic", "openai_responses", "openai_chat"])
async def test_somebody_goes_ahead_where_it_is_not(tmp_path: Path, model: str) -> None:
    first, *others = reports = numbered(3)
    async with placed(tmp_path, configured(model=MODELS[model], hold_s=PATIENT)) as bench:
        door, work = await delegated(bench, reports, shut=[first], tokens=20_000)
        await door.came(first)
        await door.nobody_else(*others)
        door.let()
        await work
        assert [used.read > MOST_OF_IT * used.prompt for used in bench.used()] == [False, True, True]


async def test_nobody_waits_where_nothing_is_written_for_others(tmp_path: Path) -> None:
    """Markers are switched off: each of them pays for itself, whenever it comes."""

    reports = numbered(3)
    config = settings(cache=CacheSettings(strategy="passthrough"))
    async with placed(tmp_path, config) as bench:
        door, work = await delegated(bench, reports, shut=reports)
        await door.came(*reports)
        door.let()
        assert [each.status for each in await work] == ["completed"] * 3


async def test_if_the_first_one_fails_before_its_first_token_the_next_one_goes_first(tmp_path: Path) -> None:
    first, second, *others = reports = numbered(5)
    async with placed(tmp_path, configured(hold_s=PATIENT, agent={"retries": 0})) as bench:
        session = await parent(bench)
        door = Door(bench, *reports)
        door.broken = {first}
        door.shut(second)
        work = asyncio.create_task(session.delegate(tasks(*reports)))
        await door.came(first, second)
        await door.nobody_else(*others)
        door.let()
        found = await work
        assert [each.status for each in found] == ["failed", *["completed"] * 4]
        assert door.order[:2] == [first, second]
        writer, *readers = bench.used()
        assert all(used.read > 0.98 * writer.written for used in readers)


async def test_those_of_several_calls_in_one_turn_wait_for_each_other(tmp_path: Path) -> None:
    """Models call in parallel rather than give several tasks at once."""

    reports = numbered(3)
    async with placed(tmp_path, configured(hold_s=PATIENT)) as bench:
        session = await parent(bench)
        came = [f"{each}\\n\\nNobody" for each in reports]
        door = Door(bench, *came)
        door.shut(came[0])
        made = [("delegate", {"tasks": [{"task": f"SAY: {each}"}]}) for each in reports]
        session.on_begun = lambda: _a_day(bench)  # what its own request wrote is gone before they start
        work = asyncio.create_task(session.ask(do(*made)))
        await door.came(came[0])
        await door.nobody_else(*came[1:])
        session.on_begun = None
        door.let()
        turn = await work
        assert turn.ended == "completed"


def _a_day(bench: Bench) -> None:
    bench.clock.advance(86_400)


async def test_no_more_work_at_once_than_the_setting_says(tmp_path: Path) -> None:
    reports = numbered(5)
    async with placed(tmp_path, configured(concurrent=2)) as bench:
        door, work = await delegated(bench, reports, shut=reports, warm=True)
        await door.came(*reports[:2])
        await door.nobody_else(*reports[2:])
        door.let(reports[1])
        await door.came(reports[2])
        await door.nobody_else(*reports[3:])
        door.let()
        assert [each.text for each in await work] == reports
        assert door.most == 2


def test_a_program_may_have_an_event_loop_for_each_turn(tmp_path: Path) -> None:
    bench = placed(tmp_path, configured(concurrent=1))
    session = asyncio.run(parent(bench))
    for number in range(2):
        turn = asyncio.run(session.ask(delegating({"task": f"SAY: {number}"}, {"task": "SAY: too"})))
        assert turn.ended == "completed"
    asyncio.run(bench.close())


async def test_who_waits_for_nobody_is_over() -> None:
    hold = PrefixWarmup(PATIENT)
    assert hold.over
    await hold.wait("a")
    assert not hold.over
    waiting = asyncio.create_task(hold.wait("b"))
    await asyncio.sleep(0)
    hold.finished("b")  # of no effect: it is not ahead
    assert not waiting.done()
    hold.finished("a")
    await waiting
    assert not hold.over
    hold.finished("b")
    assert hold.over
    assert PrefixWarmup(0.0).over


async def test_one_that_is_cancelled_while_it_waits_leaves_the_others_their_place() -> None:
    hold = PrefixWarmup(PATIENT)
    await hold.wait("a")
    waiting = [asyncio.create_task(hold.wait(each)) for each in "bc"]
    await asyncio.sleep(0)
    waiting[0].cancel()
    hold.finished("a")
    await waiting[1]
    assert waiting[0].cancelled()
