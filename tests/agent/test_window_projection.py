"""From events to a state: what waits, what is sent, what a resume, a list or a compaction asks for."""

from __future__ import annotations

from decimal import Decimal

import pytest

from holdfast.agent.window.entries import (
    AssistantTurn,
    Compacted,
    DetachedProcessStarted,
    GoalInjection,
    SessionContext,
    Timeline,
    UserMessage,
    to_json,
)
from holdfast.agent.window.operations import trim
from holdfast.agent.window.projection import project
from holdfast.agent.window.state import DelegateState, ProcessState, Projection, TaskState
from holdfast.errors import HoldfastError
from holdfast.records import Image, Message, Opaque, Text
from holdfast.records.events import Event
from holdfast.records.events.agent import (
    AttemptFailed,
    DelegateAsked,
    GoalSet,
    HistoryTrimmed,
    ModelRouted,
    SessionComposed,
    SessionRedeclared,
    SessionRefreshed,
    SessionState,
    SettingToggled,
    SurroundingsChanged,
    TaskUpdated,
    TurnAnswered,
    VolatileChanged,
    WindowAppended,
    WindowSent,
)
from holdfast.records.events.sessions import (
    BusGap,
    CompactionCompleted,
    DelegateCompleted,
    DelegateFailed,
    DelegateStarted,
    ProcessExited,
    SessionEnded,
    SessionResumed,
    SessionStarted,
    TurnCancelled,
    TurnCompleted,
    TurnStarted,
)
from holdfast.records.events.sessions import ProcessStarted as ProcessBegan
from holdfast.records.events.tools import McpServerDisconnected, MemoryUpdated, ToolCompleted
from tests.agent.stories import MODEL, Story, at, call, texts

COMPOSED = SessionComposed(
    system="You are careful.", tools="[]", model=MODEL, dialect="anthropic", timezone="Europe/Berlin"
)


class TestBorders:
    def test_what_has_not_been_sent_is_joined(self) -> None:
        story = Story().begin().says("a").flush().says("b").flush()
        assert story.window.borders == (False, False, False)
        assert texts(story.render()) == [["The workspace is empty.", "a", "b"]]

    def test_behind_what_has_been_sent_a_message_begins(self) -> None:
        story = Story().begin().says("a").send().says("b").flush().says("c").flush()
        assert story.window.borders == (False, False, True, False)
        assert texts(story.render()) == [["The workspace is empty.", "a"], ["b", "c"]]

    def test_results_that_have_not_been_sent_are_joined_by_what_happened_meanwhile(self) -> None:
        story = Story().begin().says("a").send().answer(call("t1")).results("ok").says("b").flush()
        assert texts(story.render())[2] == ["ToolResult", "b"]

    def test_results_that_have_been_sent_are_not(self) -> None:
        story = Story().begin().says("a").send().answer(call("t1")).results("ok").send()
        assert story.window.results_sent
        assert texts(story.says("b").flush().render())[2:] == [["ToolResult"], ["b"]]

    def test_results_that_came_after_their_turn_was_sent_are_joined_too(self) -> None:
        story = Story().begin().says("a").send().answer(call("t1")).send().results("ok").says("b").flush()
        assert texts(story.render())[2:] == [["ToolResult", "b"]]

    def test_a_request_that_left_with_less_marks_less(self) -> None:
        story = Story().begin().says("a").flush().happen(WindowSent(call="c", model=MODEL, entries=1))
        assert story.window.sent == 1
        assert story.says("b").flush().window.borders == (False, False, False)

    def test_an_older_request_takes_nothing_back(self) -> None:
        story = Story().begin().says("a").send().happen(WindowSent(call="c", model=MODEL, entries=1))
        assert story.window.sent == 2

    def test_more_than_there_is_cannot_be_sent(self) -> None:
        assert Story().begin().happen(WindowSent(call="c", model=MODEL, entries=9)).window.sent == 1


