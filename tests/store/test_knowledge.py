"""What is known for longer than a session: entries, their history, vectors, pins, and what was shown and injected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import HoldfastError
from holdfast.store import (
    KnowledgeVector,
    SqliteStore,
    VersionConflictError,
    open_existing,
    open_store,
)
from holdfast.store import operations as op

from .knowledge_samples import EVERYTHING, entry, pin, put, show
from .samples import NOON, session


def test_an_entry_is_read_back_as_it_was_written(store: SqliteStore) -> None:
    whole = entry(
        project="/home/p", confidence=0.25, source="agent", hash="ab12", forgotten_at=NOON + 5, content="a\nb\0c 數 🙂"
    )
    assert put(store, whole) == whole
    assert store.knowledge("t1", "k1") == whole
    assert store.knowledge("t1", "k2") is None


def test_every_revision_stays_in_the_history_with_what_was_done_and_by_whom(store: SqliteStore) -> None:
    first = put(store, entry())
    second = store.write(
        op.PutKnowledge(entry(content="One worker.", updated_at=NOON + 1), expected=1, operation="edit", by="agent")
    ).result()
    third = put(store, entry(content="One worker.", updated_at=NOON + 2, forgotten_at=NOON + 2), 2, "forget")
    assert [each.revision for each in (first, second, third)] == [1, 2, 3]
    assert [(each.operation, each.by, each.at) for each in store.knowledge_history("t1", "k1")] == [
        ("add", "user", NOON),
        ("edit", "agent", NOON + 1),
        ("forget", "user", NOON + 2),
    ]
    assert [each.entry for each in store.knowledge_history("t1", "k1")] == [first, second, third]
    assert store.knowledge("t1", "k1") == third


def test_the_revision_is_counted_by_the_store_and_not_by_who_writes(store: SqliteStore) -> None:
    assert put(store, entry(revision=17)).revision == 1
    assert put(store, entry(revision=17), 1).revision == 2


@pytest.mark.parametrize(
    ("stored", "expected", "sentence"),
    [
        (1, 0, r"there is a knowledge entry k1 already; edit that one, or give another id"),
        (2, 1, r"k1 was changed meanwhile: it is at revision 2 and not at 1; look at it again"),
        (1, 2, r"it is at revision 1 and not at 2"),
        (0, 1, r"k1 is not there any more; somebody erased it, add it anew"),
        (0, -1, r"k1 is not there any more"),
        (1, -1, r"it is at revision 1 and not at -1"),
    ],
)
def test_a_write_over_another_revision_is_refused_in_words(
    store: SqliteStore, stored: int, expected: int, sentence: str
) -> None:
    for revision in range(stored):
        put(store, entry(), revision)
    before = store.knowledge_version("t1")
    with pytest.raises(VersionConflictError, match=sentence):
        put(store, entry(content="lost"), expected)
    assert len(store.knowledge_history("t1", "k1")) == stored
    assert store.knowledge_version("t1") == before
    assert not store.find_knowledge("t1", ["lost"])


def test_of_two_stores_on_one_file_the_second_writer_is_told(store: SqliteStore, path: Path) -> None:
    put(store, entry())
    with open_store(path) as other:
        read = other.knowledge("t1", "k1")
        assert read is not None
        put(store, entry(content="mine"), 1)
        with pytest.raises(VersionConflictError, match="revision 2 and not at 1"):
            put(other, entry(content="theirs"), read.revision)
        with pytest.raises(VersionConflictError, match="already"):
            put(other, entry(content="theirs"))
        assert put(other, entry(content="theirs"), 2).revision == 3
    assert [each.entry.content for each in store.knowledge_history("t1", "k1")][1:] == ["mine", "theirs"]


def test_a_refused_write_leaves_those_beside_it_alone(store: SqliteStore) -> None:
    put(store, entry())
    refused = store.write(op.PutKnowledge(entry(content="lost"), expected=0, operation="add", by="user"))
    made = [store.write(op.PutKnowledge(entry(f"n{n}"), expected=0, operation="add", by="user")) for n in range(5)]
    assert [each.result().id for each in made] == [f"n{n}" for n in range(5)]
    assert isinstance(refused.exception(), VersionConflictError)
    assert len(store.find_knowledge("t1", ["workers"])) == 6


def test_a_batch_of_entries_is_made_as_a_whole_or_not_at_all(store: SqliteStore) -> None:
    put(store, entry("taken"))
    version = store.knowledge_version("t1")
    with store.batch() as batch:
        parts = [
            batch.write(op.PutKnowledge(entry(name, content="batched"), expected=0, operation="import", by="user"))
            for name in ("b1", "taken", "b2")
        ]
    assert all(isinstance(part.exception(), VersionConflictError) for part in parts)
    assert [each.id for each in store.knowledge_entries("t1", EVERYTHING)] == ["taken"]
    assert store.find_knowledge("t1", ["batched"]) == []
    assert store.knowledge_history("t1", "b1") == []
    assert store.knowledge_version("t1") == version
    with store.batch() as batch:
        first = batch.write(op.PutKnowledge(entry("b1", content="batched"), expected=0, operation="import", by="user"))
        again = batch.write(
            op.PutKnowledge(entry("b1", content="batched twice"), expected=1, operation="edit", by="user")
        )
    assert (first.result().revision, again.result().revision) == (1, 2)
    assert [found.content for found, _ in store.find_knowledge("t1", ["batched"])] == ["batched twice"]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"confidence": 1.5}, "confidence 1.5; give a number from 0 to 1"),
        ({"confidence": float("nan")}, "confidence nan"),
        ({"title": 5}, "cannot be stored"),
        ({"content": "\ud800"}, "correct the value and write it again"),
        ({"updated_at": 2**70}, "correct the value and write it again"),
    ],
)
def test_a_value_that_cannot_be_kept_is_refused_and_nothing_of_it_stays(
    store: SqliteStore, wrong: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(HoldfastError, match=sentence):
        put(store, entry(**wrong))
    assert store.knowledge_version("t1") == 0
    assert store.knowledge_entries("t1", EVERYTHING) == []
    put(store, entry())
    assert len(store.knowledge_history("t1", "k1")) == 1


def test_entries_come_by_category_title_and_id(store: SqliteStore) -> None:
    for name, category, title in (
        ("c", "gotcha", "b"),
        ("b", "gotcha", "b"),
        ("a", "pattern", "a"),
        ("d", "gotcha", "a"),
    ):
        put(store, entry(name, category=category, title=title))
    assert [each.id for each in store.knowledge_entries("t1")] == ["d", "b", "c", "a"]
    assert [each.id for each in store.knowledge_entries("t1", limit=2)] == ["d", "b"]
    assert store.knowledge_entries("t1", limit=0) == []


def test_erasing_takes_everything_and_only_of_that_entry(store: SqliteStore, path: Path) -> None:
    for tenant in ("t1", "t2"):
        for name in ("k1", "k2"):
            put(store, entry(name, tenant=tenant, content="Unrepeatable saying."))
            store.write(op.PutVectors(tenant, "m", [KnowledgeVector(id=name, revision=1, data=b"v")])).result()
            show(store, name, tenant=tenant)
            store.write(op.PutPin(pin(f"- {name} (preference): …", made_at=NOON, tenant=tenant, key=name))).result()
    put(store, entry(content="Zymurgical."), 1, "edit")
    assert store.write(op.EraseKnowledge("t1", "k1")).result() is True
    assert store.write(op.EraseKnowledge("t1", "k1")).result() is False
    assert store.write(op.EraseKnowledge("t3", "k1")).result() is False
    assert store.knowledge("t1", "k1") is None
    assert store.knowledge_history("t1", "k1") == []
    assert store.shown("t1", "k1") == []
    assert store.pin("t1", "k1", now=NOON) is None
    assert store.pin("t1", "k2", now=NOON) is not None
    assert [each.id for each in store.knowledge_vectors("t1", "m")] == ["k2"]
    assert [found.id for found, _ in store.find_knowledge("t1", ["saying"])] == ["k2"]
    for name in ("k1", "k2"):
        assert len(store.knowledge_history("t2", name)) == len(store.shown("t2", name)) == 1
        assert len(store.find_knowledge("t2", ["saying"])) == len(store.knowledge_vectors("t2", "m")) == 2
        assert store.pin("t2", name, now=NOON) is not None
    store.close()
    assert b"zymurg" not in path.read_bytes().lower(), "the index has written its words anew, without those"


def test_an_id_that_was_erased_begins_anew(store: SqliteStore) -> None:
    put(store, entry(content="before"))
    store.write(op.EraseKnowledge("t1", "k1")).result()
    assert put(store, entry(content="after")).revision == 1
    assert [each.entry.content for each in store.knowledge_history("t1", "k1")] == ["after"]
    assert store.find_knowledge("t1", ["before"]) == []


def test_the_version_moves_with_every_change_of_the_tenants_own_knowledge(store: SqliteStore, path: Path) -> None:
    seen = [store.knowledge_version("t1")]

    def moved() -> bool:
        seen.append(store.knowledge_version("t1"))
        return seen[-1] not in seen[:-1]

    put(store, entry())
    assert moved()
    put(store, entry(), 1)
    assert moved()
    store.write(op.PutVectors("t1", "m", [KnowledgeVector(id="k1", revision=2, data=b"v")])).result()
    assert moved()
    with open_store(path) as other:
        put(other, entry("k2"))
    assert moved()
    store.write(op.EraseKnowledge("t1", "k1")).result()
    assert moved()
    store.write(op.EraseKnowledge("t1", "k2")).result()
    assert moved()
    put(store, entry("k3", tenant="t2"))
    store.write(op.EraseKnowledge("t1", "k1")).result()
    store.write(op.PutVectors("t1", "m", [KnowledgeVector(id="k1", revision=1, data=b"v")])).result()
    show(store)
    store.write(op.PutPin(pin("a", made_at=0))).result()
    assert not moved()


def test_a_vector_is_kept_for_the_revision_that_it_is_of(store: SqliteStore) -> None:
    for name in ("k2", "k1"):
        put(store, entry(name))
    vectors = [KnowledgeVector(id=name, revision=1, data=b"\0\1" + name.encode()) for name in ("k2", "k1", "unknown")]
    assert store.write(op.PutVectors("t1", "m", vectors)).result() == 2
    assert store.write(op.PutVectors("t1", "m", [KnowledgeVector(id="k1", revision=2, data=b"early")])).result() == 0
    assert store.write(op.PutVectors("t2", "m", vectors)).result() == 0
    assert store.knowledge_vectors("t1", "m") == [vectors[1], vectors[0]]
    assert store.knowledge_vectors("t1", "other") == store.knowledge_vectors("t2", "m") == []
    put(store, entry("k1", content="Other."), 1)
    assert store.knowledge_vectors("t1", "m") == [vectors[0]]
    newer = KnowledgeVector(id="k1", revision=2, data=b"newer")
    assert store.write(op.PutVectors("t1", "m", [newer])).result() == 1
    assert store.write(op.PutVectors("t1", "m", [newer])).result() == 1
    assert store.knowledge_vectors("t1", "m") == [newer, vectors[0]]


def test_tenants_are_those_who_have_a_session_or_know_something(store: SqliteStore) -> None:
    assert store.tenants() == []
    for tenant, name in (("b", "s1"), ("b", "s2"), ("ä", "s1")):
        store.write(op.PutSession(session(tenant=tenant, id=name))).result()
    for tenant, name in (("c", "k1"), ("c", "k2"), ("b", "k1"), ("a", "k1")):
        put(store, entry(name, tenant=tenant))
    assert store.tenants() == ["a", "b", "c", "ä"]
    store.write(op.EraseKnowledge("a", "k1")).result()
    assert store.tenants() == ["b", "c", "ä"]


def test_a_store_opened_to_be_read_answers_and_refuses_writes(store: SqliteStore, path: Path) -> None:
    put(store, entry())
    reading = open_existing(path)
    assert reading is not None
    with reading:
        assert reading.knowledge("t1", "k1") == entry()
        assert [found for found, _ in reading.find_knowledge("t1", ["workers"])] == [entry()]
        with pytest.raises(HoldfastError, match="opened to be read"):
            reading.write(op.PutKnowledge(entry("k2"), expected=0, operation="add", by="user"))


def test_a_tenant_sees_and_changes_nothing_of_another(store: SqliteStore) -> None:
    mine = put(store, entry())
    theirs = put(store, entry(tenant="t2", content="Another tenant's secret."))
    assert [each.content for each in store.knowledge_entries("t1", EVERYTHING)] == [mine.content]
    assert store.find_knowledge("t1", ["secret"], EVERYTHING) == []
    assert [found for found, _ in store.find_knowledge("t2", ["secret"], EVERYTHING)] == [theirs]
    assert store.find_knowledge("t3", ["secret"], EVERYTHING) == []
    assert store.knowledge_entries("t3", EVERYTHING) == []
    put(store, entry(content="Changed."), 1)
    store.write(op.EraseKnowledge("t1", "k1")).result()
    assert store.knowledge("t2", "k1") == theirs
    assert len(store.knowledge_history("t2", "k1")) == 1
