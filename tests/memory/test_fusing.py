"""Laws of the joint ranking."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.memory.knowledge import fused

scores = st.floats(min_value=0.001, max_value=30, allow_nan=False)
ranked = st.dictionaries(st.sampled_from("abcdefghij"), scores, max_size=8).map(
    lambda found: sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
)


@given(ranked, ranked)
def test_each_id_once_the_best_with_one_in_falling_order_with_ties_by_id(
    text: list[tuple[str, float]], vector: list[tuple[str, float]]
) -> None:
    found = fused(text, vector)
    assert sorted(id_ for id_, _ in found) == sorted({id_ for id_, _ in [*text, *vector]})
    assert found == sorted(found, key=lambda pair: (-pair[1], pair[0]))
    assert all(0 <= score <= 1 for _, score in found)
    assert not found or found[0][1] == 1.0


@given(ranked, ranked, st.randoms())
def test_the_order_of_what_is_given_and_repetitions_change_nothing(
    text: list[tuple[str, float]], vector: list[tuple[str, float]], chance: Random
) -> None:
    mixed = [*text, *[(id_, score / 2) for id_, score in text]]
    chance.shuffle(mixed)
    assert fused(mixed, list(reversed(vector))) == fused(text, vector)


@given(ranked)
def test_one_list_alone_keeps_its_order(one: list[tuple[str, float]]) -> None:
    order = [id_ for id_, _ in one]
    assert [id_ for id_, _ in fused(one, [])] == order
    assert [id_ for id_, _ in fused([], one)] == order


@given(ranked, ranked)
def test_what_is_better_in_both_ways_stands_before(
    text: list[tuple[str, float]], vector: list[tuple[str, float]]
) -> None:
    one, other = dict(text), dict(vector)
    place = {id_: at for at, (id_, _) in enumerate(fused(text, vector))}
    for a in place:
        for b in place:
            if one.get(a, 0) > one.get(b, 0) * 1.001 and other.get(a, 0) > other.get(b, 0) * 1.001:
                assert place[a] < place[b]


@given(ranked, ranked, scores)
def test_the_scale_of_either_way_does_not_matter(
    text: list[tuple[str, float]], vector: list[tuple[str, float]], factor: float
) -> None:
    found, scaled = dict(fused(text, vector)), dict(fused([(id_, factor * score) for id_, score in text], vector))
    assert scaled == pytest.approx(found, abs=1e-9)


def test_what_both_ways_find_beats_what_one_finds_best() -> None:
    assert [id_ for id_, _ in fused([("a", 9.0), ("c", 8.0)], [("b", 0.5), ("c", 0.45)])] == ["c", "b", "a"]


def test_scores_of_nothing_are_all_alike() -> None:
    assert fused([("b", 0.0), ("a", -1.0)], []) == [("a", 1.0), ("b", 1.0)]
    assert fused([], []) == []
