"""How far two sequences are the same."""

from __future__ import annotations

from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st

from holdfast.records import common_head

texts = st.text(alphabet="ab", max_size=12)


@given(one=texts, other=texts)
def test_the_common_head_is_what_both_begin_with(one: str, other: str) -> None:
    length = len([*takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))])
    assert common_head(one, other) == length
    assert common_head(one.encode(), other.encode()) == length
    assert common_head(tuple(one), tuple(other)) == length


def test_no_more_is_compared_than_asked_for() -> None:
    assert common_head("abcd", "abce", 2) == 2
    assert common_head("abcd", "axce", 3) == 1
    assert common_head("", "abc") == 0
