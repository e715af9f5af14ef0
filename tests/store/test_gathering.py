"""Writes gather where nobody waits, the latest of a value stands for those before it, others' commits are noticed."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.records.events import Envelope
from holdfast.records.token_usage import Usage
from holdfast.store import Call, CallDraft, OnConflict, SqliteStore, VersionConflictError, Writes, open_store
from holdfast.store import operations as op
from holdfast.store.sqlite import writer as writer_module
from holdfast.store.sqlite.transaction import ChangeCounter

from .samples import NOON, Hold, call, event, lane, queued, session, usage


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "LINGER", 60.0)


@pytest.mark.usefixtures("slow")
def test_who_waits_is_served_at_once_and_everybody_before_with_him(store: SqliteStore) -> None:
    ignored = store.write(op.PutSession(session()))
    assert store.write(op.PutLane(lane())).result(timeout=30) is None
    assert ignored.done()


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("how", ["exception", "callback", "batch", "close", "many"])
def test_every_way_to_wait_counts(path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store, done = open_store(path), threading.Event()
    answer = store.write(op.PutSession(session()))
    if how == "exception":
        assert answer.exception(timeout=30) is None
    elif how == "callback":
        answer.add_done_callback(lambda _: done.set())
        assert done.wait(30)
    elif how == "batch":
        with store.batch() as batch:
            inside = batch.write(op.PutLane(lane()))
        assert inside.result(timeout=30) is None
    elif how == "many":
        monkeypatch.setattr(writer_module, "GATHERED", 3)
        store.write(op.AppendEvents.of("t1", [event(1), event(2), event(3)]))
        while not answer.done():
            done.wait(0.001)
    store.close()
    assert answer.done()
    with open_store(path) as again:
        assert again.session("t1", "s1") is not None


def test_while_many_come_they_gather_longer(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "LONGER", 100_000)
    held = Hold(store)
    many = [store.write(op.PutSession(session(id=f"s{n}"))) for n in range(writer_module.MANY + 1)]
    held.go.set()
    for answer in many:
        answer.result(timeout=30)
    later = store.write(op.PutSession(session(id="later")))
    assert not threading.Event().wait(writer_module.LINGER * 5)
    assert not later.done()
    store.flush()
    assert later.done()
    last = store.write(op.PutSession(session(id="last")))  # they are few again
    while not last.done():
        threading.Event().wait(0.001)


@pytest.mark.usefixtures("slow")
def test_who_wants_to_read_what_was_written_flushes_first(store: SqliteStore) -> None:
    store.write(op.PutSession(session()))
    assert store.session("t1", "s1") is None
    store.flush()
    assert store.session("t1", "s1") is not None
    store.close()
    store.flush()


def test_without_anybody_waiting_it_is_written_soon(store: SqliteStore) -> None:
    answer = store.write(op.PutSession(session()))
    while not answer.done():
        threading.Event().wait(0.001)
    assert store.session("t1", "s1") is not None


def test_of_a_call_that_is_still_queued_only_the_latest_is_written(store: SqliteStore) -> None:
    held = Hold(store)
    begun = call(status="pending", usage=None)
    ended = call(id=begun.id, status="settled", usage=Usage(input=5, output=1))
    answers = [store.write(op.PutCall(begun)), store.write(op.PutCall(ended))]
    assert queued(store) == 1
    held.go.set()
    assert [answer.result() for answer in answers] == [None, None]
    assert store.call("t1", begun.id) == ended
    assert store.cache_effectiveness(NOON, NOON + 60).total.call_count == 1


def test_a_call_is_followed_from_place_to_place_and_counted_once(store: SqliteStore) -> None:
    begun = call(status="pending", usage=None)
    store.write(op.PutCall(begun)).result()
    for tokens in (5, 7):
        ended = call(id=begun.id, status="settled", usage=Usage(input=tokens))
        store.write(op.PutCall(ended)).result()
        assert store.call("t1", begun.id) == ended
    moved = call(id=begun.id, status="settled", model="m2", lane="l2", usage=Usage(input=9))
    store.write(op.PutCall(moved)).result()
    assert store.call("t1", begun.id) == moved
    total = store.cache_effectiveness(NOON, NOON + 60)
    assert (total.total.call_count, total.total.uncached_tokens) == (1, 9)
    assert [model.model for model in total.models] == ["m2"]


def test_a_pending_call_that_was_deleted_is_stored_again_as_a_whole(store: SqliteStore) -> None:
    begun = call(status="pending", usage=None)
    store.write(op.PutCall(begun)).result()
    store.write(op.DeleteSession("t1", begun.session)).result()
    ended = call(id=begun.id, status="settled", usage=Usage(input=5))
    store.write(op.PutCall(ended)).result()
    assert store.call("t1", begun.id) == ended


def test_what_is_deleted_in_between_is_not_written_before_it(store: SqliteStore) -> None:
    held = Hold(store)
    begun = call(status="pending", usage=None)
    store.write(op.PutCall(begun))
    store.write(op.DeleteSession("t1", begun.session))
    last = store.write(op.PutCall(call(id=begun.id, status="settled", usage=Usage(input=5))))
    held.go.set()
    last.result()
    found = store.call("t1", begun.id)
    assert found.status == "settled"


def test_versions_that_are_still_queued_become_one_write(store: SqliteStore) -> None:
    held = Hold(store)
    answers = [
        store.write(op.PutLedger("t1", "l1", b"%d" % number, expected=number, on_conflict="keep"))
        for number in range(3)
    ]
    assert queued(store) == 1
    held.go.set()
    assert [answer.result() for answer in answers] == [1, 2, 3]
    row = store.ledger("t1", "l1")
    assert (row.version, row.data) == (3, b"2")
    assert store.write(op.PutLedger("t1", "l1", b"x", expected=3)).result() == 4
    assert store.ledger_version("t1", "l1") == 4
    assert store.ledger_version("t1", "l2") == 0


def test_one_write_for_many_keeps_what_another_process_wrote(store: SqliteStore) -> None:
    """Nobody takes the version for their own."""
    store.write(op.PutPool("t1", "m", b"theirs", expected=0)).result()
    held = Hold(store)
    futures = [
        store.write(op.PutPool("t1", "m", b"%d" % number, expected=number, on_conflict="keep")) for number in range(2)
    ]
    held.go.set()
    versions = [future.result() for future in futures]
    assert [version != number + 1 for number, version in enumerate(versions)] == [True, True]
    row = store.pool("t1", "m")
    assert (row.data, row.version) == (b"theirs", versions[0])


@pytest.mark.parametrize("on_conflict", ["refuse", "replace"])
def test_writes_that_cannot_be_one_stay_two(store: SqliteStore, on_conflict: OnConflict) -> None:
    held = Hold(store)
    first = store.write(op.PutLedger("t1", "l1", b"a", expected=0, on_conflict="keep"))
    second = store.write(op.PutLedger("t1", "l1", b"b", expected=1, on_conflict=on_conflict))
    third = store.write(op.PutLedger("t1", "l1", b"c", expected=5))
    assert queued(store) == 3
    held.go.set()
    assert (first.result(), second.result()) == (1, 2)
    with pytest.raises(VersionConflictError):
        third.result()


def test_one_that_fails_fails_for_all_it_stands_for(store: SqliteStore) -> None:
    held = Hold(store)
    begun = call(status="pending", usage=None)
    answers = [store.write(op.PutCall(begun)), store.write(op.PutCall(call(id=begun.id, started_at=2**70)))]
    good = store.write(op.PutSession(session()))
    held.go.set()
    for answer in answers:
        with pytest.raises(HoldfastError):
            answer.result()
    assert good.result() is None
    assert store.writer.failed == 2
    assert store.call("t1", begun.id) is None


def test_a_store_in_trouble_says_so_until_it_is_written_again(store: SqliteStore) -> None:
    assert store.trouble() is None
    away = store.path.with_name("away.db")
    store.path.rename(away)
    assert store.write(op.PutSession(session())).exception() is not None
    assert "moved" in str(store.trouble())
    away.rename(store.path)
    store.write(op.PutSession(session())).result()
    assert store.trouble() is None
    store.close()
    assert "closed" in str(store.trouble())


OTHER = """
import sys
from holdfast.store import Session, open_store, operations as op
with open_store(sys.argv[1]) as store:
    store.write(op.PutSession(Session(tenant="t", id="other", started_at=0))).result()
