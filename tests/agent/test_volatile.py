"""What a conversation knows of the memory files, and what it has to be told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.memory_updates import (
    MEMORY_HEADING,
    USER_HEADING,
    file_changes,
    files_told,
    volatile_now,
    volatile_text,
)
from holdfast.agent.window.entries import Compacted, Entry, MemoryChanged, Timeline, UserMessage
from holdfast.config.sections.agent import MemorySettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.memory import MemoryFiles, digest
from holdfast.memory.tools import EMPTY
from holdfast.records.events.tools import MemoryUpdated
from tests.agent.bench import Bench, settings


@pytest.fixture
def files(tmp_path: Path) -> MemoryFiles:
    return MemoryFiles(tmp_path / ".holdfast", MemorySettings())


def entry(*events: MemoryUpdated, at: int = 1) -> Timeline:
    """The events as they stand in a window once they were flushed."""
    items = [MemoryChanged(at=at, seq=number, store=each.store, text=each.text) for number, each in enumerate(events)]
    return Timeline(at=at, items=(UserMessage(at=at, seq=99, text="hello"), *items))


def test_the_volatile_text_is_the_user_then_the_notes() -> None:
    text = volatile_text("- likes tea", "- port 80")
    assert text == f"{USER_HEADING}\n\n- likes tea\n\n{MEMORY_HEADING}\n\n- port 80"
    assert volatile_text("", "- port 80") == f"{MEMORY_HEADING}\n\n- port 80"
    assert volatile_text("- likes tea", "") == f"{USER_HEADING}\n\n- likes tea"
    assert volatile_text("", "") == ""


def test_the_volatile_text_follows_the_files(files: MemoryFiles) -> None:
    assert volatile_now(files) == ""
    files.add("user", "likes tea")
    assert volatile_now(files) == volatile_text("- likes tea", "")


def test_a_session_is_told_what_there_is_and_of_nothing_nothing(files: MemoryFiles) -> None:
    assert file_changes({}, files) == ()
    files.add("memory", "port 80")
    (event,) = file_changes({}, files)
    assert (event.store, event.operation, event.text) == ("MEMORY.md", "read", "- port 80")
    assert event.digest == digest("- port 80")
    files.add("user", "likes tea")
    assert [each.store for each in file_changes({}, files)] == ["USER.md", "MEMORY.md"]


def test_what_was_told_is_not_told_again(files: MemoryFiles) -> None:
    files.add("user", "likes tea")
    window: list[Entry] = [entry(*file_changes({}, files))]
    assert file_changes(files_told(window), files) == ()


def test_what_a_tool_told_is_not_told_again(files: MemoryFiles) -> None:
    made = files.add("user", "likes tea")
    queue = [MemoryChanged(at=5, seq=3, store=made.store, text=made.text)]
    assert files_told((), queue) == {"USER.md": made.digest}
    assert file_changes(files_told((), queue), files) == ()


def test_an_edit_by_hand_is_noticed(files: MemoryFiles, tmp_path: Path) -> None:
    files.add("user", "likes tea")
    window = [entry(*file_changes({}, files))]
    (tmp_path / ".holdfast" / "USER.md").write_text("- likes coffee\r\n")
    (event,) = file_changes(files_told(window), files)
    assert (event.operation, event.text) == ("edit", "- likes coffee")
    window.append(entry(event, at=2))
    assert file_changes(files_told(window), files) == ()


def test_line_ends_and_spaces_are_no_news(files: MemoryFiles, tmp_path: Path) -> None:
    files.add("user", "likes tea")
    window = [entry(*file_changes({}, files))]
    (tmp_path / ".holdfast" / "USER.md").write_text("\r\n- likes tea  \r\n\r\n")
    assert file_changes(files_told(window), files) == ()


def test_a_file_that_became_empty_is_told_once(files: MemoryFiles, tmp_path: Path) -> None:
    files.add("user", "likes tea")
    window = [entry(*file_changes({}, files))]
    (tmp_path / ".holdfast" / "USER.md").unlink()
    (event,) = file_changes(files_told(window), files)
    assert (event.text, event.digest) == (EMPTY, digest(""))
    window.append(entry(event, at=2))
    assert file_changes(files_told(window), files) == ()


def test_a_file_that_is_too_long_is_told_as_it_is_shown_and_once(files: MemoryFiles, tmp_path: Path) -> None:
    (tmp_path / ".holdfast").mkdir()
    (tmp_path / ".holdfast" / "USER.md").write_text("- a line\n" * 1000)
    (event,) = file_changes({}, files)
    assert event.text == files.read("user")
    assert file_changes(files_told([entry(event)]), files) == ()


def test_what_a_compaction_took_away_is_told_again(files: MemoryFiles) -> None:
    files.add("user", "likes tea")
    first = entry(*file_changes({}, files))
    files.add("user", "likes cake")
    second = entry(*file_changes(files_told([first]), files), at=2)
    assert file_changes(files_told([first, second]), files) == ()
    summary = Compacted(at=3, text="They spoke.")
    assert [each.text for each in file_changes(files_told([first, summary]), files)] == ["- likes tea\n- likes cake"]
    assert [each.operation for each in file_changes(files_told([summary]), files)] == ["read"]


def test_the_latest_in_the_queue_counts(files: MemoryFiles) -> None:
    texts = [files.add("user", each).text for each in ("one", "two")]
    queue = [MemoryChanged(at=at, seq=at, store="USER.md", text=texts[at]) for at in (1, 0)]
    assert file_changes(files_told((), queue), files) == ()


@pytest.mark.parametrize(("where", "acts"), [("tail", False), ("system", True)])
def test_only_memory_in_the_system_text_is_anything_to_repair(tmp_path: Path, where: str, acts: bool) -> None:
    """What `config.inert` says of `cache.repair` in the agent."""

    async def sent(place: Path, repair: Any) -> list[bytes]:
        config = settings(cache=CacheSettings(repair=repair), agent={"volatile": where})
        async with Bench(place, config=config) as bench:
            session = await bench.sessions.create(system_prompt="You are careful. " * 900)
            for number in range(3):
                session.memory.add("memory", f"fact {number} of 2027-01-1{number}")
                bench.clock.advance(30)
                await session.ask("Hello")
            return [raw.replace(str(bench.workspace).encode(), b"PLACE") for _, _, raw in bench.sent]

    found = {mode: asyncio.run(sent(tmp_path / mode, mode)) for mode in ("suggest", "off", "on")}
    assert found["off"] == found["suggest"]
    assert (found["on"] != found["suggest"]) is acts
