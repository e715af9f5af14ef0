"""USER.md and MEMORY.md in a session: at its tail as news, or behind the stable system text."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from holdfast.config.sections.cache import CacheSettings
from holdfast.records import Usage
from tests.agent.bench import Bench, calls, extends, settings
from tests.agent.transcripts import same_head, texts


def memory(bench: Bench, name: str, text: str) -> None:
    (bench.workspace / ".holdfast").mkdir(exist_ok=True)
    (bench.workspace / ".holdfast" / name).write_text(text)


def told(bench: Bench, words: str) -> int:
    """How often the last request says something, in its messages."""
    return sum(words in text for message in bench.bodies()[-1].messages for text in texts(message))


def covered(used: Usage) -> int:
    return used.prompt - used.input


async def test_a12_a32_in_tail_mode_the_files_come_as_news_and_all_before_them_is_read(tmp_path: Path) -> None:
    async with Bench(tmp_path, config=settings(cache=CacheSettings(padding="always"))) as bench:
        memory(bench, "USER.md", "- likes short answers\n")
        session = await bench.begin("hello")
        assert told(bench, "likes short answers") == 1
        assert "likes short answers" not in (bench.bodies()[-1].system_prompt or "")
        await session.ask(calls(("memory_add", {"file": "memory", "text": "the build needs make"})))
        assert told(bench, "Memory file MEMORY.md says:\n- the build needs make") == 1
        memory(bench, "MEMORY.md", "- the build needs ninja\n")
        await session.ask("I changed the notes")
        assert told(bench, "the build needs ninja") == 1
        assert told(bench, "MEMORY.md says:\n- the build needs make") == 1  # what was said stays
        await session.ask("and on")
        bodies, billed = bench.bodies(), bench.used()
        for before, after in pairwise(bodies):
            assert same_head(before, after)
            assert extends(before.messages, after.messages)
        for earlier, later in pairwise(billed):
            assert later.read >= covered(earlier)
        bench.assert_sound(session)


async def test_a30_a31_a32_a33_in_system_mode_a_change_keeps_tools_and_stable_system_text(tmp_path: Path) -> None:
    config = settings(agent={"volatile": "system"}, cache=CacheSettings(padding="always", strategy="two-point"))
    async with Bench(tmp_path, config=config) as bench:
        memory(bench, "USER.md", "- likes short answers\n")
        session = await bench.begin("hello", "again")
        memory(bench, "MEMORY.md", "- the build needs ninja\n")
        await session.ask("I changed the notes")
        await session.ask("and on")
        one, two, three, four = bench.bodies()
        assert one.system_prompt == two.system_prompt == three.system_prompt == four.system_prompt
        assert one.system_prompt_volatile == two.system_prompt_volatile
        assert "likes short answers" in (one.system_prompt_volatile or "")
        assert "ninja" in (three.system_prompt_volatile or "")
        assert three.system_prompt_volatile == four.system_prompt_volatile
        assert extends(two.messages, three.messages)
        assert told(bench, "ninja") == 0
        billed = bench.used()
        head = billed[0].written
        assert head > 0
        assert [each.read for each in billed[1:]] == [head] * 3  # tools and stable system text, every time
        resets = [event.payload.reset for event in bench.log(session.id) if event.type == "window.sent"]  # type: ignore[attr-defined]
        assert resets[2] == "volatile_system_changed"
        assert resets[3] is None
        bench.assert_sound(session)


@pytest.mark.parametrize("clean", [True, False])
async def test_what_was_told_of_a_file_is_not_told_again_after_a_restart(tmp_path: Path, clean: bool) -> None:
    async with Bench(tmp_path) as bench:
        session = await bench.begin(calls(("memory_add", {"file": "user", "text": "likes tea"})))
        session = await bench.resumed(session, "go on", clean=clean)
        assert told(bench, "USER.md says:\n- likes tea") == 1
        memory(bench, "USER.md", "")
        await session.ask("forget it")
        assert told(bench, "(It is empty.)") == 1
        await session.ask("and on")
        assert told(bench, "(It is empty.)") == 1
        assert not bench.breaks()
