"""Only the newest turns are sent: rarely trimmed, many turns at a time, never in the middle of one."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent.compaction.cutting import dangling, turn_starts
from holdfast.agent.compaction.trimming import Trim, trim
from holdfast.agent.window.entries import Entry
from holdfast.facts import model
from tests.agent.histories import CONTEXT, body, pointer, said, user, windows, worked

SONNET = model("anthropic:claude-sonnet-4-6")


def turns(number: int, calls: int = 2) -> tuple[Entry, ...]:
    each = (*(worked(("read_file", "x")) for _ in range(calls - 1)), said("a"))
    return (CONTEXT, *(entry for n in range(number) for entry in (user(f"u{n}"), *each)))


def test_with_0_the_whole_history_is_sent() -> None:
    assert trim(turns(100), 0, lost=True) is None


@pytest.mark.parametrize(("number", "found"), [(5, None), (9, None), (10, None), (11, Trim(1, 1 + 6 * 3))])
def test_turns_go_when_twice_as_many_stand_there_as_are_wanted(number: int, found: Trim | None) -> None:
    assert trim(turns(number), 5) == found


@pytest.mark.parametrize(("number", "found"), [(4, None), (5, None), (6, Trim(1, 1 + 3))])
def test_where_the_prefix_is_lost_anyway_all_that_is_too_much_goes(number: int, found: Trim | None) -> None:
    assert trim(turns(number), 5, lost=True) == found


def test_the_turn_that_is_about_to_begin_counts_as_one() -> None:
    assert trim(turns(5), 5, coming=True, lost=True) == Trim(1, 4)
    assert trim(turns(1), 1, coming=True, lost=True) == Trim(1, 4)
    assert trim(turns(10), 5, coming=True) == Trim(1, 1 + 6 * 3)


def test_a_pointer_to_a_skill_goes_with_its_body() -> None:
    entries = (CONTEXT, user("a"), body("pdf"), user("b"), pointer("pdf"), user("c"), said("d"))
    assert trim(entries, 2, lost=True) == Trim(1, 5)


def test_the_last_turn_stays_and_so_does_a_body_that_it_points_to() -> None:
    entries = (CONTEXT, user("z"), said("y"), user("a"), body("pdf"), user("b"), said("x"), user("c"), pointer("pdf"))
    assert trim(entries, 1, lost=True) == Trim(1, 3)


def _trims(number: int, wanted: int, calls: int) -> list[int]:
    """After which turns of a long session something is trimmed."""
    entries, found = turns(wanted, calls), []
    for turn in range(wanted, number):
        entries = (*entries, *turns(1, calls)[1:])
        sizes = [1_000] * len(entries)
        cut = trim(entries, wanted, sizes=sizes, model=SONNET)
        if cut is not None:
            entries = (*entries[: cut.head], *entries[cut.cut :])
            found.append(turn)
    return found


@pytest.mark.parametrize(("wanted", "calls"), [(15, 1), (15, 3), (15, 20), (4, 2)])
def test_trimming_comes_rarely_and_is_as_cheap_as_the_best_rhythm(wanted: int, calls: int) -> None:
    number = 400
    read, write = SONNET.read, SONNET.write()

    def cost(when: list[int]) -> Decimal:
        """Reads of what is too much, and writing again what stays, in entries."""
        extra, total = 0, Decimal(0)
        for turn in range(wanted, number):
            extra += 1
            if turn in when:
                total += wanted * (calls + 1) * (write - read)
                extra = 0
            total += extra * (calls + 1) * calls * read
        return total

    found = cost(_trims(number, wanted, calls))
    best = min(cost(list(range(wanted, number, every))) for every in range(1, wanted + 1))
    assert found <= best * Decimal("1.1")


@given(windows, st.integers(0, 5), st.booleans(), st.booleans())
def test_whatever_the_window_whole_turns_stay_and_no_pointer_without_its_body(
    entries: tuple[Entry, ...], wanted: int, coming: bool, lost: bool
) -> None:
    found = trim(entries, wanted, coming=coming, lost=lost)
    if found is None:
        return
    left = (*entries[: found.head], *entries[found.cut :])
    assert found.head == 1
    assert found.cut in (*turn_starts(entries), len(entries))
    assert left[0] == CONTEXT
    assert len(turn_starts(left)) <= len(turn_starts(entries))
    again = trim(left, wanted, coming=coming)
    assert again is None or len(turn_starts(left)) + coming > 2 * wanted
    if dangling(entries, found.head, found.cut) is not None:
        # Only where a pointer in the last turn names what stood nowhere before it.
        assert dangling(entries, 1, 1) is not None
