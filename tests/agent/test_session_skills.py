"""Skills through the agent's door: what the prompt says of a description that is too long, and what a search finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.config.sections.agent import SkillsSettings
from holdfast.records import Text, ToolResult
from tests.agent.bench import Bench, calls, settings
from tests.skills.skill_files import write_skill

LONG = " ".join(f"word{number:04}" for number in range(116)) + " and more, in the end too"
"""As long as the description of a skill that is much used."""

BODY = "First read the whole of it.\n" + "Then do what it says. " * 40


def said(result: ToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, Text))


async def asked(place: Path, *tools: tuple[str, dict[str, Any]], strict: bool = False) -> tuple[str, list[str]]:
    """The stable prompt of a session with the skills in `place`, and what these calls gave."""
    chosen = settings(skills=SkillsSettings(roots=(str(place / "skills"),), strict=strict))
    async with Bench(place, config=chosen) as bench:
        session = await bench.sessions.create()
        for each in tools:
            await session.ask(calls(each))
        last = bench.bodies()[-1]
        results = [block for message in last.messages for block in message.content if isinstance(block, ToolResult)]
        return str(last.system_prompt), [said(result) for result in results]


async def test_d22_a_long_description_is_cut_at_a_word_in_the_prompt_and_its_body_comes_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert len(LONG) == 1_068
    write_skill(tmp_path / "skills", "claude-api", description=LONG, body=BODY)
    write_skill(tmp_path / "skills", "pdf")
    load, search = ("skill_load", {"name": "claude-api"}), ("skill_search", {"query": "word0001"})
    prompt, (body, match) = await asked(tmp_path, load, search)
    (line,) = [line for line in prompt.splitlines() if line.startswith("- claude-api: ")]
    description = line.removeprefix("- claude-api: ")
    kept, mark = description[:-1], description[-1]
    assert mark == "…"
    assert 1_010 < len(description) <= 1_024
    assert LONG.startswith(f"{kept} "), "it ends where a word does"
    assert description in match
    assert BODY.strip() in body
    warnings = [record.getMessage() for record in caplog.records if "claude-api" in record.getMessage()]
    assert len(warnings) == 1
    assert "`description` has 1068 characters; 1024 are allowed, and the index cuts it there" in warnings[0]


async def test_d15_d22_d26_with_skills_strict_it_is_left_out_and_the_others_load(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_skill(tmp_path / "skills", "claude-api", description=LONG)
    write_skill(tmp_path / "skills", "pdf")
    prompt, (answer,) = await asked(tmp_path, ("skill_load", {"name": "claude-api"}), strict=True)
    assert ("- pdf: " in prompt, "claude-api" in prompt) == (True, False)
    assert "claude-api" in answer
    assert "word0000" not in answer
    assert "is left out: line 3: `description` has 1068 characters; 1024 are allowed" in caplog.text


async def test_a_question_finds_by_the_words_that_say_something(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills", "pdf", description="Produce documents.")
    write_skill(
        tmp_path / "skills", "a-diagnostic", description="How is it? If so, would this do? I notify us about it."
    )
    query = ("skill_search", {"query": "how would I do a pdf, if it is for us?"})
    _, (answer,) = await asked(tmp_path, query)
    assert "pdf" in answer
    assert "a-diagnostic" not in answer
