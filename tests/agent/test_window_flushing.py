"""What waits becomes entries, once: in order, without what was never news."""

from __future__ import annotations

from holdfast.agent.window.entries import (
    AttemptFeedback,
    Continue,
    DetachedProcessExited,
    GoalInjection,
    KnowledgeNews,
    MemoryChanged,
    Timeline,
    UserMessage,
)
from holdfast.agent.window.state import flush
from holdfast.records.events.agent import AttemptFailed, GoalSet
from holdfast.records.events.sessions import ProcessExited as Exited
from holdfast.records.events.sessions import TurnStarted
from holdfast.records.events.tools import MemorySurfaced, MemoryUpdated
from tests.agent.stories import START, Story, at, call, texts


def told(store: str, text: str) -> MemoryUpdated:
    return MemoryUpdated(store=store, operation="add", text=text)


def test_nothing_waits_and_nothing_is_flushed() -> None:
    assert flush(Story().begin().state, START) == ()
    assert flush(Story().state, START) == ()


def test_one_entry_holds_all_that_happened() -> None:
    story = Story().begin().says("a").happen(Exited(process="p1", exit_code=0)).says("b")
    (entry,) = flush(story.state, START)
    assert isinstance(entry, Timeline)
    assert [type(item) for item in entry.items] == [UserMessage, DetachedProcessExited, UserMessage]
    assert entry.at == START


def test_items_are_ordered_by_time_and_then_by_number() -> None:
    story = Story().begin()
    story.happen(TurnStarted(text="third"), time=at(9))
    story.happen(TurnStarted(text="first"), time=at(1))
    story.happen(TurnStarted(text="fourth"), time=at(9))
    story.happen(TurnStarted(text="second"), time=at(5))
    assert texts(story.flush().render()) == [["The workspace is empty.", "first", "second", "third", "fourth"]]


def test_feedback_comes_before_the_goal_and_the_goal_before_what_happened() -> None:
    story = (
        Story().begin().says("a").happen(GoalSet(goal="g"), AttemptFailed(feedback="f"), AttemptFailed(feedback="h"))
    )
    kinds = [type(entry) for entry in flush(story.state, START)]
    assert kinds == [AttemptFeedback, AttemptFeedback, GoalInjection, Timeline]


def test_of_a_memory_only_what_it_says_now_is_told() -> None:
    story = Story().begin().happen(told("USER.md", "1"), told("MEMORY.md", "2"), told("USER.md", "3"))
    (entry,) = flush(story.state, START)
    assert isinstance(entry, Timeline)
    assert [(item.store, item.text) for item in entry.items if isinstance(item, MemoryChanged)] == [
        ("MEMORY.md", "2"),
        ("USER.md", "3"),
    ]


def test_memory_stands_in_front_of_what_the_user_said() -> None:
    story = Story().begin().happen(Exited(process="p1", exit_code=0)).says("a").happen(told("USER.md", "1")).says("b")
    story.happen(MemorySurfaced(entries=("k1",), hashes=("h",), tokens=1, place="delta", why="changed", text="Notes"))
    story.happen(Exited(process="p2", exit_code=0), told("MEMORY.md", "2"), told("USER.md", "3"))
    (entry,) = flush(story.state, START)
    assert isinstance(entry, Timeline)
    assert [type(item) for item in entry.items] == [
        DetachedProcessExited,
        KnowledgeNews,
        MemoryChanged,
        MemoryChanged,
        UserMessage,
        UserMessage,
        DetachedProcessExited,
    ]
    assert [item.store for item in entry.items if isinstance(item, MemoryChanged)] == ["MEMORY.md", "USER.md"]


def test_where_the_user_said_nothing_memory_stands_where_it_came() -> None:
    story = Story().begin().says(" ").happen(Exited(process="p1", exit_code=0), told("USER.md", "1"))
    story.happen(Exited(process="p2", exit_code=0))
    (entry,) = flush(story.state, START)
    assert isinstance(entry, Timeline)
    assert [type(item) for item in entry.items] == [DetachedProcessExited, MemoryChanged, DetachedProcessExited]


def test_what_was_told_before_is_told_again_when_it_changes_again() -> None:
    story = Story().begin().happen(told("USER.md", "1")).flush().happen(told("USER.md", "1")).flush()
    assert len([entry for entry in story.window.entries if isinstance(entry, Timeline)]) == 2


def test_a_user_who_said_nothing_is_not_quoted() -> None:
    assert flush(Story().begin().says(" \n").state, START) == ()


def test_a_history_that_ends_with_the_model_is_continued() -> None:
    story = Story().begin().turn("a", "A")
    assert flush(story.state, START) == (Timeline(at=START, items=(Continue(at=START, seq=story.state.events),)),)
    assert texts(story.flush().render())[-1] == ["(continue)"]


def test_a_user_who_said_nothing_after_an_answer_asks_to_go_on() -> None:
    assert texts(Story().begin().turn("a", "A").says("").flush().render())[-1] == ["(continue)"]


def test_news_make_that_needless() -> None:
    story = Story().begin().turn("a", "A").happen(Exited(process="p1", exit_code=0)).flush()
    assert texts(story.render())[-1] == ["[2026-11-16 10:42:11 UTC] Background process p1 exited with code 0."]


def test_results_and_open_calls_are_not_followed_by_it() -> None:
    story = Story().begin().says("a").send().answer(call("t1"))
    assert flush(story.state, START) == ()
    assert flush(story.results("ok").state, START) == ()


def test_flushing_twice_adds_nothing() -> None:
    story = Story().begin().says("a").happen(GoalSet(goal="g"), AttemptFailed(feedback="f")).flush()
    assert flush(story.state, START) == ()
