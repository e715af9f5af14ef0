"""Every text that others rely on, typed out: index, bodies, pointers, refusals, search results, schemas, events."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast import facts
from holdfast.config.sections.agent import SkillsSettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.records.events import CATALOGUE
from holdfast.records.events.tools import SkillLoaded
from holdfast.skills.index import render_index
from holdfast.skills.store import SkillStore
from holdfast.skills.tools import SKILL_TOOLS
from tests.skills.sessions import SkillRoom, desk, load, session, sized, skill
from tests.support.toolboxes import do, text
from tests.tools.dispatch_bench import Bench
from tests.tools.dispatch_bench import text as said

FORMS = skill("pdf-forms", "Fill in\nPDF forms.", body="Step one.\n", source="workspace")


def one(bench: Bench, name: str, /, **given: object) -> str:
    return said(bench.one(name, given))


def test_the_index() -> None:
    store = SkillStore([FORMS, skill("adr", "Decisions.")])
    assert render_index(store, SkillsSettings(), ["adr"]) == (
        "## Available skills\n"
        "Use `skill_search(query)` to filter and `skill_load(name)` to read a body.\n"
        "\n"
        "- adr [preloaded]: Decisions.\n"
        "- pdf-forms: Fill in PDF forms."
    )


def test_a_loaded_body(tmp_path: Path) -> None:
    loaded = one(desk(tmp_path, session(FORMS)), "skill_load", name="pdf-forms")
    assert loaded == "# Skill: pdf-forms (source: workspace)\n\nStep one.\n"


def test_an_inlined_body() -> None:
    made = session(FORMS).compose(
        "", models=[facts.model("anthropic:claude-haiku-4-5")], cache=CacheSettings(padding="always")
    )
    assert "\n\n# Skill: pdf-forms (source: workspace)\n\nStep one.\n" in made.text


def test_the_pointer_to_a_preloaded_body(tmp_path: Path) -> None:
    skills = session(FORMS)
    skills.registry.preload([FORMS])
    answer = desk(tmp_path, skills).one("skill_load", {"name": "pdf-forms"})
    assert said(answer) == (
        "# Skill: pdf-forms (source: workspace)\n"
        "\n"
        "This skill's body is already loaded in the system prompt (pre-activated at session start). Re-read the system "
        'prompt section "# Skill: pdf-forms" for its operating instructions.'
    )
    assert answer.output.metadata["already_preloaded"] is True


def test_the_pointer_to_a_loaded_body(tmp_path: Path) -> None:
    bench = desk(tmp_path, session(FORMS))
    bench.run(load("pdf-forms", "c1"))
    (answer,) = bench.run(load("pdf-forms", "c2"))
    assert said(answer) == (
        "# Skill: pdf-forms (source: workspace)\n"
        "\n"
        "This skill's body is already in this conversation, loaded earlier in the session. Re-read that result for its "
        "operating instructions."
    )
    assert answer.output.metadata["already_loaded"] is True


def test_a65_the_count_cap(tmp_path: Path) -> None:
    bench = desk(tmp_path, session(*(skill(name) for name in "abcd")))
    bench.run(*(load(name, name) for name in "abc"))
    assert one(bench, "skill_load", name="d") == (
        "activation budget exhausted: 3 skills already activated this session (limit 3). Already loaded: [a, b, c]. "
        "To free budget, summarize and discard previously loaded skill bodies in your next response."
    )


def test_a72_the_token_cap(tmp_path: Path) -> None:
    bench = desk(tmp_path, session(sized("a", 10_000), sized("b", 10_000), sized("big", 10_001)))
    bench.run(load("a", "1"), load("b", "2"))
    assert one(bench, "skill_load", name="big") == (
        "activation budget exhausted: loading big would bring loaded skills to 30001 tokens (limit 30000). "
        "Already loaded: [a, b]."
    )


def test_d48_d53_the_errors(tmp_path: Path) -> None:
    assert one(desk(tmp_path, None), "skill_search", query="x") == "skills are not configured for this session"
    assert one(desk(tmp_path, None), "skill_load", name="x") == "skills are not configured for this session"
    assert one(desk(tmp_path, session()), "skill_load", name="x") == "no skill registered with name 'x'"


def test_d49_d50_d51_the_search(tmp_path: Path) -> None:
    bench = desk(tmp_path, session(FORMS, skill("pdf", "Anything.")))
    found = bench.one("skill_search", {"query": "pdf"})
    assert said(found) == (
        "Skills matching 'pdf' (2):\n- pdf-forms [workspace] — Fill in PDF forms.\n- pdf [global] — Anything."
    )
    assert found.output.metadata == {"query": "pdf", "result_count": 2, "result_names": ["pdf-forms", "pdf"]}
    assert one(bench, "skill_search", query="cook") == "No skills match 'cook'."


def test_d56_the_metadata_of_a_load(tmp_path: Path) -> None:
    answer = desk(tmp_path, session(FORMS)).one("skill_load", {"name": "pdf-forms"})
    assert answer.output.metadata == {
        "skill_id": "pdf-forms",
        "skill_version": FORMS.version,
        "source": "workspace",
        "load_size_tokens": 2,
    }


def test_d57_d58_the_event() -> None:
    assert SkillLoaded.__struct_fields__ == (
        "skill_id",
        "skill_version",
        "load_reason",
        "load_size_tokens",
        "source",
        "triggered_by_tool_use_id",
    )
    assert SkillLoaded.__struct_defaults__ == ()
    assert (SkillLoaded.type, SkillLoaded.sensitivity) == ("skill.loaded", "pseudonymous")


def test_a67_a75_d8_no_other_event_speaks_of_skills() -> None:
    assert [name for name in CATALOGUE if name.startswith("skill.")] == ["skill.loaded"]


def test_d45_d52_the_schemas() -> None:
    search, loading = (json.loads(tool.input_schema) for tool in SKILL_TOOLS)
    assert search == {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    assert loading == {
        "type": "object",
        "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 64}},
        "required": ["name"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize("reason", ["always", "on_demand"])
def test_a59_the_turn_of_an_event(tmp_path: Path, reason: str) -> None:
    room, skills = SkillRoom(tmp_path), session(FORMS)
    box = room.open(skills)
    if reason == "always":
        skills.compose("", models=[facts.model("anthropic:claude-haiku-4-5")], cache=CacheSettings(padding="always"))
        skills.announce(box.journal)
    else:
        assert text(do(box, load("pdf-forms", "c1"))[0]).endswith("Step one.\n")
    (envelope,) = (each for each in room.events() if each.type == "skill.loaded")
    assert (envelope.turn, envelope.sensitivity) == (None if reason == "always" else "t1", "pseudonymous")
    assert isinstance(envelope.payload, SkillLoaded)
    assert envelope.payload.triggered_by_tool_use_id == (None if reason == "always" else "c1")