class TestResults:
    def test_they_belong_to_the_last_turn(self) -> None:
        story = Story().begin().says("a").send().answer("First.").says("b").send().answer(call("t1")).results("ok")
        turns = [entry for entry in story.window.entries if isinstance(entry, AssistantTurn)]
        assert [bool(turn.results) for turn in turns] == [False, True]

    def test_calls_are_open_until_each_is_answered(self) -> None:
        story = Story().begin().says("a").send().answer(call("t1"), call("t2"))
        assert [each.id for each in story.state.open_calls] == ["t1", "t2"]
        assert story.results("one", "two").state.open_calls == ()

    def test_late_messages_stay_behind_them(self) -> None:
        late = Message("system", (Opaque("additional_tools", b"{}"),))
        story = Story().begin().says("a").send().answer(call("t1")).results("ok", late=(late,)).says("b").flush()
        assert [message.role for message in story.render()] == ["user", "assistant", "user", "system", "user"]

    def test_results_without_a_turn_change_nothing(self) -> None:
        story = Story().begin()
        assert story.results().window == Story().begin().window


class TestCompaction:
    def long(self) -> Story:
        story = Story().begin()
        for name in "abcd":
            story.turn(name, name.upper())
        return story

    def test_one_entry_stands_in_the_place_of_many(self) -> None:
        story = self.long()
        before = story.window
        after = story.compact(3, 7).window
        assert after.entries[:3] == before.entries[:3]
        assert after.entries[4:] == before.entries[7:]
        assert isinstance(after.entries[3], Compacted)
        assert len(after.borders) == len(after.entries)

    def test_what_stands_before_it_is_sent_and_what_stands_behind_it_is_not(self) -> None:
        assert self.long().compact(3, 7).window.sent == 3
        assert self.long().compact(0, 7).window.sent == 0

    def test_the_messages_before_it_stay_as_they_were(self) -> None:
        story = self.long()
        before = story.render()
        after = story.compact(3, 7).render()
        assert after[:2] == before[:2]
        assert texts(after)[2:] == [["What happened before.", "d"], ["D"]]

    def test_it_extends_no_message_that_was_sent(self) -> None:
        story = Story().begin().send().turn("a", "A").turn("b", "B")
        assert texts(story.compact(1, 4).render()) == [["The workspace is empty."], ["What happened before."], ["B"]]
        assert texts(story.render())[0] == ["The workspace is empty."]

    def test_what_stays_behind_it_joins_it_also_where_a_message_began_before(self) -> None:
        story = Story().begin().turn("a", "A").says("failed").send().says("c").send().answer("C")
        assert story.window.borders[4]
        assert texts(story.compact(1, 4).render())[1:] == [["What happened before.", "c"], ["C"]]

    def test_what_comes_after_a_summary_that_was_not_sent_joins_it(self) -> None:
        story = self.long().compact(1, 9).says("e").flush()
        assert texts(story.render())[-1] == ["What happened before.", "e"]

    def test_a_head_beyond_the_end_is_the_end(self) -> None:
        story = self.long()
        entries = story.window.entries
        assert story.compact(99, 3).window.entries[:-1] == entries

    def test_one_that_changed_nothing_is_counted(self) -> None:
        story = self.long()
        window = story.window
        story.happen(CompactionCompleted(tokens_before=1, tokens_after=1, cost=Decimal("0.5")))
        assert story.window == window
        assert (story.state.compactions, story.state.cost) == (1, Decimal("0.5"))

    def test_turns_are_counted_from_the_last_one(self) -> None:
        story = self.long()
        assert story.state.turns_since_compaction == 4
        story.compact(1, 5).turn("e", "E")
        assert (story.state.turns_since_compaction, story.state.turns, story.state.compactions) == (1, 5, 1)


class TestTrimming:
    def test_entries_are_gone_and_the_head_is_not_extended(self) -> None:
        story = Story().begin().turn("a", "A").turn("b", "B").turn("c", "C")
        before = story.render()
        story.happen(HistoryTrimmed(head=1, cut=5))
        assert texts(story.render()) == [["The workspace is empty."], ["c"], ["C"]]
        assert story.window.sent == 1
        assert before[0] != story.render()[0]

    def test_nothing_cut_is_nothing_changed(self) -> None:
        window = Story().begin().turn("a", "A").window
        assert trim(window, 2, 2) == window

    def test_all_behind_the_head_may_go(self) -> None:
        story = Story().begin().turn("a", "A").happen(HistoryTrimmed(head=1, cut=3)).says("b").flush()
        assert texts(story.render()) == [["The workspace is empty."], ["b"]]


