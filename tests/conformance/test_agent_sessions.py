"""Seeds prefix-caching and context-assembler: what a session's prompt is made of, and when it may begin anew."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.agent.stable_text import PERSONA
from holdfast.agent.window.entries import AssistantTurn, Compacted, GoalInjection, SessionContext, Timeline
from holdfast.agent.window.texts import CONTINUE, GOAL
from holdfast.config.sections.agent import SkillsSettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.records import Request, Text, ToolResult, ToolUse, Usage
from holdfast.records.events.agent import WindowSent
from tests.agent.bench import Bench, calls, extends, settings, sound
from tests.agent.sample_tools import ECHO
from tests.agent.summaries import summarizer
from tests.agent.transcripts import texts
from tests.skills.skill_files import write_skill

HAIKU = "anthropic:claude-haiku-4-5"
PADDED = CacheSettings(padding="always")


def covered(used: Usage) -> int:
    """What is cached of a prompt once it was answered."""
    return used.prompt - used.input


def resets(bench: Bench, id: str) -> list[str | None]:
    return [event.payload.reset for event in bench.log(id) if isinstance(event.payload, WindowSent)]


async def test_a11_a31_b22_the_stable_part_is_persona_instructions_and_skills_index(tmp_path: Path) -> None:
    roots = tmp_path / "skills"
    write_skill(roots, "csv", description="Reads tables.")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "AGENTS.md").write_text("Use tabs.\n")
    config = settings(skills=SkillsSettings(roots=(str(roots),)), cache=CacheSettings(padding="off"))
    async with Bench(tmp_path, config=config) as bench:
        session = await bench.begin("hello")
        system = bench.bodies()[0].system_prompt or ""
        places = [system.index(part) for part in (PERSONA, "Use tabs.", "Reads tables.", "# Memory")]
        assert places == sorted(places)
        # Neither what is on disk now nor a skill that is new changes what was composed.
        (bench.workspace / "AGENTS.md").write_text("Use spaces.\n")
        write_skill(roots, "pdf", description="Reads papers.")
        await session.ask("again")
        session = await bench.resumed(session, "and again")
        assert [body.system_prompt for body in bench.bodies()] == [system] * 3
        assert not bench.breaks()


async def test_a53_a_natural_prompt_without_skills_is_read_on_the_second_turn(tmp_path: Path) -> None:
    async with Bench(tmp_path, config=settings(model=HAIKU, cache=PADDED)) as bench:
        session = await bench.sessions.create()
        first = await session.ask("hello")
        second = await session.ask("again")
        assert first.line.usage.read == 0
        assert second.line.usage.read > 0


async def test_b5_b6_only_the_first_turn_and_the_one_behind_a_compaction_begin_anew(tmp_path: Path) -> None:
    config = settings(cache=PADDED, compaction={"keep_recent_tokens": 100, "cooldown_turns": 0})
    async with Bench(tmp_path, config=config, reply=summarizer()) as bench:
        session = await bench.sessions.create()
        for number in range(8):
            await session.ask(f"question {number} " + "and so on " * 100)
        await session.compact()
        for number in range(3):
            await session.ask(f"later {number}")
        asked, summarised, after = bench.used()[:8], bench.used()[8], bench.used()[9:]
        assert asked[0].read == 0
        for before, now in pairwise([*asked, summarised]):  # the request for the summary extends the last one too
            assert now.read >= covered(before)
        assert 0 < after[0].read < summarised.read
        for before, now in pairwise(after):
            assert now.read >= covered(before)
        assert resets(bench, session.id) == [None] * 9 + ["compaction", None, None]
        assert not bench.breaks()


async def test_b21_the_system_text_is_the_same_on_every_request(tmp_path: Path) -> None:
    async with Bench(tmp_path, tools=(ECHO,)) as bench:
        session = await bench.begin(calls(("memory_add", {"file": "user", "text": "likes tea"})))
        session.set_goal("Ship it")
        bench.clock.advance(3 * 86_400)
        await session.ask("hello")
        await session.ask(f"@{HAIKU} hello")
        assert len({body.system_prompt for body in bench.bodies()}) == 1
        assert not [body for body in bench.bodies() if body.system_prompt_volatile]


async def test_b23_b24_b25_the_order_of_a_prompt_and_what_each_entry_becomes(tmp_path: Path) -> None:
    async with Bench(tmp_path, tools=(ECHO,)) as bench:
        session = await bench.begin(calls(("echo", {"n": 1}), ("echo", {"n": 2})), "thanks", goal="Ship it")
        kinds = [type(entry) for entry in session.state.window.entries]
        assert kinds == [
            SessionContext,
            GoalInjection,
            Timeline,
            AssistantTurn,
            AssistantTurn,
            Timeline,
            AssistantTurn,
        ]
        sent = bench.bodies()[-1]
        first, called, answered, done, thanks = sent.messages
        assert [message.role for message in sent.messages] == ["user", "assistant", "user", "assistant", "user"]
        assert texts(first)[0].startswith("# Surroundings")
        assert texts(first)[1] == f"{GOAL}\nShip it"
        assert [type(block) for block in called.content] == [ToolUse, ToolUse]
        assert [type(block) for block in answered.content] == [ToolResult, ToolResult]
        assert (texts(done), texts(thanks)) == (["Done."], ["thanks"])


async def test_b25_a_compaction_renders_to_a_user_message(tmp_path: Path) -> None:
    compaction = {"keep_recent_tokens": 100, "cooldown_turns": 0}
    async with Bench(tmp_path, config=settings(compaction=compaction)) as bench:
        session = await bench.sessions.create()
        for number in range(8):
            await session.ask(f"question {number} " + "and so on " * 100)
        await session.compact()
        await session.ask("go on")
        (summary,) = [entry for entry in session.state.window.entries if isinstance(entry, Compacted)]
        (where,) = [m for m in bench.bodies()[-1].messages if Text(summary.text) in m.content]
        assert where.role == "user"
        sound(session)


async def test_b26_a_history_that_would_end_with_the_model_gets_a_continue_that_is_stored_first(tmp_path: Path) -> None:
    seen: list[list[str]] = []

    def pausing(request: Request) -> object:
        last = request.messages[-1]
        seen.append(texts(last) if last.role == "user" else ["?"])
        return "More."

    async with Bench(tmp_path, reply=pausing) as bench:
        session = await bench.sessions.create()
        await session.ask("hello")
        await session.ask(" ")  # says nothing
        assert seen[-1] == [CONTINUE]
        kinds = [event.type for event in bench.log(session.id)]
        last_sent = max(place for place, kind in enumerate(kinds) if kind == "window.sent")
        appended = max(place for place, kind in enumerate(kinds) if kind == "window.appended")
        assert appended < last_sent
        await session.ask("on")
        bodies = bench.bodies()
        assert extends(bodies[-2].messages, bodies[-1].messages)
        assert not bench.breaks()


@pytest.mark.parametrize("turns", [0, 3])
async def test_c25_what_is_no_longer_sent_stays_in_the_session_file(tmp_path: Path, turns: int) -> None:
    compaction = {"keep_recent_tokens": 100, "cooldown_turns": 0}
    config = settings(agent={"history_turns": turns}, compaction=compaction)
    async with Bench(tmp_path, config=config) as bench:
        session = await bench.sessions.create()
        for number in range(10):
            await session.ask(f"question {number} " + "and so on " * 100)
        await session.compact()
        await session.ask("go on")
        raw = (bench.home / "sessions" / f"{session.id}.jsonl").read_text()
        for number in range(10):
            assert f"question {number} " in raw
            assert f"You said: question {number} " in raw
        last = [text for message in bench.bodies()[-1].messages for text in texts(message)]
        assert len([text for text in last if text.startswith("question ")]) < 10


async def test_c24_a_guide_is_in_no_request_until_its_tool_was_used(tmp_path: Path) -> None:
    tool = replace(ECHO, guide="Numbers are said in words.")
    async with Bench(tmp_path, tools=(tool,)) as bench:
        session = await bench.begin("hello", calls(("echo", {"n": 1})), calls(("echo", {"n": 2})))
        holding = [raw.count(b"Numbers are said in words.") for _, _, raw in bench.sent]
        assert holding == [0, 0, 1, 1, 1]
        assert "Numbers" not in (bench.bodies()[-1].system_prompt or "")
        sound(session)
