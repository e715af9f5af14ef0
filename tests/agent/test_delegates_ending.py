"""How sub-agents end: failed, late, cancelled, too deep, with a question. Each leaves a conversation that can go on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.contract import Task
from holdfast.agent.delegation import texts
from holdfast.agent.delegation.crew import MOST
from holdfast.agent.log import log_path, read_content
from holdfast.agent.session import Session
from holdfast.errors import HoldfastError
from holdfast.records import validate
from holdfast.records.events.agent import DelegateAsked, TurnAnswered
from holdfast.records.events.sessions import DelegateFailed, TurnCancelled
from holdfast.tools import Cancel, Tool, ToolContext, ToolOutput
from tests.agent.bench import Bench, extends, sound
from tests.agent.subagents import Door, configured, delegating, do, numbered, parent, placed, tasks
from tests.agent.transcripts import newest_results
from tests.agent.watches import RecordingWatch


async def can_go_on(bench: Bench, session: Session, id: str) -> None:
    """A sub-agent's conversation is valid, and answers when it goes on."""
    child = await bench.sessions.resume_child(session, id)
    assert not validate(child.request())
    await child.close()
    (found,) = await session.delegate([Task(task="SAY: again", resume=id)])
    assert (found.id, found.status, found.text) == (id, "completed", "again")


async def go_on(bench: Bench, session: Session, id: str) -> Session:
    """A sub-agent's conversation, taken up by somebody who is in no hurry."""
    child = await bench.sessions.resume_child(session, id)
    turn = await child.ask("SAY: again")
    assert (turn.ended, turn.text) == ("completed", "again")
    await child.close()
    return child


def failures(bench: Bench, session: Session) -> list[DelegateFailed]:
    return [event.payload for event in bench.log(session.id) if isinstance(event.payload, DelegateFailed)]


async def test_one_that_fails_is_no_matter_of_the_others(tmp_path: Path) -> None:
    reports = numbered(3)
    async with placed(tmp_path, configured(agent={"retries": 0})) as bench:
        session = await parent(bench, warm=True)
        door = Door(bench, *reports)
        door.broken = {reports[1]}
        watch = RecordingWatch()
        found = await session.delegate(tasks(*reports), watch=watch)
        assert [each.status for each in found] == ["completed", "failed", "completed"]
        assert "the line is dead" in found[1].text
        (failed,) = failures(bench, session)
        assert (failed.delegate, failed.error_message, failed.awaited) == (found[1].id, found[1].text, True)
        assert any(line.startswith("sub-agent 2 (helper): failed after 0 calls") for line in watch.lines)
        door.broken = set()
        await can_go_on(bench, session, found[1].id)


async def test_one_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    slow, quick = reports = numbered(2)
    config = lambda agent: configured(timeout_s=0.05) if agent == "hurried" else configured()  # noqa: E731
    async with placed(tmp_path, config) as bench:
        session = await parent(bench, warm=True)
        door = Door(bench, *reports)
        door.shut(slow)
        late, fine = await session.delegate([*tasks(slow, role="hurried"), *tasks(quick)])
        assert (late.status, late.text) == ("failed", texts.LATE.format(seconds=0.05))
        assert (fine.status, fine.text) == ("completed", quick)
        assert isinstance(bench.log(late.id)[-1].payload, TurnCancelled)
        door.let()
        assert not validate((await go_on(bench, session, late.id)).request())


async def test_one_that_asks_its_model_too_often_has_failed(tmp_path: Path) -> None:
    config = configured(agent={"max_calls": 1})

    async with placed(tmp_path, config) as bench:
        session = await parent(bench)
        (found,) = await session.delegate([Task(task=do(("list_dir", {})))])
        assert (found.status, found.text) == ("failed", texts.CAPPED.format(calls=1))


