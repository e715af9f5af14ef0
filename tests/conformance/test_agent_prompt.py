"""Seeds context-assembler §2, §4, §5.1 and cache page: what an agent's system text is made of, and what goes where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast import facts
from holdfast.agent.memory_updates import volatile_now
from holdfast.agent.requests import SystemText, Target, request
from holdfast.agent.stable_text import PERSONA, PromptTexts, StableText, compose
from holdfast.config.keys import Settings
from holdfast.config.sections.agent import AgentSettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.memory import MemoryFiles
from holdfast.records import Message, Text, ToolDefinition
from holdfast.wire import DIALECTS
from tests.skills.sessions import session, skill

MODEL = "anthropic:claude-haiku-4-5"
TOOLS = (ToolDefinition("look", "Look at a thing.", b'{"type":"object"}'),)
INSTRUCTIONS = "Run `make test` before you say that it works."
SYSTEM = Settings(agent=AgentSettings(volatile="system"), cache=CacheSettings(padding="off"))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "AGENTS.md").write_text(INSTRUCTIONS)
    memory = MemoryFiles(tmp_path / ".holdfast")
    memory.add("user", "likes tea")
    memory.add("memory", "port 80")
    return tmp_path


def stable(work: Path, settings: Settings = SYSTEM, system_prompt: str | None = None) -> StableText:
    return compose(
        session(skill("pdf", "Fills forms.")),
        PromptTexts(system_prompt=system_prompt),
        settings=settings,
        workspace=work,
        tools=TOOLS,
        models=[MODEL],
    )


def sent(work: Path) -> list[dict[str, object]]:
    """The system blocks of a request of a session in this workspace."""
    asked = request(
        (Message("user", (Text("hello"),)),),
        target=Target(facts=facts.model(MODEL), dialect="anthropic"),
        system=SystemText(host=stable(work).text, volatile=volatile_now(MemoryFiles(work / ".holdfast")), blocks=True),
        tools=TOOLS,
        output_limit=100,
    )
    found: list[dict[str, object]] = json.loads(DIALECTS["anthropic"].encode(asked))["system"]
    return found


def test_a11_persona_skills_index_and_project_instructions_are_stable(work: Path) -> None:
    text = stable(work).text
    assert text.startswith(PERSONA)
    assert INSTRUCTIONS in text
    assert "- pdf: Fills forms." in text
    MemoryFiles(work / ".holdfast").add("memory", "port 81")
    (work / "new").write_text("x")
    assert stable(work).text == text


def test_a12_what_the_agent_writes_is_volatile(work: Path) -> None:
    files = MemoryFiles(work / ".holdfast")
    before = volatile_now(files)
    assert "likes tea" in before
    assert "port 80" in before
    files.add("memory", "port 81")
    assert volatile_now(files) != before
    for word in ("likes tea", "port 80", "port 81"):
        assert word not in stable(work).text


def test_a31_the_stable_segment_is_persona_and_discovery_index(work: Path) -> None:
    (work / "AGENTS.md").unlink()
    text = str(sent(work)[0]["text"])
    index = "## Available skills\nUse `skill_search(query)` to filter and `skill_load(name)` to read a body.\n\n"
    assert text.startswith(f"{PERSONA}\n\n{index}- pdf: Fills forms.")
    assert "Do it." not in text


def test_a32_the_volatile_segment_is_user_and_memory(work: Path) -> None:
    text = str(sent(work)[1]["text"])
    assert text.index("USER.md") < text.index("likes tea") < text.index("MEMORY.md") < text.index("port 80")
    for store in ("USER.md", "MEMORY.md"):
        (work / ".holdfast" / store).unlink()
    assert len(sent(work)) == 1


def test_a49_with_a_prompt_of_ones_own_the_rule_runs_and_adds_nothing_above_the_floor(work: Path) -> None:
    always = Settings(cache=CacheSettings(padding="always"))
    short = stable(work, always, "You sort mail.")
    assert short.why.startswith("padded to ")
    long = "word " * 6_000
    above = stable(work, always, long)
    assert "by itself" in above.why
    assert above.preloaded == ()
    assert above.text.startswith(f"{long}\n\n## Available skills")


def test_c22_identity_security_rules_skill_manifests_and_workspace_instructions(work: Path) -> None:
    text = stable(work).text
    parts = [text.index(part) for part in ("You are", "# Security", INSTRUCTIONS, "## Available skills", "- pdf: ")]
    assert parts == sorted(parts)
    assert parts[0] == 0
    assert "# Project instructions (AGENTS.md)" in text
