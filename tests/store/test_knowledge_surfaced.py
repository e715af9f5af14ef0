"""What of knowledge reached prompts: pins, what was shown, what was injected, and when it goes."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from holdfast.store import Injection, KnowledgeVector, Pin, SqliteStore, VersionConflictError, open_store

from .samples import HOUR, NOON, lane, session
from .test_knowledge import entry, pin, put, shown


def test_the_first_pin_of_a_key_counts_while_it_holds(store: SqliteStore) -> None:
    first = pin("first", made_at=NOON)
    assert store.put_pin(first).result() == first
    for moment in (NOON, NOON - HOUR, NOON + HOUR - 1):
        assert store.put_pin(pin("later", made_at=moment)).result() == first
    assert store.pin("t1", "agent", now=NOON + HOUR - 1) == first
    assert store.pin("t1", "agent", now=NOON + HOUR) is None
    assert store.pin("t2", "agent", now=NOON) is store.pin("t1", "client", now=NOON) is None
    second = pin("second", made_at=NOON + HOUR)
    assert store.put_pin(second).result() == second
    assert store.pin("t1", "agent", now=NOON + HOUR) == second


def test_many_stores_that_pin_at_once_are_given_one_text(store: SqliteStore, path: Path) -> None:
    given: list[Pin] = []
    together = threading.Barrier(4)

    def begin(number: int) -> None:
        with open_store(path) as own:
            together.wait()
            given.append(own.put_pin(pin(f"text {number}", made_at=NOON + number)).result())

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert given == [store.pin("t1", "agent", now=NOON)] * 4


PINNING = """
import sys
from pathlib import Path
from holdfast.store import Pin, open_store
with open_store(Path(sys.argv[1])) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    pin = Pin(tenant="t1", key="agent", text=sys.argv[2], made_at=5, until=10)
    print(store.put_pin(pin).result().text, flush=True)
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
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
    for program in programs:
        assert program.stdin is not None
        program.stdin.write("\n")
        program.stdin.flush()
    given = {program.communicate()[0].strip() for program in programs}
    pinned = store.pin("t1", "agent", now=5)
    assert pinned is not None
    assert given == {pinned.text}


def test_what_was_shown_comes_latest_first(store: SqliteStore) -> None:
    rows = [shown(at=NOON + n % 3, query=f"q{n}", lane="l1") for n in range(6)]
    assert store.put_shown("t1", iter(rows)).result() == 6
    assert store.put_shown("t2", [shown()]).result() == 1
    assert store.put_shown("t1", []).result() == 0
    assert store.shown("t1", "k1") == [rows[n] for n in (5, 2, 4, 1, 3, 0)]
    assert store.shown("t1", "k1", limit=2) == [rows[5], rows[2]]
    assert store.shown("t1", "k2") == []


def test_an_injection_is_replaced_version_by_version(store: SqliteStore, path: Path) -> None:
    assert store.injection("t1", "l1") is None
    assert store.put_injection("t1", "l1", b"a", expected=0).result() == 1
    assert store.put_injection("t1", "l1", b"b", expected=1).result() == 2
    with open_store(path) as other:
        for expected in (0, 1, 3):
            with pytest.raises(VersionConflictError, match="injection of lane l1 is no longer at version"):
                other.put_injection("t1", "l1", b"c", expected=expected).result()
    assert store.injection("t1", "l1") == Injection(tenant="t1", lane="l1", version=2, data=b"b")
    assert store.injection("t2", "l1") is None


def test_the_end_of_a_lane_drops_its_injection_alone(store: SqliteStore) -> None:
    put(store, entry())
    for name in ("l1", "l2"):
        store.put_lane(lane(id=name)).result()
        store.put_injection("t1", name, b"a", expected=0).result()
    store.put_injection("t2", "l1", b"a", expected=0).result()
    store.put_shown("t1", [shown(lane="l1")]).result()
    store.end_lane("t1", "l1", NOON).result()
    assert store.injection("t1", "l1") is None
    assert store.injection("t1", "l2") is not None
    assert store.injection("t2", "l1") is not None
    assert len(store.shown("t1", "k1")) == 1, "that it was shown stays as long as its session"


def test_a_deleted_session_takes_its_injections_and_what_was_shown_in_it_but_no_knowledge(store: SqliteStore) -> None:
    put(store, entry())
    store.put_session(session()).result()
    store.put_lane(lane()).result()
    store.put_lane(lane(id="l2", session="s2")).result()
    for name in ("l1", "l2"):
        store.put_injection("t1", name, b"a", expected=0).result()
    store.put_shown("t1", [shown(), shown(session="s2")]).result()
    store.put_shown("t2", [shown()]).result()
    store.put_pin(pin("text", made_at=NOON)).result()
    store.delete_session("t1", "s1").result()
    assert [each.session for each in store.shown("t1", "k1")] == ["s2"]
    assert len(store.shown("t2", "k1")) == 1
    assert store.injection("t1", "l1") is None
    assert store.injection("t1", "l2") is not None
    assert store.knowledge("t1", "k1") == entry()
    assert store.pin("t1", "agent", now=NOON) is not None


def test_pruning_takes_old_showings_and_expired_pins_and_never_knowledge(store: SqliteStore) -> None:
    put(store, entry(created_at=0, updated_at=0, forgotten_at=1))
    put(store, entry(created_at=0, updated_at=1), 1)
    store.put_vectors("t1", "m", [KnowledgeVector(id="k1", revision=2, data=b"v")]).result()
    store.put_injection("t1", "l1", b"a", expected=0).result()
    store.put_shown("t1", [shown(at=NOON - 1)] * 5_000).result()
    kept = [shown(at=NOON), shown(at=NOON + 1)]
    store.put_shown("t1", kept).result()
    store.put_pin(pin("over", made_at=NOON - HOUR - 1, key="over")).result()
    store.put_pin(pin("holds", made_at=NOON - HOUR + 1, key="holds")).result()
    store.prune(NOON + 5)
    assert store.shown("t1", "k1") == kept[::-1]
    assert store.pin("t1", "over", now=0) is None
    assert store.pin("t1", "holds", now=NOON) is not None
    assert len(store.knowledge_history("t1", "k1")) == 2
    assert len(store.find_knowledge("t1", ["workers"])) == len(store.knowledge_vectors("t1", "m")) == 1
    assert store.injection("t1", "l1") is not None
