"""Laws of knowledge: whatever is done to it, its history is complete, and an export is all of it."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import HoldfastError
from holdfast.memory import Knowledge, KnowledgeEntry, exported, import_
from holdfast.store import open_store

TEXTS = st.text(min_size=1, max_size=60) | st.sampled_from(["Tea", "No coffee", "## x\n\n- id: k0000001", "\x00", ""])
PLACES = st.sampled_from(["/a", "/b", "everywhere", None])
CHANGES = st.fixed_dictionaries(
    {}, optional={"title": TEXTS, "content": TEXTS, "category": TEXTS, "confidence": st.floats(-0.1, 1.1)}
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), TEXTS, TEXTS, PLACES),
        st.tuples(st.just("edit"), st.integers(0, 3), CHANGES),
        st.tuples(st.sampled_from(["forget", "restore"]), st.integers(0, 3)),
    ),
    max_size=12,
)


class Played:
    """What every write gave, by the id, beside the knowledge that it was done to."""

    def __init__(self, known: Knowledge) -> None:
        self.known = known
        self.ids: list[str] = []
        self.given: dict[str, list[tuple[str, KnowledgeEntry]]] = defaultdict(list)

    def step(self, operation: str, *rest: Any) -> None:
        try:
            entry = self._done(operation, *rest)
        except HoldfastError:
            return
        if entry is not None:
            self.given[entry.id].append((operation, entry))

    def _done(self, operation: str, *rest: Any) -> KnowledgeEntry | None:
        if operation == "add":
            title, content, place = rest
            entry = self.known.add(title, content, project=place)
            self.ids.append(entry.id)
            return entry
        if not self.ids:
            return None
        one = self.ids[rest[0] % len(self.ids)]
        if operation == "edit":
            return self.known.edit(one, **rest[1])
        return self.known.forget(one) if operation == "forget" else self.known.restore(one)


def played(steps: list[Any], path: str, clock: Any) -> tuple[Played, Any]:
    store = open_store(Path(path) / "holdfast.db")
    made = Played(Knowledge(store, "local", project="/a", clock=clock))
    for step in steps:
        made.step(*step)
    return made, store


@pytest.mark.slow
@settings(max_examples=60)
@given(STEPS, st.lists(st.floats(1e9, 2e9), min_size=1, max_size=4))
def test_history_is_complete_and_its_last_row_is_the_entry(steps: list[Any], times: list[float]) -> None:
    """Every write that was accepted is a row, every one that was refused is none, and times never go back."""
    looked = iter(range(10_000))
    with tempfile.TemporaryDirectory() as path:
        made, store = played(steps, path, lambda: times[next(looked) % len(times)])
        with store:
            assert len(made.known.entries(projects="all", forgotten=True)) == len(made.ids)
            for each in made.ids:
                rows = made.known.history(each)
                assert [(row.operation, row.entry) for row in rows] == made.given[each]
                assert rows[-1].entry == made.known.get(each)
                assert [row.entry.revision for row in rows] == list(range(1, len(rows) + 1))
                assert [row.at for row in rows] == sorted(row.at for row in rows)
                live = made.known.entries(projects="all")
                assert (rows[-1].entry in live) == (rows[-1].entry.forgotten_at is None)


@pytest.mark.slow
@settings(max_examples=60)
@given(STEPS)
def test_an_export_imported_elsewhere_is_every_entry(steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as path:
        made, store = played(steps, path, lambda: 1_800_000_000.25)
        with store:
            entries = made.known.entries(projects="all")
            other = Knowledge(store, "other", project="/elsewhere", clock=lambda: 1_900_000_000.0)
            text = exported(entries)
            told = import_(other, text.encode())
            assert sorted(told.added) == sorted(entry.id for entry in entries)
            copies = {entry.id: entry for entry in other.entries(projects="all")}
            assert len(copies) == len(entries)
            for entry in entries:
                copy = copies[entry.id]
                for part in KnowledgeEntry.__struct_fields__:
                    if part not in ("tenant", "revision"):
                        assert getattr(copy, part) == getattr(entry, part)
            assert exported(list(copies.values())) == text
            assert sorted(import_(other, text).unchanged) == sorted(copies)
