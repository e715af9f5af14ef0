"""Finding skills: the rule for one word at every size, several words, and always the same answer."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.skills.skill import Skill
from holdfast.skills.store import MANY, SkillSearch, SkillStore
from holdfast.tools.search import COMMON
from tests.skills.sessions import skill

PDF = skill("pdf-processing", "Extract text, fill forms, merge files.")
REDACT = skill("redact", "Black out regions of a PDF.", source="workspace")
REVIEW = skill("code-review", "Review the current branch. Use when the user asks for a review.")
SMALL = SkillStore([PDF, REDACT, REVIEW])

THINGS = ["invoice", "letter", "table", "photo", "contract", "recipe", "calendar", "ticket", "map", "song"]
DEEDS = ["archive", "convert", "merge", "print", "publish", "rename", "sort", "translate", "verify", "watch"]


def library(size: int) -> list[Skill]:
    """As many skills as that, which share their words."""
    return [
        skill(f"{DEEDS[n // 10 % 10]}-{THINGS[n % 10]}-{n // 100}", f"How to {DEEDS[n // 10 % 10]} a {THINGS[n % 10]}.")
        for n in range(size)
    ]


def names(store: SkillStore, query: str, limit: int = 10) -> list[str]:
    return [each.name for each in store.search(query, limit=limit)]


def by_the_rule(skills: list[Skill], query: str, limit: int) -> list[str]:
    """The rule for one word, written down once more."""
    query = query.strip().casefold()
    scored = [(2 * (query in s.name.casefold()) + (query in s.description.casefold()), s.name) for s in skills]
    return [name for score, name in sorted(scored, key=lambda each: (-each[0], each[1])) if score][:limit]


class TestOneWord:
    def test_d46_a_name_counts_two_a_description_one_and_nothing_is_left_out(self) -> None:
        both = skill("pdf", "Anything with a PDF.")
        store = SkillStore([REDACT, PDF, both, REVIEW])
        assert names(store, "pdf") == ["pdf", "pdf-processing", "redact"]

    def test_d46_equal_scores_are_in_order_of_names(self) -> None:
        store = SkillStore([skill("zebra", "A horse."), skill("ant", "A horse, too."), skill("mule", "Half a horse.")])
        assert names(store, "horse") == ["ant", "mule", "zebra"]

    @pytest.mark.parametrize("query", ["PDF", "  pdf\n", "pDf", "df"])
    def test_d67_search_returns_substring_matches_whatever_the_case(self, query: str) -> None:
        assert names(SMALL, query) == ["pdf-processing", "redact"]

    def test_d67_search_ranks_a_name_above_a_description(self) -> None:
        assert names(SMALL, "redact") == ["redact"]
        assert names(SMALL, "review") == ["code-review"]
        assert names(SkillStore([skill("a", "About forms."), skill("forms", "x")]), "forms") == ["forms", "a"]

    def test_d47_an_empty_query_lists_by_name(self) -> None:
        assert names(SMALL, "") == names(SMALL, " \n\t") == ["code-review", "pdf-processing", "redact"]
        assert names(SMALL, "", 2) == ["code-review", "pdf-processing"]

    def test_d67_the_limit_is_respected(self) -> None:
        store = SkillStore(library(120))
        assert len(store.search("convert", limit=3)) == 3
        assert len(store.search("convert invoice", limit=3)) == 3
        assert store.search("convert", limit=0) == store.search("convert", limit=-1) == []

    def test_a_common_word_alone_is_looked_for(self) -> None:
        assert "the" in COMMON
        assert names(SMALL, "the") == ["code-review"]

    @pytest.mark.parametrize("size", [1, MANY, MANY + 1, 230])
    @pytest.mark.parametrize("query", ["convert", "archive-letter", "on", "how", "nothing", "-1", "."])
    def test_d46_the_rule_is_the_same_at_every_size(self, size: int, query: str) -> None:
        skills = library(size)
        assert names(SkillStore(skills), query, 20) == by_the_rule(skills, query, 20)

    def test_a_word_with_signs_is_one_word(self) -> None:
        store = SkillStore([skill("cpp", "Write C++ code."), skill("web", "Node.js and friends.")])
        assert names(store, "c++") == ["cpp"]
        assert names(store, "node.js") == ["web"]


class TestSeveralWords:
    def test_each_word_is_scored(self) -> None:
        assert names(SMALL, "pdf forms") == ["pdf-processing", "redact"]

    def test_the_words_are_summed_with_the_same_weights(self) -> None:
        store = SkillStore([skill("a", "alpha beta"), skill("alpha", "x"), skill("b", "alpha beta gamma")])
        assert names(store, "alpha beta gamma") == ["b", "a", "alpha"]

    def test_words_that_say_nothing_are_dropped(self) -> None:
        assert names(SMALL, "how do I fill a form?") == ["pdf-processing"]
        assert names(SMALL, "the of") == names(SMALL, "of the") != []

    def test_common_words_inside_of_others_do_not_count(self) -> None:
        store = SkillStore([skill("pdf", "Make documents."), skill("a-notifier", "If so, tell us about it.")])
        assert names(store, "how would I make a pdf for us, if so?") == ["pdf"]

    def test_a_question_of_common_words_alone_lists_by_name(self) -> None:
        assert names(SMALL, "what do you have") == names(SMALL, "")
        assert names(SkillStore(library(200)), "What can you do?", 7) == names(SkillStore(library(200)), "", 7)

    def test_common_words_that_a_skill_has_are_its_own(self) -> None:
        store = SkillStore([skill("a", "Other."), skill("how-to", "Guides."), skill("z", "Knows what to do.")])
        assert names(store, "how to") == ["how-to"]
        assert names(store, "what to do") == ["z"]

    def test_one_word_that_is_left_follows_the_rule_for_one(self) -> None:
        skills = library(200)
        assert names(SkillStore(skills), "how do I convert", 20) == by_the_rule(skills, "convert", 20)

    def test_signs_around_words_do_not_matter(self) -> None:
        assert names(SMALL, "(forms), 'pdf'!") == ["pdf-processing", "redact"]
        assert names(SMALL, "redact - black") == ["redact"]
        assert names(SMALL, ", -") == ["pdf-processing", "code-review"]

    def test_a_word_twice_counts_once(self) -> None:
        store = SkillStore([skill("a", "alpha"), skill("b", "beta gamma")])
        assert names(store, "alpha alpha alpha beta gamma") == ["b", "a"]

    @pytest.mark.parametrize(
        ("query", "best"),
        [
            ("convert an invoice", "convert-invoice-"),
            ("translating letters", "translate-letter-"),
            ("please publish my recipe", "publish-recipe-"),
            ("PHOTO, print!", "print-photo-"),
        ],
    )
    def test_many_skills_are_ranked_by_the_index(self, query: str, best: str) -> None:
        found = names(SkillStore(library(300)), query, 3)
        assert [name.removesuffix(name[-1]) for name in found] == [best] * 3
        assert found == sorted(found)

    def test_rare_words_count_more_among_many(self) -> None:
        skills = [skill(f"tidy-{n:03}", "Tidy up the report of a project.") for n in range(100)]
        rare = skill("zoo", "A report about giraffes.")
        assert names(SkillStore([*skills, rare]), "project report giraffes", 1) == ["zoo"]

    def test_what_only_the_rule_finds_comes_after(self) -> None:
        skills = [*library(100), skill("spread", "Superspreadsheets."), skill("zz-spreadsheet", "Other.")]
        found = names(SkillStore(skills), "nothing spreadsheet", 10)
        assert found == ["zz-spreadsheet", "spread"]
        assert names(SkillStore(skills), "readshee hee", 10) == ["zz-spreadsheet", "spread"]

    def test_without_the_library_words_are_counted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "tantivy", None)
        store = SkillStore(library(300))
        assert names(store, "convert invoice", 3) == ["convert-invoice-0", "convert-invoice-1", "convert-invoice-2"]
        assert names(store, "translating letters", 3) == []

    def test_the_library_is_imported_when_it_is_needed(self) -> None:
        code = "import sys, holdfast.skills.store; sys.exit('tantivy' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class TestAlwaysTheSame:
    @pytest.mark.parametrize("query", ["convert a table", "verify", "", "print tickets and maps", "x y z"])
    def test_the_order_of_the_skills_does_not_matter(self, query: str) -> None:
        skills = library(150)
        expected = names(SkillStore(skills), query, 15)
        for seed in range(3):
            mixed = random.Random(seed).sample(skills, len(skills))
            assert [each.name for each in SkillSearch(tuple(mixed)).find(query, 15)] == expected

    @settings(max_examples=60, deadline=None)
    @given(st.text(max_size=40), st.integers(-1, 60))
    def test_any_query_gives_skills_without_repeats(self, query: str, limit: int) -> None:
        for store in (SMALL, MANY_SKILLS):
            found = names(store, query, limit)
            assert len(found) == len(set(found)) <= max(0, limit)
            assert found == names(store, query, limit)
            if len(query.split()) == 1:
                assert found == by_the_rule(store.list_skills(), query, max(0, limit))

    def test_a_query_without_end_is_answered(self) -> None:
        store = SkillStore(library(100))
        assert names(store, "invoice " + "convert " * 50_000, 1) == ["convert-invoice-0"]
        assert store.search("x" * 1_000_000) == []

    @pytest.mark.parametrize("limit", [10**9, 2**63, 2**70])
    def test_a_limit_without_end_gives_all(self, limit: int) -> None:
        store = SkillStore(library(100))
        assert len(store.search("convert publish", limit=limit)) == 20
        assert len(store.search("", limit=limit)) == 100


MANY_SKILLS = SkillStore(library(MANY + 10))
