"""What entries mean to a model: which have no vector yet, and that no question walks past what it is not about."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from holdfast.store import KnowledgeFilter, KnowledgeVector, SqliteStore
from holdfast.store import operations as op

from .knowledge_samples import entry, put


def vector(id: str, revision: int = 1) -> KnowledgeVector:
    return KnowledgeVector(id=id, revision=revision, data=b"v")


def unlearned(store: SqliteStore, model: str = "m", **more: int) -> list[tuple[str, int]]:
    return [(each.id, each.revision) for each in store.unlearned_knowledge("t1", model, **more)]


def test_entries_without_a_vector_of_the_model_and_their_revision_are_not_learned(store: SqliteStore) -> None:
    for name in ("k3", "k1", "k2"):
        put(store, entry(name, project="p" if name == "k2" else None))
    put(store, entry("k4", forgotten_at=5))
    put(store, entry("k5", tenant="t2"))
    assert unlearned(store) == [("k1", 1), ("k2", 1), ("k3", 1)]
    assert unlearned(store, limit=2) == [("k1", 1), ("k2", 1)]
    store.write(op.PutVectors("t1", "m", [vector("k1"), vector("k3")])).result()
    assert unlearned(store) == [("k2", 1)]
    assert unlearned(store, "another") == [("k1", 1), ("k2", 1), ("k3", 1)]
    put(store, entry("k1", content="Other."), 1, "edit")
    assert unlearned(store) == [("k1", 2), ("k2", 1)]


def test_revisions_are_those_of_what_the_filter_leaves(store: SqliteStore) -> None:
    put(store, entry("k1"))
    put(store, entry("k1", content="Other."), 1, "edit")
    put(store, entry("k2", project="p", category="gotcha"))
    put(store, entry("k3", project="p", category="gotcha", forgotten_at=5))
    assert sorted(store.knowledge_revisions("t1", KnowledgeFilter(projects="all"))) == [("k1", 2), ("k2", 1)]
    assert store.knowledge_revisions("t1", KnowledgeFilter(project="p", projects="project")) == [("k2", 1)]
    assert store.knowledge_revisions("t1", KnowledgeFilter(categories=("decision",))) == [("k1", 2)]
    assert store.knowledge_revisions("t2", KnowledgeFilter(projects="all")) == []


def test_an_edit_finds_the_vectors_of_its_entry_by_their_key(store: SqliteStore, path: Path) -> None:
    """It would walk past all vectors of the tenant otherwise, with everybody who writes waiting for it."""
    put(store, entry())
    with sqlite3.connect(path) as connection:
        plans = {
            words: [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {words}")]
            for words in (
                "DELETE FROM knowledge_vectors WHERE tenant = 't' AND id = 'k'",
                "SELECT data FROM knowledge_vectors WHERE tenant = 't' AND model = 'm' ORDER BY id",
            )
        }
    connection.close()
    (edited,), (read,) = plans.values()
    assert edited.endswith("(tenant=? AND id=?)")
    assert read.startswith("SEARCH knowledge_vectors USING INDEX")
