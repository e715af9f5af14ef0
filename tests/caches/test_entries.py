"""Entries are bounded, and forgotten when they are dead."""

from __future__ import annotations

from holdfast.caches.entries import Entries
from holdfast.caches.prompts import Entry


def entry(number: int, *, expires: float = 300.0, readable: float = 0.0) -> Entry:
    return Entry(number.to_bytes(8, "big"), 10, "5m", 300.0, 0.0, expires, readable)


def test_an_entry_is_found_between_its_first_token_and_its_end():
    entries = Entries()
    entries.put([entry(1, readable=2.0)], 0)
    found = [entries.find(entry(1).key, now) is not None for now in (1.9, 2.0, 300.0, 300.1)]
    assert found == [False, True, True, False]
    assert entries.get(entry(1).key) is not None


def test_the_dead_are_swept_away():
    entries = Entries()
    for number in range(100_000):
        entries.put([entry(number, expires=number + 300.0)], float(number))
    assert len(entries) < 2_048
    assert len(entries.live(100_000.0)) == 300


def test_beyond_its_capacity_the_least_recently_used_goes():
    entries = Entries(capacity=100)
    for number in range(1_000):
        entries.put([entry(number)], 0)
        entries.put([entry(0)], 0)
    assert len(entries) <= 100
    assert entries.get(entry(0).key) is not None
    assert entries.get(entry(1).key) is None
    assert entries.get(entry(999).key) is not None


def test_one_can_be_dropped():
    entries = Entries()
    entries.put([entry(1)], 0)
    entries.drop(entry(1).key)
    entries.drop(entry(1).key)
    assert entries.live(1) == []


def test_several_at_once_in_their_order_dead_or_alive():
    entries = Entries()
    entries.put([entry(2), entry(1), entry(4, expires=1.0)], 0)
    asked = tuple(entry(number).key for number in (1, 2, 3, 4))

    def known():
        return [found.key for found in entries.known(asked)]

    assert known() == [asked[0], asked[1], asked[3]]
    entries.put([entry(3)], 5.0)
    assert known() == list(asked)
    entries.drop(asked[1])
    assert known() == [asked[0], asked[2], asked[3]]
