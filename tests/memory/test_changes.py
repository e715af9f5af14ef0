"""When a memory text counts as another one: by its entries, or by places that are compared (E23)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.memory.entries import Known
from holdfast.memory.selection import SAMPLED_MOST, differs, sampled_difference

WORDS = (
    "The parser reads a file in one pass and keeps every token with its place. Builds take four minutes on the shared "
    "runner, two of them for the wheels. Retries back off from half a second up to a minute, with jitter. "
)
TEXT = WORDS * 40
"""Longer than the places that are looked at, several times over."""
ENTRIES: Known = (("k0000001", "a"), ("k0000002", "b"), ("k0000003", "c"))


def test_e23_changes_in_the_middle_are_noticed() -> None:
    """A comparison of beginnings and ends would say that nothing changed."""
    third = len(TEXT) // 3
    middle = TEXT[:third] + TEXT[third : 2 * third].swapcase() + TEXT[2 * third :]
    assert middle[:third] == TEXT[:third]
    assert middle[-third:] == TEXT[-third:]
    assert sampled_difference(TEXT, middle) > 0.2
    assert differs("sampled", (TEXT, ()), (middle, ()))


def test_e23_an_entry_that_was_taken_out_of_the_middle_is_noticed() -> None:
    without = TEXT[: len(TEXT) // 2] + TEXT[len(TEXT) // 2 + 111 :]
    assert sampled_difference(TEXT, without) > 0.3


@pytest.mark.parametrize(("length", "looked_at"), [(1, 1), (10, 10), (1_000, 1_000), (1_001, 1_000), (50_000, 1_000)])
def test_e23_up_to_a_thousand_places_are_compared_evenly_over_the_whole_length(length: int, looked_at: int) -> None:
    seen: list[int] = []

    class Looked(str):
        def __getitem__(self, at: object) -> str:
            assert isinstance(at, int)
            seen.append(at)
            return super().__getitem__(at)

    assert sampled_difference(Looked("x" * length), "x" * length) == 0.0
    assert len(seen) == len(set(seen)) == looked_at
    assert seen[0] == 0
    steps = {after - before for before, after in zip(seen, [*seen[1:], length], strict=True)}
    assert max(steps) - min(steps) <= 1


def test_e23_what_is_longer_counts_as_different() -> None:
    assert sampled_difference("abcd", "ab") == 0.5
    assert sampled_difference("", "abc") == 1.0
    assert sampled_difference("", "") == 0.0
    assert sampled_difference(TEXT, TEXT) == 0.0
    assert sampled_difference("abcd", "abxd") == 0.25


def test_e23_five_percent_counts_as_moved() -> None:
    old = "a" * 1_000
    assert SAMPLED_MOST == 0.05
    assert not differs("sampled", (old, ()), ("a" * 950 + "b" * 50, ()))
    assert differs("sampled", (old, ()), ("a" * 949 + "b" * 51, ()))


@given(st.text(max_size=50), st.text(max_size=50), st.integers(-1, 60))
def test_e23_the_comparison_is_a_share_and_symmetrical(old: str, new: str, positions: int) -> None:
    found = sampled_difference(old, new, positions)
    assert 0.0 <= found <= 1.0
    assert found == sampled_difference(new, old, positions)
    assert sampled_difference(old, old, positions) == 0.0


def test_one_character_at_the_beginning_differs_nearly_everywhere_and_is_one_entry() -> None:
    """Why sets of entries are the default."""
    new = "-" + TEXT
    assert sampled_difference(TEXT, new) > 0.9
    assert differs("sampled", (TEXT, ENTRIES), (new, ENTRIES))
    assert not differs("entries", (TEXT, ENTRIES), (new, ENTRIES))
    changed: Known = (("k0000001", "other"), *ENTRIES[1:])
    assert differs("entries", (TEXT, ENTRIES), (new, changed))
    assert len(set(changed) - set(ENTRIES)) == 1


def test_the_order_of_entries_is_no_change_and_each_that_comes_or_goes_is() -> None:
    text = "the same text"
    assert not differs("entries", (text, ENTRIES), ("another order", ENTRIES[::-1]))
    assert differs("entries", (text, ENTRIES), (text, ENTRIES[1:]))
    assert differs("entries", (text, ENTRIES[1:]), (text, ENTRIES))
    assert differs("entries", (text, ()), (text, ENTRIES))
    assert not differs("entries", ("", ()), ("", ()))
