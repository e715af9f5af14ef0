"""What the list of tests of the format asks for and no other file here shows from disk to the end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.config import load as configured
from holdfast.config.sections.agent import SkillsSettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.skills.loader import load_skills
from holdfast.skills.session import SessionSkills
from tests.skills.sessions import SkillRoom, load
from tests.skills.skill_files import write_skill
from tests.support.toolboxes import call, do, text

VERSIONS = """
import sys
from holdfast.skills import load_skills
store = load_skills(global_dir=sys.argv[1], workspace_dir=None)
print(*(f"{skill.name}={skill.version}" for skill in store.list_skills()))
"""


def test_d67_24_a_version_is_the_same_in_every_run(tmp_path: Path) -> None:
    for name in ("pdf", "zip"):
        write_skill(tmp_path, name, body=f"How to {name}, größer.\n")
    here = [
        f"{each.name}={each.version}" for each in load_skills(global_dir=tmp_path, workspace_dir=None).list_skills()
    ]
    for seed in ("1", "2"):
        run = [sys.executable, "-c", VERSIONS, str(tmp_path)]
        ended = subprocess.run(
            run, capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": seed}, check=True
        )
        assert ended.stdout.split() == here
    assert len(set(here)) == 2


@pytest.mark.parametrize("first", ["global", "workspace"])
def test_d67_32_a_load_records_the_root_that_served_the_skill(tmp_path: Path, first: str) -> None:
    """From the files of two roots to the event, also where both have the skill."""
    room = SkillRoom(tmp_path)
    write_skill(tmp_path / "shared", "pdf", body="For all.\n")
    write_skill(tmp_path / "shared", "zip", body="For all.\n")
    write_skill(room.workspace / ".holdfast" / "skills", "pdf", body="For us.\n")
    roots = (str(tmp_path / "shared"), ".holdfast/skills")
    box = room.open(
        SessionSkills.begin(SkillsSettings(roots=roots if first == "global" else roots[::-1]), room.workspace)
    )
    own, shared = do(box, load("pdf", "c1"), load("zip", "c2"))
    assert text(own) == "# Skill: pdf (source: workspace)\n\nFor us.\n"
    assert text(shared) == "# Skill: zip (source: global)\n\nFor all.\n"
    assert [(each.skill_id, each.source, each.triggered_by_tool_use_id) for each in room.loads()] == [
        ("pdf", "workspace", "c1"),
        ("zip", "global", "c2"),
    ]


def test_a73_a_workspace_has_its_own_limits(tmp_path: Path) -> None:
    """Of two workspaces of one user the file of one allows a single body, the other has the defaults."""
    taken = {}
    for name, file in (("narrow", "[skills]\nmax_activations = 1\n"), ("plain", "")):
        (tmp_path / name).mkdir()
        room = SkillRoom(tmp_path / name)
        (room.workspace / "holdfast.toml").write_text(file)
        for number in range(4):
            write_skill(room.workspace / ".holdfast" / "skills", f"s{number}")
        settings = configured(workspace=room.workspace, home=tmp_path / "home", environ={}).settings.skills
        box = room.open(SessionSkills.begin(settings, room.workspace))
        taken[name] = [result.is_error for result in do(box, *(load(f"s{n}", f"c{n}") for n in range(4)))]
    assert taken == {"narrow": [False, True, True, True], "plain": [False, False, False, True]}


@pytest.mark.parametrize("index", ["capped", "off"])
def test_d62_d69_what_the_index_leaves_out_is_found_and_loaded(tmp_path: Path, index: str) -> None:
    room = SkillRoom(tmp_path)
    for number in range(60):
        about = "Packs files into archives." if number == 59 else "Says something of some length, to fill the list."
        write_skill(tmp_path / "skills", f"s{number:02}", description=about, body=f"Way {number}.\n")
    settings = SkillsSettings(roots=(str(tmp_path / "skills"),), index=index, index_chars=1_000)  # type: ignore[arg-type]
    skills = SessionSkills.begin(settings, room.workspace)
    assert "s59" not in skills.compose("You are a clerk.", cache=CacheSettings(padding="off")).text
    box = room.open(skills)
    for query in ("s59", "archives", "pack into archives"):
        assert "\n- s59 [global] — Packs files into archives." in text(do(box, call("skill_search", query=query))[0])
    assert text(do(box, load("s59"))[0]) == "# Skill: s59 (source: global)\n\nWay 59.\n"
