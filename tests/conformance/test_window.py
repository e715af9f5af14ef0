"""Seed prefix-caching, as far as the window goes: four invariants, six violation patterns, the order of parts."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import get_args, get_type_hints

import msgspec
import pytest

from holdfast.agent.window import renderer
from holdfast.agent.window.entries import (
    AssistantTurn,
    DetachedProcessExited,
    Entry,
    GoalInjection,
    SessionContext,
    Static,
    Timeline,
    TimelineItem,
    Window,
    from_json,
    to_json,
)
from holdfast.agent.window.projection import project
from holdfast.agent.window.renderer import render
from holdfast.agent.window.state import Projection
from holdfast.records import Message, Request, Text, ToolResult, validate
from holdfast.records.events import CATALOGUE, Event, decode, encode
from holdfast.records.events import agent as told
from holdfast.records.events import sessions as happened
from tests.agent.golden import AT, ENTRIES, ITEMS, SEQ, WHOLE, digest
from tests.agent.purity import PLAIN, RENDERING, Locale, asked, functions, imports, impurities, locales, types
from tests.agent.stories import STATIC, Story, call, example, texts, window


def long_story() -> Story:
    """A conversation in which everything happens once."""
    story = Story().begin().happen(told.GoalSet(goal="Ship it.")).turn("a", "A").says("b")
    story.happen(happened.ProcessStarted(process="p1", command="make")).send().answer("Look.", call("t1"))
    story.results("one").happen(happened.ProcessExited(process="p1", exit_code=0)).send().answer("Done.")
    return story.happen(told.TaskUpdated(task="tests", status="done")).send()


class TestTheOnlySource:
    def test_b3_the_prompt_is_rendered_from_entries_that_follow_from_events(self) -> None:
        story = long_story()
        stored = [decode(encode(envelope)) for envelope in story.envelopes]
        assert render(project(stored).window, STATIC) == story.render()

    def test_b3_every_kind_of_entry_and_item_is_stored_and_comes_back_the_same(self) -> None:
        assert from_json(to_json(WHOLE.entries)) == WHOLE.entries
        assert digest(window(*from_json(to_json(WHOLE.entries)))) == digest()

    def test_b8_entry_0_holds_the_surroundings_as_they_were_read(self) -> None:
        story = Story().begin("Branch main, 3 files.").turn("a", "A")
        assert isinstance(story.window.entries[0], SessionContext)
        assert story.render()[0].content[0] == Text("Branch main, 3 files.")

    @pytest.mark.parametrize(("item", "expected"), ITEMS, ids=lambda value: type(value).__name__)
    def test_b4_the_text_of_every_kind_of_item_is_final(self, item: TimelineItem, expected: list[str]) -> None:
        assert texts(render(window(Timeline(**AT, items=(item,))), STATIC)) == [expected]

    @pytest.mark.parametrize(("entry", "expected"), ENTRIES, ids=lambda value: type(value).__name__)
    def test_b4_the_messages_of_every_kind_of_entry_are_final(
        self, entry: Entry, expected: tuple[Message, ...]
    ) -> None:
        assert render(window(entry), STATIC) == expected

    def test_b4_no_kind_is_missing_above(self) -> None:
        assert {type(item) for item, _ in ITEMS} == set(get_args(TimelineItem))
        assert {type(entry) for entry, _ in ENTRIES} == set(get_args(Entry))

    def test_b4_what_was_sent_is_sent_so_again(self) -> None:
        story, requests = long_story(), []
        for count in range(1, len(story.envelopes) + 1):
            if isinstance(story.envelopes[count - 1].payload, told.WindowSent):
                requests.append(render(project(story.envelopes[:count]).window, STATIC))
        assert len(requests) == 4
        for before, after in pairwise(requests):
            assert after[: len(before)] == before

    def test_b2_a_request_that_failed_is_extended_by_the_next_one_and_not_rewritten(self) -> None:
        story = Story().begin().says("a").send()
        failed = story.render()
        story.says("are you there?").send()
        assert story.render()[: len(failed)] == failed
        assert texts(story.render()[len(failed) :]) == [["are you there?"]]

    def test_b2_results_that_were_sent_are_not_extended_by_what_comes_later(self) -> None:
        story = Story().begin().says("a").send().answer(call("t1")).results("one").send()
        sent = story.render()
        story.says("stop").send()
        assert story.render()[: len(sent)] == sent


class TestInvariant1:
    def test_b14_a_time_is_that_of_the_event_however_late_it_is_flushed(self) -> None:
        story = Story().begin().happen(happened.ProcessExited(process="p1", exit_code=0))
        for _ in range(5):
            story.happen(happened.SessionResumed())
        assert texts(story.flush().render())[0][1].startswith("[2026-11-16 10:42:07 UTC]")

    def test_b14_rendering_later_changes_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        before = digest()
        for name in ("time", "time_ns", "monotonic", "perf_counter", "localtime", "gmtime", "strftime"):
            monkeypatch.setattr(time, name, asked(name))
        assert digest() == before

    def test_b15_nothing_that_renders_can_ask_for_the_time(self) -> None:
        for module in RENDERING:
            assert list(impurities(module)) == []

    @pytest.mark.parametrize(
        "source",
        [
            "import time",
            "from datetime import datetime\ndef f():\n    return datetime.now()",
            "from datetime import date\ndef f():\n    return date.today()",
            "def f(d):\n    return d.strftime('%c')",
            "import os",
            "from random import choice",
            "SEEN = {}",
            "SEEN: list[str] = []",
            "SEEN = set()",
            "def f():\n    global X\n    X = 1",
            "from functools import cache",
            "def f(seen=[]):\n    pass",
            "import holdfast.records.events",
            "from ..session import Session",
            "from .state import State",
        ],
    )
    def test_b15_the_check_sees_each_way_to_ask(self, source: str) -> None:
        assert list(impurities(source))


class TestInvariant2:
    @pytest.fixture
    def zone(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
        """Moves the machine to another time zone."""

        def move(name: str) -> None:
            monkeypatch.setenv("TZ", name)
            time.tzset()

        yield move
        monkeypatch.undo()
        time.tzset()

    def test_b16_every_entry_renders_the_same_under_any_locale_and_zone_of_the_machine(
        self, zone: Callable[[str], None]
    ) -> None:
        before = digest()
        for name in ("Pacific/Auckland", "America/New_York"):
            zone(name)
            for language in locales():
                with Locale(language):
                    assert digest() == before

    def test_b16_and_in_any_process(self) -> None:
        env = {**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "LC_ALL": "C", "LANG": "C"}
        script = "from tests.agent.golden import digest; print(digest())"
        root = Path(__file__).parents[2]
        done = subprocess.run([sys.executable, "-c", script], env=env, cwd=root, capture_output=True, check=True)
        assert done.stdout.decode().strip() == digest()

    def test_b16_what_was_flushed_cannot_be_changed(self) -> None:
        for value in (
            *(item for item, _ in ITEMS),
            *(entry for entry, _ in ENTRIES),
            WHOLE,
            STATIC,
            Message("user", ()),
        ):
            assert type(value).__struct_config__.frozen
            hash(value)  # nothing inside it can be changed either

    def test_b17_no_render_function_is_given_live_state(self) -> None:
        for module in RENDERING:
            for name, function in functions(module):
                assert types(function) <= PLAIN, f"{module.__name__}.{name}"

    def test_b17_the_whole_window_knows_no_more_than_events_and_values(self) -> None:
        package = Path(renderer.__file__).parent
        known = {"errors", "lazy_exports", "records", *(path.stem for path in package.glob("*.py"))}
        for path in package.glob("*.py"):
            assert set(imports(path.read_text())) <= known, path.name

    def test_b17_the_check_sees_live_state(self) -> None:
        def live(window: Window, state: Projection) -> None: ...

        def asking(window: Window, status: Callable[[str], str]) -> None: ...

        assert not types(live) <= PLAIN
        assert not types(asking) <= PLAIN

    def test_b18_rendering_takes_entries_and_what_is_fixed_for_the_session(self) -> None:
        assert get_type_hints(render) == {"window": Window, "static": Static, "return": tuple[Message, ...]}
        assert set(Static.__struct_fields__) == {"timezone", "model", "dialect"}

    def test_b18_the_zone_is_the_sessions_own(self) -> None:
        item = DetachedProcessExited(**SEQ, process="p1", exit_code=0)
        (message,) = render(window(Timeline(**AT, items=(item,))), Static(timezone="Europe/Berlin"))
        assert texts((message,))[0][0].startswith("[2026-11-16 11:42:05 UTC+01:00]")


class TestInvariant3:
    def test_b19_what_happens_becomes_a_new_entry_each_time(self) -> None:
        story = Story().begin().says("a").flush()
        for number in range(3):
            before = story.window.entries
            story.says(str(number)).flush()
            assert story.window.entries[:-1] == before
            assert isinstance(story.window.entries[-1], Timeline)

    def test_b20_consecutive_messages_of_the_user_are_put_side_by_side_and_not_joined(self) -> None:
        story = Story().begin().says("a").flush().says("b").flush()
        assert len(story.window.entries) == 3
        assert texts(story.render()) == [["The workspace is empty.", "a", "b"]]

    def test_b20_but_never_so_that_a_message_grows_that_was_sent(self) -> None:
        story = Story().begin().says("a").send().says("b").flush()
        assert texts(story.render()) == [["The workspace is empty.", "a"], ["b"]]


class TestInvariant4:
    def test_b21_b22_nothing_but_composing_a_session_touches_its_system_text(self) -> None:
        composed = told.SessionComposed(system="You are careful.", tools="[]", model="p:m", dialect="anthropic")
        story = Story().begin().happen(composed)
        for name, event in CATALOGUE.items():
            if event is not told.SessionComposed:
                story.happen(example(event))
                assert story.state.composed == composed, name


class TestOrder:
    def test_b23_surroundings_come_first_then_the_history_then_what_is_asked_now(self) -> None:
        story = Story().begin("Here.").turn("a", "A").turn("b", "B").says("c").flush()
        assert texts(story.render()) == [["Here.", "a"], ["A"], ["b"], ["B"], ["c"]]

    def test_b24_a_turn_is_what_the_model_said_and_the_results_of_its_calls(self) -> None:
        story = Story().begin().says("a").send().answer("Look.", call("t1"), call("t2")).results("one", "two")
        assert isinstance(story.window.entries[-1], AssistantTurn)
        *_, turn, results = story.render()
        assert (turn.role, results.role) == ("assistant", "user")
        assert results.content == (ToolResult("t1", (Text("one"),)), ToolResult("t2", (Text("two"),)))
        assert validate(Request(model="m", messages=story.render())) == ()

    @pytest.mark.parametrize("entry", [entry for entry, _ in ENTRIES if not isinstance(entry, AssistantTurn)])
    def test_b25_everything_else_is_a_message_of_the_user(self, entry: Entry) -> None:
        assert [message.role for message in render(window(entry), STATIC)] == ["user"]

    def test_b26_a_history_that_would_end_with_the_model_ends_with_continue_and_stores_it(self) -> None:
        story = Story().begin().turn("a", "A").send()
        assert texts(story.render())[-1] == ["(continue)"]
        story.answer("B").says("c").send()
        assert texts(story.render())[-3:] == [["(continue)"], ["B"], ["c"]]

    def test_b26_it_is_not_said_where_something_else_is(self) -> None:
        story = Story().begin().turn("a", "A").says("b").send().answer(call("t1")).results("one").send()
        assert not any("(continue)" in each for each in texts(story.render()))


class TestTheOnlyPattern:
    FACTS: tuple[tuple[Event, str], ...] = (
        (happened.ProcessStarted(process="p1", command="make"), "Background process p1 started: make"),
        (
            happened.DelegateStarted(delegate="d1", role="tester", task="Test it."),
            "Sub-agent d1 (tester) started: Test it.",
        ),
        (told.TaskUpdated(task="t", status="open"), "Task t: open."),
        (told.DelegateAsked(delegate="d1", question="Which?"), "Sub-agent d1 asks: Which?"),
        (happened.TurnStarted(text="Hello."), "Hello."),
    )

    @pytest.mark.parametrize(("event", "expected"), FACTS, ids=lambda value: getattr(value, "type", ""))
    def test_b27_b29_a_fact_is_captured_when_it_is_flushed_and_stays(self, event: Event, expected: str) -> None:
        story = Story().begin().turn("a", "A").happen(event)
        assert not any(expected in text for each in texts(story.render()) for text in each)
        sent = story.send().render()
        assert texts(sent)[-1][0].endswith(expected)
        assert story.answer("B").turn("c", "C").render()[: len(sent)] == sent

    def test_b28_what_waits_or_runs_shows_nowhere_until_it_is_flushed(self) -> None:
        story = Story().begin().turn("a", "A")
        before = story.render()
        for event, _ in self.FACTS:
            story.happen(event)
        story.happen(told.GoalSet(goal="g"), told.AttemptFailed(feedback="f"), told.VolatileChanged(text="v"))
        assert story.state.running_processes
        assert story.render() == before

    def test_b30_b31_an_exit_is_a_new_entry_and_the_start_still_stands(self) -> None:
        story = (
            Story().begin().says("a").happen(happened.ProcessStarted(process="p1", command="make")).send().answer("A")
        )
        started = story.window.entries[1]
        story.happen(happened.ProcessExited(process="p1", exit_code=0)).send()
        exited = story.window.entries[-1]
        assert isinstance(exited, Timeline)
        assert b'"detached_process_exited"' in msgspec.json.encode(exited.items)
        assert story.window.entries[1] == started
        assert "started: make" in texts(story.render())[0][2]

    def test_b43_a_goal_is_injected_as_an_entry_of_its_own(self) -> None:
        story = Story().begin().happen(told.GoalSet(goal="Ship it.")).says("a").send()
        assert [type(entry) for entry in story.window.entries] == [SessionContext, GoalInjection, Timeline]
        assert texts(story.render()) == [
            ["The workspace is empty.", "The goal of this session is now:\nShip it.", "a"],
        ]
        story.answer("A").happen(told.GoalSet(goal="")).send()
        assert texts(story.render())[-1] == ["The goal of this session was given up."]


class TestViolations:
    def test_b33_live_state_cannot_be_handed_to_rendering(self) -> None:
        story = long_story()
        with pytest.raises(TypeError):
            render(story.window, STATIC, story.state)  # type: ignore[call-arg]
        before = story.render()
        story.happen(
            happened.ProcessStarted(process="p9", command="x"), happened.DelegateStarted(delegate="d", role="r")
        )
        assert story.state.running_processes
        assert story.render() == before

    def test_b34_a_running_time_cannot_be_shown(self) -> None:
        story = Story().begin().happen(happened.ProcessStarted(process="p1", command="make")).send()
        before = story.render()
        story.answer("A")
        for _ in range(60):
            story.happen(happened.SessionResumed())
        assert story.render()[: len(before)] == before

    def test_b35_nothing_is_merged_into_a_message_that_was_sent(self) -> None:
        story = Story().begin().says("a").send()
        message = story.render()[-1]
        for number in range(3):
            story.happen(happened.ProcessExited(process=f"p{number}", exit_code=0)).send()
            assert message in story.render()
            message = story.render()[-1]

    def test_b36_a_status_is_that_of_the_moment_it_was_flushed(self) -> None:
        story = Story().begin().happen(told.TaskUpdated(task="t", status="open")).send()
        story.answer("A").happen(told.TaskUpdated(task="t", status="done")).send()
        shown = [text for each in texts(story.render()) for text in each if "Task t" in text]
        assert [text.rpartition(" ")[2] for text in shown] == ["open.", "done."]

    def test_b37_a_toggle_comes_at_the_end_and_stays(self) -> None:
        story = Story().begin().turn("a", "A")
        before = story.render()
        story.happen(told.SettingToggled(setting="plan mode", value="on")).says("b").send()
        after = story.render()
        assert after[: len(before)] == before
        assert texts(after)[-1] == ["[2026-11-16 10:42:11 UTC] Setting plan mode is now on.", "b"]
        story.answer("B").happen(told.SettingToggled(setting="plan mode", value="off")).send()
        assert story.render()[: len(after)] == after

    def test_b38_nothing_stands_behind_the_last_entry(self) -> None:
        story = long_story()
        last = window(story.window.entries[-1])
        assert story.render()[-1].content[-1] == render(last, STATIC)[-1].content[-1]
        counted = sum(len(renderer.entry_messages(entry, STATIC)) for entry in story.window.entries)
        blocks = sum(len(m.content) for entry in story.window.entries for m in renderer.entry_messages(entry, STATIC))
        assert blocks == sum(len(message.content) for message in story.render())
        assert len(story.render()) <= counted
