"""What changed between two texts: exact, from word to word, bounded, and without credentials."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.text_changes import MOST, MOST_TEXT, Changes, TextChange, changes

texts = st.lists(st.sampled_from(["a", "b", "é", "\n", "\\n", " ", "x1", '"', "😀", ". "]), max_size=40).map("".join)


@given(texts, texts)
def test_undoing_the_changes_gives_the_text_before(before: str, after: str) -> None:
    found = changes(before.encode(), after.encode(), keep_bodies=True)
    now, undone, end = after.encode(), b"", 0
    for each in found.pieces:
        added = each.added.encode()
        assert now[each.at :].startswith(added)
        undone += now[end : each.at] + each.removed.encode()
        end = each.at + len(added)
    assert undone + now[end:] == before.encode()
    assert (found.keys, found.whole) == (False, True)


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("same", "same", ()),
        ("It is 13:01 now.", "It is 13:02 now.", (TextChange(6, "13:01", "13:02"),)),
        ('"one\\ntwo\\nthree"', '"one\\n2\\nthree"', (TextChange(6, "two", "2"),)),
        ("a b", "a b c", (TextChange(2, "b", "b c"),)),
        ("é1 x", "è1 x", (TextChange(0, "é1", "è1"),)),
    ],
)
def test_a_change_reaches_from_word_to_word(before: str, after: str, found: tuple[TextChange, ...]) -> None:
    assert changes(before.encode(), after.encode(), keep_bodies=True).pieces == found


def test_without_bodies_the_shape_is_left() -> None:
    found = changes(b"It is 13:01 in Oslo.", b"It is 9 in Rome.")
    assert found.pieces == (TextChange(6, "99:99 xx Xxxx.", "9 xx Xxxx."),)


def test_a_credential_is_masked_by_what_stands_around_it() -> None:
    found = changes(b"password: abcd1234 yes", b"password: abcd1235 no", keep_bodies=True)
    assert found == Changes((TextChange(10, "xxxx9999 yes", "xxxx9999 no"),), keys=True, whole=True)


def test_it_is_bounded_and_says_so() -> None:
    long = changes(b"x " + b"a" * 50_000, b"x " + b"b" * 50_000, keep_bodies=True)
    assert not long.whole
    assert len(long.pieces[0].removed) < MOST_TEXT + 40
    assert long.pieces[0].removed.endswith("more characters)")
    many = changes(
        "\n".join(f"line {n} is old" if n % 2 else "same" for n in range(200)).encode(),
        "\n".join(f"line {n} is new" if n % 2 else "same" for n in range(200)).encode(),
        keep_bodies=True,
    )
    assert (len(many.pieces), many.whole) == (MOST, False)
