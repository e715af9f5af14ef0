"""Which entries are taken: by fixed orders, whole, within the room, whatever order they came in."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from holdfast.memory.entries import KnowledgeEntry
from holdfast.memory.selection import fitting, preferences, shown_order, tokens, with_net

ENTRIES = st.lists(
    st.builds(
        lambda number, category, project, confidence, at: entry(
            f"k{number:03}", category=category, project=project, confidence=confidence, at=at
        ),
        st.integers(0, 999),
        st.sampled_from(["preference", "gotcha", "decision"]),
        st.sampled_from([None, "/p"]),
        st.sampled_from([0.2, 0.5, 1.0]),
        st.integers(1, 3),
    ),
    unique_by=lambda made: made.id,
    max_size=20,
)


def entry(
    id: str, *, category: str = "gotcha", project: str | None = None, confidence: float = 1.0, at: int = 1
) -> KnowledgeEntry:
    return KnowledgeEntry(
        tenant="t",
        id=id,
        category=category,
        title=f"title of {id}",
        content="content",
        project=project,
        confidence=confidence,
        created_at=1,
        updated_at=at,
        hash=f"hash of {id}",
    )


def ids(entries: list[KnowledgeEntry]) -> list[str]:
    return [each.id for each in entries]


def test_preferences_go_by_confidence_then_project_then_id() -> None:
    given = [
        entry("k4", category="preference"),
        entry("k3", category="preference"),
        entry("k5", category="preference", project="/p"),
        entry("k1", category="preference", project="/p", confidence=0.5),
    ]
    assert ids(preferences(given)) == ["k5", "k3", "k4", "k1"]


def test_the_net_stands_behind_what_was_found_and_nothing_twice() -> None:
    found, net = [entry("k1", project="/p"), entry("k2")], [entry("k3", project="/p"), entry("k1", project="/p")]
    assert ids(with_net(found, net)) == ["k1", "k2", "k3"]


def test_what_has_no_room_is_passed_over_and_smaller_ones_are_still_taken() -> None:
    long, short = "word " * 50, "word"
    assert fitting([short, long, short], str, tokens(short) * 2) == [short, short]
    assert fitting([short, short], str, tokens(short) * 2 - 1) == [short]
    assert fitting([short] * 9, str, 10_000, most=3) == [short] * 3
    assert fitting([short], str, -5) == []


@given(ENTRIES, st.randoms(use_true_random=False))
def test_the_order_of_entries_in_the_store_has_no_part_in_any_choice(
    entries: list[KnowledgeEntry], chance: random.Random
) -> None:
    mixed = entries[:]
    chance.shuffle(mixed)
    for order in (preferences, shown_order):
        assert order(mixed) == order(entries)
