"""The questions that search is measured with are well formed, and what the benchmark says of words alone holds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks import memory_retrieval
from benchmarks.memory_retrieval import LEAST_BY_WORDS, by_words, entries, fill, found, questions
from holdfast.memory.checks import checked
from holdfast.memory.entries import KnowledgeEntry
from holdfast.store import open_store


def test_every_answer_is_an_entry_that_the_question_may_see() -> None:
    known = {entry.id: entry for entry in entries()}
    asked = questions()
    assert len(known) == len(entries()) >= 150
    assert len({question.query for question in asked}) == len(asked) >= 100
    assert min(Counter(question.kind for question in asked).values()) >= 30
    for question in asked:
        assert question.answers, question.query
        assert {known[id_].project for id_ in question.answers} <= {question.project, None}, question.query


def test_entries_may_be_stored_as_they_are() -> None:
    for entry in entries():
        parts = {"title": entry.title, "content": entry.content, "category": entry.category, "project": entry.project}
        made = checked(KnowledgeEntry(tenant="t", id=entry.id, source="user", created_at=0, updated_at=0, **parts))
        assert (made.title, made.content, made.category) == (entry.title, entry.content, entry.category)


def test_words_alone_find_what_the_benchmark_asks_for(tmp_path: Path) -> None:
    with open_store(tmp_path / "store.db") as store:
        fill(store)
        search = by_words(store)
        assert found(search, questions(), "both").recall >= LEAST_BY_WORDS
        same = [question for question in questions() if question.kind == "same words"]
        assert found(search, same, "both").recall == 1.0


def test_without_a_model_the_benchmark_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HOLDFAST_MEMORY_MODEL_DIR", raising=False)
    monkeypatch.setattr(memory_retrieval, "FEW", 50)
    names = [result.name for result in memory_retrieval.run(quick=True)]
    assert "by meaning: not measured, no model is set (memory.model_dir)" in capsys.readouterr().out
    assert "words alone: recall@5" in names
    assert not any("and meaning" in name for name in names)
