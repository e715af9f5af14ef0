"""Events are inserted once for a whole transaction, and all the same in their order with what is removed."""

from __future__ import annotations

import threading
import time

import pytest

from holdfast.errors import HoldfastError
from holdfast.records.token_usage import Usage
from holdfast.store import SqliteStore
from holdfast.store import operations as op
from holdfast.store.sqlite import writer as writer_module

from .samples import NOON, Hold, call, event, queued, session


def ids_of(store: SqliteStore, session: str = "s1", tenant: str = "t1") -> list[str]:
    return [found.id for found in store.events(tenant, session)]


def test_events_of_several_sessions_and_tenants_written_together(store: SqliteStore) -> None:
    held = Hold(store)
    told = {(tenant, name): [event(n, session=name) for n in range(7)] for tenant in ("t1", "t2") for name in "ba"}
    answers = [
        store.write(op.AppendEvents.of(tenant, [one]))
        for n in range(7)
        for (tenant, _), all_ in told.items()
        for one in [all_[n]]
    ]
    held.go.set()
    assert [answer.result() for answer in answers] == [1] * 28
    for (tenant, name), events in told.items():
        assert store.events(tenant, name) == events
    assert store.event_counts(NOON, NOON + 60, "t2") == {"turn.cancelled": 14}


def test_what_is_deleted_behind_them_in_the_same_transaction_is_gone(store: SqliteStore) -> None:
    held = Hold(store)
    store.write(op.PutSession(session()))
    store.write(op.AppendEvents.of("t1", [event(1), event(2)]))
    store.write(op.DeleteSession("t1", "s1"))
    last = event(3)
    store.write(op.AppendEvents.of("t1", [last]))
    held.go.set()
    store.flush()
    assert ids_of(store) == [last.id]


def test_what_is_pruned_behind_them_is_gone_too(store: SqliteStore) -> None:
    held = Hold(store)
    store.write(op.AppendEvents.of("t1", [event(1)]))
    pruning = threading.Thread(target=store.prune, args=(NOON + 10 * 3_600_000_000,))
    pruning.start()
    held.go.set()
    pruning.join()
    assert ids_of(store) == []


def test_one_that_is_stored_already_fails_alone(store: SqliteStore) -> None:
    first, second = event(1), event(2)
    store.write(op.AppendEvents.of("t1", [first])).result()
    held = Hold(store)
    again, new = (
        store.write(op.AppendEvents.of("t1", [first])),
        store.write(op.AppendEvents.of("t1", [second])),
    )
    held.go.set()
    with pytest.raises(HoldfastError, match="already stored"):
        again.result()
    assert new.result() == 1
    assert ids_of(store) == [first.id, second.id]
    assert store.event_counts(NOON, NOON + 60) == {"turn.cancelled": 2}


def test_what_is_told_of_a_call_is_stored_with_it_once(store: SqliteStore) -> None:
    held = Hold(store)
    told = [event(n) for n in range(4)]
    begun = call(status="pending", usage=None)
    ended = call(id=begun.id, status="settled", usage=Usage(input=5, output=1))
    store.write(op.PutCall(begun, op.event_rows(told[:2], encode=False)))
    store.write(op.PutCall(ended, op.event_rows(iter(told[2:]), encode=False)))
    assert queued(store) == 1
    held.go.set()
    store.flush()
    assert store.call("t1", begun.id) == ended
    assert store.events("t1", "s1") == told
    assert store.event_counts(NOON, NOON + 60) == {"turn.cancelled": 4}


def test_a_call_whose_event_is_stored_already_is_not_written(store: SqliteStore) -> None:
    told, made = event(1), call()
    store.write(op.AppendEvents.of("t1", [told])).result()
    with pytest.raises(HoldfastError, match="already stored"):
        store.write(op.PutCall(made, op.event_rows([told], encode=False))).result()
    assert store.call("t1", made.id) is None


def test_the_writer_finds_what_comes_while_it_looks_and_wakes_up_when_it_sleeps(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "LINGER", 0.002)
    monkeypatch.setattr(writer_module, "LOOKS", 3)
    writer = store.writer
    until = time.monotonic() + 30
    for number in range(20):
        while number % 2 and not writer.asleep and time.monotonic() < until:
            time.sleep(0.001)
        answer = store.write(op.AppendEvents.of("t1", [event(number)]))
        while not answer.done() and time.monotonic() < until:
            time.sleep(0.001)
        assert answer.done()
    assert len(ids_of(store)) == 20


def test_who_waits_is_not_answered_with_what_others_get(store: SqliteStore) -> None:
    """All answers of a store share what they are waited for with."""
    held = Hold(store)
    answer = store.write(op.AppendEvents.of("t1", [event(1)]))
    with pytest.raises(TimeoutError):
        answer.result(timeout=0.01)
    with pytest.raises(TimeoutError):
        answer.exception(timeout=0.01)
    got: list[int] = []
    waiting = [threading.Thread(target=lambda: got.append(answer.result(timeout=30))) for _ in range(3)]
    for thread in waiting:
        thread.start()
    held.go.set()
    for thread in waiting:
        thread.join()
    assert got == [1, 1, 1]
    assert not answer.cancel()
