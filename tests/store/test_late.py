"""Calls that are made when they are written: once, with everything told of them, and each failing alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from holdfast.records.events import Envelope
from holdfast.records.token_usage import Usage
from holdfast.store import Call, LateCall, SqliteStore
from holdfast.store import writer as writer_module
from holdfast.store.event_insert import event_rows

from .samples import NOON, call, event, usage
from .test_gathering import Latest
from .test_writer import Hold, queued


class Counted:
    """Gives a call, and says how often."""

    def __init__(self, made: Call) -> None:
        self.made, self.count = made, 0

    def __call__(self) -> Call:
        self.count += 1
        return self.made


def late(made: Callable[[], Call], given: Call, told: list[Envelope] | None = None, *, first: bool = False) -> LateCall:
    return LateCall(given.tenant, given.id, made, None if told is None else lambda: event_rows(told), first)


def pending(number: int) -> Call:
    return call(id=f"c{number:03}", status="pending", usage=None, plan=b"p" * number)


def test_of_calls_that_are_still_queued_only_the_last_is_made_and_all_events_are(store: SqliteStore) -> None:
    held, begun = Hold(store), pending(1)
    first, last = Counted(begun), Counted(replace(begun, status="settled", usage=usage()))
    told = [event(number) for number in range(3)]
    store.leave_call(late(first, begun, told[:2], first=True))
    store.leave_call(late(last, begun, told[2:]))
    held.go.set()
    store.flush()
    assert (first.count, last.count) == (0, 1)
    assert store.call("t1", begun.id) == last.made
    assert store.events("t1", "s1") == told
    assert store.event_counts(NOON, NOON + 60) == {"turn.cancelled": 3}
    assert store.cache_effectiveness(NOON, NOON + 60).total.call_count == 1


@pytest.mark.parametrize("count", [1, 2, 70, 131])
def test_many_new_ones_at_once_are_found_again_when_they_end(store: SqliteStore, count: int) -> None:
    begun = [pending(number) for number in range(count)]
    ended = [replace(each, status="settled", usage=usage(input=number)) for number, each in enumerate(begun)]
    for calls, first in ((begun, True), (ended, False)):
        held = Hold(store)
        for each in calls:
            store.leave_call(late(Counted(each), each, first=first))
        held.go.set()
        store.flush()
        assert [store.call("t1", each.id) for each in calls] == calls
    assert store.calls("t1") == ended
    assert store.cache_effectiveness(NOON, NOON + 60).total.uncached_tokens == sum(range(count))


def test_one_that_is_wrongly_said_to_be_new_replaces_what_is_there(store: SqliteStore) -> None:
    known = call(id="c1")
    store.put_call(known).result()
    held = Hold(store)
    again, beside = replace(known, usage=usage(input=500)), call(id="c2", usage=usage(input=3))
    for each in (beside, again):
        store.leave_call(late(Counted(each), each, [event()], first=True))
    held.go.set()
    store.flush()
    assert store.calls("t1") == [again, beside]
    assert store.cache_effectiveness(NOON, NOON + 60).total.uncached_tokens == 503
    assert store.event_counts(NOON, NOON + 60) == {"turn.cancelled": 2}
    assert store.failed_writes == 0


def test_one_that_is_new_twice_in_a_transaction_is_stored_once(store: SqliteStore) -> None:
    begun = pending(1)
    ended = replace(begun, status="settled", usage=usage())
    held = Hold(store)
    with store.batch() as batch:
        batch.leave_call(late(Counted(begun), begun, [event()], first=True))
        batch.leave_call(late(Counted(ended), begun, [event()], first=True))
    store.put_call(call(id="c2"))
    held.go.set()
    store.flush()
    assert store.call("t1", begun.id) == ended
    assert store.cache_effectiveness(NOON, NOON + 60).total.call_count == 2
    assert store.failed_writes == 0


def fails() -> Call:
    raise ValueError("no such call")


def wrong() -> Call:
    return call(id="bad", usage=Usage(input=-5))


@pytest.mark.parametrize("make", [fails, wrong])
def test_one_that_cannot_be_made_fails_alone_with_its_events(store: SqliteStore, make: Callable[[], Call]) -> None:
    good = [call(id=f"c{number}") for number in range(3)]
    held = Hold(store)
    for each in good[:2]:
        store.leave_call(late(Counted(each), each, [event()], first=True))
    store.leave_call(late(make, call(id="bad"), [event()], first=True))
    store.leave_call(late(Counted(good[2]), good[2], [event()], first=True))
    held.go.set()
    store.flush()
    assert store.calls("t1") == good
    assert store.call("t1", "bad") is None
    assert store.event_counts(NOON, NOON + 60) == {"turn.cancelled": 3}
    assert store.failed_writes == 1


def test_what_need_not_be_written_any_more_does_not_pile_up(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "_UNFOLDED", 10)
    held, begun = Hold(store), pending(1)
    store.leave_call(late(Counted(begun), begun, [event()], first=True))
    answers = [
        store.put_ledger("t1", "l1", b"%d" % number, expected=number, merge=Latest(b"%d" % number))
        for number in range(100)
    ]
    ended = replace(begun, status="settled", usage=usage())
    store.leave_call(late(Counted(ended), begun, [event()]))
    assert len(store._writer._queue) <= 12
    assert store._writer._queued_rows == len(store._writer._queue)
    assert queued(store) == 2
    held.go.set()
    assert [answer.result() for answer in answers] == [*range(1, 101)]
    row = store.ledger("t1", "l1")
    assert row is not None
    assert (row.version, row.data) == (100, b"99")
    assert store.call("t1", begun.id) == ended
    assert store.event_counts(NOON, NOON + 60) == {"turn.cancelled": 2}
