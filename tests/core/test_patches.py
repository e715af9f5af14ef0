"""What is stored of a first text: enough to put it together again, and no more than what the client no longer says."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.redact import holds_secret
from holdfast.core.repairs import patches
from holdfast.core.volatile import joined, masked, parted

PIECES = st.sampled_from(
    (
        "Be brief.",
        "It is 2026-11-02T09:01:00Z and turn: 5 now.",
        "On branch main at 09:01, commit: abc1234f",
        "- likes tea",
        '- says "no"\t\\n',
        "# Memory",
        "",
        "Grüße, 5 % used",
        "id 3f2c9aa1-0000-1111-2222-333344445555",
    )
)
TEXTS = st.lists(PIECES, min_size=1, max_size=6).map("\n".join)


def literal(text: str) -> bytes:
    return json.dumps(text).encode()


@given(st.one_of(st.text(), TEXTS))
def test_a_text_is_taken_apart_and_put_together(text: str) -> None:
    parts, values = parted(text)
    assert joined(parts, values) == text
    assert len(parts) == len(values) + 1
    assert all(part in masked(text) for part in parts if values)


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3))
def test_a_first_text_is_restored_from_each_that_it_was_kept_for(first: str, later: list[str]) -> None:
    patch = None
    kept: list[str] = []
    for now in later:
        made = patches.difference(literal(first), literal(now), patch)
        if made is not None:
            patch = made
            kept.append(now)
    for now in kept:
        assert patch is not None
        again = patches.decode(patches.encode(patch))
        assert again == patch
        assert patches.restored(again, literal(now), sha256(literal(first)).digest()) == literal(first)


def test_of_a_value_nothing_else_is_stored() -> None:
    first, now = (f"Be brief. The secret plan is X. It is 2026-11-02T09:0{n}:00Z.\\nMore." for n in (1, 2))
    made = patches.difference(literal(first), literal(now))
    assert (made.gone, [each.values for each in made.values]) == ((), [{0: "2026-11-02T09:01:00Z"}])


@pytest.mark.parametrize(
    ("first", "now"),
    [
        ("one line", "another"),
        ("# Memory\n- the key is sk-ant-api03-abcdefgh", "# Memory\n- none"),
        ("Be brief.\npassword: 0123456789abcdef01", "Be brief.\npassword: 0123456789abcdef02"),
    ],
    ids=["a whole text", "a line with a key", "a value that is a password"],
)
def test_what_must_not_be_stored_is_not(first: str, now: str) -> None:
    assert patches.difference(literal(first), literal(now)) is None


def test_a_text_that_cannot_be_restored_is_lost_and_never_guessed() -> None:
    first = literal("Be brief.\n- likes tea")
    made = patches.difference(first, literal("Be brief.\n- likes coffee"))
    assert made is not None
    assert patches.restored(made, literal("Be kind.\n- likes coffee"), sha256(first).digest()) is None
    assert patches.restored(made, literal("Be brief."), bytes(32)) is None
    assert patches.decode(b"{}") is None


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("use sk-ant-api03-abcdefgh", True),
        ("token=abcdef", True),
        ("AKIAABCDEFGHIJKLMNOP", True),
        ("https://me:pass@example.com/", True),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.x", True),
        ("a task-oriented risk-assessment", False),
        ("Current time: 2026-11-02T09:01:00.000+00:00", False),
        ("1,200 tokens used of 200,000", False),
        ("session 3f2c9aa1-0000-1111-2222-333344445555", False),
    ],
)
def test_what_has_the_shape_of_a_credential(text: str, secret: bool) -> None:
    assert holds_secret(text) is secret
