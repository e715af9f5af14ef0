"""Sub-agents: what they are sent, what they give back, what is told of them and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.contract import DelegateResult, Task
from holdfast.agent.delegates import delegate_tool
from holdfast.agent.delegation import texts
from holdfast.agent.guides import DELEGATION
from holdfast.config.sections.agent import ConfirmSettings, ToolsSettings
from holdfast.facts import estimate
from holdfast.records import usage
from holdfast.records.events.sessions import DelegateCompleted, DelegateStarted
from holdfast.tools import Decision, Question, Tool, ToolContext, ToolOutput
from holdfast.tools.guides import wrapped
from tests.agent.bench import MODELS, Bench, sound
from tests.agent.subagents import configured, delegating, do, parent, placed, tasks, words
from tests.agent.transcripts import head_blocks, newest_results
from tests.agent.watches import RecordingWatch


@pytest.mark.parametrize("dialect", MODELS)
@pytest.mark.parametrize("volatile", ["tail", "system"])
async def test_it_is_sent_its_parents_tools_and_system_to_the_byte_and_then_its_task_alone(
    tmp_path: Path, dialect: str, volatile: str
) -> None:
    config = configured(model=MODELS[dialect], agent={"volatile": volatile})
    async with placed(tmp_path, config) as bench:
        notes = bench.workspace / ".holdfast"
        notes.mkdir()
        (notes / "USER.md").write_text("Likes tea.\n")
        session = await parent(bench)
        await session.ask("SAY: Hello.")
        (notes / "USER.md").write_text("Likes coffee.\n")
        await session.delegate([Task(task="SAY: fine", role="reviewer")])
        first, child = bench.sent
        assert head_blocks(child) == head_blocks(first)
        mine, its = bench.bodies()
        assert its.tools == mine.tools
        ((around, told),) = words(its)
        assert around == words(mine)[0][0]
        assert told == texts.TASK.format(role="reviewer", task="SAY: fine")
        assert "tea" not in around + told


async def test_a_call_is_answered_with_one_block_that_has_a_section_for_each_task_in_order(tmp_path: Path) -> None:
    async with placed(tmp_path) as bench:
        session = await parent(bench)
        turn = await session.ask(
            delegating({"task": "SAY: one", "role": "reviewer"}, {"task": "SAY: two"}, {"task": "SAY: QUESTION: A?"})
        )
        assert turn.ended == "completed"
        (said,) = newest_results(bench.bodies()[-1])
        started = [e.payload for e in bench.log(session.id) if isinstance(e.payload, DelegateStarted)]
        one, two, three = (each.delegate for each in started)
        assert said == (
            f"{texts.HEADING}\n\n"
            f"## Sub-agent 1: {one} (reviewer), completed\none\n\n"
            f"## Sub-agent 2: {two} (helper), completed\ntwo\n\n"
            f"## Sub-agent 3: {three} (helper), asks a question\nQUESTION: A?\n"
            f'To answer, call delegate with {{"task": "the answer", "resume": "{three}"}}.'
            f"\n{wrapped(DELEGATION.text)}"
        )
        sound(session)
        assert not session.state.queue


async def test_who_waits_for_the_results_is_told_nothing_else_and_pays_for_them(tmp_path: Path) -> None:
    async with placed(tmp_path) as bench:
        session = await parent(bench, warm=True)
        before = session.state.cost
        found = await session.delegate(tasks("one", "two"))
        events = bench.log(session.id)
        started = [e.payload for e in events if isinstance(e.payload, DelegateStarted)]
        ended = [e.payload for e in events if isinstance(e.payload, DelegateCompleted)]
        assert [(e.delegate, e.awaited) for e in started] == [(each.id, True) for each in found]
        assert sorted((e.delegate, e.result, e.cost, e.awaited) for e in ended) == sorted(
            (each.id, each.text, each.cost, True) for each in found
        )
        assert session.state.queue == ()
        assert session.state.running_delegates == ()
        assert session.state.cost == before
        assert session.state.delegated_cost == sum(each.cost or 0 for each in found) > 0
        (stored,) = bench.sessions.stored()
        assert (stored.id, stored.cost) == (session.id, before + session.state.delegated_cost)
        billed = bench.used()[1:]
        assert [each.usage.prompt for each in found] == [used.prompt for used in billed]
        assert [each.usage.output for each in found] == [used.output for used in billed]


async def test_each_has_a_lane_of_its_own_below_its_parents(tmp_path: Path) -> None:
    async with placed(tmp_path) as bench:
        session = await parent(bench, warm=True)
        found = await session.delegate([Task(task="SAY: one", role="reviewer")])
        bench.store.flush()
        mine, its = sorted(bench.store.lanes("t", session.id), key=lambda lane: lane.parent or "")
        assert its.id.startswith(f"{found[0].id}/")
        assert bench.store.lanes("t", found[0].id) == []
        assert (its.parent, its.agent) == (mine.id, "reviewer")
        assert bench.breaks() == []


async def test_a_role_may_have_settings_of_its_own(tmp_path: Path) -> None:
    other = configured(model=MODELS["openai_responses"])

    async with placed(tmp_path, lambda agent: other if agent == "cheap" else configured()) as bench:
        session = await parent(bench, warm=True)
        found = await session.delegate(
            [Task(task="SAY: one", role="cheap"), Task(task=do(("list_dir", {}), say="two"), role="other")]
        )
        assert [each.text for each in found] == ["one", "two"]
        assert {model for _, model, _ in bench.sent} == {MODELS["anthropic"], MODELS["openai_responses"]}


async def test_what_they_change_is_confirmed_call_by_call_and_nobody_waits_for_ever(tmp_path: Path) -> None:
    """The call itself is asked about by nobody, and holds nothing that its sub-agents need."""
    asked: list[tuple[str, str]] = []

    async def confirm(question: Question) -> Decision:
        asked.append((question.tool, str(question.input.get("path"))))
        return Decision(question.input.get("path") != "b.txt", why="Not that one.")

    config = configured()
    config = type(config)(
        cache=config.cache, agent=config.agent, skills=config.skills, tools=ToolsSettings(confirm=ConfirmSettings())
    )
    async with placed(tmp_path, config, confirm=confirm) as bench:
        session = await parent(bench)
        made = [{"task": do(("write_file", {"path": f"{n}.txt", "content": n}))} for n in "abc"]
        turn = await session.ask(delegating(*made))
        assert turn.ended == "completed"
        assert sorted(asked) == [("write_file", f"{n}.txt") for n in "abc"]
        assert sorted(path.name for path in bench.workspace.glob("*.txt")) == ["a.txt", "c.txt"]


async def test_the_user_sees_how_they_fare_and_none_of_their_words(tmp_path: Path) -> None:
    async with placed(tmp_path) as bench:
        session = await parent(bench, warm=True)
        watch = RecordingWatch()
        work = do(("list_dir", {}), say="secretly")
        await session.ask(
            delegating({"task": work, "role": "reviewer"}, {"task": "SAY: QUESTION: Which?"}) + "\nSAY: Over.",
            watch=watch,
        )
        assert "secretly" not in "".join(watch.pieces)
        assert "Over." in "".join(watch.pieces)
        assert watch.lines[:2] == ["sub-agent 1 (reviewer): started", "sub-agent 2 (helper): started"]
        done, asks = sorted(watch.lines[2:])
        assert done.startswith("sub-agent 1 (reviewer): done in 2 calls, $0.0")
        assert asks.startswith("sub-agent 2 (helper): asks after 1 call, $0.0")
        assert asks.endswith(": Which?")


async def test_a_long_report_goes_to_disk_as_any_result_does(tmp_path: Path) -> None:
    async with placed(tmp_path) as bench:
        session = await parent(bench)
        await session.ask(delegating({"task": "SAY: begin " + "word " * 3_000 + "end"}))
        (said,) = newest_results(bench.bodies()[-1])
        assert said.startswith("[Tool result offloaded to disk: ")
        report, _, guide = said.partition("\n---\n")
        assert len(report) < 4_000
        assert report.endswith("word end")
        assert f"---\n{guide}" == wrapped(DELEGATION.text)


async def _note(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    return ToolOutput(content="noted")


async def test_what_its_parent_was_told_once_it_is_told_too(tmp_path: Path) -> None:
    """A guide that stands in the parent's conversation stands in no other."""
    tool = Tool(name="note", description="Notes.", run=_note, effect="read", guide="Write short notes.")

    async with placed(tmp_path, tools=(tool,)) as bench:
        session = await parent(bench)
        await session.ask(do(("note", {})))
        assert "Write short notes." in newest_results(bench.bodies()[-1])[0]
        await session.ask(do(("note", {})))
        assert "Write short notes." not in newest_results(bench.bodies()[-1])[0]
        await session.delegate([Task(task=do(("note", {})))])
        assert "Write short notes." in newest_results(bench.bodies()[-1])[0]


