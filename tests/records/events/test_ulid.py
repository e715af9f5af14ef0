"""ULIDs sort by creation, strictly, whatever the clock does."""

from __future__ import annotations

import threading

import pytest

from holdfast.errors import HoldfastError
from holdfast.records.events import Ulids, is_ulid, milliseconds
from holdfast.records.events.ulid import encode, system_milliseconds, texts


def fixed(value: int, random: bytes = b"\0" * 10) -> Ulids:
    return Ulids(clock=lambda: value, entropy=lambda size: random[:size])


def test_a_known_value_has_its_known_characters() -> None:
    assert encode(0) == "0" * 26
    assert encode((1 << 128) - 1) == "7" + "Z" * 25
    # The timestamp of the ULID specification's own example.
    assert fixed(1469918176385).new()[:10] == "01ARYZ6S41"


def test_the_moment_can_be_read_back() -> None:
    before = system_milliseconds()
    ulid = Ulids().new()
    assert before <= milliseconds(ulid) <= system_milliseconds()


def test_within_one_millisecond_the_order_of_creation_is_kept() -> None:
    ids = Ulids(clock=lambda: 1000)
    made = [ids.new() for _ in range(1000)]
    assert made == sorted(set(made))
    assert {milliseconds(one) for one in made} == {1000}


def test_several_are_taken_at_once_and_follow_each_other() -> None:
    ids = Ulids(clock=lambda: 1000)
    before, first, after = ids.new(), ids.take(3), ids.new()
    several = texts(first, 3)
    assert several == [encode(first), encode(first + 1), encode(first + 2)]
    assert [before, *several, after] == sorted({before, *several, after})


@pytest.mark.parametrize("first", [(1 << 20) - 2, (1 << 10) - 2, (1 << 80) - 2, 0, (1 << 128) - 4])
def test_numbers_that_carry_have_the_characters_of_each(first: int) -> None:
    assert texts(first, 4) == [encode(value) for value in range(first, first + 4)]


def test_there_are_not_several_after_the_last() -> None:
    ids = fixed((1 << 48) - 1, b"\xff" * 9 + b"\xfd")
    assert texts(ids.take(3), 3)[-1] == "7" + "Z" * 25
    with pytest.raises(HoldfastError, match="no ULID is left"):
        ids.take(1)


def test_a_clock_that_goes_back_does_not_break_the_order() -> None:
    times = iter([5000, 4000, 100, -7, 5001])
    ids = Ulids(clock=lambda: next(times))
    made = [ids.new() for _ in range(5)]
    assert made == sorted(set(made))
    assert milliseconds(made[3]) == 5000
    assert milliseconds(made[4]) == 5001


def test_an_exhausted_random_part_carries_into_the_next_millisecond() -> None:
    ids = fixed(1000, b"\xff" * 10)
    first, second = ids.new(), ids.new()
    assert first < second
    assert milliseconds(second) == 1001


def test_after_the_last_ulid_there_is_an_error_and_no_repeat() -> None:
    ids = fixed((1 << 48) - 1, b"\xff" * 10)
    assert ids.new() == "7" + "Z" * 25
    for _ in range(2):
        with pytest.raises(HoldfastError, match="clock"):
            ids.new()


def test_a_clock_before_1970_starts_at_zero() -> None:
    assert milliseconds(fixed(-5).new()) == 0


@pytest.mark.parametrize("text", ["", "01ARYZ6S41", "0" * 27, "8" + "0" * 25, "0" * 25 + "I", "0" * 25 + "l"])
def test_what_is_not_a_ulid_is_told(text: str) -> None:
    assert not is_ulid(text)
    with pytest.raises(HoldfastError, match="not a ULID"):
        milliseconds(text)


def test_threads_never_share_one() -> None:
    ids = Ulids()
    made: list[list[str]] = [[] for _ in range(4)]

    def make(own: list[str]) -> None:
        own.extend(ids.new() for _ in range(2000))

    threads = [threading.Thread(target=make, args=(own,)) for own in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(own == sorted(own) for own in made)
    assert len(set().union(*made)) == 8000
