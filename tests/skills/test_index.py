"""The index in the stable prompt: its exact text, line breaks, the cap, and what never changes it."""

from __future__ import annotations

from typing import Any
from unicodedata import category

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.config.sections.agent import SkillsSettings
from holdfast.core.skill_texts import HEADING, HINT
from holdfast.skills.index import LEFT_OUT, render_index
from holdfast.skills.store import SkillStore
from tests.skills.sessions import skill

PDF = skill("pdf", "Fill forms.")
ADR = skill("adr", "Write decisions down.", source="workspace")


def index(*skills: Any, preloaded: tuple[str, ...] = (), **chosen: Any) -> str:
    return render_index(SkillStore(skills), SkillsSettings(**chosen), preloaded)


def listed(text: str) -> list[str]:
    return [line[2:].split(" ")[0].rstrip(":") for line in text.split("\n")[3:] if not line.startswith("- …")]


def test_d36_d37_the_index_is_a_heading_a_hint_and_one_line_per_skill() -> None:
    assert index(PDF, ADR) == (
        "## Available skills\n"
        "Use `skill_search(query)` to filter and `skill_load(name)` to read a body.\n"
        "\n"
        "- adr: Write decisions down.\n"
        "- pdf: Fill forms."
    )


@pytest.mark.parametrize("chosen", ["full", "capped", "off"])
def test_d38_without_skills_there_is_no_index(chosen: Any) -> None:
    assert index(index=chosen) == ""


def test_a4_a60_a80_what_is_preloaded_is_annotated() -> None:
    assert index(PDF, ADR, preloaded=("pdf", "unknown")).split("\n")[3:] == [
        "- adr: Write decisions down.",
        "- pdf [preloaded]: Fill forms.",
    ]


def test_d4_no_body_is_in_it() -> None:
    assert "secret handshake" not in index(skill("a", "Short.", body="The secret handshake.\n"))


def test_d37_line_breaks_of_any_kind_become_one_space() -> None:
    for mark in ("\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", " \n\n \t\r\n "):
        lines = index(skill("a", f"{mark}One{mark}two{mark}")).split("\n")
        assert lines[3:] == ["- a: One two"]
        assert len("\n".join(lines).splitlines()) == 4


def test_d37_other_white_space_stays() -> None:
    assert index(skill("a", "One  two\u00a0three ")).endswith("- a: One  two\u00a0three")


def test_control_characters_become_spaces() -> None:
    controls = [chr(code) for code in range(0x110000) if category(chr(code)) == "Cc"]
    assert len(controls) == 65
    for each in controls:
        assert index(skill("a", f"One{each}two{each}")).split("\n")[3:] == ["- a: One two"]
    assert index(skill("a", "\x00\x1b[31mred\x07")).endswith("\n- a: [31mred")


def test_a_description_that_is_no_unicode_can_be_sent() -> None:
    assert index(skill("a", "One \ud800.")).encode().endswith("- a: One \ufffd.".encode())


def test_d69_the_index_can_be_left_out() -> None:
    assert index(PDF, ADR, index="off") == ""


class TestCapped:
    SKILLS = tuple(
        skill(f"s{n:02}", "x" * 93, source="workspace" if n >= 15 else "global") for n in range(20)
    )  # 100 characters a line, and a line break

    def test_d62_workspace_skills_come_first_and_lines_are_in_order_of_names(self) -> None:
        text = index(*self.SKILLS, index_chars=1_000)
        assert listed(text) == ["s00", "s01", "s02", *(f"s{n}" for n in range(15, 20))]
        assert text.endswith("\n- … and 12 more, which `skill_search(query)` finds.")
        assert len(text) <= 1_000

    def test_d62_whole_lines_and_never_more_than_the_cap(self) -> None:
        whole = index(*self.SKILLS, index="full").split("\n")
        for most in (*range(0, 2_300, 3), 5_000):
            text = index(*self.SKILLS, index_chars=most)
            *lines, last = text.split("\n")
            assert all(line in whole for line in lines)
            if left := 20 - len(listed(text)):
                assert last == LEFT_OUT.format(number=left)
                assert len(text) <= max(most, len("\n".join((HEADING, HINT, "", last))))
            else:
                assert text == "\n".join(whole)
                assert len(text) <= most

    def test_d62_all_are_listed_where_all_fit_exactly(self) -> None:
        whole = index(*self.SKILLS, index="full")
        assert len(listed(whole)) == 20
        assert index(*self.SKILLS, index_chars=len(whole)) == whole
        assert len(listed(index(*self.SKILLS, index_chars=len(whole) - 1))) < 20

    def test_d62_a_cap_below_every_line_leaves_the_last_one(self) -> None:
        assert (
            index(*self.SKILLS, index_chars=10)
            == f"{HEADING}\n{HINT}\n\n- … and 20 more, which `skill_search(query)` finds."
        )

    def test_d62_a_long_line_keeps_no_other_out(self) -> None:
        skills = (skill("a", "x" * 1_024), skill("b", "short"), skill("c", "short"))
        assert listed(index(*skills, index_chars=300)) == ["b", "c"]

    def test_d62_one_that_is_left_out_is_counted_as_one(self) -> None:
        skills = (skill("a", "x" * 1_024), skill("b", "short"))
        assert index(*skills, index_chars=300).endswith("\n- … and 1 more, which `skill_search(query)` finds.")

    def test_d62_the_default_is_capped_at_16000_characters(self) -> None:
        many = [skill(f"s{n:03}", "y" * 900) for n in range(100)]
        text = index(*many)
        assert 15_000 < len(text) <= 16_000
        assert "skill_search" in text.rpartition("\n")[2]
        assert len(index(*many, index="full")) > 90_000

    @settings(max_examples=80, deadline=None)
    @given(
        st.lists(st.tuples(st.integers(1, 300), st.booleans()), min_size=1, max_size=30),
        st.integers(0, 4_000),
        st.sets(st.integers(0, 29)),
    )
    def test_d62_the_annotation_never_changes_which_lines_are_in(
        self, sizes: list[tuple[int, bool]], most: int, preloaded: set[int]
    ) -> None:
        skills = [
            skill(f"s{n:02}", "x" * size, source="workspace" if own else "global")
            for n, (size, own) in enumerate(sizes)
        ]
        bare = index(*skills, index_chars=most)
        marked = index(*skills, index_chars=most, preloaded=tuple(f"s{n:02}" for n in preloaded))
        assert marked.replace(" [preloaded]", "") == bare
        assert listed(marked) == listed(bare) == sorted(listed(bare))
        assert index(*skills[::-1], index_chars=most) == bare


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("x" * 1_024, "x" * 1_024),
        ("x" * 1_025, "x" * 1_023 + "…"),
        ("x" * 1_023 + " y", "x" * 1_023 + "…"),
        ("x" * 1_000 + " " + "y" * 30, "x" * 1_000 + "…"),
        ("x" * 1_000 + "\n \n" + "y" * 20, "x" * 1_000 + " " + "y" * 20),
    ],
)
def test_d22_a_description_that_is_too_long_ends_at_a_word_with_an_ellipsis(description: str, expected: str) -> None:
    assert index(skill("a", description)).split("\n")[3:] == [f"- a: {expected}"]
