"""Knowledge as blocks, as the seed has it: host unmarked, preferences for an hour, context memory behind them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.config.sections.cache import CacheSettings
from holdfast.simulator.faults import Fault, Options
from tests.agent.bench import MODELS, Bench, calls
from tests.agent.knowledge_bench import LONG, KnowledgeBench, knowledge_news
from tests.agent.summaries import LIMITS, summarizer, talk

BLOCKS = {"placement": "blocks"}
HOUR, MINUTES = {"type": "ephemeral", "ttl": "1h"}, {"type": "ephemeral"}
SEED = CacheSettings(strategy="three-block")
LIKES, RULE = "Answers are short. " + LONG, "Deployments wait for the build server. " + LONG


async def asked(place: Path, *, stable: bool, context: bool, cache: CacheSettings = SEED) -> Bench:
    bench = KnowledgeBench(place, memory=BLOCKS, cache=cache)
    if stable:
        bench.prefer("Short answers", LIKES)
    if context:
        bench.add("Deployment rule", RULE)
    await bench.begin("How does the deployment work?")
    return bench


@pytest.mark.parametrize(
    ("stable", "context", "markers"),
    [(True, False, [None, HOUR]), (True, True, [None, HOUR, None]), (False, False, [HOUR])],
)
async def test_e1_e2_e3_e4_e15_blocks_and_their_markers(
    tmp_path: Path, stable: bool, context: bool, markers: list[Any]
) -> None:
    async with await asked(tmp_path, stable=stable, context=context) as bench:
        assert isinstance(bench, KnowledgeBench)
        found = bench.system()
        assert [block.get("cache_control") for block in found] == markers
        if stable:
            assert "Answers are short." in found[1]["text"]
        if context:
            assert "Deployments wait" in found[-1]["text"]
            assert "Answers are short." not in found[-1]["text"]  # E12


async def test_e10_e15_without_a_stable_block_the_host_carries_the_marker(tmp_path: Path) -> None:
    """The catalogue alone makes a stable block; where nothing can be recalled there is none."""
    async with await asked(tmp_path, stable=False, context=False) as bench:
        assert isinstance(bench, KnowledgeBench)
        assert bench.markers() == [HOUR]


async def test_e10_e15_context_without_preferences_puts_the_marker_on_the_host(tmp_path: Path) -> None:
    async with await asked(tmp_path, stable=False, context=True) as bench:
        assert isinstance(bench, KnowledgeBench)
        assert bench.markers() == [HOUR, None]
        assert "Deployments wait" in bench.system()[1]["text"]


@pytest.mark.parametrize("context", [True, False])
@pytest.mark.parametrize(
    "cache",
    [
        CacheSettings(strategy="passthrough"),
        CacheSettings(strategy="zones", retention="none"),
        CacheSettings(strategy="zones", retention_overrides={"claude": "none"}),
        CacheSettings(retention_overrides={"claude": "none"}),
    ],
)
async def test_e15_with_caching_off_it_is_one_text_joined_by_empty_lines(
    tmp_path: Path, context: bool, cache: CacheSettings
) -> None:
    async with await asked(tmp_path, stable=True, context=context, cache=cache) as bench:
        assert isinstance(bench, KnowledgeBench)
        (block,) = bench.system()
        assert "cache_control" not in block
        session = bench.sessions.open_sessions()[0]
        composed = session.state.composed
        parts = [composed.system, composed.preferences, *([session.state.context] if context else [])]
        assert block["text"] == "\n\n".join(parts)


SHORT = {"claude": "short"}


@pytest.mark.parametrize(
    "cache",
    [
        CacheSettings(strategy="zones", retention="short"),
        CacheSettings(strategy="zones", retention_overrides=SHORT),
        CacheSettings(strategy="three-block", retention_overrides=SHORT),
        CacheSettings(retention_overrides=SHORT),
    ],
)
async def test_e15_for_five_minutes_the_stable_block_carries_a_plain_marker(
    tmp_path: Path, cache: CacheSettings
) -> None:
    async with await asked(tmp_path, stable=True, context=True, cache=cache) as bench:
        assert isinstance(bench, KnowledgeBench)
        assert bench.markers() == [None, MINUTES, None]


async def test_e3_the_default_strategy_pins_the_block_for_an_hour_too(tmp_path: Path) -> None:
    async with await asked(tmp_path, stable=True, context=True, cache=CacheSettings()) as bench:
        assert isinstance(bench, KnowledgeBench)
        assert bench.markers() == [None, HOUR, None]


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
async def test_e20_e21_openai_dialects_get_both_texts_joined_by_an_empty_line(tmp_path: Path, dialect: str) -> None:
    async with KnowledgeBench(tmp_path, memory=BLOCKS, model=MODELS[dialect]) as bench:
        bench.prefer("Short answers", "Answers are short.")
        bench.add("Deployment rule", "Deployments wait for the build server.")
        session = await bench.begin("How does the deployment work?")
        raw, composed = bench.raw(), session.state.composed
        assert composed.preferences
        system = raw["instructions"] if dialect == "openai_responses" else raw["messages"][0]["content"]
        assert system == "\n\n".join((composed.system, composed.preferences, session.state.context))


async def test_e11_the_stable_block_outlives_curation_and_resuming_hours_later(tmp_path: Path) -> None:
    async with KnowledgeBench(tmp_path, memory=BLOCKS, cache=SEED) as bench:
        bench.prefer("Short answers", LIKES)
        session = await bench.begin("Hello.")
        bench.prefer("Tea", "Tea is preferred to coffee.")
        bench.clock.advance(6 * 3_600)
        session = await bench.resumed(session, "And now?")
        assert bench.system(0)[1]["text"] == bench.system(1)[1]["text"]


async def test_e13_a_compaction_that_the_limit_forces_refreshes_the_context_block_alone(tmp_path: Path) -> None:
    async with KnowledgeBench(tmp_path, memory=BLOCKS, cache=SEED, compaction=LIMITS, reply=summarizer()) as bench:
        bench.prefer("Short answers", LIKES)
        bench.add("Linting rule", "ruff checks it.")
        session = await bench.begin("What of the linting?")
        entry = bench.add("Deployment rule", RULE)
        await session.ask("What of the deployment?")
        assert entry.id not in session.state.context
        stable = bench.system()[1]["text"]
        for number in range(12):
            if not session.state.compactions:
                await talk(session, bench, 1, first=number)
        assert session.state.compactions == 1
        assert entry.id in session.state.context
        assert bench.system()[1]["text"] == stable
        assert not bench.breaks()


async def test_e13_a_context_length_error_refreshes_the_context_block_alone(tmp_path: Path) -> None:
    async with KnowledgeBench(tmp_path, memory=BLOCKS, cache=SEED) as bench:
        bench.prefer("Short answers", LIKES)
        bench.add("Linting rule", "ruff checks it.")
        session = await bench.sessions.create()
        for number in range(6):
            await session.ask(f"What of the linting, {number}? " + "There is much to say of it. " * 40)
        entry = bench.add("Deployment rule", RULE)
        stable = bench.system()[1]["text"]
        message = "prompt is too long: 213462 tokens > 200000 maximum"
        bench.simulator.faults.add(Fault(kind="status", options=Options(status=400, message=message)))
        await session.ask("What of the deployment?")
        assert entry.id in session.state.context
        assert bench.system()[1]["text"] == stable


async def test_c23_e23_every_turn_the_block_changes_when_the_change_test_says_so(tmp_path: Path) -> None:
    for test in ("entries", "sampled"):
        async with KnowledgeBench(
            tmp_path / test, memory={**BLOCKS, "retrieve": "every_turn", "change_test": test}
        ) as bench:
            entry = bench.add("Deployment rule", "Deployments wait for the build server. " + LONG)
            session = await bench.begin("What of the deployment?")
            before = session.state.context
            bench.known.edit(entry.id, content="Deployments wait for the build servex. " + LONG)
            await session.ask("What of the deployment?")
            # One letter of thousands is a material change of the entry, and nothing to a comparison of positions.
            assert (session.state.context != before) is (test == "entries")
            bench.known.edit(entry.id, content="Deployments are made by hand.")
            await session.ask("What of the deployment?")
            assert "Deployments are made by hand." in session.state.context


async def test_blocks_tell_nothing_in_the_conversation(tmp_path: Path) -> None:
    async with KnowledgeBench(tmp_path, memory=BLOCKS) as bench:
        entry = bench.add("Deployment rule", RULE)
        session = await bench.begin("What of the deployment?")
        bench.known.edit(entry.id, content="Deployments need a review.")
        await session.ask(calls(("recall", {"query": "deployment"})))
        assert knowledge_news(session) == []


async def test_a_block_whose_last_entry_is_forgotten_says_nothing_and_the_conversation_knows_nothing_of_it(
    tmp_path: Path,
) -> None:
    async with KnowledgeBench(tmp_path, memory=BLOCKS) as bench:
        liked, entry = bench.prefer("Short answers", LIKES), bench.add("Deployment rule", RULE)
        session = await bench.begin("What of the deployment?")
        bench.known.forget(entry.id)
        await session.ask("And now?")
        assert bench.sent_by[-1][1] == "memory_block_changed"
        for _ in range(2):
            assert (session.state.context, session.state.context_entries) == ("", ())
            assert [each.entry for each in session.state.surfaced] == [liked.id]
            session = await bench.resumed(session)
        await session.ask("And then?")
        assert bench.sent_by[-1][1] is None
        assert not bench.breaks()
