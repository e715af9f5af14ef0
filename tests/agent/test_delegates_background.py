"""Sub-agents that nobody waits for: what is told of them, when, and what becomes of them when their parent ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

from holdfast.agent.contract import Task
from holdfast.agent.delegation import texts
from holdfast.agent.guides import DELEGATION
from holdfast.agent.session import Session
from holdfast.agent.sessions import INTERRUPTED
from holdfast.agent.window.entries import Escalation, SubagentStatus, Timeline, UserMessage
from holdfast.tools import Cancel
from holdfast.tools.guides import wrapped
from tests.agent.bench import sound
from tests.agent.subagents import Door, configured, delegating, numbered, parent, placed, tasks
from tests.agent.transcripts import newest_results


async def settled(session: Session) -> None:
    """Until nobody is at work."""
    while session.children or session.crew.under_way:
        await asyncio.sleep(0)


def last(session: Session) -> Timeline:
    """The newest timeline of the window."""
    return [entry for entry in session.state.window.entries if isinstance(entry, Timeline)][-1]


async def test_the_call_names_them_and_their_reports_come_as_one_entry(tmp_path: Path) -> None:
    one, two, three = reports = numbered(3)
    async with placed(tmp_path) as bench:
        session = await parent(bench, warm=True)
        words = [f"{each}\\n\\nNobody" for each in reports]
        door = Door(bench, *words)
        door.shut(*words)
        given = [{"task": f"SAY: {one}", "role": "reviewer"}, {"task": f"SAY: {two}"}]
        given.append({"task": f"SAY: {three}\n\nQUESTION: Which?"})
        turn = await session.ask(delegating(*given, wait=False))
        assert turn.ended == "completed"  # and none of them has answered
        ids = [each.delegate for each in session.state.running_delegates]
        told = newest_results(bench.bodies()[-1])[0]
        listed = f"{texts.STARTED}\n- {ids[0]} (reviewer)\n- {ids[1]} (helper)\n- {ids[2]} (helper)"
        assert told == f"{listed}\n{wrapped(DELEGATION.text)}"

        door.let(words[1])
        while len(session.children) > 2:
            await asyncio.sleep(0)
        asked = len(bench.sent)
        await session.ask("SAY: Anything new?")
        assert [item.text for item in last(session).items if isinstance(item, UserMessage)] == ["SAY: Anything new?"]
        assert not any(isinstance(item, SubagentStatus) and item.status != "started" for item in last(session).items)

        door.let()
        await settled(session)
        assert len(bench.sent) == asked + 1  # nobody was woken
        assert len(session.state.queue) == 3
        await session.ask("SAY: And now?")
        first, second, question, _ = last(session).items
        assert isinstance(first, SubagentStatus)
        assert isinstance(second, SubagentStatus)
        assert isinstance(question, Escalation)
        assert [(each.delegate, each.status, each.role) for each in (first, second)] == [
            (ids[0], "completed", "reviewer"),
            (ids[1], "completed", "helper"),
        ]
        assert [each.text for each in (first, second)] == [texts.REPORT.format(text=each) for each in (one, two)]
        assert question.question.startswith(f"Which?\n{texts.ANSWER_IT.format(id=ids[2])}")
        assert question.question.endswith(texts.REPORT.format(text=three))
        assert session.state.delegated_cost > 0
        sound(session)


async def test_a_long_report_that_nobody_waits_for_goes_to_disk_too(tmp_path: Path) -> None:
    async with placed(tmp_path) as bench:
        session = await parent(bench, warm=True)
        (begun,) = await session.delegate(tasks("begin " + "word " * 3_000 + "end"), awaited=False)
        assert begun.status == "started"
        await settled(session)
        (item,) = [
            each for each in session.state.queue if isinstance(each, SubagentStatus) and each.status != "started"
        ]
        assert "[Tool result offloaded to disk: " in item.text
        assert len(item.text) < 4_000
        path = item.text.partition("]")[0].rpartition(", ")[2]
        assert Path(path).read_text().startswith("begin word")


async def test_to_stop_the_turn_that_started_them_stops_them(tmp_path: Path) -> None:
    async with placed(tmp_path) as bench:
        session = await parent(bench, warm=True)
        door = Door(bench, "slow")
        door.shut("slow")
        cancel = Cancel()
        await session.delegate(tasks("slow"), awaited=False, cancel=cancel)
        await door.came("slow")
        cancel.set()
        await settled(session)
        assert [item.text for item in session.state.queue if isinstance(item, SubagentStatus)][-1] == texts.CANCELLED


async def test_who_ends_ends_them_and_says_so_when_he_is_resumed(tmp_path: Path) -> None:
    async with placed(tmp_path) as bench:
        session = await parent(bench, warm=True)
        door = Door(bench, "slow")
        door.shut("slow")
        (begun,) = await session.delegate(tasks("slow"), awaited=False)
        await door.came("slow")
        session = await bench.resumed(session)
        assert session.state.running_delegates == ()
        (found,) = [
            each for each in session.state.queue if isinstance(each, SubagentStatus) and each.status != "started"
        ]
        assert (found.delegate, found.status, found.text) == (begun.id, "failed", texts.CANCELLED)


async def test_after_a_crash_it_is_told_that_they_were_interrupted_and_they_can_go_on(tmp_path: Path) -> None:
    config = configured()
    async with placed(tmp_path, config) as bench:
        session = await parent(bench, warm=True)
        door = Door(bench, "slow")
        door.shut("slow")
        (begun,) = await session.delegate(tasks("slow"), awaited=False)
        await door.came("slow")
        running = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        await bench.restart(clean=False)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        session = await bench.sessions.resume(session.id)
        (found,) = [
            each for each in session.state.queue if isinstance(each, SubagentStatus) and each.status != "started"
        ]
        assert (found.delegate, found.status, found.text) == (begun.id, "failed", INTERRUPTED)
        (again,) = await session.delegate([Task(task="SAY: here I am", resume=begun.id)])
        assert (again.id, again.status, again.text) == (begun.id, "completed", "here I am")
