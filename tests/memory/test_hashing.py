"""The normal form of a text, and the hash that says whether an entry changed materially."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.memory.texts import entry_hash, normalised


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("Use  TABS.\n", "use tabs"),
        ("one.\n\n  two;\r\nthree…", "one two three"),
        ("ﬁle Ⅳ Ｘ", "file iv x"),
        ("Straße", "strasse"),
        ("v1.2.3 is kept.", "v1.2.3 is kept"),
        ("a . ! ?", "a"),
        ("...", ""),
        ("", ""),
    ],
)
def test_what_says_nothing_is_left_out(text: str, normal: str) -> None:
    assert normalised(text) == normal


@given(st.text())
def test_the_normal_form_is_stable(text: str) -> None:
    once = normalised(text)
    assert normalised(once) == once
    assert "\n" not in once
    assert once == " ".join(once.split())


def test_a_spelling_that_was_tidied_up_is_no_change() -> None:
    first = entry_hash("Tests run in Docker", "Start it first.\nThen run make test.")
    assert entry_hash("tests run in  docker.", "Start it first\n\nthen run MAKE test\n") == first
    assert len(first) == 16
    assert set(first) <= set("0123456789abcdef")


@pytest.mark.parametrize(
    ("title", "content"),
    [
        ("Tests run in Docker", "Start it first. Then run make check."),
        ("Tests run in Podman", "Start it first. Then run make test."),
        ("Tests run in Docker Start", "it first. Then run make test."),
        ("Tests run in Docker", "Then run make test. Start it first."),
    ],
)
def test_other_words_other_places_and_another_order_are_changes(title: str, content: str) -> None:
    assert entry_hash(title, content) != entry_hash("Tests run in Docker", "Start it first. Then run make test.")


def test_the_hash_is_the_same_for_ever() -> None:
    """It is stored and told to conversations that go on for weeks."""
    assert entry_hash("Title", "Content.") == "cb51c2a06d6d89a6"


@given(st.text(), st.text())
def test_every_text_has_a_hash(title: str, content: str) -> None:
    assert len(entry_hash(title, content)) == 16
    assert len(entry_hash("\ud800" + title, content)) == 16
