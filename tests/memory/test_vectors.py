"""Entries by meaning: what the filter leaves, and of that the nearest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.memory.knowledge import Knowledge, fused
from holdfast.memory.vectors import BATCH, Vectors
from holdfast.store import Store, open_store
from holdfast.store import operations as op
from holdfast.store.rows import KnowledgeFilter, KnowledgeVector

np = pytest.importorskip("numpy", reason="numpy is not installed: no vectors")

EVERY = KnowledgeFilter(projects="all")
DIRECTIONS = ("north", "east", "south", "west")


class Compass:
    """A model for which a text means how often it says each of four directions, so that meanings are known exactly."""

    def __init__(self, name: str = "compass", floor: float = 0.0, width: int = 4) -> None:
        self.name, self.floor, self.width = name, floor, width
        self.asked: list[str] = []
        self.meanwhile: Callable[[], object] = lambda: None

    def embed(self, texts: Sequence[str]) -> Any:
        self.asked += texts
        self.meanwhile()
        rows = np.array([[text.count(each) for each in DIRECTIONS] for text in texts], dtype=np.float32)
        rows = np.pad(rows.reshape(len(texts), 4), ((0, 0), (0, self.width - 4)))
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "store.db") as opened:
        yield opened


def ids(found: Sequence[tuple[str, float]]) -> list[str]:
    return [id_ for id_, _ in found]


def test_the_nearest_come_first_with_their_cosines_and_ties_by_id(store: Store) -> None:
    knowledge, vectors = Knowledge(store, "t"), Vectors(store, "t", Compass(floor=0.1))
    for id_, content in (
        ("k0000003", "north"),
        ("k0000001", "north"),
        ("k0000002", "north east"),
        ("k0000004", "east"),
    ):
        knowledge.add("A way", content, id=id_)
    assert vectors.learn() == 4
    assert vectors.search("north", EVERY, 10) == [
        ("k0000001", 1.0),
        ("k0000003", 1.0),
        ("k0000002", pytest.approx(0.707107)),
    ]
    assert ids(vectors.search("north", EVERY, 1)) == ["k0000001"]


def test_what_is_further_than_the_floor_or_no_question_finds_nothing(store: Store) -> None:
    model = Compass(floor=0.8)
    vectors = Vectors(store, "t", model)
    Knowledge(store, "t").add("A way", "north east")
    vectors.learn()
    model.asked.clear()
    assert vectors.search("north", EVERY, 5) == []
    assert len(vectors.search("north east", EVERY, 5)) == 1
    assert vectors.search("   ", EVERY, 5) == vectors.search("north east", EVERY, 0) == []
    assert model.asked == ["north", "north east"]


def test_e22_vector_search_leaves_out_excluded_categories(store: Store) -> None:
    knowledge, vectors = Knowledge(store, "t"), Vectors(store, "t", Compass())
    knowledge.add("A way", "north", category="preference", id="k0000001")
    knowledge.add("A way", "north east", category="gotcha", id="k0000002")
    vectors.learn()
    among = KnowledgeFilter(exclude_categories=("preference",))
    assert ids(vectors.search("north", among, 5)) == ["k0000002"]


def test_e22_vector_search_takes_its_candidates_after_the_filter(store: Store) -> None:
    """However many nearer ones the filter takes away, what it leaves is found."""
    knowledge, vectors = Knowledge(store, "t"), Vectors(store, "t", Compass())
    for _ in range(30):
        knowledge.add("A way", "north", category="preference")
    knowledge.add("A way", "north east east", category="gotcha", id="k0000002")
    vectors.learn()
    assert ids(vectors.search("north", KnowledgeFilter(exclude_categories=("preference",)), 1)) == ["k0000002"]
    assert ids(vectors.search("north", KnowledgeFilter(categories=("gotcha",)), 1)) == ["k0000002"]


def test_e14_e22_categories_to_include_win_and_e27_none_is_no_filter(store: Store) -> None:
    knowledge, vectors = Knowledge(store, "t"), Vectors(store, "t", Compass())
    knowledge.add("A way", "north", category="preference", id="k0000001")
    knowledge.add("A way", "north", category="gotcha", id="k0000002")
    vectors.learn()
    both = KnowledgeFilter(categories=("preference",), exclude_categories=("preference",))
    assert ids(vectors.search("north", both, 5)) == ["k0000001"]
    assert ids(vectors.search("north", KnowledgeFilter(categories=(), exclude_categories=()), 5)) == [
        "k0000001",
        "k0000002",
    ]


def test_e22_e26_vector_search_stays_within_project_and_tenant(store: Store) -> None:
    here, elsewhere, stranger = (
        Knowledge(store, "t", project="here"),
        Knowledge(store, "t", project="elsewhere"),
        Knowledge(store, "other", project="here"),
    )
    here.add("A way", "north", id="k0000001")
    here.add("A way", "north", everywhere=True, id="k0000002")
    elsewhere.add("A way", "north", id="k0000003")
    stranger.add("A way", "north", id="k0000004")
    vectors, theirs = Vectors(store, "t", Compass()), Vectors(store, "other", Compass())
    assert (vectors.learn(), theirs.learn()) == (3, 1)
    wanted = {"both": [1, 2], "project": [1], "cross": [2], "all": [1, 2, 3]}
    for projects, numbers in wanted.items():
        among = KnowledgeFilter(project="here", projects=projects)
        assert ids(vectors.search("north", among, 5)) == [f"k000000{number}" for number in numbers]
    assert ids(theirs.search("north", EVERY, 5)) == ["k0000004"]


def test_what_is_forgotten_erased_or_edited_is_not_found_by_what_it_said(store: Store) -> None:
    knowledge, vectors = Knowledge(store, "t"), Vectors(store, "t", Compass(floor=0.1))
    for number in range(1, 5):
        knowledge.add("A way", "north", id=f"k000000{number}")
    vectors.learn()
    assert len(vectors.search("north", EVERY, 5)) == 4
    knowledge.forget("k0000001")
    knowledge.erase("k0000002")
    knowledge.edit("k0000003", content="east")
    assert ids(vectors.search("north", EVERY, 5)) == ["k0000004"]
    assert vectors.search("east", EVERY, 5) == []
    assert vectors.learn() == 1
    assert ids(vectors.search("east", EVERY, 5)) == ["k0000003"]
    knowledge.restore("k0000001")
    assert vectors.learn() == 1
    assert ids(vectors.search("north", EVERY, 5)) == ["k0000001", "k0000004"]


def test_learning_embeds_each_revision_once(store: Store) -> None:
    knowledge, model = Knowledge(store, "t"), Compass()
    vectors = Vectors(store, "t", model)
    added = [knowledge.add(f"Way {number}", "north") for number in range(BATCH + 3)]
    assert vectors.learn(at_most=2) == 2
    assert vectors.learn() == len(added) - 2
    asked = len(model.asked)
    assert vectors.learn() == vectors.learn() == 0
    assert Vectors(store, "t", model).learn() == 0
    assert len(model.asked) == asked
    knowledge.edit(added[0].id, content="east")
    assert vectors.learn() == 1
    assert model.asked[asked:] == ["Way 0\neast"]


def test_a_vector_of_what_was_edited_meanwhile_is_not_kept(store: Store) -> None:
    knowledge, model = Knowledge(store, "t"), Compass(floor=0.1)
    vectors, entry = Vectors(store, "t", model), knowledge.add("A way", "north")
    model.meanwhile = lambda: knowledge.edit(entry.id, content="east")
    assert vectors.learn() == 0
    model.meanwhile = lambda: None
    assert vectors.search("north", EVERY, 5) == []
    assert vectors.learn() == 1
    assert ids(vectors.search("east", EVERY, 5)) == [entry.id]


def test_a_model_that_fails_leaves_the_search_by_words(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    model = Compass(floor=0.5)
    vectors = Vectors(store, "t", model)
    knowledge = Knowledge(store, "t", vectors=vectors)
    knowledge.add("Windward", "north of the harbour", id="k0000001")
    knowledge.add("Leeward", "south of it", id="k0000002")
    model.meanwhile = lambda: Path("gone").read_bytes()
    assert knowledge.learn() == 0
    assert [hit.entry.id for hit in knowledge.search("northern harbour")] == ["k0000001"]
    assert len(caplog.messages) == 2
    assert all("No such file" in message for message in caplog.messages)
    model.meanwhile = lambda: None
    assert knowledge.learn() == 2
    assert [hit.entry.id for hit in knowledge.search("southsouth")] == ["k0000002"]


def test_vectors_of_another_model_or_width_are_ignored(store: Store) -> None:
    knowledge = Knowledge(store, "t")
    for number in range(1, 4):
        knowledge.add("A way", "north", id=f"k000000{number}")
    Vectors(store, "t", Compass("another")).learn()
    vectors = Vectors(store, "t", Compass())
    assert vectors.search("north", EVERY, 5) == []
    data = np.array([1, 0, 0, 0], dtype="<f4").tobytes()
    store.write(
        op.PutVectors(
            "t",
            "compass",
            (
                KnowledgeVector(id="k0000001", revision=1, data=data),
                KnowledgeVector(id="k0000002", revision=1, data=data + data),
                KnowledgeVector(id="k0000003", revision=1, data=np.full(4, np.nan, dtype="<f4").tobytes()),
            ),
        )
    ).result()
    assert vectors.search("north", EVERY, 5) == [("k0000001", 1.0)]


def test_a_search_sees_what_another_one_of_the_same_store_learned(store: Store) -> None:
    knowledge, one, other = Knowledge(store, "t"), Vectors(store, "t", Compass()), Vectors(store, "t", Compass())
    assert one.search("north", EVERY, 5) == []
    knowledge.add("A way", "north", id="k0000001")
    assert other.learn() == 1
    assert ids(one.search("north", EVERY, 5)) == ["k0000001"]


def test_many_filters_one_after_the_other_are_answered_each_for_itself(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = Vectors(store, "t", Compass())
    for number in range(30):
        Knowledge(store, "t", project=f"p{number}").add("A way", "north", id=f"k00000{number:02}")
    vectors.learn()
    revisions, asked = store.knowledge_revisions, list[str | None]()
    monkeypatch.setattr(
        store, "knowledge_revisions", lambda tenant, among: asked.append(among.project) or revisions(tenant, among)
    )
    for number in (*range(30), *range(30), *range(14, 30), 13):  # the newest sixteen filters are kept
        among = KnowledgeFilter(project=f"p{number}", projects="project")
        assert ids(vectors.search("north", among, 5)) == [f"k00000{number:02}"]
    assert asked == [f"p{number}" for number in (*range(30), *range(30), 13)]


categories = st.sampled_from(["preference", "gotcha", "pattern"])
chosen = st.lists(categories, max_size=2).map(tuple)
filters = st.builds(
    KnowledgeFilter,
    project=st.sampled_from([None, "a", "b"]),
    projects=st.sampled_from(["both", "project", "cross", "all"]),
    categories=chosen,
    exclude_categories=chosen,
)
drafts = st.lists(
    st.tuples(
        st.sampled_from([None, "a", "b"]), categories, st.lists(st.sampled_from(DIRECTIONS), min_size=1, max_size=3)
    ),
    max_size=12,
)


@given(drafts, filters, st.lists(st.sampled_from(DIRECTIONS), min_size=1, max_size=3), st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_e22_the_limit_comes_after_the_filter_whatever_the_filter(
    tmp_path_factory: pytest.TempPathFactory,
    drafted: list[tuple[str | None, str, list[str]]],
    among: KnowledgeFilter,
    asked: list[str],
    limit: int,
) -> None:
    """The nearest of what the filter leaves are the first of a ranking of all of them."""
    with open_store(tmp_path_factory.mktemp("store") / "store.db") as store:
        for project, category, said in drafted:
            Knowledge(store, "t", project=project).add("A way", " ".join(said), category=category)
        model = Compass(floor=0.2)
        vectors = Vectors(store, "t", model)
        vectors.learn()
        entries = store.knowledge_entries("t", among)
        near = model.embed([f"{entry.title}\n{entry.content}" for entry in entries]) @ model.embed([" ".join(asked)])[0]
        ranked = sorted(
            ((entry.id, round(float(cosine), 6)) for entry, cosine in zip(entries, near, strict=True)),
            key=lambda pair: (-pair[1], pair[0]),
        )
        wanted = [pair for pair in ranked if pair[1] >= 0.2][:limit]
        found = vectors.search(" ".join(asked), among, limit)
        assert [(id_, pytest.approx(cosine, abs=2e-6)) for id_, cosine in found] == wanted


def test_knowledge_joins_both_ways_and_finds_what_says_none_of_the_words(store: Store) -> None:
    vectors = Vectors(store, "t", Compass(floor=0.5))
    plain, joined = Knowledge(store, "t"), Knowledge(store, "t", vectors=vectors)
    joined.add("Windward", "north of the harbour", id="k0000001")
    joined.add("Harbour", "open in summer", id="k0000002")
    vectors.learn()
    assert [hit.entry.id for hit in plain.search("harbour northern")] == ["k0000002", "k0000001"]
    hits = joined.search("harbour northern")
    assert [hit.entry.id for hit in hits] == ["k0000001", "k0000002"]
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert hits[0].score == 1.0
    assert [hit.entry.id for hit in joined.search("northnorth")] == ["k0000001"]
    assert plain.search("northnorth") == []


def test_e22_the_joint_search_obeys_the_filter_too(store: Store) -> None:
    vectors = Vectors(store, "t", Compass())
    joined = Knowledge(store, "t", vectors=vectors)
    joined.add("Windward", "north", category="preference", id="k0000001")
    joined.add("Windward", "north", category="gotcha", id="k0000002")
    vectors.learn()
    excluded = joined.search("northnorth windward", exclude_categories=["preference"])
    assert [hit.entry.id for hit in excluded] == ["k0000002"]


def test_the_same_question_gives_the_same_ranking_from_a_fresh_start(tmp_path: Path) -> None:
    def answers() -> list[tuple[str, float]]:
        with open_store(tmp_path / "store.db") as store:
            vectors = Vectors(store, "t", Compass())
            vectors.learn()
            words = [(entry.id, score) for entry, score in store.find_knowledge("t", ["way"], EVERY)]
            return fused(words, vectors.search("north west", EVERY, 20))

    with open_store(tmp_path / "store.db") as store:
        for number in range(20):
            Knowledge(store, "t").add(f"Way {number}", " ".join(DIRECTIONS[: 1 + number % 4]))
    assert answers() == answers() != []
