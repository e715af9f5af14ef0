"""The stable system text: its order, its bytes, a project's instructions, and when it is padded."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from holdfast import facts
from holdfast.agent.guides import DELEGATION
from holdfast.agent.stable_text import (
    MEMORY_ANNOUNCEMENT,
    MEMORY_ANNOUNCEMENT_SYSTEM,
    MOST_INSTRUCTIONS,
    PERSONA,
    PromptTexts,
    StableText,
    compose,
    compose_before,
    instructions,
)
from holdfast.agent.window.texts import CONTINUE, written
from holdfast.config.keys import Settings
from holdfast.config.sections.agent import AgentSettings, SkillsSettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.core.operating_context import SECTIONS
from holdfast.core.padding import Outlook
from holdfast.errors import HoldfastError
from holdfast.facts import estimate
from holdfast.memory import MemoryFiles, memory_tools
from holdfast.records import ToolDefinition
from tests.skills.sessions import session, sized, skill

NAMES = ("AGENTS.md", "CLAUDE.md")
HAIKU = "anthropic:claude-haiku-4-5"
TOOLS = (ToolDefinition("look", "Look at a thing.", b'{"type":"object"}'),)


def made(workspace: Path, *skills: Any, **options: Any) -> StableText:
    settings = Settings(
        agent=AgentSettings(volatile=options.pop("volatile", "tail")),
        cache=CacheSettings(padding=options.pop("padding", "off")),
    )
    options = {"tools": TOOLS, "models": [HAIKU], "outlook": Outlook(calls=20.0), **options}
    texts = {name: options.pop(name) for name in PromptTexts.__struct_fields__ if name in options}
    return compose(session(*skills), PromptTexts(**texts), settings=settings, workspace=workspace, **options)


def test_the_parts_stand_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.\n")
    text = made(tmp_path, sized("big", 1_500), skill("pdf", "Fills forms."), padding="always").text
    places = [
        text.index(part)
        for part in (
            PERSONA,
            "# Project instructions (AGENTS.md)\n\nUse tabs.",
            "## Available skills\n",
            "- pdf [preloaded]: Fills forms.",
            "# Skill: big (source: global)\n",
            "# Skill: pdf (source: global)\n",
            SECTIONS[0],
            MEMORY_ANNOUNCEMENT,
        )
    ]
    assert places == sorted(places)
    assert places[0] == 0
    assert text.endswith(MEMORY_ANNOUNCEMENT)


def test_it_tells_what_is_preloaded_and_why(tmp_path: Path) -> None:
    prompt = made(tmp_path, sized("big", 1_500), padding="always")
    assert prompt.preloaded == ("big",)
    assert prompt.why.startswith("padded to ")
    assert made(tmp_path).why == "padding is off"


def test_it_is_the_same_in_every_workspace_and_names_none(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name / ".holdfast").mkdir(parents=True)
        (tmp_path / name / "AGENTS.md").write_text("Use tabs.\n")
        (tmp_path / name / ".holdfast" / "USER.md").write_text(f"- works at {name}\n")
    one, other = (made(tmp_path / name, padding="always") for name in ("one", "other"))
    assert one == other
    assert str(tmp_path) not in one.text
    assert "works at" not in one.text


def test_it_is_composed_once_for_a_session(tmp_path: Path) -> None:
    skills = session(skill("pdf"))
    compose(skills, settings=Settings(), workspace=tmp_path)
    with pytest.raises(HoldfastError, match="composed before"):
        compose(skills, settings=Settings(), workspace=tmp_path)


def test_without_skills_the_padding_rule_runs_all_the_same(tmp_path: Path) -> None:
    padded = made(tmp_path, padding="always")
    assert SECTIONS[0] in padded.text
    assert "## Available skills" not in padded.text
    assert estimate(padded.text) >= facts.model(HAIKU).floor
    long = made(tmp_path, padding="economic", persona="word " * 5_000)
    assert "by itself" in long.why


def test_an_index_that_is_switched_off_is_not_there(tmp_path: Path) -> None:
    settings = Settings(skills=SkillsSettings(index="off"))
    found = compose(session(skill("pdf"), index="off"), settings=settings, workspace=tmp_path)
    assert found.text == f"{PERSONA}\n\n{MEMORY_ANNOUNCEMENT}"


def test_a_prompt_of_ones_own_takes_the_place_of_persona_and_instructions(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.\n")
    text = made(tmp_path, skill("pdf"), system_prompt="You sort mail.").text
    assert text.startswith("You sort mail.\n\n## Available skills\n")
    assert text.endswith(MEMORY_ANNOUNCEMENT)
    assert "tabs" not in text
    assert PERSONA not in text


def test_another_persona_keeps_the_instructions(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.\n")
    text = made(tmp_path, persona="You sort mail.").text
    assert text.startswith("You sort mail.\n\n# Project instructions (AGENTS.md)\n\nUse tabs.\n\n# Memory")


def test_the_announcement_counts_towards_the_length(tmp_path: Path) -> None:
    """A prefix that is long enough with it needs no padding."""
    floor = facts.model(HAIKU).floor
    short = floor - estimate(MEMORY_ANNOUNCEMENT) // 2
    persona = "word " * short
    assert estimate(persona) < floor
    assert "by itself" in made(tmp_path, persona=persona, padding="economic", tools=()).why
    without = session().compose(
        persona, cache=CacheSettings(padding="economic"), models=[facts.model(HAIKU)], outlook=Outlook(calls=20.0)
    )
    assert "by itself" not in without.why


@pytest.mark.parametrize("tokens", range(0, 4_500, 450))
def test_the_upper_bound_holds_with_the_announcement(tmp_path: Path, tokens: int) -> None:
    text = made(tmp_path, padding="always", tools=(), persona="x" * 4 * tokens).text
    assert len(text) // 4 <= 5_500


def test_where_memory_is_announced(tmp_path: Path) -> None:
    assert made(tmp_path).text.endswith(MEMORY_ANNOUNCEMENT)
    assert made(tmp_path, volatile="system").text.endswith(MEMORY_ANNOUNCEMENT_SYSTEM)


def test_the_announcement_names_files_tools_and_what_counts(tmp_path: Path) -> None:
    for text in (MEMORY_ANNOUNCEMENT, MEMORY_ANNOUNCEMENT_SYSTEM):
        for word in ("USER.md", "MEMORY.md", *(tool.name for tool in memory_tools(MemoryFiles(tmp_path)))):
            assert word in text
    assert "The newest entry of a file is the one that counts." in MEMORY_ANNOUNCEMENT


def test_the_persona_is_short_and_speaks_of_what_the_runtime_does() -> None:
    assert 250 <= estimate(PERSONA) <= 400
    assert f"`{CONTINUE}`" in PERSONA
    (shown,) = re.findall(r"`\[(.*?)\]`", PERSONA)
    assert shown == written(1_769_851_800_000_000, "UTC")
    for word in ("# Security", "`delegate`", "guides of tools"):
        assert word in PERSONA
    assert "`QUESTION:`" in DELEGATION.text  # what only those need who have sub-agents comes with the first of them
    assert all(line == line.rstrip() for line in PERSONA.split("\n"))


def test_the_first_file_that_is_there_counts(tmp_path: Path) -> None:
    assert instructions(tmp_path, NAMES) == ""
    (tmp_path / "CLAUDE.md").write_text("From the second.")
    assert instructions(tmp_path, NAMES) == "# Project instructions (CLAUDE.md)\n\nFrom the second."
    (tmp_path / "AGENTS.md").write_text("From the first.")
    assert instructions(tmp_path, NAMES) == "# Project instructions (AGENTS.md)\n\nFrom the first."
    assert instructions(tmp_path, ()) == ""
    assert compose_before("I.", tmp_path, NAMES) == "I.\n\n# Project instructions (AGENTS.md)\n\nFrom the first."


def test_an_empty_file_is_no_section(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text(" \n\n")
    assert instructions(tmp_path, NAMES) == ""


def test_what_is_no_file_is_passed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "AGENTS.md")
    (tmp_path / "CLAUDE.md").write_text("Here.")
    assert "Here." in instructions(tmp_path, NAMES)
    (tmp_path / "CLAUDE.md").unlink()
    (tmp_path / "CLAUDE.md").mkdir()
    assert instructions(tmp_path, NAMES) == ""


def test_links_count_where_they_stay_inside(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "secret").write_text("a key")
    (work / "AGENTS.md").symlink_to(tmp_path / "secret")
    (work / "CLAUDE.md").symlink_to("docs.md")
    (work / "docs.md").write_text("Inside.")
    assert instructions(work, NAMES) == "# Project instructions (CLAUDE.md)\n\nInside."


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "~/x", "", "a\0b", "x" * 5_000])
def test_names_that_lead_out_are_passed_over(tmp_path: Path, name: str) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "secret").write_text("a key")
    assert instructions(tmp_path / "work", (name,)) == ""


def test_a_workspace_that_is_gone_has_no_instructions(tmp_path: Path) -> None:
    assert instructions(tmp_path / "gone", NAMES) == ""


def test_whatever_bytes_there_are_can_be_sent(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_bytes(b"\xef\xbb\xbfUse caf\xe9.\r\n\x00\x1b[31mRed.\r\n")
    assert instructions(tmp_path, NAMES) == "# Project instructions (AGENTS.md)\n\nUse caf\ufffd.\n[31mRed."


@pytest.mark.parametrize("line", ["a line of text\n", "a line of text\r\n", "é" * 50 + "\n", "x"])
def test_long_instructions_are_cut_at_a_line_with_a_note(tmp_path: Path, line: str) -> None:
    written = line * (200_000 // len(line))
    (tmp_path / "AGENTS.md").write_bytes(written.encode())
    text = instructions(tmp_path, NAMES)
    body, _, note = text.partition("\n\n")[2].rpartition("\n\n")
    assert note == "[AGENTS.md is longer than 65536 bytes. The rest is not shown here.]"
    assert MOST_INSTRUCTIONS * 0.9 < len(body.encode()) <= MOST_INSTRUCTIONS
    assert set(body.split("\n")) == {line.strip() if line != "x" else body}
    assert "\ufffd" not in body


def test_instructions_up_to_the_limit_are_whole(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("x" * MOST_INSTRUCTIONS)
    assert instructions(tmp_path, NAMES).endswith("\n\n" + "x" * MOST_INSTRUCTIONS)
