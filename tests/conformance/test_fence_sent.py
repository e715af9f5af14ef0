"""Seed cache-page, "Cache fence", in an agent's session: what was sent and is cached is not rewritten, and what was
rewritten stays so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import facts
from holdfast.agent.session import Session
from holdfast.config.sections.agent import MaskSettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.tools import tool
from holdfast.tools.masking import PLACEHOLDER
from holdfast.wire import DIALECTS, Body
from tests.agent.bench import MODELS, Bench, calls, settings
from tests.agent.summaries import keys

COLD = 200_000.0
MASK = MaskSettings(keep_window=1, trigger_chars=30_000, release_chars=9_000)


@tool(effect="read")
async def long(n: int) -> str:
    """Say much.

    Args:
        n: Which of many.
    """
    return f"Result {n}. " * 600


def configured(edits: Any = "priced", model: str = MODELS["anthropic"], **agent: Any) -> Any:
    return settings(model=model, cache=CacheSettings(padding="always", edits=edits), mask=MASK, agent=agent)


async def talked(session: Session, bench: Bench, turns: int, first: int = 0) -> None:
    for number in range(first, first + turns):
        await session.ask(calls(("long", {"n": number})))
        bench.clock.advance(10)


def masked(bench: Bench) -> list[int]:
    """How many placeholders each request holds."""
    return [raw.count(PLACEHOLDER.encode()) for _, _, raw in bench.sent]


def departures(bench: Bench) -> list[str | None]:
    """The reasons of the requests that do not extend the one before them."""
    reasons = []
    for number in range(1, len(bench.sent)):
        before, after = keys(bench, number - 1), keys(bench, number)
        if after[: len(before)] != before:
            reasons.append(bench.sent_by[number][1])
    return reasons


@pytest.mark.parametrize("clean", [True, False])
async def test_c4_c31_what_was_masked_stays_masked_to_the_byte_also_after_a_restart(
    tmp_path: Path, clean: bool
) -> None:
    async with Bench(tmp_path, config=configured(), tools=(long,)) as bench:
        session = await bench.sessions.create()
        await talked(session, bench, 4)
        assert set(masked(bench)) == {0}  # there is room for them
        bench.clock.advance(COLD)
        await talked(session, bench, 1, 4)
        before = masked(bench)[-1]
        assert before > 0
        session = await bench.resumed(session, "and on", clean=clean)
        assert masked(bench)[-1] == before
        assert departures(bench) == ["priced_edit"]


async def test_c31_c32_under_the_fence_something_is_rewritten_only_with_a_price(tmp_path: Path) -> None:
    async with Bench(tmp_path, config=configured(), tools=(long,)) as bench:
        session = await bench.sessions.create()
        await talked(session, bench, 14)
        assert set(departures(bench)) <= {"priced_edit"}
        assert len(departures(bench)) <= 2  # and not with every result that is too much
        assert not bench.breaks()


async def test_b5_c31_c32_never_leaves_all_that_was_sent_alone_also_when_cold(tmp_path: Path) -> None:
    async with Bench(tmp_path, config=configured("never"), tools=(long,)) as bench:
        session = await bench.sessions.create()
        await talked(session, bench, 6)
        bench.clock.advance(COLD)
        await talked(session, bench, 2, 6)
        assert set(masked(bench)) == {0}
        assert departures(bench) == []


def highest(bench: Bench) -> int:
    """How many blocks of the last request stand before the end of its last marker."""
    dialect, model, raw = bench.sent[-1]
    body = DIALECTS[dialect].parse(raw, model=model.partition(":")[2])
    assert isinstance(body, Body)
    return 1 + max(marker.block or 0 for marker in DIALECTS[dialect].markers(body))


async def test_c30_the_fence_is_behind_the_highest_marker_of_the_last_call_as_long_as_that_lives(
    tmp_path: Path,
) -> None:
    async with Bench(tmp_path, config=configured(), tools=(long,)) as bench:
        session = await bench.sessions.create()
        for turn in range(3):
            await session.ask(f"turn {turn}")
            assert bench.engine.fence(session.lane, now=bench.clock.now()) == highest(bench)
        bench.clock.advance(COLD)
        assert bench.engine.fence(session.lane, now=bench.clock.now()) == 0


async def test_c34_it_stays_right_when_history_is_trimmed_from_the_front(tmp_path: Path) -> None:
    config = configured(history_turns=2)
    async with Bench(tmp_path, config=config, tools=(long,)) as bench:
        session = await bench.sessions.create()
        for turn in range(9):
            await session.ask(f"turn {turn}")
            bench.clock.advance(10)
            assert bench.engine.fence(session.lane, now=bench.clock.now()) == highest(bench)
        assert "history_trimmed" in departures(bench)
        assert not bench.breaks()


@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat", "openai_responses"])
async def test_c35_every_lane_has_a_fence(tmp_path: Path, dialect: str) -> None:
    async with Bench(tmp_path, config=configured(model=MODELS[dialect]), tools=(long,)) as bench:
        session = await bench.begin("one", "two")
        assert facts.model(session.model).caching != "none"
        assert bench.engine.fence(session.lane, now=bench.clock.now()) > 0
