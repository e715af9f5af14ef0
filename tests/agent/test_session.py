"""A session from end to end: how it begins, what a turn does, and what the next request is made of."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.loop import CAPPED
from holdfast.config.sections.agent import SkillsSettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.records import Request
from holdfast.records.events.agent import TaskUpdated
from holdfast.records.events.tools import SkillLoaded
from holdfast.tools import Tool, ToolContext, ToolOutput
from holdfast.tools.results import NO_OUTPUT
from tests.agent.bench import Bench, calls, confused, extends, settings, sound
from tests.agent.sample_tools import ECHO, FAIL
from tests.agent.transcripts import results, text_of, texts
from tests.agent.watches import RecordingWatch
from tests.skills.skill_files import write_skill


async def test_a2_a3_a56_a59_a83_what_a_session_begins_with(tmp_path: Path) -> None:
    roots = tmp_path / "skills"
    for name in ("csv", "pdf"):
        write_skill(roots, name, body=f"How to {name}.\n" + "Do it well. " * 600)

    config = settings(skills=SkillsSettings(roots=(str(roots),)), cache=CacheSettings(padding="always"))
    async with Bench(tmp_path, config=config) as bench:
        session = await bench.sessions.create()
        composed = session.state.composed
        assert composed.preloaded
        await session.ask("hello")
        await session.ask("again")
        events = bench.events()
        kinds = [event.type for event in events]
        assert kinds[0] == "session.started"
        loaded = [event for event in events if isinstance(event.payload, SkillLoaded)]
        assert [each.payload.skill_id for each in loaded if isinstance(each.payload, SkillLoaded)] == list(
            composed.preloaded
        )
        for each in loaded:
            assert isinstance(each.payload, SkillLoaded)
            assert each.payload.load_reason == "always"
            assert each.payload.triggered_by_tool_use_id is None
            assert (each.payload.load_size_tokens, each.payload.skill_version, each.payload.source) > (0, "", "")
            assert (each.session, each.turn) == (session.id, None)
        last = max(place for place, kind in enumerate(kinds) if kind == "skill.loaded")
        assert last < kinds.index("turn.started")
        first, second = bench.bodies()
        assert first.system_prompt == second.system_prompt == composed.system
        assert [event.type for event in bench.log(session.id)].count("session.composed") == 1


async def test_a_turn_with_tools_side_by_side_that_work_fail_and_do_not_exist(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("alpha\n")

    async with Bench(tmp_path, tools=(ECHO, FAIL), reply=confused) as bench:
        session = await bench.sessions.create()
        watch = RecordingWatch()
        asked = calls(("read_file", {"path": "a.txt"}), ("echo", {"n": 1}), ("fail", {}), ("nobody", {}))
        turn = await session.ask(asked, watch=watch)
        assert (turn.ended, turn.text, turn.line.calls) == ("completed", "Done.", 2)
        first, second = bench.bodies()
        answers = results(second)
        assert [answer.is_error for answer in answers] == [False, False, True, True]
        assert "alpha" in text_of(answers[0])
        assert text_of(answers[1]) == "echo 1"
        assert text_of(answers[2]) == "the printer is on fire"
        assert "nobody" in text_of(answers[3])
        assert extends(first.messages, second.messages)
        kinds = [kind for kind, _ in watch.events if kind in ("calling", "called")]
        assert kinds == ["calling"] * 4 + ["called"] * 4
        assert [kind for kind, _ in watch.events if kind == "answered"] == ["answered"] * 2
        assert "".join(text for kind, text in watch.events if kind == "piece text").endswith("Done.")
        bench.assert_sound(session)


async def test_a_tool_that_says_nothing_is_answered_all_the_same(tmp_path: Path) -> None:
    async def silent(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        return ToolOutput()

    tool = Tool(name="silent", description="Says nothing.", run=silent, effect="read")
    async with Bench(tmp_path, tools=(tool,)) as bench:
        await bench.begin(calls(("silent", {})))
        (answer,) = results(bench.bodies()[-1])
        assert text_of(answer) == NO_OUTPUT


async def test_a_turn_is_ended_after_so_many_requests_and_the_next_one_knows(tmp_path: Path) -> None:
    def forever(request: Request) -> object:
        last = request.messages[-1]
        if any("stop now" in text for text in texts(last)):
            return "Stopped."
        return {"call": [{"tool": "echo", "input": {"n": len(request.messages)}}]}

    config = settings(agent={"max_calls": 3})
    async with Bench(tmp_path, config=config, reply=forever, tools=(ECHO,)) as bench:
        session = await bench.sessions.create()
        turn = await session.ask("go")
        assert (turn.ended, turn.line.calls, len(bench.sent)) == ("capped", 3, 3)
        sound(session)
        turn = await session.ask("stop now")
        assert (turn.ended, turn.text) == ("completed", "Stopped.")
        last = texts(bench.bodies()[-1].messages[-1])
        assert last == [CAPPED.format(calls=3), "stop now"]
        assert not bench.breaks()


async def test_an_answer_that_is_cut_is_gone_on_with_and_not_for_ever(tmp_path: Path) -> None:
    config = settings(agent={"output_tokens": 5})
    async with Bench(tmp_path, config=config, reply=lambda _: "one two three four five six seven") as bench:
        session = await bench.sessions.create()
        turn = await session.ask("count")
        assert (turn.ended, len(bench.sent)) == ("completed", 3)
        bodies = bench.bodies()
        assert all(extends(a.messages, b.messages) for a, b in pairwise(bodies))
        assert "limit of 5 tokens" in texts(bodies[1].messages[-1])[0]
        sound(session)


async def test_one_turn_at_a_time(tmp_path: Path) -> None:
    async with Bench(tmp_path, tools=(ECHO,)) as bench:
        session = await bench.sessions.create()
        turns = await asyncio.gather(*(session.ask(calls(("echo", {"n": n}))) for n in range(4)))
        assert [turn.ended for turn in turns] == ["completed"] * 4
        bodies = bench.bodies()
        assert len(bodies) == 8
        assert all(extends(a.messages, b.messages) for a, b in pairwise(bodies))
        assert [text_of(result) for result in results(bodies[-1])] == [f"echo {n}" for n in range(4)]


async def test_a_goal_is_said_once_until_it_changes(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        session = await bench.begin("one", "two", goal="Ship it")
        session.set_goal("Ship it")
        await session.ask("three")
        session.set_goal("")
        await session.ask("four")
        last = bench.bodies()[-1].messages
        goals = [text for message in last for text in texts(message) if "Ship it" in text]
        assert len(goals) == 1
        assert len(texts(last[-1])) == 2  # that there is none any more, and what the user says
        bench.assert_sound(session)


async def test_what_a_host_tells_waits_for_the_next_turn_in_the_order_in_which_it_happened(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        session = await bench.begin("one")
        session.tell(TaskUpdated(task="t1", status="open", text="first thing"))
        bench.clock.advance(5)
        session.tell(TaskUpdated(task="t1", status="done", text="second thing"))
        assert len(bench.sent) == 1
        await session.ask("two")
        first, second, third = texts(bench.bodies()[-1].messages[-1])
        assert "first thing" in first
        assert "second thing" in second
        assert third == "two"
        assert not bench.breaks()


async def test_the_inspector_shows_every_block_whose_it_is_and_what_is_cached(tmp_path: Path) -> None:
    async with Bench(tmp_path, tools=(ECHO,), config=settings(cache=CacheSettings(padding="always"))) as bench:
        session = await bench.begin(calls(("echo", {"n": 1})), "thanks", goal="Ship it")
        shown = session.inspect()
        owners = [each.owner for each in shown]
        assert owners[0] == "tools"
        assert {"host", "surroundings", "goal", "user", "assistant", "tool:echo"} <= set(owners)
        assert owners.index("host") < owners.index("surroundings") < owners.index("user")
        assert any(each.cached for each in shown)
        assert all(each.tokens > 0 for each in shown)
        assert next(each for each in shown if each.owner == "goal").at == pytest.approx(bench.clock.now())


async def test_the_line_of_costs_adds_up_to_what_the_provider_billed(tmp_path: Path) -> None:
    async with Bench(tmp_path, tools=(ECHO,)) as bench:
        session = await bench.sessions.create()
        one = await session.ask(calls(("echo", {"n": 1})))
        two = await session.ask("thanks")
        billed = bench.used()
        assert one.line.calls + two.line.calls == len(billed) == 3
        total = session.totals()
        assert total.usage.read == sum(each.read for each in billed)
        assert total.usage.prompt == sum(each.prompt for each in billed)
        assert total.usage.output == sum(each.output for each in billed)
        assert total.cost is not None
        assert total.without is not None
        assert session.state.cost == total.cost == (one.line.cost or 0) + (two.line.cost or 0)
        assert bench.sessions.stored()[0].cost == total.cost
