"""What is put in comes out equal, for its own tenant only."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from holdfast.errors import HoldfastError
from holdfast.records.token_usage import Usage
from holdfast.store import OnConflict, SqliteStore, Store, VersionConflictError, open_store
from holdfast.store import operations as op

from .samples import HOUR, NOON, call, event, found, ids, lane, session


def test_the_sqlite_store_satisfies_the_interface(store: SqliteStore) -> None:
    interface = {name for name in vars(Store) if not name.startswith("_")} - {"Protocol"}
    assert interface
    assert all(callable(getattr(store, name)) for name in interface - {"path"})


def test_sessions(store: SqliteStore) -> None:
    first = session(client="claude-code", agent="main", data=b"\0\xff")
    second = session(id="s2", started_at=NOON + 1, parent="s1")
    foreign = session(tenant="t2", started_at=NOON + 2)
    for one in (first, second, foreign):
        store.write(op.PutSession(one))
    ended = msgspec.structs.replace(first, ended_at=NOON + 9)
    store.write(op.PutSession(ended)).result()
    assert store.session("t1", "s1") == ended
    assert store.session("t1", "nobody") is None
    assert store.sessions("t1") == [second, ended]
    assert store.sessions(limit=1) == [foreign]


def test_lanes(store: SqliteStore) -> None:
    store.write(op.PutLane(lane()))
    child = lane(id="l2", parent="l1", agent="worker", started_at=NOON + 1)
    store.write(op.PutLane(child)).result()
    assert store.lane("t1", "l2") == child
    assert store.lane("t2", "l2") is None
    assert store.lanes("t1", "s1") == [lane(), child]
    assert store.lanes("t2", "s1") == []


@pytest.mark.parametrize(("kind", "question"), [(op.PutLedger, "ledger"), (op.PutPool, "pool")])
def test_ledgers_and_pools_are_replaced_only_at_the_expected_version(
    store: SqliteStore, kind: type[op.PutLedger | op.PutPool], question: str
) -> None:
    get = getattr(store, question)

    def put(*values: Any, expected: int) -> Future[int]:
        return store.write(kind(*values, expected=expected))

    assert get("t1", "k") is None
    assert put("t1", "k", b"one", expected=0).result() == 1
    assert put("t1", "k", b"two", expected=1).result() == 2
    for stale in (0, 1, 3):
        with pytest.raises(VersionConflictError, match=f"no longer at version {stale}"):
            put("t1", "k", b"lost", expected=stale).result()
    assert (get("t1", "k").version, get("t1", "k").data) == (2, b"two")
    assert put("t2", "k", b"other tenant", expected=0).result() == 1
    assert get("t1", "k").data == b"two"


@pytest.mark.parametrize("on_conflict", ["keep", "replace"])
def test_where_another_version_is_stored_the_writer_says_what_happens(
    store: SqliteStore, on_conflict: OnConflict
) -> None:
    store.write(op.PutPool("t1", "k", b"theirs", expected=0)).result()
    assert store.write(op.PutPool("t1", "k", b"mine", expected=5, on_conflict=on_conflict)).result() != 6
    row = store.pool("t1", "k")
    assert row.data == (b"theirs" if on_conflict == "keep" else b"mine")
    with pytest.raises(VersionConflictError):  # there is nothing
        store.write(op.PutPool("t1", "other", b"x", expected=3, on_conflict=on_conflict)).result()
    assert store.pool("t1", "other") is None


def test_of_two_racing_writers_one_wins(store: SqliteStore) -> None:
    answers = [store.write(op.PutLedger("t1", "l1", b"%d" % n, expected=0)) for n in range(20)]
    won = [n for n, answer in enumerate(answers) if answer.exception() is None]
    assert won == [0]
    assert store.writer.failed == 19


def test_an_edit_is_recorded_once_with_its_bytes(store: SqliteStore) -> None:
    made = store.write(op.PutEdit("t1", "l1", "block-b", b"short", at=NOON, data=b"why")).result()
    store.write(op.PutEdit("t1", "l1", "block-a", b"", at=NOON)).result()
    again = store.write(op.PutEdit("t1", "l1", "block-b", b"short", at=NOON + 5)).result()
    assert again == made
    with pytest.raises(HoldfastError, match="already has a recorded edit"):
        store.write(op.PutEdit("t1", "l1", "block-b", b"other", at=NOON)).result()
    assert [edit.block for edit in store.edits("t1", "l1")] == ["block-b", "block-a"]
    assert store.edits("t1", "l1")[0] == made
    assert [store.read_blob("t1", edit.blob) for edit in store.edits("t1", "l1")] == [b"short", b""]
    assert store.edits("t2", "l1") == []


def test_calls_live_from_pending_to_settled(store: SqliteStore) -> None:
    pending = call(status="pending", usage=None, plan=b"\1plan", prediction=b"p", client="codex", reset="compaction")
    store.write(op.PutCall(pending)).result()
    assert store.call("t1", pending.id) == pending
    settled = msgspec.structs.replace(
        pending,
        status="settled",
        first_token_at=NOON + 5,
        ended_at=NOON + 9,
        verdict=b"v",
        chain=b"digests",
        usage=Usage(input=1, read=2, writes=(("1h", 3), ("5m", 4)), output=5, cost=Decimal("0.10"), price_version="x"),
    )
    store.write(op.PutCall(settled)).result()
    assert store.call("t1", pending.id) == settled
    assert str(store.call("t1", pending.id).usage.cost) == "0.10", "money keeps its digits"
    assert store.call("t2", pending.id) is None
    assert store.call(None, pending.id) == settled


def test_calls_are_found_by_what_is_asked(store: SqliteStore) -> None:
    a = call(started_at=NOON + 2, lane="l2", session="s2")
    b = call(started_at=NOON, status="failed", usage=None, error="overloaded", kind="side")
    c = call(started_at=NOON + 1, tenant="t2", model="openai:gpt")
    for one in (a, b, c):
        store.write(op.PutCall(one)).result()
    assert store.calls() == [b, c, a]
    assert store.calls("t1") == [b, a]
    assert store.calls("t1", session="s2") == store.calls("t1", lane="l2") == [a]
    assert store.calls_by_status("failed") == [b]
    assert store.calls(model="openai:gpt") == [c]
    assert store.calls(start=NOON + 1, end=NOON + 2) == [c]
    assert store.calls(limit=2) == [b, c]


def test_breaks(store: SqliteStore) -> None:
    a = found(cause="tools_changed", tokens=900, dollars=Decimal("1.50"), path="tools[3]", offset=17, owner="tools")
    b = found(reason="priced_edit", at=NOON + 1, call="c2", cure="none", data=b"diff")
    c = found(tenant="t2", at=NOON + 2)
    for one in (b, a, c):
        store.write(op.PutBreak(one)).result()
    assert store.breaks() == [a, b, c]
    assert store.breaks(newest=True, limit=2) == [c, b]
    assert store.breaks("t1", call="c2") == [b]
    assert store.breaks("t1", session="s1", start=NOON, end=NOON + 1) == [a]
    assert store.breaks("t2", limit=5) == [c]


def test_events_of_a_session_come_back_in_order(store: SqliteStore) -> None:
    events = [event(n, private=n % 2 == 0) for n in range(50)]
    other = [event(n, session="s2") for n in range(5)]
    foreign = [event(99)]
    assert store.write(op.AppendEvents.of("t1", events[:20] + other)).result() == 25
    store.write(op.AppendEvents.of("t2", foreign))
    store.write(op.AppendEvents.of("t1", iter(events[20:]))).result()
    assert store.write(op.AppendEvents("t1", ())).result() == 0
    assert store.events("t1", "s1") == events
    assert store.events("t1", "s1", after=events[9].id, limit=3) == events[10:13]
    assert store.events("t1", "s2") == other
    assert store.events("t2", "s1") == foreign
    assert store.events("t3", "s1") == []


def test_thousands_of_events_in_one_append(store: SqliteStore) -> None:
    events = [event(n) for n in range(4321)]
    assert store.write(op.AppendEvents.of("t1", events)).result() == 4321
    assert store.events("t1", "s1") == events


def test_an_event_is_stored_once_and_a_refused_append_stores_nothing(store: SqliteStore) -> None:
    first, second = event(1), event(2)
    store.write(op.AppendEvents.of("t1", [first])).result()
    with pytest.raises(HoldfastError, match="append each event once"):
        store.write(op.AppendEvents.of("t1", [second, first])).result()
    store.write(op.AppendEvents.of("t1", [second])).result()
    assert store.events("t1", "s1") == [first, second]
    assert store.event_counts(NOON, NOON + HOUR) == {"turn.cancelled": 2}


def test_a_session_deleted_is_gone_for_its_tenant_and_rollups_stay(store: SqliteStore) -> None:
    for tenant in ("t1", "t2"):
        store.write(op.PutSession(session(tenant=tenant)))
        store.write(op.PutLane(lane(tenant=tenant)))
        store.write(op.PutLedger(tenant, "l1", b"x", expected=0))
        store.write(op.PutEdit(tenant, "l1", "block", b"bytes", at=NOON))
        store.write(op.PutCall(call(tenant=tenant)))
        store.write(op.PutBreak(found(tenant=tenant)))
        store.write(op.AppendEvents.of(tenant, [event()])).result()
    store.write(op.DeleteSession("t1", "s1")).result()
    assert store.session("t1", "s1") is None
    assert store.ledger("t1", "l1") is None
    assert [] == store.lanes("t1", "s1") == store.edits("t1", "l1") == store.calls("t1")
    assert [] == store.breaks("t1") == store.events("t1", "s1")
    assert store.cache_effectiveness(NOON, NOON + HOUR, "t1").total.call_count == 1
    assert store.session("t2", "s1")
    assert store.ledger("t2", "l1")
    assert store.lanes("t2", "s1")
    assert store.edits("t2", "l1")
    assert store.calls("t2")
    assert store.breaks("t2")
    assert len(store.events("t2", "s1")) == 1
    store.write(op.AppendEvents.of("t1", [event(5)])).result()
    assert len(store.events("t1", "s1")) == 1


def test_another_process_deleting_a_session_does_not_lead_events_astray(store: SqliteStore) -> None:
    store.write(op.AppendEvents.of("t1", [event(1)])).result()
    with open_store(store.path) as other:
        other.write(op.DeleteSession("t1", "s1")).result()
        other.write(op.AppendEvents.of("t2", [event(7)])).result()
    store.write(op.AppendEvents.of("t1", [event(2)])).result()
    assert [one.payload.open_tool_calls for one in store.events("t1", "s1")] == [2]
    assert [one.payload.open_tool_calls for one in store.events("t2", "s1")] == [7]


def test_a_batch_is_one_write(store: SqliteStore) -> None:
    with store.batch() as batch:
        version = batch.write(op.PutLedger("t1", "l1", b"ledger", expected=0))
        edit = batch.write(op.PutEdit("t1", "l1", "block", b"bytes", at=NOON))
        count = batch.write(op.AppendEvents.of("t1", [event(1)]))
        assert not edit.done()
    assert (version.result(), count.result()) == (1, 1)
    assert store.edits("t1", "l1") == [edit.result()]


def test_a_batch_with_a_conflict_writes_nothing(store: SqliteStore) -> None:
    store.write(op.PutLedger("t1", "l1", b"first", expected=0)).result()
    with store.batch() as batch:
        edit = batch.write(op.PutEdit("t1", "l1", "block", b"bytes", at=NOON))
        stale = batch.write(op.PutLedger("t1", "l1", b"second", expected=0))
    for answer in (edit, stale):
        with pytest.raises(VersionConflictError):
            answer.result()
    assert store.edits("t1", "l1") == []
    assert store.ledger("t1", "l1").data == b"first"


def test_a_batch_that_is_left_by_an_error_writes_nothing(store: SqliteStore) -> None:
    def fail() -> None:
        with store.batch() as batch:
            answers.append(batch.write(op.PutSession(session())))
            raise ZeroDivisionError

    answers: list = []
    with pytest.raises(ZeroDivisionError):
        fail()
    with pytest.raises(HoldfastError, match="none was made"):
        answers[0].result()
    store.write(op.PutLane(lane())).result()
    assert store.session("t1", "s1") is None


def test_ids_of_calls_belong_to_their_tenant(store: SqliteStore) -> None:
    same = ids.new()
    store.write(op.PutCall(call(id=same, model="a")))
    store.write(op.PutCall(call(id=same, tenant="t2", model="b"))).result()
    assert store.call("t1", same).model == "a"
    assert store.call("t2", same).model == "b"


def test_a_batch_that_has_ended_takes_no_more_writes(store: SqliteStore) -> None:
    with store.batch() as batch:
        batch.write(op.PutSession(session()))
    with pytest.raises(HoldfastError, match="has ended; begin another one"):
        batch.write(op.PutSession(session(id="late")))


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: store.session("\ud83d", "s1"),
        lambda store: store.cache_effectiveness(0, 2**70),
        lambda store: store.call_hours(-(2**70), 0),
        lambda store: store.calls(limit=2**70),
    ],
)
def test_a_question_no_row_can_answer_is_told_and_reading_goes_on(
    store: SqliteStore, ask: Callable[[SqliteStore], object]
) -> None:
    with pytest.raises(HoldfastError, match="cannot hold what was asked for"):
        ask(store)
    assert store.sessions() == []
