"""A session's tools as a whole: through the engine to the simulator, over restarts, resets and vanished tools."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.config.keys import Settings
from holdfast.config.sections.agent import DeferralSettings, LifecycleSettings, MaskSettings, ToolsSettings
from holdfast.engine import EngineCore, Lane, PrepareOptions
from holdfast.errors import HoldfastError
from holdfast.records import Message, Request, Text, ToolDefinition, ToolResult, validate
from holdfast.records.events.tools import GuideDelivered, ToolDeferred, ToolDemoted, ToolMasked, ToolOffloaded
from holdfast.tools import Decision, GuideSection, Question, Tool, Toolbox, ToolContext, ToolExecutionError, ToolOutput
from holdfast.tools.offload import is_reference
from holdfast.tools.toolbox import ToolboxState
from holdfast.wire import DIALECTS
from tests.support.toolboxes import MODEL, Room, call, do, text

LANE = Lane(tenant="t", session="s", id="s/main", client="tests")


def made(name: str, *, text: str = "fine", **fields: Any) -> Tool:
    async def run(given: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        return ToolOutput(content=text)

    fields = {"effect": "read", "description": f"What {name} is for.", **fields}
    return Tool(name=name, run=run, **fields)


def mcp(name: str, **fields: Any) -> Tool:
    return made(f"mcp__box__{name}", source="mcp", server="box", **fields)


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def array(box: Toolbox) -> bytes:
    request = Request(model=box.toolset.facts.ref, tools=box.definitions())
    body = DIALECTS[box.toolset.dialect].encode(request)
    return bytes(json.dumps(json.loads(body)["tools"]).encode())


async def no(question: Question) -> Decision:
    return Decision(False, why="The user said no.")


class TestCalls:
    def test_every_call_of_a_message_is_answered(self, room: Room) -> None:
        box = room.open([made("look")], builtins=True, confirm=no)
        said = Message(
            "assistant",
            (
                Text("Let me see."),
                call("look", "a"),
                call("nothing", "b"),
                call("run_command", "c", command="rm -rf /"),
            ),
        )
        ran = asyncio.run(box.run(said))
        assert [answer.result.is_error for answer in ran.answers] == [False, True, True]
        assert "The user said no." in text(ran.answers[2].result)
        conversation = (Message("user", (Text("go"),)), said, *ran.messages)
        assert validate(Request(model=MODEL, messages=conversation)) == ()

    def test_calls_of_a_turn_that_was_cut_get_their_answers(self, room: Room) -> None:
        box = room.open([made("look")])
        said = Message("assistant", (call("look", "a"), call("look", "b")))
        ran = box.cut(said)
        assert all(answer.cancelled and answer.result.is_error for answer in ran.answers)
        conversation = (Message("user", (Text("go"),)), said, *ran.messages)
        assert validate(Request(model=MODEL, messages=conversation)) == ()
        assert box.cut(Message("assistant", (Text("Done."),))).messages == ()

    def test_a_message_without_calls_needs_no_answer(self, room: Room) -> None:
        ran = asyncio.run(room.open([]).run(Message("assistant", (Text("Done."),))))
        assert (ran.messages, ran.answers) == ((), ())

    def test_a_long_result_is_read_again_whatever_is_in_it(self, room: Room) -> None:
        box = room.open([made("dump", text="\0" * 30_000)], builtins=True)
        reference = text(do(box, call("dump"))[0])
        assert is_reference(reference)
        path = reference.splitlines()[0].rstrip("]").rpartition(", ")[2]
        (page,) = do(box, call("read_file", path=path))
        assert not page.is_error
        assert text(page).startswith("�" * 100)

    def test_a_long_error_goes_to_disk_too_and_leaves_the_guide_alone(self, room: Room) -> None:
        async def fail(given: Mapping[str, Any], context: ToolContext) -> ToolOutput:
            if "well" not in given:
                raise ToolExecutionError("it went wrong\n" * 2_000)
            return ToolOutput(content="fine")

        failing = Tool(name="fail", description="Fails.", run=fail, effect="read", guide="Say well.")
        box = room.open([failing], builtins=True)
        (wrong,) = do(box, call("fail"))
        assert wrong.is_error
        assert is_reference(text(wrong))
        path = text(wrong).splitlines()[0].rstrip("]").rpartition(", ")[2]
        assert Path(path).read_text() == "it went wrong\n" * 2_000
        assert "Say well." not in text(wrong)
        assert "Say well." in text(do(box, call("fail", "c2", well=True))[0])
        assert len(room.payloads(ToolOffloaded)) == 1


class TestSession:
    def test_after_a_restart_the_same_bytes_are_declared(self, room: Room) -> None:
        settings = ToolsSettings(deferral=DeferralSettings(mode="always", carrier="call_tool"))
        tools = [made("look", guide="Look closely."), mcp("send"), mcp("take")]
        box = room.open(tools, settings=settings)
        do(box, call("discover_tools", query="select:look"), call("look", "c2"))
        before, state = array(box), box.state
        described = [made("look", guide="Look closely.", description="Another text."), mcp("send"), mcp("more")]
        again = room.open(described, settings=settings, state=state)
        assert array(again) == before
        (result,) = do(again, call("call_tool", "c3", name="look", arguments={}))
        assert "Look closely." not in text(result)  # it was shown before
        assert not result.is_error
        assert room.payloads(ToolDeferred)  # once, when the session began
        assert not room.payloads(ToolDeferred)

    def test_a_state_that_cannot_be_read_is_said_so(self, room: Room) -> None:
        with pytest.raises(HoldfastError, match="state of a session's tools cannot be read"):
            room.open([], state=b"\xc1")

    def test_a_model_without_its_provider_is_refused(self, room: Room) -> None:
        with pytest.raises(HoldfastError, match="write it as provider:name"):
            room.open([], model="claude-opus-4-6")

    def test_background_commands_keep_their_numbers(self, room: Room) -> None:
        settings = ToolsSettings()

        async def yes(question: Question) -> Decision:
            return Decision(True)

        async def started(state: bytes | None) -> tuple[str, bytes]:
            async with room.open([], builtins=True, confirm=yes, settings=settings, state=state) as box:
                ran = await box.run([call("run_command", command="sleep 30", background=True)])
                return text(ran.answers[0].result), box.state

        first, state = asyncio.run(started(None))
        second, _ = asyncio.run(started(state))
        assert "p1" in first
        assert "p2" in second

    def test_guides_come_once_and_again_after_compaction_removed_them(self, room: Room) -> None:
        section = GuideSection(name="care", text="Be careful with these.", tools=("look", "turn"))
        box = room.open([made("look", guide="Look closely."), made("turn")], sections=[section])
        (first,) = do(box, call("look", "a"))
        (second,) = do(box, call("turn", "b"))
        assert "Look closely." in text(first)
        assert "Be careful with these." in text(first)
        assert text(second) == "fine"
        box.at_reset([Message("user", (first,))])  # it is still there
        assert text(do(box, call("look", "c"))[0]) == "fine"
        box.at_reset([Message("user", (Text("A summary."),))])
        assert "Look closely." in text(do(box, call("look", "d"))[0])
        assert len(room.payloads(GuideDelivered)) == 4  # of both, twice


class TestToolsThatComeAndGo:
    def test_what_vanished_stays_declared_and_is_ruled_out_beside(self, room: Room) -> None:
        box = room.open([mcp("send"), mcp("take")], model="openai:gpt-6.1-sol")
        before = array(box)
        assert box.choice() == ()
        box.toolset.remove(["mcp__box__send"], "the server box has stopped")
        assert array(box) == before
        assert "unavailable: the server box has stopped" in text(do(box, call("mcp__box__send"))[0])
        ((name, raw),) = box.choice()
        chosen = json.loads(raw)
        assert name == "tool_choice"
        assert chosen["type"] == "allowed_tools"
        assert {"type": "function", "name": "mcp__box__take"} in chosen["tools"]
        assert "mcp__box__send" not in raw.decode()
        assert box.at_reset() is not None
        assert array(box) != before
        assert box.choice() == ()

    def test_names_that_come_and_go_for_ever_are_forgotten(self, room: Room) -> None:
        box = room.open([mcp("send")])
        before = len(box.state)
        for number in range(50):
            tool = mcp(f"passing_{number}")
            box.toolset.add([tool])
            box.toolset.remove([tool.name])
        assert len(box.state) == before

    def test_chat_completions_spell_the_choice_otherwise(self, room: Room) -> None:
        box = room.open([mcp("send"), mcp("take")], model="openai:gpt-5.5", dialect="openai_chat")
        box.toolset.remove(["mcp__box__send"])
        chosen = json.loads(box.choice()[0][1])
        assert {"type": "function", "function": {"name": "mcp__box__take"}} in chosen["allowed_tools"]["tools"]

    def test_what_nobody_uses_is_demoted_at_a_reset(self, room: Room) -> None:
        settings = ToolsSettings(lifecycle=LifecycleSettings(demote_after_turns=3))
        box = room.open([mcp("send"), mcp("take")], settings=settings)
        for turn in range(3):
            do(box, call("mcp__box__take", f"c{turn}"))
            box.turn_over()
        before = array(box)
        changed = box.at_reset()
        assert changed.demoted == (("mcp__box__send", 3),)
        assert array(box) != before
        assert [event.tool for event in room.payloads(ToolDemoted)] == ["mcp__box__send"]

    def test_what_nobody_uses_is_demoted_between_resets_only_where_that_pays(self, room: Room) -> None:
        box = room.open([mcp("send", description="Send " + "a letter " * 300), mcp("take")])
        for turn in range(20):
            do(box, call("mcp__box__take", f"c{turn}"))
            box.turn_over()
        before = array(box)
        assert box.demote(behind=500_000, requests=1) is None
        assert array(box) == before
        changed = box.demote(behind=1_000, requests=1_000)
        assert changed.demoted == (("mcp__box__send", 20),)
        assert [event.idle_turns for event in room.payloads(ToolDemoted)] == [20]

    @pytest.mark.parametrize(
        ("turns", "demoted"), [(19, []), (20, ["mcp__box__send"]), (21, ["mcp__box__send", "mcp__box__take"])]
    )
    def test_c82_it_takes_twenty_whole_turns_without_a_call(self, room: Room, turns: int, demoted: list[str]) -> None:
        """The turn of the call itself is none of them."""
        box = room.open([mcp("send"), mcp("take")])
        do(box, call("mcp__box__take"))
        for _ in range(turns):
            box.turn_over()
        changed = box.at_reset()
        assert [name for name, _ in (() if changed is None else changed.demoted)] == demoted

    def test_c81_what_nobody_uses_stays_where_the_lifecycle_is_switched_off(self, room: Room) -> None:
        box = room.open([mcp("send")], settings=ToolsSettings(lifecycle=LifecycleSettings(enabled=False)))
        for _ in range(50):
            box.turn_over()
        assert box.at_reset() is None
        assert "mcp__box__send" in box.toolset.declared

    def test_what_is_found_is_declared_anew_where_that_is_set(self, room: Room) -> None:
        settings = ToolsSettings(deferral=DeferralSettings(mode="always", carrier="redeclare"))
        box = room.open([mcp("send", description="Send " + "a letter " * 200)], settings=settings)
        do(box, call("discover_tools", query="select:mcp__box__send"))
        changed = box.declare_found()
        assert changed.added == ("mcp__box__send",)
        assert box.declare_found() is None


def send(engine: EngineCore, box: Toolbox, count: int) -> Any:
    """A request of so many turns with a call and a long result each."""
    spoken, messages = DIALECTS["anthropic"], [Message("user", (Text("Begin. " * 600),))]
    for number in range(count):
        result = ToolResult(f"c{number}", (Text(f"{number}: " + "some words of a result " * 60),))
        messages += [Message("assistant", (call("look", f"c{number}", at=number),)), Message("user", (result,))]
    request = Request(model=MODEL, tools=box.definitions(), messages=tuple(messages), output_limit=100)
    body = engine.parse(spoken, spoken.encode(request))
    now = 1_000_000.0 * count
    prepared = box.prepare(engine, body, lane=LANE, now=now, options=PrepareOptions())
    engine.first_token(prepared, now=now)
    return prepared


def test_old_results_are_masked_when_the_lane_is_cold(room: Room) -> None:
    settings = ToolsSettings(mask=MaskSettings(keep_window=2, trigger_chars=6_000, release_chars=3_000))
    box, engine = room.open([made("look")], settings=settings), EngineCore(Settings())
    for count in range(1, 8):
        prepared = send(engine, box, count)
    assert b"[Tool result cleared: look, 1383 characters." in prepared.raw
    assert b"6: some words" in prepared.raw
    masked = [event.tool_use_id for event in room.payloads(ToolMasked)]
    assert len(set(masked)) == len(masked) > 0
    assert "c6" not in masked


def test_c56_always_leaves_files_commands_and_what_is_registered_as_core(room: Room) -> None:
    tools = [made("skill_load", core=True), made("recall", core=True), made("other"), mcp("send"), mcp("pinned")]
    settings = ToolsSettings(deferral=DeferralSettings(mode="always", never=("mcp__box__pinned",)))
    box = room.open(tools, settings=settings, builtins=True)
    files = ("read_file", "write_file", "patch_file", "list_dir", "grep_files")
    commands = ("run_command", "process_output", "process_stop")
    assert box.toolset.declared == (*files, *commands, "discover_tools", "skill_load", "recall", "mcp__box__pinned")
    assert box.toolset.deferred == ("other", "mcp__box__send")


def test_deferred_definitions_are_found_by_their_words(room: Room) -> None:
    settings = ToolsSettings(deferral=DeferralSettings(mode="always"))
    box = room.open([mcp("send", description="Send a letter to somebody."), mcp("bake")], settings=settings)
    names = [item.name for item in box.definitions() if isinstance(item, ToolDefinition)]
    assert names[0] == "discover_tools"
    (found,) = do(box, call("discover_tools", query="post a letter"))
    assert b"mcp__box__send" in DIALECTS["anthropic"].encode(
        Request(model=MODEL, messages=(Message("user", (found,)),))
    )
    assert text(do(box, call("mcp__box__send", "c2"))[0]) == "fine"


def test_a_guide_waits_where_references_have_to_stand_alone(room: Room) -> None:
    settings = ToolsSettings(deferral=DeferralSettings(mode="always"))
    section = GuideSection(name="care", text="Be careful.", tools=("discover_tools", "mcp__box__send"))
    box = room.open([mcp("send")], settings=settings, sections=[section])
    (found,) = do(box, call("discover_tools", query="select:mcp__box__send"))
    assert box.toolset.carrier == "references"
    assert text(found) == ""
    assert "Be careful." in text(do(box, call("mcp__box__send", "c2"))[0])


def test_a_provider_is_spoken_to_in_its_own_dialect(room: Room) -> None:
    spoken = {
        model: room.open([], model=model).toolset.dialect
        for model in ("gemini:gemini-3-pro", "openai:gpt-6.1-sol", "deepseek:deepseek-chat", MODEL)
    }
    assert list(spoken.values()) == ["gemini", "openai_responses", "openai_chat", "anthropic"]


def test_calls_that_gemini_numbers_anew_are_told_apart(room: Room) -> None:
    """The first call of every turn has the same id: it is in use, and one failure says nothing of the others."""
    box = room.open([mcp("take")], model="gemini:gemini-3-pro")
    do(box, call("nothing", "gemini-call-1"))
    for _ in range(25):
        do(box, call("mcp__box__take", "gemini-call-1"))
        box.turn_over()
    assert box.at_reset() is None
    assert msgspec.msgpack.decode(box.state, type=ToolboxState).failed == ()


@pytest.mark.parametrize("model", [MODEL, "openai:gpt-6.1-sol"])
def test_what_was_found_in_a_turn_that_was_given_up_is_found_again(room: Room, model: str) -> None:
    """Else the model would be told that it can call what nothing in its history declares."""
    begun = asyncio.Event()

    async def wait(given: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        begun.set()
        await asyncio.sleep(60)
        return ToolOutput()

    slow = Tool(name="slow", description="Wait.", run=wait, effect="read", core=True)
    box = room.open([mcp("send"), slow], model=model, settings=ToolsSettings(deferral=DeferralSettings(mode="always")))
    query = call("discover_tools", query="what send is for")

    async def given_up() -> None:
        running = asyncio.ensure_future(box.run([query]))
        await running  # found, and in the history
        box.toolset.at_reset(())
        running = asyncio.ensure_future(box.run([query, call("slow", "c2")]))
        await begun.wait()
        while "mcp__box__send" not in box.toolset.recent:
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(given_up())
    ran = asyncio.run(box.run([query]))
    said = DIALECTS[box.toolset.dialect].encode(Request(model=model, messages=ran.messages))
    assert (b'"tool_reference"' if model == MODEL else b'"additional_tools"') in said


@pytest.mark.parametrize("model", [MODEL, "openai:gpt-6.1-sol"])
def test_who_asks_by_name_gets_it_again(room: Room, model: str) -> None:
    """A process may have ended before the answer was stored."""
    box = room.open([mcp("send")], model=model, settings=ToolsSettings(deferral=DeferralSettings(mode="always")))
    for number in range(2):
        ran = asyncio.run(box.run([call("discover_tools", f"c{number}", query="select:mcp__box__send")]))
        said = DIALECTS[box.toolset.dialect].encode(Request(model=model, messages=ran.messages))
        assert (b'"tool_reference"' if model == MODEL else b'"additional_tools"') in said