"""


def test_commits_of_another_process_are_noticed_and_our_own_are_not(store: SqliteStore) -> None:
    assert store.others() is None, "nothing is certain before we have written"
    store.write(op.PutSession(session())).result()
    known = store.others()
    assert known is not None
    store.write(op.PutLane(lane())).result()
    assert store.others() == known
    subprocess.run([sys.executable, "-c", OTHER, str(store.path)], check=True, timeout=60)
    assert store.others() is None
    store.write(op.PutLane(lane())).result()
    later = store.others()
    assert later is not None
    assert later != known


def test_a_process_that_does_not_keep_the_number_is_noticed_with_the_next_write(store: SqliteStore) -> None:
    store.write(op.PutSession(session())).result()
    known = store.others()
    store.path.with_name(store.path.name + "-turn").unlink()
    subprocess.run([sys.executable, "-c", OTHER, str(store.path)], check=True, timeout=60)
    store.write(op.PutLane(lane())).result()
    assert store.others() not in (None, known)


def test_without_a_place_for_the_number_nothing_is_certain(tmp_path: Path) -> None:
    (tmp_path / "h.db-turn").mkdir()
    counter = ChangeCounter(tmp_path / "h.db")
    counter.advance(foreign=False)
    assert counter.others() is None
    counter.close()


def pending(number: int) -> Call:
    return call(id=f"c{number:03}", status="pending", usage=None, plan=b"p" * number)


def post(store: Writes, made: Call, told: Sequence[Envelope] = (), *, first: bool = False) -> None:
    """A call as the engine hands it over."""
    store.post(op.PutCall(CallDraft(replace(made, plan=None), made.plan), op.event_rows(told, encode=False), first))


def stored(made: Call) -> Call:
    return replace(made, plan=None if made.plan is None else msgspec.json.encode(made.plan))


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The status of every draft that is encoded."""
    statuses: list[str] = []
    encode = CallDraft.encoded
    monkeypatch.setattr(CallDraft, "encoded", lambda draft: statuses.append(draft.call.status) or encode(draft))
    return statuses


