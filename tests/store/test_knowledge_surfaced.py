"""What of knowledge reached prompts: pins, what was shown, what was injected, and when it goes."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from holdfast.errors import HoldfastError
from holdfast.store import Injection, KnowledgeVector, Pin, SqliteStore, VersionConflictError, open_store
from holdfast.store import operations as op
from holdfast.store.sqlite import store as sqlite_store
from holdfast.store.sqlite.knowledge import MergeWords
from holdfast.store.sqlite.retention import PruneLanes, prune_lanes
from holdfast.store.sqlite.writer import Transaction

from .knowledge_samples import entry, pin, put, show
from .samples import HOUR, NOON, call, lane, session


def test_the_first_pin_of_a_key_counts_while_it_holds(store: SqliteStore) -> None:
    first = pin("first", made_at=NOON)
    assert store.write(op.PutPin(first)).result() == first
    for moment in (NOON, NOON - HOUR, NOON + HOUR - 1):
        assert store.write(op.PutPin(pin("later", made_at=moment))).result() == first
    assert store.pin("t1", "agent", now=NOON + HOUR - 1) == first
    assert store.pin("t1", "agent", now=NOON + HOUR) is None
    assert store.pin("t2", "agent", now=NOON) is store.pin("t1", "client", now=NOON) is None
    second = pin("second", made_at=NOON + HOUR)
    assert store.write(op.PutPin(second)).result() == second
    assert store.pin("t1", "agent", now=NOON + HOUR) == second


def test_many_stores_that_pin_at_once_are_given_one_text(store: SqliteStore, path: Path) -> None:
    given: list[Pin] = []
    together = threading.Barrier(4)

    def begin(number: int) -> None:
        with open_store(path) as own:
            together.wait()
            given.append(own.write(op.PutPin(pin(f"text {number}", made_at=NOON + number))).result())

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert given == [store.pin("t1", "agent", now=NOON)] * 4


PINNING = """
import sys
from pathlib import Path
from holdfast.store import Pin, open_store, operations as op
with open_store(Path(sys.argv[1])) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    pin = Pin(tenant="t1", key="agent", text=sys.argv[2], made_at=5, until=10)
    print(store.write(op.PutPin(pin)).result().text, flush=True)