async def _hang(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    hanging.set()
    await asyncio.Event().wait()
    raise AssertionError


hanging = asyncio.Event()
HANG = Tool(name="hang", description="Never ends.", run=_hang, effect="read")


@pytest.mark.parametrize("how", ["cancel", "task"])
async def test_who_is_stopped_stops_all_of_them_and_each_can_go_on(tmp_path: Path, how: str) -> None:
    """One is in the middle of an answer, one runs a tool, one has no place yet."""
    global hanging
    hanging = asyncio.Event()
    async with placed(tmp_path, configured(concurrent=2), tools=(HANG,)) as bench:
        session = await parent(bench, warm=True)
        door = Door(bench, "in-an-answer")
        door.shut("in-an-answer")
        cancel = Cancel()
        given = [Task(task="SAY: in-an-answer"), Task(task=do(("hang", {}))), *tasks("never begun")]
        work = asyncio.create_task(session.delegate(given, cancel=cancel))
        await door.came("in-an-answer")
        await asyncio.wait_for(hanging.wait(), 20)
        if how == "cancel":
            cancel.set()
            assert [each.status for each in await work] == ["cancelled"] * 3
        else:
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
        gone = failures(bench, session)
        assert [(each.error_message, each.awaited) for each in gone] == [(texts.CANCELLED, True)] * 3
        assert session.state.running_delegates == ()
        assert session.children == {}
        door.let()
        for each in gone:
            await can_go_on(bench, session, each.delegate)


async def test_what_one_had_said_when_it_was_stopped_is_kept(tmp_path: Path) -> None:
    async with placed(tmp_path) as bench:
        session = await parent(bench, warm=True)
        door = Door(bench, "half-said")
        door.slow["half-said"] = asyncio.Event()
        cancel, heard = Cancel(), asyncio.Event()
        work = asyncio.create_task(session.delegate(tasks("half-said"), cancel=cancel))
        while not heard.is_set():
            for child in session.children.values():
                child.on_begun = heard.set
            await asyncio.sleep(0)
        for _ in range(50):  # the rest of what comes before the end
            await asyncio.sleep(0)
        cancel.set()
        (found,) = await work
        assert found.status == "cancelled"
        kept = [event.payload for event in bench.log(found.id) if isinstance(event.payload, TurnAnswered)]
        assert [(each.stop, "half-said" in each.message) for each in kept] == [("cancelled", True)]


async def test_to_stop_a_turn_stops_those_that_it_waits_for(tmp_path: Path) -> None:
    async with placed(tmp_path) as bench:
        session = await parent(bench, warm=True)
        word = "slow\\n\\nNobody"
        door = Door(bench, word)
        door.shut(word)
        cancel = Cancel()
        work = asyncio.create_task(session.ask(delegating({"task": "SAY: slow"}), cancel=cancel))
        await door.came(word)
        cancel.set()
        turn = await work
        assert turn.ended == "cancelled"
        sound(session)
        (gone,) = failures(bench, session)
        assert session.children == {}
        assert isinstance(bench.log(gone.delegate)[-1].payload, TurnCancelled)
        door.let()
        assert (await session.ask("SAY: Go on.")).text == "Go on."


async def test_nothing_is_begun_where_it_was_cancelled_before(tmp_path: Path) -> None:
    async with placed(tmp_path) as bench:
        session = await parent(bench)
        cancel = Cancel()
        cancel.set()
        found = await session.delegate(tasks("one", "two"), cancel=cancel)
        assert [each.status for each in found] == ["cancelled", "cancelled"]
        assert bench.sent == []
        assert session.children == {}


async def test_one_that_is_too_deep_is_told_so_and_does_the_work_itself(tmp_path: Path) -> None:
    async with placed(tmp_path) as bench:
        session = await parent(bench)
        inner = delegating({"task": "SAY: deeper"}) + "\nSAY: done alone"
        (found,) = await session.delegate([Task(task=inner)])
        assert found.text == "done alone"
        (refusal,) = newest_results(bench.bodies()[-1])
        assert refusal == (
            "An agent at this depth starts no sub-agents (agent.delegates.depth is 1); do the work yourself."
        )
        assert len(bench.sent) == 2


async def test_where_they_may_start_others_the_cost_of_those_is_their_parents_parents_too(tmp_path: Path) -> None:
    async with placed(tmp_path, configured(depth=2)) as bench:
        session = await parent(bench, warm=True)
        inner = delegating({"task": "SAY: deepest"}) + "\nSAY: passed on"
        (found,) = await session.delegate([Task(task=inner)])
        assert found.text == "passed on"
        assert len(bench.sent) == 4
        assert found.cost == session.state.delegated_cost
        child = [event.payload for event in bench.log(found.id) if event.payload.type == "delegate.completed"]
        assert len(child) == 1
        own = sum(event.payload.cost or 0 for event in bench.log(found.id) if event.payload.type == "turn.answered")  # type: ignore[attr-defined]
        assert found.cost == own + child[0].cost  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([], "0 tasks were given"),
        ([Task(task="x")] * (MOST + 1), f"{MOST + 1} tasks were given"),
        ([Task(task="x"), Task(task=" ")], "A task is empty"),
        ([Task(task="x"), Task(task="x", role="two\nlines")], "A role is one line"),
        ([Task(task="x"), Task(task="x", role="r" * 65)], "A role is one line"),
        ([Task(task="x"), Task(task="x", resume="nobody")], "no session"),
        ([Task(task="x", resume="same"), Task(task="x", resume="same")], "is at work"),
    ],
)
async def test_what_cannot_be_given_is_refused_whole(tmp_path: Path, given: list[Task], why: str) -> None:
    async with placed(tmp_path) as bench:
        session = await parent(bench)
        with pytest.raises(HoldfastError, match=why):
            await session.delegate(given)
        assert session.children == {}
        assert [path.stem for path in (bench.home / "sessions").glob("*.jsonl")] == [session.id]
        assert session.state.running_delegates == ()


