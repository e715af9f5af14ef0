"""Skills in a Toolbox: declared, readable, told of answers, losses and resets; through the engine, over a restart."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.keys import Settings
from holdfast.config.sections.agent import (
    ConfirmSettings,
    DeferralSettings,
    MaskSettings,
    OffloadSettings,
    SkillsSettings,
    ToolsSettings,
)
from holdfast.config.sections.cache import CacheSettings
from holdfast.engine import EngineCore, Lane, PrepareOptions
from holdfast.errors import HoldfastError
from holdfast.records import Message, Request, Text, ToolResult, ToolUse, validate
from holdfast.skills.session import SessionSkills
from holdfast.tools import Cancel, Tool, Toolbox, ToolContext, ToolOutput
from holdfast.wire import DIALECTS
from tests.skills.sessions import SkillRoom, consistent, load, said, session, sized, skill
from tests.skills.skill_files import write_skill
from tests.support.toolboxes import MODEL, call, do, text

A, B, C, D = (skill(name, body=f"The way of {name}.\n") for name in "abcd")
ALLOW = ToolsSettings(confirm=ConfirmSettings(mode="allow"))
LANE = Lane(tenant="t", session="s", id="s/main", client="tests")


@pytest.fixture
def room(tmp_path: Path) -> SkillRoom:
    return SkillRoom(tmp_path)


def made(name: str, content: str = "fine", **fields: Any) -> Tool:
    async def run(given: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        return ToolOutput(content=f"{given.get('at', '')}{content}")

    return Tool(name=name, description=f"What {name} is for.", run=run, effect="read", **fields)


def names(skills: SessionSkills) -> list[str]:
    return [each.name for each in skills.registry.loaded]


class TestDeclaring:
    def test_both_tools_are_declared_after_the_built_in_ones(self, room: SkillRoom) -> None:
        box = room.open(session(A), (made("own"),), builtins=True)
        assert box.toolset.declared[-3:] == ("skill_search", "skill_load", "own")
        assert room.open(None, builtins=True).toolset.declared == box.toolset.declared[:-3]

    def test_both_are_declared_whatever_is_deferred(self, room: SkillRoom) -> None:
        box = room.open(session(A), (made("own"),), settings=ToolsSettings(deferral=DeferralSettings(mode="always")))
        assert box.toolset.deferred == ("own",)
        assert {"skill_search", "skill_load"} <= set(box.toolset.declared)

    def test_the_array_is_the_same_whatever_skills_there_are(self, room: SkillRoom, tmp_path: Path) -> None:
        settings = SkillsSettings(roots=(str(tmp_path / "skills"), ".holdfast/skills"))
        before = room.open(SessionSkills.begin(settings, room.workspace)).definitions()
        write_skill(tmp_path / "skills", "pdf")
        after = room.open(SessionSkills.begin(settings, room.workspace)).definitions()
        assert before == after
        assert "pdf" not in str(after)

    def test_whatever_is_said_of_a_name_it_is_declared_once(self, room: SkillRoom) -> None:
        for name in ("skill_load", "skill_search"):
            with pytest.raises(HoldfastError, match=f"two tools are named {name}; give one of them another name"):
                room.open(session(A), (made(name),))

    def test_after_a_restart_with_other_roots_the_same_bytes_are_declared(self, room: SkillRoom) -> None:
        skills = session(A)
        box = room.open(skills)
        do(box, load("a"))
        again = room.open(session(skill("b", skill_dir=Path("/else/b")), state=skills.state), state=box.state)
        assert again.definitions() == box.definitions()
        assert "already in this conversation" in text(do(again, load("a", "c2"))[0])

    def test_d44_a_store_is_read_for_each_session(self, room: SkillRoom, tmp_path: Path) -> None:
        from holdfast.skills.loader import skill_store_factory

        factory = skill_store_factory(SkillsSettings(roots=(str(tmp_path / "skills"),)), room.workspace)
        first = SessionSkills(factory())
        write_skill(tmp_path / "skills", "pdf", body="Use the form tool.\n")
        assert do(room.open(first), load("pdf"))[0].is_error
        assert text(do(room.open(SessionSkills(factory())), load("pdf"))[0]).endswith("Use the form tool.\n")


class TestFiles:
    """The third stage: a body names files, and the agent reads and runs them."""

    @pytest.fixture
    def home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        home = tmp_path / "home"
        monkeypatch.setenv("HOME", str(home))
        pdf = write_skill(home / ".holdfast/skills", "pdf", body="Read references/x.md, run scripts/hi.sh.\n")
        for name, content in {"references/x.md": "A reference.\n", "scripts/hi.sh": "echo hello from $PWD\n"}.items():
            (pdf / name).parent.mkdir()
            (pdf / name).write_text(content)
        (home / ".holdfast/skills/secret.txt").write_text("hush")
        (home / ".holdfast/skills/other").mkdir()
        (home / ".holdfast/skills/other/notes.txt").write_text("hush")
        (home / ".ssh").mkdir()
        (home / ".ssh/key").write_text("hush")
        (pdf / "references/out.md").symlink_to(home / ".ssh/key")
        return home

    def open(self, room: SkillRoom, home: Path) -> Toolbox:
        settings = SkillsSettings(roots=(str(home / ".holdfast/skills"), ".holdfast/skills"))
        return room.open(SessionSkills.begin(settings, room.workspace), builtins=True, settings=ALLOW)

    def place(self, result: ToolResult) -> str:
        """Where a result says that the skill's files are."""
        body, files = (block.text for block in result.content if isinstance(block, Text))
        assert body.startswith("# Skill: ")
        return files.removeprefix("Files of this skill are in ").split(": ")[0]

    def test_d42_files_of_a_global_skill_are_read_and_run(self, room: SkillRoom, home: Path) -> None:
        box = self.open(room, home)
        (loaded,) = do(box, load("pdf"))
        assert "(source: global)" in text(loaded)
        assert text(loaded).endswith(
            "\nFiles of this skill are in ~/.holdfast/skills/pdf: references/out.md, references/x.md, scripts/hi.sh."
        )
        place = self.place(loaded)
        assert place == "~/.holdfast/skills/pdf"
        read, ran, shelled = do(
            box,
            call("read_file", "c2", path=f"{place}/references/x.md"),
            call("run_command", "c3", command="sh scripts/hi.sh", cwd=place),
            call("run_command", "c4", command=f"sh {place}/scripts/hi.sh"),
        )
        assert "A reference." in text(read)
        assert f"hello from {home}/.holdfast/skills/pdf" in text(ran)
        assert "hello from" in text(shelled)

    def test_d42_files_of_a_workspace_skill_are_read_and_run(self, room: SkillRoom, home: Path) -> None:
        adr = write_skill(room.workspace / ".holdfast/skills", "adr")
        (adr / "template.md").write_text("# Decision\n")
        box = self.open(room, home)
        place = self.place(do(box, load("adr"))[0])
        assert place == ".holdfast/skills/adr"
        read, ran = do(
            box,
            call("read_file", "c1", path=f"{place}/template.md"),
            call("run_command", "c2", command="cat template.md", cwd=place),
        )
        assert "# Decision" in text(read)
        assert "# Decision" in text(ran)

    @pytest.mark.parametrize(
        "path", ["secret.txt", "other/notes.txt", "pdf/../secret.txt", "pdf/../../../.ssh/key", "pdf/references/out.md"]
    )
    def test_d42_what_is_no_skills_own_is_refused(self, room: SkillRoom, home: Path, path: str) -> None:
        (result,) = do(self.open(room, home), call("read_file", path=f"~/.holdfast/skills/{path}"))
        assert result.is_error
        assert "hush" not in text(result)

    def test_d42_they_are_only_read(self, room: SkillRoom, home: Path) -> None:
        box = self.open(room, home)
        (result,) = do(box, call("write_file", path="~/.holdfast/skills/pdf/SKILL.md", content="x"))
        assert result.is_error
        assert "form" not in (home / ".holdfast/skills/pdf/SKILL.md").read_text().splitlines()

    def test_a_workspace_that_is_the_home_reads_them_too(self, room: SkillRoom, home: Path) -> None:
        room.workspace = home
        (result,) = do(self.open(room, home), call("read_file", path=".holdfast/skills/pdf/references/x.md"))
        assert "A reference." in text(result)