def test_of_calls_that_are_still_queued_only_the_last_is_encoded_and_all_events_are(
    store: SqliteStore, encoded: list[str]
) -> None:
    held, begun = Hold(store), pending(1)
    ended = replace(begun, status="settled", usage=usage())
    told = [event(number) for number in range(3)]
    post(store, begun, told[:2], first=True)
    post(store, ended, told[2:])
    held.go.set()
    store.flush()
    assert encoded == ["settled"]
    assert store.call("t1", begun.id) == stored(ended)
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
            post(store, each, first=first)
        held.go.set()
        store.flush()
        assert [store.call("t1", each.id) for each in calls] == [stored(each) for each in calls]
    assert store.calls("t1") == [stored(each) for each in ended]
    assert store.cache_effectiveness(NOON, NOON + 60).total.uncached_tokens == sum(range(count))


def test_one_that_is_wrongly_said_to_be_new_replaces_what_is_there(store: SqliteStore) -> None:
    known = call(id="c1")
    store.write(op.PutCall(known)).result()
    held = Hold(store)
    again, beside = replace(known, usage=usage(input=500)), call(id="c2", usage=usage(input=3))
    for each in (beside, again):
        post(store, each, [event()], first=True)
    held.go.set()
    store.flush()
    assert store.calls("t1") == [again, beside]
    assert store.cache_effectiveness(NOON, NOON + 60).total.uncached_tokens == 503
    assert store.event_counts(NOON, NOON + 60) == {"turn.cancelled": 2}
    assert store.writer.failed == 0


def test_one_that_is_new_twice_in_a_transaction_is_stored_once(store: SqliteStore) -> None:
    begun = pending(1)
    ended = replace(begun, status="settled", usage=usage())
    held = Hold(store)
    with store.batch() as batch:
        post(batch, begun, [event()], first=True)
        post(batch, ended, [event()], first=True)
    store.write(op.PutCall(call(id="c2")))
    held.go.set()
    store.flush()
    assert store.call("t1", begun.id) == stored(ended)
    assert store.cache_effectiveness(NOON, NOON + 60).total.call_count == 2
    assert store.writer.failed == 0


@pytest.mark.parametrize(
    "bad", [call(id="bad", plan=object()), call(id="bad", usage=Usage(input=-5))], ids=["not encoded", "wrong"]
)
def test_one_that_cannot_be_written_fails_alone_with_its_events(store: SqliteStore, bad: Call) -> None:
    good = [call(id=f"c{number}") for number in range(3)]
    held = Hold(store)
    for each in (*good[:2], bad, good[2]):
        post(store, each, [event()], first=True)
    held.go.set()
    store.flush()
    assert store.calls("t1") == good
    assert store.call("t1", "bad") is None
    assert store.event_counts(NOON, NOON + 60) == {"turn.cancelled": 3}
    assert store.writer.failed == 1


def test_what_need_not_be_written_any_more_does_not_pile_up(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "UNCOMBINED", 10)
    held, begun = Hold(store), pending(1)
    post(store, begun, [event()], first=True)
    answers = [
        store.write(op.PutLedger("t1", "l1", b"%d" % number, expected=number, on_conflict="keep"))
        for number in range(100)
    ]
    ended = replace(begun, status="settled", usage=usage())
    post(store, ended, [event()])
    assert len(store.writer.queue) <= 12
    assert store.writer.queued_rows == len(store.writer.queue)
    assert queued(store) == 2
    held.go.set()
    assert [answer.result() for answer in answers] == [*range(1, 101)]
    row = store.ledger("t1", "l1")
    assert (row.version, row.data) == (100, b"99")
    assert store.call("t1", begun.id) == stored(ended)
    assert store.event_counts(NOON, NOON + 60) == {"turn.cancelled": 2}