"""


def test_processes_that_pin_at_once_are_given_one_text(store: SqliteStore, path: Path) -> None:
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", PINNING, str(path), f"text {number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    for program in programs:
        assert program.stdout.readline() == "ready\n"
    for program in programs:
        program.stdin.write("\n")
        program.stdin.flush()
    given = {program.communicate()[0].strip() for program in programs}
    pinned = store.pin("t1", "agent", now=5)
    assert given == {pinned.text}


def test_what_was_shown_comes_latest_first(store: SqliteStore) -> None:
    put(store, entry())
    rows = [show(store, at=NOON + n % 3, session=f"s{n}") for n in range(6)]
    put(store, entry(tenant="t2"))
    show(store, tenant="t2")
    assert store.shown("t1", "k1") == [rows[n] for n in (5, 2, 4, 1, 3, 0)]
    assert store.shown("t1", "k1", limit=2) == [rows[5], rows[2]]
    assert store.shown("t1", "k2") == []
    assert store.shown_to("t1", "s1", "l1", until=NOON + 1) == [rows[1]]
    assert store.shown_to("t1", "s1", "l1", until=NOON) == store.shown_to("t1", "s1", "l2", until=NOON + 9) == []


def test_of_what_was_shown_the_revision_that_said_it_is_noted(store: SqliteStore) -> None:
    put(store, entry(hash="a"))
    put(store, entry(hash="b"), 1)
    put(store, entry(hash="a", confidence=0.5), 2)
    put(store, entry(hash="a", forgotten_at=NOON), 3, "forget")
    for said in ("a", "b", "", "unknown"):
        show(store, said=said)
    show(store, "k2", said="a")
    assert [each.revision for each in reversed(store.shown("t1", "k1"))] == [3, 2, 4, 4]
    assert store.shown("t1", "k2") == [], "what is not there cannot have been shown"


def test_an_injection_is_replaced_version_by_version(store: SqliteStore, path: Path) -> None:
    assert store.injection("t1", "l1") is None
    assert store.write(op.PutInjection("t1", "l1", b"a", expected=0)).result() == 1
    assert store.write(op.PutInjection("t1", "l1", b"b", expected=1)).result() == 2
    with open_store(path) as other:
        for expected in (0, 1, 3):
            with pytest.raises(VersionConflictError, match="injection of lane l1 is no longer at version"):
                other.write(op.PutInjection("t1", "l1", b"c", expected=expected)).result()
    assert store.injection("t1", "l1") == Injection(tenant="t1", lane="l1", version=2, data=b"b")
    assert store.injection("t2", "l1") is None
    assert (store.injected("t1"), store.injected("t2")) == (True, False)


def test_the_end_of_a_lane_drops_its_injection_alone(store: SqliteStore) -> None:
    put(store, entry())
    for name in ("l1", "l2"):
        store.write(op.PutLane(lane(id=name))).result()
        store.write(op.PutInjection("t1", name, b"a", expected=0)).result()
    store.write(op.PutInjection("t2", "l1", b"a", expected=0)).result()
    show(store)
    store.write(op.EndLane("t1", "l1", NOON)).result()
    assert store.injection("t1", "l1") is None
    assert store.injection("t1", "l2") is not None
    assert store.injection("t2", "l1") is not None
    assert len(store.shown("t1", "k1")) == 1, "that it was shown stays as long as its session"


def test_a_deleted_session_takes_its_injections_and_what_was_shown_in_it_but_no_knowledge(store: SqliteStore) -> None:
    put(store, entry())
    store.write(op.PutSession(session())).result()
    store.write(op.PutLane(lane())).result()
    store.write(op.PutLane(lane(id="l2", session="s2"))).result()
    for name in ("l1", "l2"):
        store.write(op.PutInjection("t1", name, b"a", expected=0)).result()
    put(store, entry(tenant="t2"))
    for whose, name in (("t1", "s1"), ("t1", "s2"), ("t2", "s1")):
        show(store, session=name, tenant=whose)
    store.write(op.PutPin(pin("text", made_at=NOON))).result()
    store.write(op.DeleteSession("t1", "s1")).result()
    assert [each.session for each in store.shown("t1", "k1")] == ["s2"]
    assert len(store.shown("t2", "k1")) == 1
    assert store.injection("t1", "l1") is None
    assert store.injection("t1", "l2") is not None
    assert store.knowledge("t1", "k1") == entry()
    assert store.pin("t1", "agent", now=NOON) is not None


def test_pruning_takes_old_showings_and_never_knowledge(store: SqliteStore) -> None:
    put(store, entry(created_at=0, updated_at=0, forgotten_at=1))
    many = [("k1", "")] * 5_000
    store.write(op.PutShown("t1", many, at=NOON - 1, session="s1", lane="l1", place="delta", why="changed")).result()
    kept = [show(store, at=NOON), show(store, at=NOON + 1)]
    put(store, entry(created_at=0, updated_at=1), 1)
    store.write(op.PutVectors("t1", "m", [KnowledgeVector(id="k1", revision=2, data=b"v")])).result()
    store.prune(NOON + 5)
    assert store.shown("t1", "k1") == kept[::-1]
    assert len(store.knowledge_history("t1", "k1")) == 2
    assert len(store.find_knowledge("t1", ["workers"])) == len(store.knowledge_vectors("t1", "m")) == 1


def test_pruning_takes_what_was_injected_into_lanes_that_have_no_call_left(store: SqliteStore) -> None:
    for name, started in (("gone", NOON - 2), ("lives", NOON - 2), ("begins", NOON + 1)):
        store.write(op.PutLane(lane(id=name, started_at=started))).result()
        store.write(op.PutInjection("t1", name, b"a", expected=0)).result()
    store.write(op.PutInjection("t1", "unknown", b"a", expected=0)).result()
    store.write(op.PutLane(lane(id="gone", tenant="t2", started_at=NOON - 2))).result()
    store.write(op.PutInjection("t2", "gone", b"a", expected=0)).result()
    store.write(op.PutCall(call(id="old", lane="gone", started_at=NOON - 1))).result()
    store.write(op.PutCall(call(id="new", lane="lives", started_at=NOON, kind="bypassed"))).result()
    store.write(op.PutCall(call(id="theirs", tenant="t2", lane="gone", started_at=NOON))).result()
    store.prune(NOON)
    assert store.injection("t1", "gone") is None
    assert all(store.injection("t1", name) for name in ("lives", "begins", "unknown"))
    assert store.injection("t2", "gone") is not None


def test_pruning_lanes_looks_their_calls_up(path: Path, store: SqliteStore) -> None:
    said: list[str] = []
    transaction = SimpleNamespace(connection=_Planning(path, said), insert_deferred=lambda: None)
    prune_lanes(transaction, PruneLanes(NOON, "[]"))  # type: ignore[arg-type]
    assert any("SEARCH calls USING COVERING INDEX calls_by_lane (tenant=? AND lane=?)" in line for line in said)


class _Planning:
    """Says how a statement would be carried out, and does not."""

    def __init__(self, path: Path, said: list[str]) -> None:
        self._path, self._said = path, said

    def execute(self, sql: str, values: dict[str, object]) -> SimpleNamespace:
        with closing(sqlite3.connect(self._path)) as look:
            self._said += [row[3] for row in look.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
        return SimpleNamespace(fetchall=list)


def test_a_new_pin_takes_the_tenants_expired_ones_with_it(store: SqliteStore, path: Path) -> None:
    for whose, key, made in (
        ("t1", "over", NOON - HOUR),
        ("t1", "holds", NOON - HOUR + 1),
        ("t2", "over", NOON - HOUR),
    ):
        store.write(op.PutPin(pin("text", made_at=made, tenant=whose, key=key))).result()
    store.write(op.PutPin(pin("text", made_at=NOON))).result()
    with closing(sqlite3.connect(path)) as look:
        left = look.execute("SELECT tenant, key FROM pins ORDER BY tenant, key").fetchall()
    assert left == [("t1", "agent"), ("t1", "holds"), ("t2", "over")]


def test_many_that_are_erased_together_are_taken_out_of_the_index_once(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    merged: list[str] = []
    merge = sqlite_store.EXECUTORS[MergeWords]

    def counted(transaction: Transaction, operation: MergeWords) -> None:
        merged.append("once")
        merge(transaction, operation)

    monkeypatch.setitem(sqlite_store.EXECUTORS, MergeWords, counted)
    for name in ("k1", "k2", "k3"):
        put(store, entry(name, content="Zymurgical."))
    with store.batch() as batch:
        erased = [batch.write(op.EraseKnowledge("t1", name)) for name in ("k1", "k2", "k3")]
    assert all(each.result() for each in erased)
    store.close()
    assert merged == ["once"]
    assert b"zymurg" not in path.read_bytes().lower()


def test_a_version_that_is_another_by_now_is_no_failure_of_the_store(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    put(store, entry())
    with pytest.raises(VersionConflictError):
        put(store, entry())
    with pytest.raises(HoldfastError):
        put(store, entry("k2", confidence=7.0))
    store.flush()
    assert [record.message for record in caplog.records if "k1" in record.message] == []
    assert any("store write failed" in record.message and "k2" in record.message for record in caplog.records)
