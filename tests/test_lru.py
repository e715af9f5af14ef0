"""The one bounded mapping that caches and registers are made of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.lru import LRU


def test_the_least_recently_used_entry_is_evicted() -> None:
    gone: list[tuple[str, int]] = []
    lru = LRU[str, int](2, on_evict=lambda key, value: gone.append((key, value)))
    lru["a"] = 1
    lru["b"] = 2
    assert lru["a"] == 1
    lru["c"] = 3
    assert gone == [("b", 2)]
    assert list(lru) == ["a", "c"]
    assert lru.get("b") is None
    assert lru.get("b", 7) == 7


def test_peeking_asking_and_iterating_are_no_use() -> None:
    lru = LRU[str, int](2)
    lru["a"], lru["b"] = 1, 2
    assert lru.peek("a") == 1
    assert "a" in lru
    assert dict(lru.items()) == {"a": 1, "b": 2}
    lru.demote("b")
    lru["c"] = 3
    assert "b" not in lru


def test_an_entry_that_is_too_large_does_not_stay() -> None:
    lru = LRU[str, bytes](3, size_of=len)
    lru["a"] = b"12"
    lru["b"] = b"1234"
    assert len(lru) == lru.size == 0
    with pytest.raises(KeyError):
        lru.evict()


def test_the_newest_entry_stays_where_it_is_spared() -> None:
    lru = LRU[str, bytes](100, size_of=len, most_entries=3, keep_newest=True)
    for key in "abc":
        lru[key] = b"x" * 40
    assert list(lru) == ["b", "c"]
    lru["d"] = b"x" * 1_000
    assert list(lru) == ["d"]
    for key in "efgh":
        lru[key] = b""
    assert list(lru) == ["f", "g", "h"]


@given(
    st.integers(0, 20),
    st.lists(st.tuples(st.sampled_from(["set", "get", "pop", "demote"]), st.sampled_from("abcdef"), st.integers(0, 9))),
)
def test_size_is_the_sum_of_what_is_held(capacity: int, steps: list[tuple[str, str, int]]) -> None:
    held: dict[str, int] = {}
    lru = LRU[str, int](capacity, size_of=lambda value: value, on_evict=lambda key, _: held.pop(key, None))
    for step, key, value in steps:
        if step == "set":
            held[key] = value
            lru[key] = value
        elif step == "pop":
            assert lru.pop(key, None) == held.pop(key, None)
        elif step == "demote" and key in lru:
            lru.demote(key)
        else:
            assert lru.get(key) == held.get(key)
        assert dict(lru.items()) == held
        assert lru.size == sum(held.values()) <= capacity
