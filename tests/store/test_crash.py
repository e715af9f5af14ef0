"""kill -9 at any moment loses at most what was not answered, and damages nothing."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from collections import Counter, defaultdict
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest

from holdfast.store import SqliteStore, open_store
from holdfast.store import operations as op
from holdfast.store.sqlite.schema import VERSIONS

from .crashes import run_and_kill
from .samples import HOUR, session

FOREVER = 2**61


def check(path: Path, answered: list[tuple[str, int]]) -> None:
    with closing(sqlite3.connect(path)) as look:
        assert look.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with open_store(path) as store:
        check_answered(store, answered)
        check_sums(store)
        check_blobs(path, store)


def check_answered(store: SqliteStore, answered: list[tuple[str, int]]) -> None:
    settled = {one.id for one in store.calls_by_status("settled", limit=FOREVER)}
    events = Counter(one.payload.open_tool_calls for one in store.events("t", "s"))
    assert set(events.values()) <= {20}, "an append is there as a whole or not at all"
    ended = {number for kind, number in answered if kind == "ended"}
    for kind, number in answered:
        if kind == "call":
            assert f"c{number}" in settled
        elif kind == "events":
            assert events[number] == 20
        elif kind == "edit" and number not in ended and number % 3:
            [edit] = store.edits("t", f"lane{number}")
            assert store.read_blob("t", edit.blob) == b"bytes %d" % number
            ledger = store.ledger("t", f"lane{number}")
            assert ledger is not None, "the batch holds together"
            assert ledger.data == b"%d" % number
        elif kind == "ended":
            assert store.edits("t", f"lane{number}") == []


def check_sums(store: SqliteStore) -> None:
    calls: dict[tuple[int, str], list] = defaultdict(lambda: [0, 0, 0, 0, Decimal(0)])
    for one in store.calls(limit=FOREVER):
        if one.usage is not None:
            sums = calls[one.started_at // HOUR * HOUR, one.model]
            parts = (1, one.usage.input, one.usage.read, one.usage.written, one.usage.cost)
            calls[one.started_at // HOUR * HOUR, one.model] = [a + b for a, b in zip(sums, parts, strict=True)]
    kept = {
        (hour.hour, hour.model): [hour.calls, hour.input, hour.read, sum(n for _, n in hour.writes), hour.cost]
        for hour in store.call_hours(0, FOREVER)
    }
    assert kept == calls
    events = Counter(one.at // HOUR * HOUR for one in store.events("t", "s"))
    assert {hour: sum(store.event_counts(hour, hour + HOUR).values()) for hour in events} == events
    assert sum(store.event_counts(0, FOREVER).values()) == sum(events.values())


def check_blobs(path: Path, store: SqliteStore) -> None:
    with closing(sqlite3.connect(path)) as look:
        rows = look.execute("SELECT tenant, digest FROM blobs").fetchall()
    for tenant, digest in rows:
        store.read_blob(tenant, digest)


def crash_rounds(path: Path, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    answered: list[tuple[str, int]] = []
    for run in range(rounds):
        answered += run_and_kill(path, run, chance.randrange(1, 60), chance.random() * 0.01)
        check(path, answered)
    assert {kind for kind, _ in answered} == {"call", "events", "edit", "ended"}


def test_a_killed_writer_loses_nothing_it_had_answered(path: Path) -> None:
    crash_rounds(path, rounds=4, seed=1)


@pytest.mark.slow
def test_a_writer_killed_many_times(path: Path) -> None:
    crash_rounds(path, rounds=20, seed=2)


MIGRATION = """
import sys, sqlite3
from pathlib import Path
from holdfast.store.sqlite.schema import migrate
from holdfast.store.sqlite.schema import VERSIONS

path = Path(sys.argv[1])
connection = sqlite3.connect(path, isolation_level=None)
def here():
    print("in the middle", flush=True)
    sys.stdin.read()
connection.create_function("here", 0, here)
step = ("ALTER TABLE sessions ADD COLUMN colour TEXT", "UPDATE sessions SET colour = 'red'", "SELECT here()")
migrate(connection, path, (*VERSIONS, step))
"""


def test_a_migration_killed_in_the_middle_leaves_the_old_version(path: Path) -> None:
    with open_store(path) as store:
        store.write(op.PutSession(session())).result()
    with subprocess.Popen(
        [sys.executable, "-c", MIGRATION, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        assert program.stdout.readline() == b"in the middle\n"
        program.kill()
    assert program.returncode == -9
    with open_store(path) as store:
        assert store.session("t1", "s1") == session()
        store.write(op.PutSession(session(id="s2"))).result()
    with closing(sqlite3.connect(path)) as look:
        assert look.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert look.execute("PRAGMA user_version").fetchone() == (len(VERSIONS),)
        assert "colour" not in {row[1] for row in look.execute("PRAGMA table_info(sessions)")}