class TestRefreshing:
    NEW = to_json(SessionContext(at=at(0), text="Two files."))

    def test_entry_0_is_replaced_and_nothing_is_sent_any_more(self) -> None:
        story = Story().begin().turn("a", "A")
        entries = story.window.entries
        story.happen(SessionRefreshed(entry=self.NEW))
        assert story.window.entries[1:] == entries[1:]
        assert texts(story.render())[0] == ["Two files.", "a"]
        assert story.window.sent == 0

    def test_where_there_is_none_it_comes_first(self) -> None:
        story = Story().says("a").flush().happen(SessionRefreshed(entry=self.NEW))
        assert texts(story.render()) == [["Two files.", "a"]]

    def test_what_was_known_of_the_surroundings_is_in_it(self) -> None:
        story = Story().begin().happen(SurroundingsChanged(text="A file more.", around="One file."))
        assert story.state.known_surroundings == "One file."
        assert story.happen(SessionRefreshed(entry=self.NEW)).state.known_surroundings == ""


class TestQueue:
    def test_events_wait_until_they_are_flushed(self) -> None:
        story = Story().begin().says("a").happen(ProcessBegan(process="p1", command="make"))
        assert story.state.queue == (
            UserMessage(at=at(2), seq=2, text="a"),
            DetachedProcessStarted(at=at(3), seq=3, process="p1", command="make"),
        )
        assert story.flush().state.queue == ()

    def test_attachments_come_along(self) -> None:
        image = Image("image/png", "AAAA")
        story = Story().begin().happen(TurnStarted(text="see", attachments=to_json((image,)))).flush()
        assert story.render()[0].content[1:] == (Text("see"), image)

    def test_an_entry_0_flushes_nothing(self) -> None:
        story = Story().says("a").happen(GoalSet(goal="g"), AttemptFailed(feedback="f"))
        story.happen(WindowAppended(entries=to_json((SessionContext(at=at(0), text="here"),))))
        assert (len(story.state.queue), story.state.goal, story.state.feedback) == (1, "g", ("f",))

    @pytest.mark.parametrize(
        "event",
        [
            DelegateStarted(delegate="d1", role="r", awaited=True),
            DelegateCompleted(delegate="d1", result="x", awaited=True),
            DelegateFailed(delegate="d1", error_message="x", awaited=True),
            MemoryUpdated(store="USER.md", operation="add"),
            BusGap(dropped=1, first="a", last="b"),
            TurnCompleted(text="x"),
        ],
    )
    def test_what_is_known_already_does_not_wait(self, event: Event) -> None:
        assert Story().begin().happen(event).state.queue == ()

    @pytest.mark.parametrize(
        "event",
        [
            DelegateStarted(delegate="d1", role="r"),
            DelegateCompleted(delegate="d1"),
            DelegateFailed(delegate="d1"),
            DelegateAsked(delegate="d1", question="Which?"),
            TaskUpdated(task="t", status="open"),
            MemoryUpdated(store="USER.md", operation="add", text="x"),
            McpServerDisconnected(server="github"),
            SettingToggled(setting="plan mode", value="on"),
            SurroundingsChanged(text="x"),
            ProcessExited(process="p1", exit_code=1),
        ],
    )
    def test_what_happened_waits_with_its_time_and_number(self, event: Event) -> None:
        (item,) = Story().begin().happen(event).state.queue
        assert (item.at, item.seq) == (at(2), 2)

    def test_a_question_of_one_that_is_waited_for_stands_in_its_result(self) -> None:
        story = Story().begin().happen(DelegateStarted(delegate="d1", role="r", awaited=True))
        story.happen(DelegateAsked(delegate="d1", question="Which?"))
        assert story.state.queue == ()
        assert story.state.running_delegates[0].question == "Which?"