class TestAnswers:
    def test_d55_side_by_side_three_bodies_one_refusal_and_pointers(self, room: SkillRoom) -> None:
        skills = session(A, B, C, D)
        results = do(room.open(skills), *(load(name, f"{name}{n}") for n in range(3) for name in "abcd"))
        assert [each.is_error for each in results] == [False, False, False, True] * 3
        consistent(room, skills, results)
        assert names(skills) == ["a", "b", "c"]

    @pytest.mark.parametrize("steps", range(8))
    def test_d55_a_cancelled_call_leaves_neither_event_nor_activation(self, room: SkillRoom, steps: int) -> None:
        skills, cancel = session(A, B), Cancel()
        box = room.open(skills)

        async def work() -> tuple[ToolResult, ...]:
            task = asyncio.create_task(box.run([load("a", "c1"), load("b", "c2")], cancel=cancel))
            for _ in range(steps):
                await asyncio.sleep(0)
            cancel.set()
            return tuple(answer.result for answer in (await task).answers)

        results = asyncio.run(work())
        assert len(results) == 2
        consistent(room, skills, results)

    @pytest.mark.parametrize("steps", range(0, 24, 2))
    def test_d55_a_lost_turn_leaves_neither_event_nor_activation(self, room: SkillRoom, steps: int) -> None:
        skills = session(A, B)

        async def forever(given: Mapping[str, Any], context: ToolContext) -> ToolOutput:
            await asyncio.Event().wait()
            raise AssertionError

        hang = Tool(name="hang", description="Hangs.", run=forever, effect="read")
        box = room.open(skills, (hang,))
        calls = [load("a", "c1"), load("b", "c2"), load("a", "c3"), call("hang", "c4")]

        async def work() -> None:
            task = asyncio.create_task(box.run(calls))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(work())
        consistent(room, skills, ())
        ran = box.cut(calls)
        assert all(answer.result.is_error for answer in ran.answers)
        consistent(room, skills, do(box, load("a", "c5")))

    def test_d55_a_body_is_never_cut_short(self, room: SkillRoom, monkeypatch: pytest.MonkeyPatch) -> None:
        """Not even where results cannot be shaped: a pointer of the same turn would name half a body."""

        def fail(*_: Any, **__: Any) -> Any:
            raise OSError("no space")

        large = sized("large", 2_000)
        skills = session(large)
        box = room.open(skills, settings=ToolsSettings(offload=OffloadSettings(hard_cap_chars=1_000)))
        monkeypatch.setattr(box.offloader, "store", fail)
        body, pointer = do(box, load("large", "c1"), load("large", "c2"))
        assert text(body) == large.section
        assert "already in this conversation" in text(pointer)
        assert [each.triggered_by_tool_use_id for each in room.loads()] == ["c1"]
        assert names(skills) == ["large"]

    def test_a_turn_that_is_cut_after_a_restart_can_load_again(self, room: SkillRoom) -> None:
        skills = session(A)
        box = room.open(skills)
        do(box, load("a", "c1"))  # the program ends before it has written this down
        again = session(A, state=skills.state)
        after = room.open(again, state=box.state)
        after.cut([load("a", "c1")])
        assert names(again) == []
        assert text(do(after, load("a", "c2"))[0]) == A.section

    def test_calls_that_are_numbered_anew_take_nothing_away(self, room: SkillRoom) -> None:
        skills = session(A, B)
        box = room.open(skills, (made("look"),), model="gemini:gemini-2.5-pro")
        do(box, load("a", "gemini-call-1"))
        box.cut([call("look", "gemini-call-1")])
        assert names(skills) == ["a"]
        do(box, load("b", "gemini-call-1"), call("look", "gemini-call-2"))
        assert names(skills) == ["a", "b"]
        box.cut([load("b", "gemini-call-1")])
        assert names(skills) == ["a"]
        assert "already in this conversation" in text(do(box, load("a", "gemini-call-1"))[0])
        box.cut([load("a", "gemini-call-1")])
        assert names(skills) == ["a"]


