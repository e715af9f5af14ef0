"""What the store and the bus are told of a session, in the order in which it happened."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from holdfast import facts
from holdfast.agent.model_call import CallFailed
from holdfast.agent.reopen import PAID
from holdfast.agent.window.projection import FOLDS
from holdfast.config.sections.agent import SkillsSettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.records.events.agent import DelegateAsked
from holdfast.records.events.sessions import (
    CompactionFailed,
    DelegateStarted,
    SessionEnded,
    SessionStarted,
    TurnCompleted,
)
from holdfast.simulator.faults import Fault, Options
from holdfast.simulator.messages import Reply
from tests.agent.bench import MODEL, Bench, calls, settings
from tests.agent.summaries import begin_talk, small, summarizer
from tests.skills.skill_files import write_skill

LIFE = ("session.started", "skill.loaded", "turn.started", "turn.completed", "session.ended")


async def test_a83_the_store_and_the_bus_have_it_in_the_order_in_which_it_happened(tmp_path: Path) -> None:
    """Within one millisecond too, and whoever tells it: by chance it would be so once in four times."""
    write_skill(tmp_path / "skills", "csv", body="Do it well. " * 800)

    skills = SkillsSettings(roots=(str(tmp_path / "skills"),))
    async with Bench(tmp_path, config=settings(cache=CacheSettings(padding="always"), skills=skills)) as bench:
        for _ in range(10):
            session = await bench.begin("hello")
            await session.end()
            heard = [event.type for event in bench.events(*LIFE)]
            bench.store.flush()
            kept = [event.type for event in bench.store.events("t", session.id)]
            assert heard == list(LIFE)
            assert [kind for kind in kept if kind in LIFE] == list(LIFE)
            assert kept.index("turn.started") < kept.index("llm.call_started") < kept.index("turn.completed")


async def test_a3_preloaded_skills_are_told_of_though_the_session_was_killed_as_it_began(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills", "csv", body="Do it well. " * 800)

    skills = SkillsSettings(roots=(str(tmp_path / "skills"),))
    async with Bench(tmp_path, config=settings(cache=CacheSettings(padding="always"), skills=skills)) as bench:
        session = await bench.sessions.create()
        path = bench.home / "sessions" / f"{session.id}.jsonl"
        await bench.restart(clean=False)
        lines = path.read_bytes().splitlines(keepends=True)
        assert b'"session.state"' in lines.pop()  # the one that says that they were told of
        path.write_bytes(b"".join(lines))
        session = await bench.sessions.resume(session.id)
        await session.ask("hello")
        session = await bench.resumed(session)
        bench.store.flush()
        kept = [event.type for event in bench.store.events("t", session.id)]
        first = [kind for kind in kept if kind in LIFE]
        assert first == ["session.started", "skill.loaded", "skill.loaded", "turn.started", "turn.completed"]


async def test_a_fork_is_a_session_that_was_started(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        session = await bench.begin("hello")
        bench.events()
        fork = await bench.sessions.fork(session.id)
        await fork.ask("and here")
        (started,) = bench.events("session.started")
        assert (started.session, started.payload) == (
            fork.id,
            SessionStarted(client="holdfast", forked_from=session.id),
        )
        bench.store.flush()
        kept = [event.type for event in bench.store.events("t", fork.id)]
        assert kept[:2] == ["session.started", "turn.started"], "what was copied happened elsewhere"


async def test_what_sub_agents_cost_is_on_the_bill_of_a_session_that_ends(tmp_path: Path) -> None:
    async with Bench(tmp_path, config=settings(cache=CacheSettings(padding="always"))) as bench:
        session = await bench.begin(calls(("delegate", {"tasks": [{"task": "look"}, {"task": "see"}]})))
        await session.end()
        (ended,) = [each.payload for each in bench.log(session.id) if isinstance(each.payload, SessionEnded)]
        (listed,) = bench.sessions.stored()
        assert session.state.delegated_cost > 0
        assert ended.cost == listed.cost == session.state.cost + session.state.delegated_cost


async def test_what_came_to_nothing_is_on_the_bill_too(tmp_path: Path) -> None:
    """An answer that is empty, and a demand for a summary that nobody answers."""
    answers = iter(["fine", Reply((), "end", 3), "fine"])

    async with Bench(tmp_path / "one", reply=lambda _: next(answers)) as bench:
        session = await bench.begin("hello")
        turn = await session.ask("again")
        assert (turn.ended, turn.line.calls) == ("completed", 2)
        assert session.state.cost == session.totals().cost == billed(bench)
    config = small(agent={"retries": 0})
    async with Bench(tmp_path / "two", config=config, reply=summarizer("This is none.")) as bench:
        session = await begin_talk(bench, 7)
        bench.simulator.faults.add(Fault(kind="status", after=1, options=Options(status=500)))
        with pytest.raises(CallFailed):
            await session.compact()
        assert session.state.cost == session.totals().cost == billed(bench)
        await session.compact()  # three answers that are none, and an outline
        assert session.state.compactions == 1
        assert session.state.cost == session.totals().cost == billed(bench)


def billed(bench: Bench) -> Decimal:
    return sum((facts.price(used, MODEL).cost or Decimal(0) for used in bench.used()), Decimal(0))


async def test_what_was_paid_before_a_fork_is_on_one_bill_alone(tmp_path: Path) -> None:
    answers = iter([Reply((), "end", 3), "fine", "fine"])

    async with Bench(tmp_path, reply=lambda _: next(answers)) as bench:
        session = await bench.begin("hello")
        session.tell(DelegateStarted(delegate="d1", role="helper", task="look"))
        session.tell(DelegateAsked(delegate="d1", question="Where?", cost=Decimal("0.5")))
        session.tell(CompactionFailed(attempts=1, error="stopped", cost=Decimal("0.25")))
        fork = await bench.sessions.fork(session.id)
        assert fork.state.cost == fork.state.delegated_cost == Decimal(0)
        turn = await fork.ask("go on")
        assert fork.state.cost == turn.line.cost


def test_every_event_with_a_cost_is_known_to_be_one() -> None:
    """Of those that a session's log holds and its bill is made of."""
    told = set(FOLDS)
    assert {event for event in told if "cost" in event.__struct_fields__} - {TurnCompleted, SessionEnded} == {*PAID}