class TestGoal:
    def test_it_waits_and_is_told_once(self) -> None:
        story = Story().begin().happen(GoalSet(goal="ship it"))
        assert (story.state.goal, story.state.current_goal) == ("ship it", "ship it")
        story.flush()
        assert (story.state.goal, story.state.told_goal) == (None, "ship it")

    def test_the_last_one_counts(self) -> None:
        story = Story().begin().happen(GoalSet(goal="a"), GoalSet(goal="b")).flush()
        assert [entry.text for entry in story.window.entries if isinstance(entry, GoalInjection)] == ["b"]

    def test_what_the_model_knows_is_not_told_again(self) -> None:
        story = Story().begin().happen(GoalSet(goal="a")).flush().happen(GoalSet(goal="b"), GoalSet(goal="a"))
        assert story.state.goal is None

    def test_one_given_up_before_it_was_told_is_not_mentioned(self) -> None:
        assert Story().begin().happen(GoalSet(goal="a"), GoalSet(goal=" ")).state.goal is None

    def test_one_whose_entry_is_gone_is_told_again(self) -> None:
        story = Story().begin().happen(GoalSet(goal="a")).turn("x", "X").turn("y", "Y").compact(1, 4)
        assert story.state.goal == "a"
        assert story.says("z").flush().state.goal is None
        assert story.happen(HistoryTrimmed(head=1, cut=len(story.window.entries))).state.goal == "a"

    def test_one_whose_entry_stays_is_not(self) -> None:
        story = Story().begin().happen(GoalSet(goal="a")).turn("x", "X").turn("y", "Y").compact(2, 4)
        assert story.state.goal is None

    def test_one_that_was_given_up_and_whose_entries_are_gone_is_forgotten(self) -> None:
        story = Story().begin().happen(GoalSet(goal="a")).turn("x", "X").happen(GoalSet(goal="")).turn("y", "Y")
        assert story.compact(1, 6).state.goal is None


class TestTotals:
    def test_answers_add_up(self) -> None:
        story = Story().begin().says("a").send()
        answered = TurnAnswered(
            call="c",
            model=MODEL,
            dialect="anthropic",
            message='{"role":"assistant","content":[{"type":"text","text":"x"}]}',
            input=1,
            read=20,
            written=300,
            output=4000,
            cost=Decimal("0.25"),
        )
        story.happen(answered, answered)
        state = story.state
        assert (state.calls, state.input, state.read, state.written, state.output) == (2, 2, 40, 600, 8000)
        assert (state.cost, state.unpriced, state.last) == (Decimal("0.50"), 0, answered)

    def test_an_unknown_price_is_counted(self) -> None:
        state = Story().begin().turn("a", "A").state
        assert (state.unpriced, state.cost) == (1, Decimal(0))

    def test_what_sub_agents_cost_is_counted_apart(self) -> None:
        story = Story().begin().happen(DelegateCompleted(delegate="d", cost=Decimal("0.1"), awaited=True))
        story.happen(DelegateFailed(delegate="e", cost=Decimal("0.2"), awaited=True))
        assert (story.state.cost, story.state.delegated_cost) == (Decimal(0), Decimal("0.3"))