async def test_the_definition_is_the_same_for_all(tmp_path: Path) -> None:
    async with Bench(tmp_path, config=lambda agent: configured(depth=3, timeout_s=len(agent) + 1.0)) as bench:
        tools = []
        for agent in ("", "reviewer"):
            session = await bench.sessions.create(agent=agent)
            tools.append(delegate_tool(session))
        one, other = tools
        assert (one.description, one.input_schema) == (other.description, other.input_schema)
        assert (one.effect, one.confirm, one.core) == ("none", False, True)
        assert one.timeout_s is not None
        assert other.timeout_s is not None
        assert one.timeout_s < other.timeout_s
        assert estimate(one.input_schema.decode() + one.description) < 300


@pytest.mark.parametrize(
    ("said", "text", "question"),
    [
        ("All well.", "All well.", ""),
        ("QUESTION: Which one?", "", "Which one?"),
        ("Found two.\n\nQUESTION: Which\none?", "Found two.", "Which\none?"),
        ("Found two.\nQUESTION: Which one?", "Found two.", "Which one?"),
        ("Found two.\n \n**QUESTION:** Which one?\n", "Found two.", "Which one?"),
        ("QUESTION: Which?\n\nI chose the first.", "QUESTION: Which?\n\nI chose the first.", ""),
        ("It says QUESTION: where?", "It says QUESTION: where?", ""),
        ("QUESTION:", "QUESTION:", ""),
        ("", "", ""),
    ],
)
def test_a_question_is_what_the_last_paragraph_asks(said: str, text: str, question: str) -> None:
    assert texts.report_and_question(said) == (text, question)


def test_lines_for_the_user() -> None:
    def line(status: Any, cost: str | None = "0.00214", **more: str) -> str:
        found = DelegateResult(
            id="d", role="reviewer", status=status, cost=None if cost is None else Decimal(cost), usage=usage(), **more
        )
        return texts.notice(1, found, 3)

    assert line("completed") == "sub-agent 1 (reviewer): done in 3 calls, $0.0021"
    assert line("completed", None) == "sub-agent 1 (reviewer): done in 3 calls, cost unknown"
    assert line("failed", text="no\nline") == "sub-agent 1 (reviewer): failed after 3 calls, $0.0021: no line"
    assert line("cancelled", text="x") == "sub-agent 1 (reviewer): cancelled after 3 calls, $0.0021"