class TestResets:
    def test_a74_without_one_a_body_stays_loaded(self, room: SkillRoom) -> None:
        skills = session(A)
        box = room.open(skills)
        do(box, load("a", "c1"))
        for turn in range(30):
            do(box, load("a", f"again-{turn}"))
            box.turn_over()
        assert names(skills) == ["a"]
        assert len(room.loads()) == 1

    def test_a_reset_that_keeps_everything_forgets_nothing(self, room: SkillRoom) -> None:
        skills = session(A)
        box = room.open(skills)
        do(box, load("a"))
        box.at_reset()
        assert names(skills) == ["a"]

    def test_what_compaction_kept_stays_and_what_it_removed_is_loaded_again(self, room: SkillRoom) -> None:
        skills = session(A, B, C, D)
        box = room.open(skills)
        first, second, third = do(box, load("a", "c1"), load("b", "c2"), load("c", "c3"))
        assert do(box, load("d", "c4"))[0].is_error
        box.at_reset([Message("user", (Text("What happened so far."),)), said(second)])
        assert names(skills) == ["b"]
        pointer, body, further, refused = do(box, load("b", "c5"), load("a", "c6"), load("d", "c7"), load("c", "c8"))
        assert "already in this conversation" in text(pointer)
        assert text(body) == A.section == text(first)
        assert text(further) == D.section
        assert refused.is_error
        assert [each.triggered_by_tool_use_id for each in room.loads()] == ["c1", "c2", "c3", "c6", "c7"]
        assert third.tool_use_id == "c3"

    def test_what_is_preloaded_stays(self, room: SkillRoom) -> None:
        skills = session(A)
        skills.registry.preload([A])
        box = room.open(skills)
        box.at_reset([])
        assert "already loaded in the system prompt" in text(do(box, load("a"))[0])

    def test_a_guide_at_the_end_of_a_body_does_not_hide_it(self, room: SkillRoom) -> None:
        skills = session(A)
        box = room.open(skills, guides={"skill_load": "Follow it."})
        (result,) = do(box, load("a"))
        assert "Follow it." in text(result)
        assert names(skills) == ["a"]
        box.at_reset([said(ToolResult("c1", (Text(text(result)),)))])
        assert names(skills) == ["a"]


