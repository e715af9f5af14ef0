"""skill_search and skill_load through a real dispatcher: results, errors, metadata, events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.sections.agent import ConfirmSettings
from holdfast.errors import HoldfastError
from holdfast.records import Text
from holdfast.records.events.tools import SkillLoaded, ToolCompleted, ToolFailed
from holdfast.skills import SessionSkills, load_skills
from holdfast.skills.tools import SKILL_TOOLS
from holdfast.tools import Decision, Question, Tool, ToolContext, ToolOutput
from holdfast.tools.confirmation import Confirmations
from holdfast.tools.contract import ToolAnswer
from tests.skills.sessions import SkillRoom, desk, load, session, skill
from tests.skills.skill_files import write_skill
from tests.tools.dispatch_bench import Bench, call, says, text, tool_named

PDF = skill("pdf-processing", "Extract PDF text, fill forms.", body="Use the form tool.\n")
REDACT = skill("pdf-redact", "Redact regions of PDFs.", body="Black bars.\n", source="workspace")
OTHERS = [skill(name, body=f"The way of {name}.\n") for name in ("a", "b", "c", "d")]


def metadata(answer: ToolAnswer) -> Mapping[str, Any]:
    return answer.output.metadata


def bench(root: Path, **settings: Any) -> Bench:
    return desk(root, session(PDF, REDACT, *OTHERS, **settings))


class TestRegistering:
    async def test_d44_d67_both_tools_register_and_find_the_session_in_their_context(self, tmp_path: Path) -> None:
        box = SkillRoom(tmp_path).open(session(PDF))
        calls = [call("skill_search", {"query": "pdf"}), load("pdf-processing"), call("other")]
        found, body, unknown = (await box.run(calls)).answers
        assert "pdf-processing" in text(found)
        assert "Use the form tool." in text(body)
        assert unknown.result.is_error
        assert "skill_load, skill_search" in text(unknown)

    def test_a_name_is_registered_once(self, tmp_path: Path) -> None:
        with pytest.raises(HoldfastError, match="two tools are named skill_search; give one of them another name"):
            SkillRoom(tmp_path).open(session(PDF), SKILL_TOOLS[:1])

    def test_registered_tools_stand_beside_those_that_are_looked_up(self, tmp_path: Path) -> None:
        both = desk(tmp_path, session(PDF), tool_named("look", says("seen")))
        assert text(both.one("look")) == "seen"
        assert both.one("skill_search", {"query": ""}).error is None
        assert "no tool named 'skil_load'" in text(both.one("skil_load"))

    def test_what_is_no_object_is_refused_as_for_every_tool(self, tmp_path: Path) -> None:
        (answer,) = bench(tmp_path).run(call("skill_load", b'["pdf-processing"]'))
        assert text(answer) == "The input of skill_load is not a JSON object. Call it again with one JSON object."

    def test_d43_d59_8_both_only_read_need_no_workspace_and_are_never_asked_about(self, tmp_path: Path) -> None:
        async def never(question: Question) -> Decision:
            raise AssertionError(question)

        assert [(tool.effect, tool.paths, tool.confirm) for tool in SKILL_TOOLS] == [("read", (), None)] * 2
        for mode in ("ask", "deny"):
            confirmations = Confirmations(ConfirmSettings(mode=mode), ask=never)
            asked = Bench(tmp_path, *SKILL_TOOLS, skills=session(PDF), confirmations=confirmations)
            assert not asked.one("skill_load", {"name": "pdf-processing"}).result.is_error
            assert not asked.one("skill_search", {"query": "pdf"}).result.is_error
            assert "tool.confirmation_requested" not in asked.types()

    def test_both_are_never_deferred(self) -> None:
        assert [(tool.name, tool.core, tool.source) for tool in SKILL_TOOLS] == [
            ("skill_search", True, "builtin"),
            ("skill_load", True, "builtin"),
        ]


class TestSearching:
    def test_d49_d50_matches_and_metadata(self, tmp_path: Path) -> None:
        found = bench(tmp_path).one("skill_search", {"query": " pdf "})
        assert text(found) == (
            "Skills matching 'pdf' (2):\n"
            "- pdf-processing [global] — Extract PDF text, fill forms.\n"
            "- pdf-redact [workspace] — Redact regions of PDFs."
        )
        assert metadata(found) == {"query": "pdf", "result_count": 2, "result_names": ["pdf-processing", "pdf-redact"]}

    def test_d51_no_match(self, tmp_path: Path) -> None:
        found = bench(tmp_path).one("skill_search", {"query": "cooking"})
        assert text(found) == "No skills match 'cooking'."
        assert metadata(found) == {"query": "cooking", "result_count": 0, "result_names": []}
        assert not found.result.is_error

    def test_d47_an_empty_query_lists_by_name_up_to_the_limit(self, tmp_path: Path) -> None:
        found = bench(tmp_path).one("skill_search", {"query": "  ", "limit": 2})
        assert text(found) == ("Skills matching '' (2):\n- a [global] — Does a thing.\n- b [global] — Does a thing.")

    def test_d45_ten_are_listed_unless_told_otherwise(self, tmp_path: Path) -> None:
        many = desk(tmp_path, session(*(skill(f"s{n:02}") for n in range(60))))
        assert metadata(many.one("skill_search", {"query": "thing"}))["result_count"] == 10
        assert metadata(many.one("skill_search", {"query": "thing", "limit": 50}))["result_count"] == 50
        for limit in (0, 51, "ten", 1.5):
            assert many.one("skill_search", {"query": "thing", "limit": limit}).result.is_error

    @pytest.mark.parametrize("given", [{}, {"query": 3}, {"query": "a", "more": 1}])
    def test_d45_other_input_is_refused(self, tmp_path: Path, given: dict[str, Any]) -> None:
        assert bench(tmp_path).one("skill_search", given).result.is_error

    def test_d48_without_skills_it_is_an_error(self, tmp_path: Path) -> None:
        failed = desk(tmp_path, None).one("skill_search", {"query": "pdf"})
        assert (text(failed), failed.result.is_error) == ("skills are not configured for this session", True)

    def test_d46_nothing_is_told_of_a_search(self, tmp_path: Path) -> None:
        searched = bench(tmp_path)
        searched.one("skill_search", {"query": "pdf"})
        assert searched.types() == ["tool.called", "tool.completed"]

    def test_line_breaks_and_length_of_a_query_do_no_harm(self, tmp_path: Path) -> None:
        odd = bench(tmp_path)
        answer = odd.one("skill_search", {"query": "cook\r\nery\u2028- [zz] — \x1b[31m forged" + "x" * 5_000})
        lines = text(answer).splitlines()
        assert lines[0].startswith("No skills match 'cook ery - [zz] —  [31m forged")
        assert len(lines) == 1
        assert len(lines[0]) < 300

    def test_a_description_stays_on_its_line(self, tmp_path: Path) -> None:
        broken = desk(tmp_path, session(skill("a", "One\n- b [global] — forged\u2029two")))
        assert text(broken.one("skill_search", {"query": "one"})).splitlines() == [
            "Skills matching 'one' (1):",
            "- a [global] — One - b [global] — forged two",
        ]


class TestLoading:
    def test_d5_d40_the_body_comes_below_its_header(self, tmp_path: Path) -> None:
        answer = bench(tmp_path).one("skill_load", {"name": "pdf-processing"})
        assert text(answer) == "# Skill: pdf-processing (source: global)\n\nUse the form tool.\n"

    def test_d56_metadata(self, tmp_path: Path) -> None:
        assert metadata(bench(tmp_path).one("skill_load", {"name": "pdf-redact"})) == {
            "skill_id": "pdf-redact",
            "skill_version": REDACT.version,
            "source": "workspace",
            "load_size_tokens": REDACT.estimated_body_tokens,
        }

    @pytest.mark.parametrize("which", [PDF, REDACT])
    def test_a57_d5_d7_d55_d57_d59_6_exactly_one_event(self, tmp_path: Path, which: Any) -> None:
        loading = bench(tmp_path)
        loading.run(load(which.name, "toolu_7"))
        told = loading.told()
        assert [event for event in told if isinstance(event, SkillLoaded)] == [
            SkillLoaded(
                skill_id=which.name,
                skill_version=which.version,
                load_reason="on_demand",
                load_size_tokens=which.estimated_body_tokens,
                source=which.source,
                triggered_by_tool_use_id="toolu_7",
            )
        ]
        assert sorted(event.type for event in told) == ["skill.loaded", "tool.called", "tool.completed"]
        (completed,) = (event for event in told if isinstance(event, ToolCompleted))
        assert json.loads(completed.metadata)["skill_id"] == which.name

    def test_d41_both_ways_lead_to_the_body(self, tmp_path: Path) -> None:
        direct, searched = bench(tmp_path), bench(tmp_path)
        found = metadata(searched.one("skill_search", {"query": "redact"}))["result_names"][0]
        assert text(searched.one("skill_load", {"name": found})) == text(
            direct.one("skill_load", {"name": "pdf-redact"})
        )

    def test_d53_an_unknown_name(self, tmp_path: Path) -> None:
        loading = bench(tmp_path)
        failed = loading.one("skill_load", {"name": "pdf"})
        assert (text(failed), failed.result.is_error) == ("no skill registered with name 'pdf'", True)
        assert text(loading.one("skill_load", {"name": "a\nb"})) == "no skill registered with name 'a\\nb'"
        assert "skill.loaded" not in loading.types()

    def test_d48_without_skills_it_is_an_error(self, tmp_path: Path) -> None:
        failed = desk(tmp_path, None).one("skill_load", {"name": "pdf"})
        assert (text(failed), failed.result.is_error) == ("skills are not configured for this session", True)

    @pytest.mark.parametrize("given", [{}, {"name": ""}, {"name": "a" * 65}, {"name": 3}, {"name": "a", "more": 1}])
    def test_d52_other_input_is_refused(self, tmp_path: Path, given: dict[str, Any]) -> None:
        loading = bench(tmp_path)
        assert loading.one("skill_load", given).result.is_error
        assert loading.types() == ["tool.called", "tool.input_invalid"]

    def test_a5_a69_a82_d54_loading_again_gives_a_pointer(self, tmp_path: Path) -> None:
        loading = bench(tmp_path)
        first, second = loading.run(load("a", "c1")), loading.run(load("a", "c2"))
        assert text(second[0]) == (
            "# Skill: a (source: global)\n\n"
            "This skill's body is already in this conversation, loaded earlier in the session. "
            "Re-read that result for its operating instructions."
        )
        assert metadata(second[0]) == {**metadata(first[0]), "already_loaded": True}
        assert loading.types().count("skill.loaded") == 1

    def test_a5_a61_a62_a63_a_preloaded_one_gives_a_pointer(self, tmp_path: Path) -> None:
        skills = session(PDF, *OTHERS)
        skills.registry.preload([PDF])
        loading = desk(tmp_path, skills)
        answer = loading.one("skill_load", {"name": "pdf-processing"})
        assert text(answer) == (
            "# Skill: pdf-processing (source: global)\n\n"
            "This skill's body is already loaded in the system prompt (pre-activated at session start). "
            'Re-read the system prompt section "# Skill: pdf-processing" for its operating instructions.'
        )
        assert metadata(answer) == {
            "skill_id": "pdf-processing",
            "skill_version": PDF.version,
            "source": "global",
            "load_size_tokens": PDF.estimated_body_tokens,
            "already_preloaded": True,
        }
        assert "skill.loaded" not in loading.types()

    def test_a5_a64_a65_a66_a76_d55_a_refusal_is_a_failed_call_that_the_agent_reads(self, tmp_path: Path) -> None:
        loading = bench(tmp_path)
        loading.run(*(load(name, name) for name in "abc"))
        loading.told()
        (refused,) = loading.run(load("d", "c9"))
        assert refused.result.is_error
        assert text(refused) == (
            "activation budget exhausted: 3 skills already activated this session (limit 3). "
            "Already loaded: [a, b, c]. "
            "To free budget, summarize and discard previously loaded skill bodies in your next response."
        )
        told = loading.told()
        assert [event.type for event in told] == ["tool.called", "tool.failed"]
        assert [event.error_message for event in told if isinstance(event, ToolFailed)] == [text(refused)]

    def test_a68_a69_pointers_are_given_when_the_budget_is_used_up(self, tmp_path: Path) -> None:
        skills = session(PDF, *OTHERS)
        skills.registry.preload([PDF])
        loading = desk(tmp_path, skills)
        loading.run(*(load(name, name) for name in "abc"))
        answers = loading.run(load("a", "x"), load("pdf-processing", "y"), load("d", "z"))
        assert [answer.result.is_error for answer in answers] == [False, False, True]

    def test_a70_the_warning_tells_nothing(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        loading = desk(tmp_path, session(PDF, warn_tokens=1))
        loading.one("skill_load", {"name": "pdf-processing"})
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert sorted(loading.types()) == ["skill.loaded", "tool.called", "tool.completed"]

    def test_a89_the_budget_is_the_sessions_not_the_turns(self, tmp_path: Path) -> None:
        loading = bench(tmp_path)
        for name in "abc":
            assert not loading.run(load(name, name))[0].result.is_error
        assert loading.run(load("d", "d"))[0].result.is_error
        assert not bench(tmp_path).run(load("d", "d"))[0].result.is_error

    def test_d55_two_calls_of_one_turn_give_one_body_and_one_pointer(self, tmp_path: Path) -> None:
        loading = bench(tmp_path)
        first, second = loading.run(load("a", "c1"), load("a", "c2"))
        assert "The way of a." in text(first)
        assert metadata(second)["already_loaded"] is True
        assert loading.types().count("skill.loaded") == 1

    def test_a64_four_calls_of_one_turn_give_three_bodies_and_one_refusal(self, tmp_path: Path) -> None:
        loading = bench(tmp_path)
        answers = loading.run(*(load(name, name) for name in "abcd"))
        assert [answer.result.is_error for answer in answers] == [False, False, False, True]
        told = [event for event in loading.told() if isinstance(event, SkillLoaded)]
        assert [event.triggered_by_tool_use_id for event in told] == ["a", "b", "c"]


class TestEventsOfOutputs:
    """What a tool says is true once its answer stands: told with the turn, or not at all."""

    EVENT = SkillLoaded(
        skill_id="x",
        skill_version="v",
        load_reason="on_demand",
        load_size_tokens=1,
        source="global",
        triggered_by_tool_use_id="c",
    )

    def test_they_are_told_in_the_turn_of_the_call(self, tmp_path: Path) -> None:
        telling = Bench(tmp_path, tool_named("say", says("done", events=(self.EVENT,))))
        telling.one("say")
        assert telling.told()[-1] == self.EVENT

    def test_a_turn_that_is_lost_tells_none(self, tmp_path: Path) -> None:
        hold = asyncio.Event()

        async def wait(given: Mapping[str, Any], context: ToolContext) -> ToolOutput:
            hold.set()
            await asyncio.Event().wait()
            raise AssertionError

        async def lose(bench: Bench) -> None:
            task = asyncio.create_task(bench.dispatcher.run([call("say"), call("wait")]))
            await hold.wait()
            while "tool.completed" not in seen:
                seen.extend(bench.types())
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        seen: list[str] = []
        bench = Bench(tmp_path, tool_named("say", says("done", events=(self.EVENT,))), tool_named("wait", wait))
        asyncio.run(lose(bench))
        assert "skill.loaded" not in seen + bench.types()

    @pytest.mark.parametrize("junk", [None, 3, ("no event",), "text"])
    def test_what_is_no_event_keeps_no_call_from_its_answer(self, tmp_path: Path, junk: Any) -> None:
        assert text(Bench(tmp_path, tool_named("say", says("done", events=junk))).one("say")) == "done"

    def test_an_output_that_could_not_be_shaped_tells_none(self, tmp_path: Path) -> None:
        def fail(*_: Any) -> Any:
            raise ValueError("no")

        shaped = Bench(tmp_path, tool_named("say", says("done", events=(self.EVENT,))), shape=fail)
        assert text(shaped.one("say")) == "done"
        assert "skill.loaded" not in shaped.types()


def test_a_dispatcher_of_ones_own_forgets_what_is_lost(tmp_path: Path) -> None:
    """Without a Toolbox too: after a turn that nobody got the answers of, the body is given and not a pointer."""

    async def interrupts(given: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        raise KeyboardInterrupt

    working = desk(tmp_path, session(PDF), tool_named("stop", interrupts, "write"))
    with pytest.raises(KeyboardInterrupt):
        working.run(load("pdf-processing", "c1"), call("stop"))
    assert "skill.loaded" not in working.types()
    (answer,) = working.run(load("pdf-processing", "c2"))
    assert text(answer) == PDF.section
    assert working.types().count("skill.loaded") == 1


def test_d10_d66_allowed_tools_gates_nothing(tmp_path: Path) -> None:
    strict = skill("strict", body="Only read.\n", allowed_tools=("Read",))
    working = desk(tmp_path, session(strict), tool_named("write", says("written"), "write"))
    working.one("skill_load", {"name": "strict"})
    assert text(working.one("write")) == "written"


def test_a58_nothing_is_loaded_because_its_description_matches(tmp_path: Path) -> None:
    working = desk(tmp_path, session(PDF), tool_named("look", says("Extract PDF text, fill forms.")))
    working.one("look", {"query": "Extract PDF text, fill forms."})
    working.one("skill_search", {"query": "Extract PDF text, fill forms."})
    assert "skill.loaded" not in working.types()


def test_the_tools_are_the_same_values_for_everybody() -> None:
    assert all(isinstance(tool, Tool) for tool in SKILL_TOOLS)
    assert session(PDF).tools is SKILL_TOOLS


def test_files_of_a_skill_are_told_behind_its_body_as_other_tools_take_them(tmp_path: Path) -> None:
    made = write_skill(tmp_path, "pdf", body="Run scripts/a.sh.\n")
    write_skill(tmp_path, "bare")
    for number in range(60):
        (made / "references").mkdir(exist_ok=True)
        (made / "references" / f"{number:02}\n.md").write_text("x")
    (made / ".git").mkdir()
    (made / ".git" / "config").write_text("x")
    skills = SessionSkills(load_skills(global_dir=None, workspace_dir=tmp_path))
    bench = desk(tmp_path, skills)
    with_files, without = (bench.run(load(name, id_))[0].result for name, id_ in (("pdf", "c1"), ("bare", "c2")))
    body, files = (block.text for block in with_files.content if isinstance(block, Text))
    assert body == "# Skill: pdf (source: workspace)\n\nRun scripts/a.sh.\n"
    assert files.startswith("Files of this skill are in pdf: references/00\\n.md, references/01\\n.md, ")
    assert files.endswith(", references/49\\n.md and 10 more.")
    assert [block.text for block in without.content if isinstance(block, Text)] == [
        skills.store.list_skills()[0].section
    ]


def test_files_of_a_preloaded_skill_are_told_with_the_pointer_and_not_twice(tmp_path: Path) -> None:
    (write_skill(tmp_path, "pdf") / "a.md").write_text("x")
    skills = SessionSkills(load_skills(global_dir=None, workspace_dir=tmp_path))
    skills.registry.preload(skills.store.list_skills())
    (pointed,) = desk(tmp_path, skills).run(load("pdf"))
    assert text(pointed).endswith("\nFiles of this skill are in pdf: a.md.")
    again = SessionSkills(load_skills(global_dir=None, workspace_dir=tmp_path))
    bench = desk(tmp_path, again)
    first, second = (bench.run(load("pdf", id_))[0].result for id_ in ("c1", "c2"))
    assert (len(first.content), len(second.content)) == (2, 1)
