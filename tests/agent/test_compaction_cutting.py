"""What goes and what stays: pair-safe, the front to the byte, the end as long as it was asked for."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent.compaction.cut import SUMMARY_TOKENS, Cut, choose, cut_of, head_of, turn_starts
from holdfast.agent.window.entries import AssistantTurn, Compacted, Entry, GoalInjection, Static, Window
from holdfast.agent.window.operations import compact
from holdfast.agent.window.renderer import render
from holdfast.records import Request, Text, ToolResult, validate
from tests.agent.histories import CONTEXT, answer, body, pointer, sized, tool_turn, user, windows

GOAL = GoalInjection(at=0, text="Finish it.")
SUMMARY = Compacted(at=0, text="Before.")
LONG = (
    CONTEXT,
    *(entry for n in range(10) for entry in (user(f"u{n}"), tool_turn(("read_file", "x")), answer(f"a{n}"))),
)


def sizes(entries: tuple[Entry, ...], each: int = 5_000) -> list[int]:
    return [each] * len(entries)


def chosen(entries: tuple[Entry, ...], *, anchor: int = 2, keep: int = 20_000, limit: int = 1_000_000) -> Cut | None:
    return choose(entries, sizes(entries), fixed=3_000, anchor=anchor, keep=keep, limit=limit)


def test_a_turn_begins_with_what_the_user_said_or_with_the_goal_flushed_before_it() -> None:
    assert turn_starts((CONTEXT, user("a"), answer("b"), GOAL, user("c"), answer("d"), GOAL, answer("e"))) == (1, 3)


@pytest.mark.parametrize(("anchor", "head"), [(0, 1), (1, 4), (2, 7), (9, 28), (10, 31), (11, 31)])
def test_the_front_is_the_context_and_whole_turns(anchor: int, head: int) -> None:
    assert head_of(LONG, anchor) == head


def test_the_front_ends_before_an_earlier_summary() -> None:
    assert head_of((CONTEXT, user("a"), answer("b"), SUMMARY, user("c"), answer("d"), user("e")), 2) == 3


def test_the_front_without_a_context_entry_begins_at_nothing() -> None:
    assert head_of((user("a"), answer("b")), 0) == 0


@pytest.mark.parametrize(("keep", "cut"), [(0, 4), (1, 3), (10, 3), (11, 2), (20, 2), (21, 1), (999, 1)])
def test_the_end_has_as_few_entries_as_make_up_what_was_asked_for(keep: int, cut: int) -> None:
    assert cut_of([10, 10, 10, 10], 1, keep) == cut


def test_as_configured_two_turns_stay_in_front_and_the_newest_tokens_at_the_end() -> None:
    found = chosen(LONG)
    assert found == Cut(head=7, cut=27, dropped=100_000, kept=3_000 + 55_000, behind=20_000)


def test_nothing_is_chosen_where_nothing_is_gained() -> None:
    assert chosen((CONTEXT, user("a"), answer("b"))) is None
    assert choose(LONG, [SUMMARY_TOKENS // 40] * len(LONG), fixed=0, anchor=2, keep=100, limit=10**6) is None


def test_one_long_turn_is_cut_inside_and_keeps_the_users_message() -> None:
    entries = (CONTEXT, user("Do it all."), *(tool_turn(("read_file", "x")) for _ in range(30)))
    found = chosen(entries, limit=80_000)
    assert found.head == 2
    assert found.cut == len(entries) - 4


def test_a_front_that_leaves_no_room_gives_way_turn_by_turn() -> None:
    entries = (CONTEXT, user("a"), answer("b"), user("c"), answer("d"), user("e"), *[answer("f")] * 20)
    big = [1_000, 1_000, 30_000, 1_000, 60_000, 1_000, *[4_000] * 20]
    roomy = choose(entries, big, fixed=0, anchor=2, keep=8_000, limit=200_000)
    tight = choose(entries, big, fixed=0, anchor=2, keep=8_000, limit=100_000)
    tighter = choose(entries, big, fixed=0, anchor=2, keep=8_000, limit=40_000)
    assert [found.head if found else None for found in (roomy, tight, tighter)] == [5, 3, 2]


def test_an_end_that_leaves_no_room_is_halved() -> None:
    found = chosen(LONG, anchor=0, keep=100_000, limit=81_000)
    assert found.behind == 50_000


def test_the_newest_entry_goes_only_where_nothing_else_would_fit() -> None:
    entries = (*LONG, user("z"), tool_turn(("run_command", "a lot")))
    big = [1_000] * (len(entries) - 1)
    fits = choose(entries, [*big, 60_000], fixed=0, anchor=1, keep=10_000, limit=70_000)
    does_not = choose(entries, [*big, 90_000], fixed=0, anchor=1, keep=10_000, limit=70_000)
    assert fits.cut == len(entries) - 1
    assert does_not.cut == len(entries)


def test_a_skills_body_stays_with_the_pointer_to_it_where_there_is_room() -> None:
    entries = (*LONG[:20], body("pdf"), *LONG[20:], pointer("pdf"))
    found = choose(entries, sizes(entries), fixed=0, anchor=2, keep=10_000, limit=10**6)
    assert found.cut == 20


def test_a_pointer_goes_with_the_body_it_names_where_there_is_no_room_for_both() -> None:
    entries = (*LONG[:8], body("pdf"), *LONG[8:], pointer("pdf"), answer("next"))
    found = choose(entries, sizes(entries), fixed=0, anchor=1, keep=10_000, limit=80_000)
    assert found.cut == len(entries) - 1


def test_a_pointer_stays_where_its_body_stays_in_front() -> None:
    entries = (CONTEXT, user("a"), body("pdf"), *LONG[4:], pointer("pdf"), answer("next"))
    found = chosen(entries, anchor=1, keep=10_000)
    assert (found.head, found.cut) == (3, len(entries) - 2)


def _named(entries: tuple[Entry, ...]) -> list[tuple[str, bool]]:
    """Skills that results name, in order, and whether the body itself stands there."""
    found = []
    for entry in entries:
        for message in entry.results if isinstance(entry, AssistantTurn) else ():
            for result in message.content:
                assert isinstance(result, ToolResult)
                for block in result.content:
                    assert isinstance(block, Text)
                    names = re.findall(r"# Skill: (\w+) \(", block.text)
                    found += [(name, "is already in this conversation" not in block.text) for name in names]
    return found


@given(sized(), st.integers(0, 4), st.integers(0, 100_000), st.integers(1_000, 400_000))
def test_whatever_the_window_a_cut_keeps_its_promises(
    drawn: tuple[tuple[Entry, ...], tuple[int, ...]], anchor: int, keep: int, limit: int
) -> None:
    entries, sizes = drawn
    found = choose(entries, sizes, fixed=500, anchor=anchor, keep=keep, limit=limit)
    if found is None:
        return
    assert 1 <= found.head < found.cut <= len(entries)
    assert found.head <= max(1, head_of(entries, anchor))
    assert found.dropped == sum(sizes[found.head : found.cut]) > SUMMARY_TOKENS
    assert found.kept == 500 + sum(sizes) - found.dropped
    assert found.behind == sum(sizes[found.cut :])
    before, behind = _named(entries[: found.head]), _named(entries[found.cut :])
    bodies = {name for name, whole in before if whole}
    for name, whole in behind:
        assert whole or name in bodies
        bodies.add(name)


@given(windows, st.integers(0, 4), st.integers(0, 100_000), st.lists(st.integers(1, 40_000), min_size=31, max_size=31))
def test_without_pressure_the_front_is_whole_and_the_end_as_long_as_asked_for(
    entries: tuple[Entry, ...], anchor: int, keep: int, drawn: list[int]
) -> None:
    sizes = drawn[: len(entries)]
    pointless = tuple(answer("x") if _named((entry,)) else entry for entry in entries)
    found = choose(pointless, sizes, fixed=0, anchor=anchor, keep=keep, limit=10**9)
    head = head_of(pointless, anchor)
    assert found is None or found.behind >= keep
    if sum(sizes[head : cut_of(sizes, head, keep)]) > SUMMARY_TOKENS:
        assert (found.head, found.cut) == (head, cut_of(sizes, head, keep))


@given(sized(), st.integers(0, 3))
def test_what_stays_is_rendered_as_before_and_folded_again_to_the_same(
    drawn: tuple[tuple[Entry, ...], tuple[int, ...]], anchor: int
) -> None:
    entries, sizes = drawn
    found = choose(entries, sizes, fixed=0, anchor=anchor, keep=20_000, limit=100_000)
    if found is None:
        return
    before = Window(entries, (True,) * len(entries), len(entries), True)
    after = compact(before, found.head, found.cut, SUMMARY)
    assert after == compact(before, found.head, found.cut, SUMMARY)
    assert after.entries == (*entries[: found.head], SUMMARY, *entries[found.cut :])
    static = Static()
    front = render(Window(entries[: found.head], before.borders[: found.head]), static)
    messages = render(after, static)
    assert messages[: len(front)] == front == render(before, static)[: len(front)]
    assert messages[len(front)].content[0] == Text(SUMMARY.text)
    assert not validate(Request(model="m", messages=messages))