class TestThroughTheEngine:
    LARGE = skill("large", body="A long way to go. " * 5_000)

    def request(self, box: Toolbox, system: str, messages: list[Message]) -> Request:
        return Request(
            model=MODEL, system_prompt=system, tools=box.definitions(), messages=tuple(messages), output_limit=100
        )

    def test_a6_d39_a_loaded_body_is_a_tool_result_and_the_prefix_stays(self, room: SkillRoom) -> None:
        skills = session(A, B)
        box, spoken = room.open(skills), DIALECTS["anthropic"]
        system = skills.compose("You are careful.", cache=CacheSettings(padding="off")).text
        messages = [Message("user", (Text("go"),))]
        before = json.loads(spoken.encode(self.request(box, system, messages)))
        use = Message("assistant", (load("a"),))
        ran = asyncio.run(box.run(use))
        messages += [use, *ran.messages]
        request = self.request(box, system, messages)
        assert validate(request) == ()
        after = json.loads(spoken.encode(request))
        assert (after["system"], after["tools"]) == (before["system"], before["tools"])
        assert after["messages"][: len(before["messages"])] == before["messages"]
        assert "The way of a." not in json.dumps(after["system"])
        (block,) = after["messages"][-1]["content"]
        assert (block["type"], block["tool_use_id"]) == ("tool_result", "c1")
        assert "# Skill: a (source: global)\\n\\nThe way of a." in json.dumps(block["content"])

    def test_a66_a_refusal_is_a_result_with_is_error(self, room: SkillRoom) -> None:
        box = room.open(session(A, max_activations=0))
        use = Message("assistant", (load("a"),))
        messages = [Message("user", (Text("go"),)), use, *asyncio.run(box.run(use)).messages]
        sent = json.loads(DIALECTS["anthropic"].encode(self.request(box, "x", messages)))
        assert sent["messages"][-1]["content"][0]["is_error"] is True

    def test_a_large_body_is_neither_offloaded_nor_masked(self, room: SkillRoom) -> None:
        mask = MaskSettings(keep_window=1, trigger_chars=95_000, release_chars=1_000)
        settings = ToolsSettings(
            mask=mask, offload=OffloadSettings(per_tool={"skill_load": 10}, max_result_chars=5_000)
        )
        box = room.open(session(self.LARGE), (made("look", "some words " * 300),), settings=settings)
        engine, messages = EngineCore(Settings()), [Message("user", (Text("Begin. " * 600),))]
        prepared = None
        for turn in range(8):
            name = load("large", f"c{turn}") if turn == 0 else call("look", f"c{turn}", at=turn)
            use = Message("assistant", (name,))
            messages += [use, *asyncio.run(box.run(use)).messages]
            body = engine.parse(DIALECTS["anthropic"], DIALECTS["anthropic"].encode(self.request(box, "x", messages)))
            now = 1_000_000.0 * (turn + 1)
            prepared = box.prepare(engine, body, lane=LANE, now=now, options=PrepareOptions())
            engine.first_token(prepared, now=now)
        assert len(self.LARGE.body) == 90_000
        assert self.LARGE.body.encode() in prepared.raw
        assert b"[Tool result cleared: look" in prepared.raw
        assert b"[Tool result cleared: skill_load" not in prepared.raw
        assert {"tool.masked"} <= set(room.types())
        assert "tool.offloaded" not in room.types()

    def test_a_body_near_the_hard_cap_is_answered_whole(self, room: SkillRoom) -> None:
        large = sized("large", 30_000)
        assert text(do(room.open(session(large)), load("large"))[0]) == large.section


def test_a58_a81_only_two_reasons_are_ever_told(room: SkillRoom) -> None:
    skills = session(sized("a", 1_500), sized("b", 2_000))
    box = room.open(skills, (made("look", "Does a thing."),))
    skills.compose("", cache=CacheSettings(padding="always", padding_max=1_700))
    skills.announce(box.journal)
    do(box, ToolUse("c0", "look", b"{}"), call("skill_search", "c1", query="Does a thing."))
    do(box, load("a", "c2"), load("b", "c3"))
    assert [(each.skill_id, each.load_reason) for each in room.loads()] == [("a", "always"), ("b", "on_demand")]
