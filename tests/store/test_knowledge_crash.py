"""kill -9 between writes of knowledge: what was answered is there as a whole, with its history and its words."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.store import SqliteStore, open_store

from .crashes import run_and_kill
from .knowledge_samples import EVERYTHING

WRITER = """
import sys
from pathlib import Path
from holdfast.store import KnowledgeEntry, open_store, operations as op

def entry(number, text, revision):
    return KnowledgeEntry(tenant="t", id=f"k{number}", category="decision", title=f"about n{number}", content=text,
                          created_at=number, updated_at=revision)

number = int(sys.argv[2]) * 1_000_000
with open_store(Path(sys.argv[1])) as store:
    waiting = []
    while True:
        with store.batch() as batch:
            batch.write(op.PutKnowledge(entry(number, f"old v{number}", 1), expected=0, operation="add", by="user"))
            new = entry(number, f"new v{number}", 2)
            made = batch.write(op.PutKnowledge(new, expected=1, operation="edit", by="user"))
        waiting.append((f"entry {number}", made))
        if number % 3 == 0:
            waiting.append((f"erased {number}", store.write(op.EraseKnowledge("t", f"k{number}"))))
        number += 1
        while len(waiting) > 8:
            name, answer = waiting.pop(0)
            answer.result()
            print(name, flush=True)
"""


def check(store: SqliteStore, answered: list[tuple[str, int]]) -> None:
    stored = {each.id: each for each in store.knowledge_entries("t", EVERYTHING)}
    erased = {number for kind, number in answered if kind == "erased"}
    for kind, number in answered:
        if kind == "erased":
            assert f"k{number}" not in stored
            assert store.knowledge_history("t", f"k{number}") == []
        elif number % 3:
            assert f"k{number}" in stored
    for each in stored.values():
        number = int(each.id[1:])
        assert number not in erased
        assert [one.entry.content for one in store.knowledge_history("t", each.id)] == [f"old v{number}", each.content]
        assert [found.id for found, _ in store.find_knowledge("t", [f"v{number}"])] == [each.id]
    assert {found.id for found, _ in store.find_knowledge("t", ["new"], limit=2**31)} == set(stored)
    assert store.find_knowledge("t", ["old"]) == []


def crash_rounds(path: Path, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    answered: list[tuple[str, int]] = []
    for run in range(rounds):
        answered += run_and_kill(path, run, chance.randrange(1, 40), chance.random() * 0.01, writer_as=("-c", WRITER))
        with closing(sqlite3.connect(path)) as look:
            assert look.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            look.execute("INSERT INTO knowledge_fts (knowledge_fts) VALUES ('integrity-check')")
        with open_store(path) as store:
            check(store, answered)
    assert {kind for kind, _ in answered} == {"entry", "erased"}


def test_a_killed_writer_loses_no_entry_it_had_answered(path: Path) -> None:
    crash_rounds(path, rounds=3, seed=1)


@pytest.mark.slow
def test_a_writer_of_entries_killed_many_times(path: Path) -> None:
    crash_rounds(path, rounds=15, seed=2)
