"""Only the newest turns are sent: rarely trimmed, many turns at a time, never in the middle of one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent.compaction.cut import Trim, dangling, trim, turn_starts
from holdfast.agent.window.entries import Entry
from tests.agent.histories import CONTEXT, answer, body, pointer, tool_turn, user, windows


def turns(number: int, calls: int = 2) -> tuple[Entry, ...]:
    each = (*(tool_turn(("read_file", "x")) for _ in range(calls - 1)), answer("a"))
    return (CONTEXT, *(entry for n in range(number) for entry in (user(f"u{n}"), *each)))


def test_with_0_the_whole_history_is_sent() -> None:
    assert trim(turns(100), 0, lost=True) is None


@pytest.mark.parametrize(("number", "found"), [(3, None), (4, None), (5, Trim(1, 1 + 3 * 3)), (9, Trim(1, 1 + 7 * 3))])
def test_when_one_turn_too_many_begins_half_of_them_stay(number: int, found: Trim | None) -> None:
    assert trim(turns(number), 5) == found


@pytest.mark.parametrize(
    ("number", "found"), [(10, None), (11, None), (12, Trim(1, 1 + 5 * 3)), (14, Trim(1, 1 + 7 * 3))]
)
def test_where_the_prefix_is_lost_anyway_it_goes_when_the_window_is_nearly_full(
    number: int, found: Trim | None
) -> None:
    assert trim(turns(number), 15, lost=True) == found
    assert trim(turns(number), 15) is None


def test_of_one_turn_that_is_wanted_nothing_stays_but_the_one_that_begins() -> None:
    assert trim(turns(1), 1) == Trim(1, 4)
    assert trim(turns(2), 2) == Trim(1, 7)
    assert trim((CONTEXT,), 1) is None


def test_a_pointer_to_a_skill_goes_with_its_body() -> None:
    entries = (CONTEXT, user("a"), body("pdf"), user("b"), pointer("pdf"), user("c"), answer("d"))
    assert trim(entries, 3) == Trim(1, 5)


def test_a_body_that_the_last_turn_points_to_stays_if_that_is_within_the_number() -> None:
    entries = (
        CONTEXT,
        user("z"),
        answer("y"),
        user("a"),
        body("pdf"),
        user("b"),
        answer("x"),
        user("c"),
        pointer("pdf"),
    )
    assert trim(entries, 4) == Trim(1, 3)
    assert trim(entries, 3) == Trim(1, len(entries))


def _trims(number: int, wanted: int) -> list[int]:
    """Before which turns of a long session something is trimmed."""
    entries, found = turns(0), []
    for turn in range(number):
        cut = trim(entries, wanted)
        if cut is not None:
            entries = (*entries[: cut.head], *entries[cut.cut :])
            found.append(turn)
        entries = (*entries, *turns(1)[1:])
        assert len(turn_starts(entries)) <= wanted
    return found


@pytest.mark.parametrize(("wanted", "every"), [(1, 1), (2, 2), (15, 8), (16, 9), (100, 51)])
def test_resets_stay_rare(wanted: int, every: int) -> None:
    found = _trims(400, wanted)
    assert found == list(range(wanted, 400, every))


@given(windows, st.integers(0, 5), st.booleans())
def test_whatever_the_window_whole_turns_stay_and_no_pointer_without_its_body(
    entries: tuple[Entry, ...], wanted: int, lost: bool
) -> None:
    found = trim(entries, wanted, lost=lost)
    left = entries if found is None else (*entries[: found.head], *entries[found.cut :])
    assert not wanted or len(turn_starts(left)) + 1 <= wanted
    if found is None:
        return
    assert found.head == 1
    assert found.cut in (*turn_starts(entries), len(entries))
    assert left[0] == CONTEXT
    assert dangling(entries, found.head, found.cut) is None
    assert trim(left, wanted) is None
