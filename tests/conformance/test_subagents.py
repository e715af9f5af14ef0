"""Seed cache-page, rows 5, 8 and 9: sub-agents are staggered, start warm, and write nothing for an hour.

The real session, engine and store, against the simulated provider: what is counted is what that one billed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import facts
from holdfast.agent.contract import Task
from holdfast.config.sections.cache import CacheSettings
from holdfast.records import Usage, usage
from holdfast.simulator import Simulator, VirtualClock
from holdfast.simulator.journal import Record
from holdfast.simulator.script import Script
from holdfast.wire import DIALECTS
from tests.agent.bench import MODEL, MODELS, START, Bench, settings
from tests.agent.subagents import configured, do, dollars, numbered, obliging, parent, placed, tasks
from tests.agent.transcripts import head_blocks

COUNT = 8
TOKENS = 20_000
SLACK = 1.1
TTL = "5m"
"""The short lifetime."""


def common(bench: Bench, sent: tuple[str, str, bytes]) -> int:
    """Tokens of a sub-agent's first request that all others begin with: all but its task."""
    dialect, model, raw = sent
    body = DIALECTS[dialect].parse(raw, model=model.partition(":")[2])
    return bench.engine.read(body).prompt.ends[-2]


def priced(model: str, *, written: int = 0, read: int = 0) -> float:
    found = facts.price(usage(read=read, writes={TTL: written}), model).cost
    assert found is not None
    return float(found)


def paid(used: list[Usage], model: str) -> float:
    return float(sum(dollars(each, model) for each in used))


def files(bench: Bench, count: int) -> None:
    """Something to see around."""
    for number in range(count):
        (bench.workspace / f"a-file-with-a-name-{number}.txt").touch()


# Row 5


async def test_c5_the_others_start_when_the_first_ones_answer_has_begun(tmp_path: Path) -> None:
    clock = VirtualClock(START)
    script = Script(name="slow", function=obliging, first_token=2.0)
    async with Bench(tmp_path, config=configured(), simulator=Simulator(script=script, clock=clock)) as bench:
        bench.clock = clock
        bench.sessions.clock = clock.now
        session = await parent(bench, tokens=TOKENS)
        await session.delegate(tasks(*numbered(COUNT)))
        first, *others = bench.simulator.journal.records()
        assert first.first_token_at is not None
        assert len(others) == COUNT - 1
        assert [other.at >= first.first_token_at for other in others] == [True] * (COUNT - 1)
        assert min(other.at for other in others) < max(_begun(other) for other in others)  # but side by side


def _begun(record: Record) -> float:
    assert record.first_token_at is not None
    return record.first_token_at


@pytest.mark.parametrize("model", [MODEL, "anthropic:claude-opus-4-6"])
@pytest.mark.parametrize("around", [0, 150], ids=["empty", "files"])
async def test_c5_eight_on_a_cold_parent_of_20k_cost_one_write_and_seven_reads(
    tmp_path: Path, model: str, around: int
) -> None:
    async with placed(tmp_path, configured(model=model)) as bench:
        files(bench, around)
        session = await parent(bench, tokens=TOKENS)
        found = await session.delegate(tasks(*numbered(COUNT)))
        assert [each.text for each in found] == numbered(COUNT)
        tokens = common(bench, bench.sent[0])
        assert tokens >= TOKENS
        ideal = priced(model, written=tokens) + (COUNT - 1) * priced(model, read=tokens)
        assert ideal < paid(bench.used(), model) <= SLACK * ideal
        assert session.state.delegated_cost == sum(each.cost or 0 for each in found)
        assert bench.breaks() == []


@pytest.mark.parametrize("model", [MODEL, "anthropic:claude-opus-4-6"])
@pytest.mark.parametrize("around", [0, 150], ids=["empty", "files"])
async def test_c5_eight_on_a_warm_parent_of_20k_cost_eight_reads(tmp_path: Path, model: str, around: int) -> None:
    async with placed(tmp_path, configured(model=model)) as bench:
        files(bench, around)
        session = await parent(bench, tokens=TOKENS, warm=True)
        await session.delegate(tasks(*numbered(COUNT)))
        tokens = common(bench, bench.sent[1])
        ideal = COUNT * priced(model, read=tokens)
        assert ideal <= paid(bench.used()[1:], model) <= SLACK * ideal


async def test_c5_without_the_wait_each_of_them_writes(tmp_path: Path) -> None:
    """What the wait is good for."""
    async with placed(tmp_path, configured(hold_s=0.0)) as bench:
        session = await parent(bench, tokens=TOKENS)
        await session.delegate(tasks(*numbered(COUNT)))
        tokens = common(bench, bench.sent[0])
        assert paid(bench.used(), MODEL) > 0.9 * COUNT * priced(MODEL, written=tokens)


# Row 8


@pytest.mark.parametrize("dialect", ["anthropic", "openai_responses", "openai_chat"])
async def test_c8_a_sub_agent_starts_with_its_parents_prefix_and_finds_it_warm(tmp_path: Path, dialect: str) -> None:
    async with placed(tmp_path, configured(model=MODELS[dialect])) as bench:
        session = await parent(bench, tokens=TOKENS, warm=True)
        await session.delegate(tasks("one"))
        mine, its = bench.sent
        assert head_blocks(its) == head_blocks(mine)
        used = bench.used()[1]
        assert used.read > 0.85 * common(bench, its)
        assert used.prompt < 1.02 * bench.used()[0].prompt


async def test_c8_its_parent_finds_its_own_prefix_warm_afterwards(tmp_path: Path) -> None:
    """What the first sub-agent wrote serves a parent that has not said anything yet."""
    async with placed(tmp_path) as bench:
        session = await parent(bench, tokens=TOKENS)
        await session.delegate(tasks("one"))
        await session.ask("SAY: Hello.")
        assert bench.used()[1].read == common(bench, bench.sent[0])


# Row 9


@pytest.mark.parametrize("strategy", ["economic", "zones"])
async def test_c9_a_sub_agent_writes_nothing_for_an_hour_however_long_it_works(tmp_path: Path, strategy: str) -> None:
    config = settings(cache=CacheSettings(strategy=strategy, adaptive=False))  # type: ignore[arg-type]
    async with placed(tmp_path, config) as bench:
        session = await parent(bench, tokens=TOKENS, warm=True)
        # the economic one buys no hour before its tenant has paused
        assert ("1h" if strategy == "zones" else TTL) in dict(bench.used()[0].writes)
        (found,) = await session.delegate([Task(task=do(("list_dir", {}), say="QUESTION: More?"))])
        for _ in range(4):
            bench.clock.advance(250)
            (found,) = await session.delegate([Task(task="SAY: QUESTION: More?", resume=found.id)])
        its = bench.used()[1:]
        assert len(its) == 6
        assert {ttl for each in its for ttl, _ in each.writes} <= {TTL}
        assert all(each.read > 0.9 * each.prompt for each in its)


async def test_c9_what_is_not_read_again_is_not_written(tmp_path: Path) -> None:
    """Sub-agents that ended with one answer each: the next ones buy nothing, and read all there is."""
    async with placed(tmp_path) as bench:
        session = await parent(bench, tokens=TOKENS, warm=True)
        for number in range(3):
            await session.delegate(tasks(*(f"{number} {each}" for each in numbered(COUNT))))
        before = len(bench.used())
        await session.delegate(tasks(*numbered(COUNT)))
        tokens = common(bench, bench.sent[-1])
        its = bench.used()[before:]
        assert [(each.read, each.written) for each in its] == [(tokens, 0)] * COUNT
