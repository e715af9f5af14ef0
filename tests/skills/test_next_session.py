"""What edits on disk do to the next session's bytes, and that they do nothing to those of a session that runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.config.sections.agent import SkillsSettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.core import skill_texts
from holdfast.core.padding import Outlook
from holdfast.facts import model
from holdfast.records import Request, Text, ToolUse
from holdfast.skills.index import HEADING, HINT, LEFT_OUT
from holdfast.skills.loader import skill_store_factory
from holdfast.skills.session import SessionSkills, SkillPrompt
from holdfast.tools import Toolbox
from holdfast.wire import DIALECTS
from tests.skills.skill_files import write_skill
from tests.support.toolboxes import toolbox

OPUS = model("anthropic:claude-opus-4-6")
PERSONA = "You are a clerk of a small company.\n" * 20
BODY = "Check every page twice. " * 60

Edit = Callable[[Path], object]


def body(root: Path) -> object:
    return write_skill(root, "pdf", description="Reads PDF files.", body=BODY.replace("twice", "once ") + "\n")


def description(root: Path) -> object:
    return write_skill(root, "pdf", description="Reads and writes PDF files.", body=BODY + "\n")


def other_fields(root: Path) -> object:
    fields: dict[str, Any] = {"license": "MIT", "compatibility": "any", "metadata": {"version": "2"}}
    return write_skill(root, "pdf", description="Reads PDF files.", body=BODY + "\n", allowed_tools="bash", **fields)


def added(root: Path) -> object:
    return write_skill(root, "csv", description="Reads tables.", body=BODY + "\n")


def removed(root: Path) -> object:
    return rmtree(root / "zip")


def broken(root: Path) -> object:
    return (root / "zip" / "SKILL.md").write_text("no frontmatter")


class Process:
    """A program that runs on while skills are edited: each new session asks the factory."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.global_root, self.workspace = place / "global", place / "work"
        self.workspace.mkdir()
        self.own_root = self.workspace / ".holdfast" / "skills"
        for name, about in (("pdf", "Reads PDF files."), ("zip", "Packs files.")):
            write_skill(self.global_root, name, description=about, body=BODY + "\n")
        self.settings = SkillsSettings(roots=(str(self.global_root), ".holdfast/skills"))
        self._factory = skill_store_factory(self.settings, self.workspace)

    def session(self) -> SessionSkills:
        return SessionSkills(self._factory(), settings=self.settings)

    def box(self, skills: SessionSkills) -> Toolbox:
        return toolbox(model=OPUS.ref, workspace=self.workspace, home=self.place / "home", skills=skills)

    def tools(self, skills: SessionSkills) -> bytes:
        request = Request(model="claude-opus-4-6", tools=self.box(skills).definitions())
        return DIALECTS["anthropic"].encode(request)

    def load(self, skills: SessionSkills, name: str) -> str:
        ran = asyncio.run(self.box(skills).run([ToolUse("c1", "skill_load", f'{{"name":"{name}"}}'.encode())]))
        (block,) = ran.answers[0].result.content
        assert isinstance(block, Text)
        return block.text


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return Process(tmp_path)


def composed(skills: SessionSkills, mode: Any) -> SkillPrompt:
    """`economic` pads only where little is missing."""
    return skills.compose(
        PERSONA * (20 if mode == "economic" else 1),
        models=[OPUS],
        outlook=Outlook(calls=50),
        cache=CacheSettings(padding=mode),
    )


@pytest.mark.parametrize(
    ("edit", "same_index"),
    [(body, True), (other_fields, True), (description, False), (added, False), (removed, False), (broken, False)],
)
def test_d39_an_edited_body_keeps_every_byte_and_the_rest_does_not(
    edit: Edit, same_index: bool, process: Process
) -> None:
    first = process.session()
    before, tools = composed(first, "off"), process.tools(first)
    edit(process.global_root)
    second = process.session()
    after = composed(second, "off")
    assert before.preloaded == after.preloaded == ()
    assert (before.index == after.index) == same_index
    assert (before.text == after.text) == same_index
    assert process.tools(second) == tools, "skills are in the system text alone"


@pytest.mark.parametrize("mode", ["always", "economic"])
@pytest.mark.parametrize(
    ("edit", "same_index", "same_text"),
    [(body, True, False), (other_fields, True, True), (description, False, False), (removed, False, False)],
)
def test_d39_unless_it_was_preloaded(
    edit: Edit, same_index: bool, same_text: bool, mode: str, process: Process
) -> None:
    big = "Look closely at every word of it, from the first to the last. " * 100  # fills what is missing by itself
    write_skill(process.global_root, "zoo", description="Knows animals.", body=big + "\n")
    before = composed(process.session(), mode)
    assert "pdf" in before.preloaded
    edit(process.global_root)
    after = composed(process.session(), mode)
    assert "pdf" in after.preloaded
    assert (before.index == after.index) == same_index
    assert (before.text == after.text) == same_text


