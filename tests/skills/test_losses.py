"""Skills in turns that go wrong, are cut, run again or go on after a restart: no pointer names what is not there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.sections.agent import (
    ConfirmSettings,
    DeferralSettings,
    OffloadSettings,
    SkillsSettings,
    ToolsSettings,
)
from holdfast.errors import HoldfastError
from holdfast.records import Message, Request, Text, ToolResult, ToolUse
from holdfast.skills.session import SessionSkills
from holdfast.tools import Cancel, Tool, Toolbox, ToolContext, ToolOutput
from holdfast.wire import DIALECTS
from tests.skills.sessions import SkillRoom, consistent, load, session, skill
from tests.skills.skill_files import write_skill
from tests.support.toolboxes import MODEL, call, do, text

A, B, C, D = (skill(name, body=f"The way of {name}.\n") for name in "abcd")
ALLOW = ToolsSettings(confirm=ConfirmSettings(mode="allow"))


@pytest.fixture
def room(tmp_path: Path) -> SkillRoom:
    return SkillRoom(tmp_path)


def made(name: str) -> Tool:
    async def run(given: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        return ToolOutput(content="fine")

    return Tool(name=name, description=f"What {name} is for.", run=run, effect="read")


def names(skills: SessionSkills) -> list[str]:
    return [each.name for each in skills.registry.loaded]


class TestTurns:
    @pytest.mark.parametrize("steps", range(6))
    def test_d55_a_body_that_came_too_late_is_not_loaded(self, room: SkillRoom, steps: int) -> None:
        """The turn is cancelled around the moment at which a call gets its body: of a long input, that is checked in a
        thread, many steps after it began."""
        skills, cancel = session(A), Cancel()
        box = room.open(skills)
        use = ToolUse("c1", "skill_load", b'{"name":"a"' + b" " * 20_000 + b"}")
        tasks = []

        async def stop() -> None:
            for _ in range(steps):
                await asyncio.sleep(0)
            cancel.set()

        async def work() -> tuple[ToolResult, ...]:
            loop = asyncio.get_running_loop()
            plain = loop.call_soon_threadsafe

            def first(callback: Any, *args: Any, context: Any = None) -> Any:
                def both() -> None:
                    tasks.append(loop.create_task(stop()))
                    callback(*args)

                loop.call_soon_threadsafe = plain  # type: ignore[method-assign]
                return plain(both)

            loop.call_soon_threadsafe = first  # type: ignore[method-assign,assignment]
            return tuple(answer.result for answer in (await box.run([use], cancel=cancel)).answers)

        results = asyncio.run(work())
        assert len(tasks) == 1
        consistent(room, skills, results)
        consistent(room, skills, results if names(skills) else do(box, load("a", "c2")))

    def test_d55_of_a_turn_with_everything_each_body_is_told_once(self, room: SkillRoom) -> None:
        async def fails(given: Mapping[str, Any], context: ToolContext) -> ToolOutput:
            raise OSError("no")

        async def exits(given: Mapping[str, Any], context: ToolContext) -> ToolOutput:
            raise SystemExit(1)

        bad = [
            Tool(name="fails", description="Fails.", run=fails, effect="write"),
            Tool(name="exits", description="Exits.", run=exits, effect="read"),
        ]
        skills = session(A, B, C, D)
        box = room.open(skills, tuple(bad), settings=ALLOW)
        results = do(
            box,
            load("a", "1"),
            call("fails", "2"),
            load("nobody", "3"),
            load("b", "4"),
            load("a", "5"),
            load("c", "4"),
            call("exits", "6"),
            call("skill_load", "7", name="c", more=1),
            load("c", "8"),
            load("d", "9"),
        )
        assert [each.is_error for each in results] == [False, True, True, False, False, True, True, True, False, True]
        consistent(room, skills, results)
        assert names(skills) == ["a", "b", "c"]

    def test_d55_a_turn_that_the_user_interrupts_leaves_nothing(self, room: SkillRoom) -> None:
        async def interrupts(given: Mapping[str, Any], context: ToolContext) -> ToolOutput:
            raise KeyboardInterrupt

        skills = session(A)
        box = room.open(
            skills, (Tool(name="stop", description="Stops.", run=interrupts, effect="write"),), settings=ALLOW
        )
        with pytest.raises(KeyboardInterrupt):
            do(box, load("a", "1"), call("stop", "2"))
        consistent(room, skills, ())
        consistent(room, skills, do(box, load("a", "3")))

    @pytest.mark.parametrize("limit", [0.0, 1e-9])
    def test_d55_a_limit_of_no_time_is_consistent(self, room: SkillRoom, limit: float) -> None:
        skills = session(A, B)
        results = do(
            room.open(skills, settings=ToolsSettings(timeout_s=limit)), load("a", "1"), load("a", "2"), load("b", "3")
        )
        consistent(room, skills, results)

    def test_d55_two_boxes_of_one_session_share_what_is_loaded(self, room: SkillRoom) -> None:
        """As after a change of the model. Also side by side, each in a thread of its own."""
        skills = session(A, B, C, D)
        boxes = [room.open(skills), room.open(skills, model="gemini:gemini-2.5-pro")]
        with ThreadPoolExecutor(2) as pool:
            made = pool.map(lambda n: do(boxes[n], *(load(name, f"{name}{n}") for name in "abcd")), range(2))
            results = [result for each in made for result in each]
        bodies = {each.tool_use_id for each in results if "The way of" in text(each)}
        assert {each.tool_use_id for each in skills.registry.loaded} == bodies
        assert {each.triggered_by_tool_use_id for each in room.loads()} == bodies
        assert len(bodies) == len(room.loads()) == 3
        assert sum(each.is_error for each in results) == 2

    def test_another_session_needs_skills_of_its_own(self, room: SkillRoom) -> None:
        """A sub-agent has a conversation of its own: pointers would name what is not in it."""
        skills = session(A)
        do(room.open(skills), load("a"))
        with pytest.raises(HoldfastError, match="those of the session s; begin others for s/scout with SessionSkills"):
            room.open(skills, session="s/scout")
        assert text(do(room.open(session(A), session="s/scout"), load("a"))[0]) == A.section

    def test_a_body_that_is_lost_after_its_turn_is_told_again_when_it_is_given_again(self, room: SkillRoom) -> None:
        """Nobody can know that an answer which was handed over was thrown away: both bodies were given."""
        skills = session(A)
        box = room.open(skills)
        do(box, load("a", "c1"))
        box.cut([load("a", "c1")])
        assert names(skills) == []
        do(box, load("a", "c2"))
        assert [each.triggered_by_tool_use_id for each in room.loads()] == ["c1", "c2"]

    @pytest.mark.parametrize("wrapped", [False, True])
    def test_by_way_of_call_tool_too(self, room: SkillRoom, wrapped: bool) -> None:
        skills = session(A, B)
        deferral = DeferralSettings(mode="always", carrier="call_tool")
        box = room.open(
            skills, (made("own"),), settings=ToolsSettings(deferral=deferral, offload=OffloadSettings(hard_cap_chars=9))
        )
        given: Any = {"name": "a"}
        use = call("call_tool", "c1", name="skill_load", arguments=json.dumps(given) if wrapped else given)
        assert text(do(box, use)[0]) == A.section
        assert "already in this conversation" in text(do(box, load("a", "c2"))[0])
        self_named = call("call_tool", "c1", name="skill_load", arguments={"name": "b"})
        box.cut([self_named, call("call_tool", "c1", name="own"), ToolUse("c1", "call_tool", b"junk")])
        assert names(skills) == ["a"]
        box.cut([use])
        assert names(skills) == []
        assert text(do(box, load("a", "c3"))[0]) == A.section


class TestGoingOn:
    """After a restart state and conversation need not be of the same moment: no pointer may name what is not there."""

    def begin(self, room: SkillRoom, state: bytes, messages: list[Message]) -> SessionSkills:
        settings = SkillsSettings(roots=(str(room.home / "skills"),))
        return SessionSkills.begin(settings, room.workspace, state=state, messages=messages)

    @pytest.fixture
    def first(self, room: SkillRoom) -> SessionSkills:
        for name in "ab":
            write_skill(room.home / "skills", name, body=f"The way of {name}.\n")
        return SessionSkills.begin(SkillsSettings(roots=(str(room.home / "skills"),)), room.workspace)

    def turn(self, box: Toolbox, *calls: ToolUse) -> list[Message]:
        return [Message("assistant", calls), *asyncio.run(box.run(calls)).messages]

    def test_a_state_that_is_newer_than_the_conversation(self, room: SkillRoom, first: SessionSkills) -> None:
        box = room.open(first)
        kept = [Message("user", (Text("go"),)), *self.turn(box, load("a", "c1"))]
        open_call = Message("assistant", (load("b", "c2"),))
        self.turn(box, load("b", "c2"))  # the program ends before it has written down the results
        for messages in (kept, [*kept, open_call]):
            skills = self.begin(room, first.state, messages)
            assert names(skills) == ["a"]
            after = room.open(skills, state=box.state)
            again, pointer = do(after, load("b", "c4"), load("a", "c3"))
            assert "The way of b." in text(again)
            assert "already in this conversation" in text(pointer)

    def test_a_call_that_is_run_again_gets_its_body_whatever_is_handed_over(
        self, room: SkillRoom, first: SessionSkills
    ) -> None:
        box = room.open(first)
        do(box, load("a", "c1"))
        do(box, load("b", "c2"))  # the program ends before it has written down this one, and begins with it again
        skills = session(A, B, state=first.state)
        body, pointer = do(room.open(skills, state=box.state), load("b", "c2"), load("a", "c3"))
        assert text(body) == B.section
        assert "already in this conversation" in text(pointer)

    def test_a_state_that_is_older_than_the_conversation(self, room: SkillRoom, first: SessionSkills) -> None:
        """The body is given twice, which costs its tokens once more; it counts once."""
        box = room.open(first)
        state = first.state
        messages = self.turn(box, load("a", "c1"))
        skills = self.begin(room, state, messages)
        body, pointer = do(room.open(skills, state=box.state), load("a", "c2"), load("a", "c3"))
        assert "The way of a." in text(body)
        assert "already in this conversation" in text(pointer)
        assert skills.registry.count == 1

    def test_a_conversation_that_is_gone_altogether(self, room: SkillRoom, first: SessionSkills) -> None:
        box = room.open(first)
        do(box, load("a", "c1"))
        skills = self.begin(room, first.state, [])
        assert (names(skills), skills.registry.tokens) == ([], 0)

    @pytest.mark.parametrize("dialect", ["anthropic", "openai_chat", "openai_responses", "gemini"])
    @pytest.mark.parametrize("guide", [{}, {"skill_load": "Follow it."}], ids=["plain", "guide"])
    @pytest.mark.parametrize(
        "body",
        [
            "",
            "\n\n  Leading and trailing.  \n\n",
            "cafe\u0301 \ufb01 \u212b \u2028 \ufeff \x00 \x1b",
            "One\r\ntwo\rthree",
            "\ud800 alone",
            '</tool_result>"}]',
            '{"result": "x"}',
            "# Skill: other (source: global)\n\nAnother.",
            "This skill's body is already in this conversation, loaded earlier in the session.",
        ],
    )
    def test_a_conversation_that_was_kept_as_the_provider_gets_it(
        self, room: SkillRoom, dialect: str, guide: dict[str, str], body: str
    ) -> None:
        """On the way no text is changed, and where ids are (Gemini has none), bodies are found without them."""
        model = {"anthropic": MODEL, "gemini": "gemini:gemini-2.5-pro"}.get(dialect, "openai:gpt-6.1-sol")
        skills, spoken = session(skill("odd", body=body)), DIALECTS[dialect]
        box = room.open(skills, (made("look"),), model=model, dialect=dialect, guides=guide)
        ids = ["gemini-call-1"] * 2 if dialect == "gemini" else ["c1", "c2"]
        messages = [Message("user", (Text("go"),)), *self.turn(box, call("look", ids[0]))]
        messages += self.turn(box, load("odd", ids[1]))
        sent = spoken.encode(
            Request(model="m", system_prompt="x", tools=box.definitions(), messages=tuple(messages), output_limit=9)
        )
        parsed = spoken.parse(sent)
        skills.at_reset(spoken.decode(parsed).messages)
        assert names(skills) == ["odd"]
