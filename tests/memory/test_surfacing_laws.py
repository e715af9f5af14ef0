"""Properties of what memory puts into prompts: same entries, same bytes; near limits, same bytes; and no delta for any
reason but a material change of what was told."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.memory.entries import Audience
from holdfast.memory.selection import stepped, usable_window
from tests.memory.surfacing_bench import Bench, bench, ids, size, told

pytestmark = pytest.mark.slow

WORDS = ("rust", "linker", "docker", "port", "cache", "tests", "deploy", "schema")
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=60).map(" ".join)
ENTRIES = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(0, 9_999_999).map(lambda number: f"k{number:07}"),
            "title": TEXTS.map(lambda text: text[:80]),
            "content": TEXTS,
            "category": st.sampled_from(["preference", "gotcha", "decision", "own kind"]),
            "everywhere": st.booleans(),
            "confidence": st.sampled_from([0.3, 0.7, 1.0]),
        }
    ),
    unique_by=lambda entry: entry["id"],
    max_size=14,
)
AUDIENCE: st.SearchStrategy[Audience] = st.sampled_from(["agent", "client"])
PLACEMENT = st.sampled_from(["deltas", "blocks"])


def filled(home: Bench, entries: list[dict[str, Any]]) -> None:
    for entry in entries:
        home.add(**entry)


def everything(
    home: Bench, audience: Audience, placement: str, query: str, window: tuple[int, int] = (16_384, 0)
) -> list[object]:
    surfacing = home.asks(audience, placement=placement, limit=window[0], output=window[1])
    stable = surfacing.stable(now=home.now)
    context = surfacing.context(query, stable=stable)
    delta = surfacing.delta(told(stable), query, first=True, deltas=0)
    return [stable, context, delta, surfacing.again(ids(delta), told(delta))]


@settings(max_examples=25)
@given(ENTRIES, AUDIENCE, PLACEMENT, TEXTS, st.randoms(use_true_random=False))
def test_the_same_entries_give_the_same_bytes_in_whatever_order_they_came(
    entries: list[dict[str, Any]], audience: Audience, placement: str, query: str, chance: random.Random
) -> None:
    mixed = entries[:]
    chance.shuffle(mixed)
    made = []
    for order in (entries, mixed):
        with TemporaryDirectory() as directory, bench(Path(directory)) as home:
            filled(home, order)
            made.append(everything(home, audience, placement, query))
    assert made[0] == made[1]


@settings(max_examples=25)
@given(ENTRIES, AUDIENCE, PLACEMENT, TEXTS, st.integers(2_000, 300_000), st.integers(0, 64_000), st.floats(0, 1))
def test_limits_that_are_near_give_the_same_bytes(
    entries: list[dict[str, Any]], audience: Audience, placement: str, query: str, limit: int, output: int, part: float
) -> None:
    """Any other window of the same step. In a store of its own, so that no pin has a part in it."""
    usable = usable_window(limit, output)
    near = stepped(usable) + int(part * (usable - stepped(usable)))
    made = []
    for window, answer in ((limit, output), (near, 0)):
        with TemporaryDirectory() as directory, bench(Path(directory)) as home:
            filled(home, entries)
            made.append(everything(home, audience, placement, query, (window, answer)))
    assert made[0] == made[1]


@settings(max_examples=25)
@given(ENTRIES, ENTRIES, TEXTS, st.sampled_from(["session_start", "every_turn"]))
def test_no_delta_because_ranking_moved_or_others_came(
    entries: list[dict[str, Any]], others: list[dict[str, Any]], query: str, retrieve: str
) -> None:
    with TemporaryDirectory() as directory, bench(Path(directory)) as home:
        filled(home, entries)
        surfacing = home.asks(retrieve=retrieve)
        stable = surfacing.stable(now=home.now)
        known = told(stable, surfacing.delta(told(stable), query, first=True, deltas=0))
        there = {entry["id"] for entry in entries}
        filled(home, [entry for entry in others if entry["id"] not in there])
        home.now += 7_200
        for each in known:  # says the same in other letters, with another certainty
            entry = home.knowledge.get(each)
            home.knowledge.edit(each, content=entry.content.upper(), confidence=0.55)
        assert surfacing.delta(known, None, first=False, deltas=1) is None
        assert home.asks(retrieve=retrieve, limit=30_000, output=0).delta(known, None, first=False, deltas=1) is None
        if retrieve == "session_start":
            assert surfacing.delta(known, query, first=False, deltas=1) is None


@settings(max_examples=25)
@given(ENTRIES, TEXTS, st.data())
def test_every_material_change_of_what_was_told_is_told_once(
    entries: list[dict[str, Any]], query: str, data: st.DataObject
) -> None:
    with TemporaryDirectory() as directory, bench(Path(directory)) as home:
        filled(home, entries)
        surfacing = home.asks()
        stable = surfacing.stable(now=home.now)
        known = told(stable, surfacing.delta(told(stable), query, first=True, deltas=0))
        touched = data.draw(st.sets(st.sampled_from(sorted(known)))) if known else set()
        for each in sorted(touched):
            if data.draw(st.booleans()):
                home.knowledge.forget(each)
            else:
                home.knowledge.edit(each, content="Something else holds.")
        delta = surfacing.delta(known, None, first=False, deltas=1)
        assert set(ids(delta)) == touched
        assert surfacing.delta(known | told(delta), None, first=False, deltas=2) is None
        assert surfacing.stable(now=home.now) == stable


@settings(max_examples=25)
@given(ENTRIES, AUDIENCE, TEXTS, st.integers(2_048, 40_000))
def test_nothing_is_larger_than_its_budget(
    entries: list[dict[str, Any]], audience: Audience, query: str, limit: int
) -> None:
    with TemporaryDirectory() as directory, bench(Path(directory)) as home:
        filled(home, entries)
        surfacing = home.asks(audience, placement="blocks", limit=limit, output=limit)
        stable = surfacing.stable(now=home.now)
        assert size(stable.text.partition("\n\n")[2]) <= surfacing.budgets.stable
        assert size(surfacing.context(query, stable=stable).text) <= surfacing.budgets.context(size(stable.text))
        delta = surfacing.delta({}, query, first=True, deltas=0)
        assert delta is None or size(delta.text) <= surfacing.budgets.context(surfacing.budgets.stable)