def test_d39_a_skill_of_the_workspace_takes_the_place_of_a_global_one(process: Process) -> None:
    """Wholesale: its description counts, and where that is the same no byte changes."""
    before = composed(process.session(), "off")
    write_skill(process.own_root, "pdf", description="Reads PDF files.", body="Otherwise.\n")
    same = process.session()
    assert composed(same, "off").text == before.text
    assert process.load(same, "pdf").startswith("# Skill: pdf (source: workspace)\n\nOtherwise.")
    write_skill(process.own_root, "pdf", description="Reads our PDF files.", body="Otherwise.\n")
    assert "- pdf: Reads our PDF files." in composed(process.session(), "off").index


@pytest.mark.parametrize("edit", [body, description, removed, broken, added])
def test_d9_d59_4_a_running_session_sees_nothing_of_an_edit(edit: Edit, process: Process) -> None:
    """D59.4: a snapshot, with its descriptions, its bodies and its search."""
    running, expected = process.session(), composed(process.session(), "off")
    edit(process.global_root)
    assert composed(running, "off") == expected
    assert process.load(running, "zip") == f"# Skill: zip (source: global)\n\n{BODY}\n"
    assert process.load(running, "pdf") == f"# Skill: pdf (source: global)\n\n{BODY}\n"
    assert [each.name for each in running.store.search("")] == ["pdf", "zip"]


def test_d63_each_new_session_of_a_process_sees_the_edits_before_it(process: Process) -> None:
    """Without a restart, and none of them disturbs another."""
    sessions = [process.session()]
    texts = [composed(sessions[0], "off").text]
    for edit in (description, added, body, removed):
        edit(process.global_root)
        sessions.append(process.session())
        texts.append(composed(sessions[-1], "off").text)
    assert "- pdf: Reads PDF files.\n- zip: Packs files." in texts[0]
    assert "- pdf: Reads and writes PDF files.\n- zip: Packs files." in texts[1]
    assert "- csv: Reads tables.\n- pdf: Reads and writes PDF files.\n- zip" in texts[2]
    assert "- csv: Reads tables.\n- pdf: Reads PDF files.\n- zip: Packs files." in texts[3]
    assert texts[4].endswith("- csv: Reads tables.\n- pdf: Reads PDF files.")
    assert "once" in process.load(sessions[4], "pdf")
    for earlier in sessions[:3]:
        assert "once" not in process.load(earlier, "pdf")
    assert process.load(sessions[1], "zip").startswith("# Skill: zip (source: global)\n\nCheck every page")
    assert process.load(sessions[4], "zip") == "no skill registered with name 'zip'"


def test_d59_7_the_index_stands_in_the_stable_text(process: Process) -> None:
    """Behind the host's own words, in front of what is preloaded; nothing of the conversation changes it."""
    skills = process.session()
    before, tools = composed(skills, "always"), process.tools(skills)
    index = before.text.index(before.index)
    assert before.text.startswith(PERSONA)
    assert all(before.text.index(f"# Skill: {name} ") > index for name in before.preloaded)
    process.load(skills, "pdf")
    process.load(skills, "zip")
    assert process.tools(skills) == tools
    again = SessionSkills(skills.store, settings=skills.settings)
    assert composed(again, "always").text == before.text


def test_what_the_index_says_is_what_breaks_are_explained_by() -> None:
    """The core cannot import the texts that it recognises."""
    assert f"{HEADING}\n{HINT}\n\n" == skill_texts.INDEX
    counted = skill_texts.read_left_out(LEFT_OUT.format(number=1_234))
    assert counted[1] == "1234"


def test_d62_a_skill_beyond_the_cap_changes_the_count_and_is_explained(process: Process) -> None:
    process.settings = replace(process.settings, index="capped", index_chars=250)
    for name in ("a-first", "b-second", "c-third"):
        write_skill(process.global_root, name, description="Says something of some length, to fill the list.")
    before = composed(process.session(), "off").text
    write_skill(process.global_root, "zz-last", description="Says something of some length, to fill the list.")
    after = composed(process.session(), "off").text
    found = skill_texts.skill_change(before, after)
    assert (found.names, found.owner) == ((), "skills-index")
    assert found.beyond[1] == found.beyond[0] + 1
