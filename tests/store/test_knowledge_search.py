"""Entries by the words they say: ranked, filtered before the limit, and indifferent to what stands in the words."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.store import KnowledgeFilter, SqliteStore, open_store
from holdfast.store import operations as op
from holdfast.store.sqlite import text_search
from holdfast.store.sqlite.text_search import indexed, phrases

from .knowledge_samples import EVERYTHING, entry, put


def ids(store: SqliteStore, *words: str, among: KnowledgeFilter = EVERYTHING, limit: int = 50) -> list[str]:
    return [found.id for found, _ in store.find_knowledge("t1", words, among, limit=limit)]


def fill(store: SqliteStore, **texts: str) -> None:
    for name, text in texts.items():
        put(store, entry(name, title="", content=text))


def test_better_entries_come_first_with_larger_scores(store: SqliteStore) -> None:
    fill(store, a="postgres timeout pool", b="postgres", c="redis", d="kafka", e="nginx", f="apache")
    found = store.find_knowledge("t1", ["timeout", "postgres"])
    assert [each.id for each, _ in found] == ["a", "b"]
    assert found[0][1] > found[1][1] > 0
    assert store.find_knowledge("t1", ["timeout", "postgres"], limit=1) == found[:1]
    assert found[0][0] == store.knowledge("t1", "a")


def test_a_word_in_the_title_counts_more_than_one_in_the_content(store: SqliteStore) -> None:
    put(store, entry("a", title="one two", content="lock three"))
    put(store, entry("b", title="lock two", content="one three"))
    fill(store, c="x", d="y", e="z")
    assert ids(store, "lock") == ["b", "a"]


def test_a_rare_word_counts_more_than_a_common_one(store: SqliteStore) -> None:
    fill(store, a="common other", b="common other", c="rare other", d="x", e="y", f="z", g="v", h="w")
    assert ids(store, "common", "rare")[0] == "c"


def test_words_are_found_in_their_other_forms(store: SqliteStore) -> None:
    fill(store, a="The migrations were Running", b="données ÉTÉ")
    for word in ("run", "runs", "RUNNING", "migration", "migrate"):
        assert ids(store, word) == ["a"], word
    for word in ("donnees", "Données", "été", "ete"):
        assert ids(store, word) == ["b"], word


def test_a_name_of_several_parts_is_looked_for_as_one(store: SqliteStore) -> None:
    fill(store, a="call put_knowledge first", b="put the knowledge there", c="see src/store/base.py", d="base store")
    assert ids(store, "put_knowledge") == ["a"]
    assert ids(store, "put-knowledge") == ["a"]
    assert ids(store, "store/base.py") == ["c"]


def test_a_name_with_capitals_inside_is_found_by_its_parts_and_what_stands_beside_it(store: SqliteStore) -> None:
    fill(store, a="see src/retryLimit.py", b="an HTTPServer", c="limit of the retry", d="retrylimit")
    assert sorted(ids(store, "limit")) == ["a", "c"]
    assert ids(store, "server") == ["b"]
    assert sorted(ids(store, "retryLimit")) == ["a", "d"]
    assert ids(store, "src/retryLimit.py") == ["a"]
    put(store, entry("a", content="nothing of it"), 1)
    assert ids(store, "limit") == ["c"]


def test_scripts_without_spaces_are_found_inside_of_a_run(store: SqliteStore) -> None:
    fill(store, a="我们的数据库迁移", b="数学", c="データベースの移行", d="поиск по словам", e="데이터베이스 이전")
    assert ids(store, "数据库") == ["a"]
    assert ids(store, "请迁移数据库吧") == ["a"]
    assert ids(store, "学") == ["b"]
    assert ids(store, "データベース") == ["c"]
    assert ids(store, "Поиск") == ["d"]
    assert ids(store, "데이터베이스") == ["e"]
    assert ids(store, "데이터베이스를") == ["e"], "with a particle written to it"


@pytest.mark.parametrize(
    "word",
    [
        "OR",
        "AND",
        "NOT",
        "NEAR",
        "near(",
        "title",
        "title:",
        "content:x",
        "^x",
        "x*",
        '"',
        '""',
        "'",
        "(",
        "-x",
        "{title}",
    ],
)
def test_what_means_something_to_the_index_is_a_word_like_any_other(store: SqliteStore, word: str) -> None:
    fill(store, a="unrelated text", b="x marks", c="the words or, and, not, near, title", d="content x")
    plain = "".join(filter(str.isalnum, word)).lower()
    expected = (
        {each.id for each in store.knowledge_entries("t1") if f" {plain}" in f" {each.content}"} if plain else set()
    )
    if word == "content:x":
        expected = {"d"}
    assert set(ids(store, word)) == expected
    assert set(ids(store, "unrelated", word)) == expected | {"a"}


def test_no_words_find_nothing(store: SqliteStore) -> None:
    fill(store, a="text")
    for words in ([], [""], [" ", "\0", "…", "🙂", "_"]):
        assert store.find_knowledge("t1", words, EVERYTHING) == []
    assert ids(store, "text", limit=0) == ids(store, "text", limit=-1) == []


def test_text_with_characters_that_end_strings_is_found_and_forgotten(store: SqliteStore) -> None:
    put(store, entry("a", title="be\0fore", content='after "quote" \0 end'))
    assert ids(store, "fore") == ids(store, "end") == ids(store, "quote") == ["a"]
    put(store, entry("a", title="x", content="y"), 1)
    assert ids(store, "fore") == ids(store, "end") == []


@pytest.fixture(scope="module")
def filled() -> Iterator[SqliteStore]:
    with tempfile.TemporaryDirectory() as directory, open_store(Path(directory) / "s.db") as store:
        fill(store, a="alpha beta", b='NEAR("x") {title}: -y ^z *', c="數據 éa 0x1F")
        yield store


@given(words=st.lists(st.text(st.characters(), max_size=30), max_size=12), limit=st.integers(-3, 1000))
def test_whatever_is_asked_for_it_answers(filled: SqliteStore, words: list[str], limit: int) -> None:
    found = filled.find_knowledge("t1", words, limit=limit)
    assert len(found) <= max(limit, 0)
    assert filled.find_knowledge("t1", words[::-1] + words, limit=limit) == found


@given(text=st.text(st.characters(), max_size=60))
def test_every_word_that_was_put_in_is_found_by_itself(text: str) -> None:
    """In the syntax of the index: what is asked is, word by word, what was stored, and nothing but plain letters."""
    stored = indexed(7, text)
    assert stored.isascii()
    assert stored.replace(" ", "").isalnum() or not stored
    for word in text.split():
        for phrase in phrases(7, word):
            assert f" {phrase[1:-1]} " in f" {stored} "


def various(store: SqliteStore) -> None:
    for project in (None, "/a", "/b"):
        for category in ("preference", "decision", "gotcha", "mine"):
            put(store, entry(f"{project}{category}", project=project, category=category, content="lock"))
    put(store, entry("gone", project="/a", content="lock", forgotten_at=5))


def passing(store: SqliteStore, among: KnowledgeFilter) -> set[tuple[str | None, str]]:
    listed = store.knowledge_entries("t1", among)
    found = [each for each, _ in store.find_knowledge("t1", ["lock"], among)]
    assert {each.id for each in found} == {each.id for each in listed}, "listing and searching filter alike"
    assert len(found) == len(listed)
    return {(each.project, each.category) for each in listed}


def test_e14_the_categories_to_include_win_over_those_to_exclude(store: SqliteStore) -> None:
    various(store)
    both = KnowledgeFilter(projects="cross", categories=("preference", "mine"), exclude_categories=("preference",))
    assert passing(store, both) == {(None, "preference"), (None, "mine")}


def test_e16_excluded_categories_are_left_out_and_no_others(store: SqliteStore) -> None:
    various(store)
    out = KnowledgeFilter(projects="cross", exclude_categories=("preference", "unheard of"))
    assert passing(store, out) == {(None, "decision"), (None, "gotcha"), (None, "mine")}
    assert passing(store, KnowledgeFilter(projects="cross", categories=("unheard of",))) == set()


def test_e26_an_excluded_category_is_left_out_across_projects_too(store: SqliteStore) -> None:
    various(store)
    for projects in ("both", "project", "cross", "all"):
        among = KnowledgeFilter(project="/a", projects=projects, exclude_categories=("preference",))
        found = passing(store, among)
        assert "preference" not in {category for _, category in found}
        kept = {"both": {None, "/a"}, "project": {"/a"}, "cross": {None}, "all": {None, "/a", "/b"}}[projects]
        assert {project for project, _ in found} == kept


def test_e27_an_empty_list_is_no_filter(store: SqliteStore) -> None:
    various(store)
    assert len(passing(store, KnowledgeFilter(project="/a", categories=(), exclude_categories=()))) == 8


def test_without_a_project_only_what_holds_everywhere_counts(store: SqliteStore) -> None:
    various(store)
    assert {project for project, _ in passing(store, KnowledgeFilter())} == {None}
    assert passing(store, KnowledgeFilter(projects="project")) == set()


def test_forgotten_entries_are_found_only_by_who_asks_for_them(store: SqliteStore) -> None:
    various(store)
    assert "gone" not in ids(store, "lock", among=KnowledgeFilter(projects="all"))
    assert "gone" in ids(store, "lock", among=KnowledgeFilter(project="/a", forgotten=True))


def test_the_filter_counts_before_the_limit(store: SqliteStore) -> None:
    for number in range(60):
        put(store, entry(f"n{number:02}", title="lock lock", content="lock", category="preference"))
    put(store, entry("last", title="", content="a lock among very many other words that make it worse", project="/a"))
    assert ids(store, "lock", among=KnowledgeFilter(exclude_categories=("preference",), project="/a"), limit=1) == [
        "last"
    ]
    assert ids(store, "lock", among=KnowledgeFilter(projects="project", project="/a"), limit=1) == ["last"]


def test_equal_entries_go_by_their_ids_whatever_the_order_they_came_in(tmp_path: Path) -> None:
    names = [f"k{number:03}" for number in range(60)]
    texts = {
        name: f"lock {'pool' if number % 7 == 0 else 'x'} {'y ' * (number % 3)}" for number, name in enumerate(names)
    }
    answers = []
    for seed in range(3):
        random.Random(seed).shuffle(names)
        with open_store(tmp_path / f"{seed}.db") as store:
            fill(store, **{name: texts[name] for name in names})
            answers.append([(each.id, score) for each, score in store.find_knowledge("t1", ["lock", "pool"], limit=40)])
    assert answers[0] == answers[1] == answers[2]
    assert answers[0] == sorted(answers[0], key=lambda found: (-found[1], found[0]))


def test_what_was_changed_is_found_by_what_it_says_now(store: SqliteStore) -> None:
    fill(store, a="first words", b="others")
    put(store, entry("a", title="", content="second words"), 1)
    assert ids(store, "first") == []
    assert ids(store, "second") == ids(store, "words") == ["a"]
    put(store, entry("a", title="", content="second words", category="gotcha"), 2)
    assert ids(store, "second") == ["a"]


def crowd(store: SqliteStore, tenant: str, count: int) -> None:
    """Entries whose words are as unequally common as those of a language."""
    chance = random.Random(4)
    with store.batch() as batch:
        for number in range(count):
            said = [f"w{int(chance.paretovariate(0.6))}" for _ in range(12)]
            project = "/few" if number % 50 == 0 else "/some" if number % 10 == 3 else "/a" if number % 4 else None
            new = entry(f"k{number:03}", tenant=tenant, title=said[0], content=" ".join(said[1:]), project=project)
            batch.write(op.PutKnowledge(new, expected=0, operation="add", by="user"))
    store.flush()


@pytest.fixture
def many(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> SqliteStore:
    """A store with common words that weighs few entries."""
    monkeypatch.setattr(text_search, "WEIGHED", 40)
    crowd(store, "t1", 400)
    return store


@pytest.mark.parametrize(
    ("among", "matching", "good"),
    [
        (EVERYTHING, 400, 0.85),
        (KnowledgeFilter(project="/few", projects="project"), 8, 0.999),
        (KnowledgeFilter(project="/some", projects="project"), 40, 0.999),
        (KnowledgeFilter(project="/few"), 104, 0.85),
        (KnowledgeFilter(project="/a", projects="project"), 256, 0.85),
        (KnowledgeFilter(project="/none", projects="project"), 0, 1),
    ],
)
def test_where_rare_words_choose_what_is_found_is_as_good(
    many: SqliteStore, monkeypatch: pytest.MonkeyPatch, among: KnowledgeFilter, matching: int, good: float
) -> None:
    assert len(many.knowledge_entries("t1", among)) == matching
    chance = random.Random(9)
    questions = [[f"w{int(chance.paretovariate(0.4))}" for _ in range(6)] for _ in range(40)]
    few = [ids(many, *words, among=among, limit=10) for words in questions]
    monkeypatch.setattr(text_search, "WEIGHED", 10_000)
    for words, found in zip(questions, few, strict=True):
        scores = {each.id: score for each, score in many.find_knowledge("t1", words, among, limit=1000)}
        assert len(found) == min(10, len(scores)), "none is missing because it says only common words"
        best = sorted(scores.values(), reverse=True)[:5]
        assert sum(scores[name] for name in found[:5]) >= good * sum(best), words


def test_words_that_everybody_says_are_found_where_nothing_else_is_asked(many: SqliteStore) -> None:
    said = [each.id for each in many.knowledge_entries("t1", EVERYTHING) if " w1 " in f" {each.title} {each.content} "]
    assert len(said) > 300
    assert sorted(ids(many, "w1", limit=1000)) == sorted(said)
    assert set(ids(many, "w1", "w2", limit=1000)) > set(said)


def test_how_often_another_tenant_says_a_word_does_not_make_it_common(many: SqliteStore) -> None:
    put(many, entry("mine", title="", content="zeta w1 w2"))
    with many.batch() as batch:
        for number in range(500):
            new = entry(f"x{number}", tenant="t3", title="zeta", content="zeta zeta")
            batch.write(op.PutKnowledge(new, expected=0, operation="add", by="user"))
    many.flush()
    assert ids(many, "w1", "w2", "w3", "zeta", limit=5)[0] == "mine"
    assert ids(many, "zeta") == ["mine"]


def test_what_is_remembered_of_words_is_of_the_entries_as_they_are(many: SqliteStore) -> None:
    words = ("w1", "w2", "w30", "w31", "w32")
    before = many.find_knowledge("t1", words)
    with open_store(many.path) as other:
        with other.batch() as batch:
            for number in range(300):
                new = entry(f"x{number:03}", title="w30", content="w31 x")
                batch.write(op.PutKnowledge(new, expected=0, operation="add", by="user"))
        other.flush()
        after = many.find_knowledge("t1", words)
    assert after != before
    with open_store(many.path) as fresh:
        assert fresh.find_knowledge("t1", words) == after


def test_words_are_remembered_for_few_tenants_at_a_time() -> None:
    counts = text_search.WordCounts()
    for tenant in range(1000):
        counts.of(tenant, 1, 5)["word"] = tenant
    assert counts.of(999, 1, 5) == {"word": 999}
    assert counts.of(999, 2, 5) == counts.of(0, 1, 5) == {}
    assert len(counts) <= 64