class TestSession:
    def test_what_stays_is_kept(self) -> None:
        story = Story().begin().happen(COMPOSED, SessionRedeclared(tools="[1]"))
        assert (story.state.composed, story.state.model) == (COMPOSED, MODEL)

    def test_where_the_last_turn_went_and_what_was_chosen(self) -> None:
        story = Story().begin().happen(COMPOSED, ModelRouted(model="b:b", source="session"))
        story.happen(ModelRouted(model="c:c", source="message"))
        assert (story.state.model, story.state.chosen) == ("c:c", "b:b")

    def test_what_tools_and_skills_know(self) -> None:
        story = Story().begin().happen(SessionState(tools="AA", skills="BB"), SessionState(skills="CC"))
        assert (story.state.box, story.state.skills) == ("AA", "CC")

    def test_the_volatile_text(self) -> None:
        assert Story().begin().happen(VolatileChanged(text="Likes tea.")).state.volatile == "Likes tea."

    def test_begun_ended_and_begun_again(self) -> None:
        story = Story().begin().turn("Fix the\n bug, " + "please " * 40, "A")
        state = story.state
        assert (state.started_at, state.last_at, state.turns) == (at(0), at(5), 1)
        assert state.title.startswith("Fix the bug, please")
        assert len(state.title) <= 80
        assert story.happen(SessionEnded()).state.ended
        assert not story.happen(SessionResumed()).state.ended

    def test_a_fork_says_of_what(self) -> None:
        assert Story().happen(SessionStarted(forked_from="s0", agent="coder")).state.forked_from == "s0"

    def test_a_turn_is_open_until_it_ends(self) -> None:
        story = Story().begin().happen(TurnStarted(text="a"), turn="t1")
        assert story.state.turn == "t1"
        assert story.happen(TurnCancelled(), turn="t1").state.turn is None

    def test_a_time_that_goes_backwards_is_not_the_last(self) -> None:
        story = Story().begin().happen(TurnStarted(text="a"), time=5)
        assert story.state.last_at == at(1)

    def test_what_runs_beside_it(self) -> None:
        story = (
            Story()
            .begin()
            .happen(
                ProcessBegan(process="p1", command="make"),
                ProcessBegan(process="p2", command="ls"),
                ProcessExited(process="p1", exit_code=0),
                DelegateStarted(delegate="d1", role="reviewer", task="read", awaited=True),
                DelegateStarted(delegate="d2", role="tester"),
                DelegateFailed(delegate="d2"),
            )
        )
        assert story.state.running_processes == (ProcessState(process="p2", command="ls"),)
        assert story.state.running_delegates == (
            DelegateState(delegate="d1", role="reviewer", task="read", awaited=True),
        )

    def test_tasks_are_known_by_their_last_word(self) -> None:
        story = (
            Story()
            .begin()
            .happen(
                TaskUpdated(task="a", status="open"),
                TaskUpdated(task="b", status="open"),
                TaskUpdated(task="a", status="done"),
            )
        )
        assert story.state.tasks == (TaskState(task="a", status="done"), TaskState(task="b", status="open"))

    def test_files_that_tools_touched_the_last_one_last(self) -> None:
        story = Story().begin().says("a").send()
        story.answer(
            call("1", "read_file", b'{"path":"a.py"}'),
            call("2", "write_file", b'{"path":"b.py","text":"x"}'),
            call("3", "run_command", b'{"command":"ls","path":"c"}'),
            call("4", "read_file", b"not json"),
            call("5", "patch_file", b'{"path":1}'),
        ).results()
        assert story.state.files == ("a.py", "b.py")
        story.happen(ToolCompleted(tool="x", tool_use_id="9", output="", files_modified=("a.py", "d.py")))
        assert story.state.files == ("b.py", "a.py", "d.py")

    def test_the_number_of_the_next_event(self) -> None:
        story = Story().begin()
        assert story.state.events == len(story.envelopes) == 2
        assert Projection().events == 0


@pytest.mark.parametrize(
    "event",
    [
        WindowAppended(entries="nonsense"),
        WindowAppended(entries='[{"type":"hologram","at":1}]'),
        SessionRefreshed(entry="[]"),
        TurnAnswered(call="c", model="m", dialect="d", message="{}"),
    ],
)
def test_an_event_of_another_version_is_named(event: Event) -> None:
    with pytest.raises(HoldfastError, match=rf"event 3 of session s1 \({event.type}\) cannot be read"):
        Story().begin().happen(event)


def test_the_state_is_the_fold_of_its_events() -> None:
    story = (
        Story().begin().happen(COMPOSED).turn("a", "A").says("b").send().answer(call("t1")).results("ok").compact(1, 3)
    )
    assert project(story.envelopes) == story.state
    assert isinstance(story.window.entries[-1], AssistantTurn)
    assert any(isinstance(entry, Timeline) for entry in story.window.entries)
