"""What the format's documents leave open, as it was decided; docs/skills.md gives the reasons."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.skills import SessionSkills, load_skills, validate_dir
from tests.skills.skill_files import write_skill

DOCS = Path(__file__).parents[2] / "docs" / "skills.md"


@pytest.mark.parametrize(("field", "value"), [("always", True), ("preferred_model", "sonnet-4-6")])
def test_d70_d71_no_field_is_added_to_the_format(tmp_path: Path, field: str, value: object) -> None:
    """A skill that other clients could not read alike would be no portable one: it is loaded as if the field were not
    there, and `validate` says so."""
    made = write_skill(tmp_path, "pdf", **{field: value})
    plain = write_skill(tmp_path / "other", "pdf")
    (skill,) = load_skills(global_dir=tmp_path, workspace_dir=None).list_skills()
    (same,) = load_skills(global_dir=plain.parent, workspace_dir=None).list_skills()
    assert skill == replace(same, skill_dir=skill.skill_dir)
    assert [(each.warning, each.line is not None) for each in validate_dir(made)] == [(True, True)]
    composed = SessionSkills(load_skills(global_dir=tmp_path, workspace_dir=None)).compose("You are a clerk.")
    assert composed.preloaded == ()


def test_d72_a_version_tells_bodies_apart_and_vouches_for_nothing(tmp_path: Path) -> None:
    made = write_skill(tmp_path, "pdf", body="Do it.\n", metadata={"signature": "0" * 64})
    (skill,) = load_skills(global_dir=tmp_path, workspace_dir=None).list_skills()
    assert skill.version == "d4cfd6ddae967cf4"
    assert not any("sign" in each.message for each in validate_dir(made))


def test_d66_the_documentation_says_that_allowed_tools_is_no_gate() -> None:
    assert "**Shown, not enforced**: it neither allows nor forbids a call" in DOCS.read_text(encoding="utf-8")
