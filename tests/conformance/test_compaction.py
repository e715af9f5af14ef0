"""Document B on compaction, and the compaction keys of document C, with real sessions and a simulated
provider."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.compaction.sizes import due
from holdfast.agent.compaction.summary import INSTRUCTION, SECTIONS
from holdfast.agent.session import Session
from holdfast.agent.window.entries import Compacted, SessionContext
from holdfast.agent.window.renderer import render
from holdfast.config import KEYS
from holdfast.config.sections.agent import CompactionSettings
from holdfast.records import Message, Text
from holdfast.records.events.sessions import CompactionCompleted
from holdfast.wire import DIALECTS
from holdfast.wire.prompts import PromptReader
from tests.agent.bench import Bench, extends
from tests.agent.summaries import events_of, keys, small, summaries, summarizer, summary, summary_requests, talk

SEED: dict[str, Any] = {"anchor_turns": 0}
"""The layout of the seed: nothing but the context in front of the summary."""


def run(
    place: Path, story: Callable[[Bench, Session], Awaitable[None]], compaction: dict[str, Any] | None = None
) -> None:
    async def main() -> None:
        async with Bench(place, config=small(compaction=compaction or {}), reply=summarizer()) as bench:
            await story(bench, await bench.sessions.create())

    asyncio.run(main())


def test_b10_old_history_is_replaced_by_a_structured_summary(tmp_path: Path) -> None:
    async def story(bench: Bench, session: Session) -> None:
        await talk(session, bench, 9)
        text = summary(session)
        assert [f"### {name}" in text for name in SECTIONS] == [True] * 5
        sent = str(bench.bodies()[-1].messages)
        assert "Part 3." not in sent
        assert "Something of Goal." in sent

    run(tmp_path, story)


def test_b11_the_compaction_turn_is_the_whole_conversation_and_one_instruction(tmp_path: Path) -> None:
    async def story(bench: Bench, session: Session) -> None:
        await talk(session, bench, 8)
        whole = session.messages()
        await talk(session, bench, 1, first=8)
        (place,) = summary_requests(bench)
        assert bench.bodies()[place].messages == (*whole, Message("user", (Text(INSTRUCTION),)))

    run(tmp_path, story)


def test_b12_nothing_is_lost_before_the_result_is_injected(tmp_path: Path) -> None:
    async def story(bench: Bench, session: Session) -> None:
        await talk(session, bench, 9)
        (place,) = summary_requests(bench)
        used = bench.used()
        assert used[place].read == used[place - 1].read + used[place - 1].written
        assert used[place + 1].read < used[place].read
        resets = bench.events("cache.reset")
        assert [event.payload.reason for event in resets] == ["compaction"]  # type: ignore[attr-defined]
        assert not bench.breaks()

    run(tmp_path, story)


def test_b13_the_compaction_turn_has_the_same_system_prompt_tools_and_render_path(tmp_path: Path) -> None:
    async def story(bench: Bench, session: Session) -> None:
        await talk(session, bench, 9)
        (place,) = summary_requests(bench)
        before, request = bench.bodies()[place - 1 : place + 1]
        assert request.system_prompt == before.system_prompt
        assert request.tools == before.tools
        assert request.rest == before.rest
        assert extends(before.messages, request.messages)
        shorter = keys(bench, place - 1)
        assert keys(bench, place)[: len(shorter)] == shorter

    run(tmp_path, story)


def test_b39_compaction_is_the_only_reset_within_a_session(tmp_path: Path) -> None:
    async def story(bench: Bench, session: Session) -> None:
        await talk(session, bench, 15)
        bodies, places = bench.bodies(), summary_requests(bench)
        assert len(places) == 2
        parted = [n for n in range(1, len(bodies)) if not extends(bodies[n - 1].messages, bodies[n].messages)]
        assert parted == [place + 1 for place in places]
        resets = bench.events("cache.reset")
        assert [event.payload.reason for event in resets] == ["compaction"] * 2  # type: ignore[attr-defined]

    run(tmp_path, story)


def test_b40_positions_1_to_k_become_one_compacted_entry(tmp_path: Path) -> None:
    async def story(bench: Bench, session: Session) -> None:
        await talk(session, bench, 8)
        before = session.state.window.entries
        await session.compact()
        (done,) = events_of(bench, session, "compaction.completed")
        assert isinstance(done, CompactionCompleted)
        entries = session.state.window.entries
        assert done.head == 1
        assert isinstance(entries[0], SessionContext)
        assert isinstance(entries[1], Compacted)
        assert entries[1].replaced == done.cut - 1
        assert entries == (before[0], entries[1], *before[done.cut :])
        await talk(session, bench, 12, first=8)
        assert session.state.compactions >= 2
        assert summaries(session) == [1], "the next one takes the place of the first"

    run(tmp_path, story, SEED)


def test_b41_the_tail_is_preserved(tmp_path: Path) -> None:
    async def story(bench: Bench, session: Session) -> None:
        await talk(session, bench, 8)
        before = session.messages()
        await session.compact()
        await talk(session, bench, 1, first=8)
        (done,) = events_of(bench, session, "compaction.completed")
        assert isinstance(done, CompactionCompleted)
        tail = bench.bodies()[-1].messages[2:-1]
        assert len(tail) >= 3
        assert tail == before[-len(tail) :]
        assert "Part 7." in str(tail)

    run(tmp_path, story, SEED)


def test_b42_the_break_comes_at_position_1_and_the_system_prompt_stays_cached(tmp_path: Path) -> None:
    async def story(bench: Bench, session: Session) -> None:
        await talk(session, bench, 9)
        (place,) = summary_requests(bench)
        before, after = keys(bench, place), keys(bench, place + 1)
        same = next(n for n, (one, other) in enumerate(zip(before, after, strict=False)) if one != other)
        dialect, model, raw = bench.sent[place + 1]
        body = DIALECTS[dialect].parse(raw, model=model.partition(":")[2])
        assert body.blocks[same].path == "messages[1].content[0]"
        first = render(type(session.state.window)(session.state.window.entries[:1], (False,)), session.static)
        assert bench.bodies()[place + 1].messages[:1] == first
        prompt = PromptReader().read(body, session.facts).prompt
        system = max(n for n, block in enumerate(prompt.blocks) if block.section != "messages")
        assert bench.used()[place + 1].read >= prompt.ends[system] > 1_000
        assert not bench.breaks()

    run(tmp_path, story, SEED)


@pytest.mark.parametrize(
    ("key", "default"),
    [
        ("cooldown_turns", 5),
        ("anchor_turns", 2),
        ("reserve_tokens", 16_384),
        ("keep_recent_tokens", 32_768),
    ],
)
def test_c78_c79_c83_c84_the_keys_of_compaction_have_the_seeds_defaults(key: str, default: int) -> None:
    assert getattr(CompactionSettings(), key) == default
    assert f"agent.compaction.{key}" in KEYS


def _compacted_at(bench: Bench) -> list[int]:
    """How many turns had been begun before each compaction."""
    return [place - earlier for earlier, place in enumerate(summary_requests(bench))]


@pytest.mark.parametrize("turns", [0, 2, 5])
def test_c78_so_many_turns_lie_between_two_compactions(tmp_path: Path, turns: int) -> None:
    async def story(bench: Bench, session: Session) -> None:
        await talk(session, bench, 20)
        found = _compacted_at(bench)
        assert len(found) >= 2
        apart = {later - earlier for earlier, later in pairwise(found)}
        assert min(apart) >= turns
        if turns == 5:
            assert apart == {5}

    run(tmp_path, story, {"limit_tokens": 12_000, "cooldown_turns": turns})


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_c79_the_first_turns_stay_in_front_of_the_summary_and_are_read(tmp_path: Path, turns: int) -> None:
    async def story(bench: Bench, session: Session) -> None:
        await talk(session, bench, 10)
        assert summaries(session) == [1 + 2 * turns]
        (place,) = summary_requests(bench)
        covered = bench.used()[turns - 1]
        assert bench.used()[place + 1].read == covered.read + covered.written

    run(tmp_path, story, {"anchor_turns": turns, "limit_tokens": 18_500})


def test_c83_so_many_tokens_are_reserved_for_the_summary(tmp_path: Path) -> None:
    async def story(bench: Bench, session: Session) -> None:
        await talk(session, bench, 9)
        (place,) = summary_requests(bench)
        assert bench.bodies()[place].output_limit == 3_000

    run(tmp_path, story, {"reserve_tokens": 3_000})
    late = due(CompactionSettings(trigger_at=1.0, reserve_tokens=30_000), context_limit=200_000, used=170_000)
    assert late.limit == 170_000


@pytest.mark.parametrize("keep", [1_000, 4_000, 7_000])
def test_c84_the_newest_tokens_stay_behind_the_summary(tmp_path: Path, keep: int) -> None:
    async def story(bench: Bench, session: Session) -> None:
        await talk(session, bench, 10)
        await session.compact()
        turns = len(session.state.window.entries[summaries(session)[0] + 1 :]) / 2
        assert turns * 1_830 >= keep
        assert (turns - 1) * 1_830 < keep

    run(tmp_path, story, {"keep_recent_tokens": keep, "limit_tokens": 60_000})


@pytest.mark.slow
def test_c87_a_longer_cool_down_makes_compaction_rarer(tmp_path: Path) -> None:
    found = {}

    for cooldown in (5, 10):

        async def story(bench: Bench, session: Session, cooldown: int = cooldown) -> None:
            await talk(session, bench, 26)
            found[cooldown] = len(summary_requests(bench))

        run(tmp_path / str(cooldown), story, {"limit_tokens": 12_000, "cooldown_turns": cooldown})
    assert found[10] < found[5]