async def test_another_sessions_sub_agent_is_not_this_ones(tmp_path: Path) -> None:
    async with placed(tmp_path) as bench:
        one, other = await parent(bench), await parent(bench)
        (found,) = await one.delegate(tasks("QUESTION: A?"))
        with pytest.raises(HoldfastError, match="no sub-agent of this session"):
            await other.delegate([Task(task="Yes.", resume=found.id)])
        with pytest.raises(HoldfastError, match="is open already"):
            await one.delegate([Task(task="Yes.", resume=one.id)])


async def test_one_that_could_not_go_on_can_be_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(session: Session, why: str) -> None:
        raise HoldfastError("the disk is full")

    async with placed(tmp_path) as bench:
        session = await parent(bench, warm=True)
        (asks,) = await session.delegate([Task(task="SAY: QUESTION: Which?")])
        with monkeypatch.context() as patched:
            patched.setattr("holdfast.agent.sessions.leave_behind", full)
            with pytest.raises(HoldfastError, match="full"):
                await session.delegate([Task(task="SAY: The first.", resume=asks.id)])
        await can_go_on(bench, session, asks.id)


async def test_one_that_asked_goes_on_with_the_answer_from_where_it_was(tmp_path: Path) -> None:
    async with placed(tmp_path) as bench:
        session = await parent(bench, warm=True)
        (asks,) = await session.delegate([Task(task="SAY: Found two.\n\nQUESTION: Which?", role="reviewer")])
        assert (asks.status, asks.text, asks.question) == ("completed", "Found two.", "Which?")
        (event,) = [each.payload for each in bench.log(session.id) if isinstance(each.payload, DelegateAsked)]
        assert (event.delegate, event.question, event.cost) == (asks.id, "Which?", asks.cost)
        assert [each.question for each in session.state.running_delegates] == ["Which?"]
        assert session.state.delegated_cost == asks.cost
        bench.store.flush()
        _, lane = sorted(bench.store.lanes("t", session.id), key=lambda each: each.parent or "")
        assert lane.id.startswith(f"{asks.id}/")

        (done,) = await session.delegate([Task(task="SAY: The first.", resume=asks.id)])
        assert (done.id, done.role, done.status, done.text) == (asks.id, "reviewer", "completed", "The first.")
        assert session.state.running_delegates == ()
        assert session.state.delegated_cost == (asks.cost or 0) + (done.cost or 0)
        bench.store.flush()
        assert [each.id for each in bench.store.lanes("t", session.id) if each.parent] == [lane.id]
        before, after = bench.bodies()[-2:]
        assert extends(before.messages, after.messages)
        assert after.messages[-1].content[-1].text == texts.ANSWER.format(task="SAY: The first.")  # type: ignore[union-attr]
        first, second = bench.used()[-2:]
        assert second.read >= first.read + first.written
        assert bench.breaks() == []


async def test_a_question_survives_the_end_of_the_program(tmp_path: Path) -> None:
    async with placed(tmp_path) as bench:
        session = await parent(bench, warm=True)
        await session.ask(delegating({"task": "SAY: QUESTION: Which?"}))
        (asks,) = session.state.running_delegates
        session = await bench.resumed(session)
        assert [each.question for each in session.state.running_delegates] == ["Which?"]
        await session.ask(delegating({"task": "SAY: This one.", "resume": asks.delegate}))
        assert "This one." in newest_results(bench.bodies()[-1])[0]
        assert session.state.running_delegates == ()


async def test_one_that_asked_and_whose_log_is_damaged_goes_on_from_what_stands_before(tmp_path: Path) -> None:
    async with placed(tmp_path) as bench:
        session = await parent(bench, warm=True)
        (asks,) = await session.delegate([Task(task="SAY: QUESTION: Which?", role="reviewer")])
        log = log_path(bench.sessions.directory, asks.id)
        log.write_bytes(log.read_bytes() + b"nonsense\n")
        before = log.read_bytes()
        (done,) = await session.delegate([Task(task="SAY: The first.", resume=asks.id)])
        assert (done.id, done.status, done.text) == (asks.id, "completed", "The first.")
        assert log.with_name(f"{log.name}.damaged").read_bytes() == before
        assert read_content(log).damage is None
