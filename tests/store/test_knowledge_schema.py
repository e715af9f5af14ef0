"""A file of the first schema, with data, becomes one of the second: as a whole, or not at all."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.store import open_existing, open_store
from holdfast.store import operations as op
from holdfast.store.sqlite.problems import store_problem
from holdfast.store.sqlite.schema import VERSIONS, migrate

from .knowledge_samples import entry, put
from .samples import NOON, call, event, lane, session

FIRST_ONLY = "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY name"


@pytest.fixture
def first(path: Path, tmp_path: Path) -> Path:
    """A file as the first schema left it, with a session in it."""
    with open_store(path) as store:
        store.write(op.PutSession(session())).result()
        store.write(op.PutLane(lane())).result()
        store.write(op.PutCall(call(id="c1"), op.event_rows([event()], encode=False))).result()
        store.write(op.PutEdit("t1", "l1", "b1", b"bytes", at=NOON)).result()
        store.write(op.PutLedger("t1", "l1", b"ledger", expected=0)).result()
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as old,
        closing(sqlite3.connect(tmp_path / "empty.db", isolation_level=None)) as empty,
    ):
        migrate(empty, tmp_path / "empty.db", VERSIONS[:1])
        known = empty.execute(FIRST_ONLY).fetchall()
        old.execute("DROP TABLE knowledge_fts")
        old.execute("DROP INDEX calls_unanswered")
        names = {row[1] for row in known}
        for kind in ("index", "table"):
            for (name,) in old.execute("SELECT name FROM sqlite_master WHERE type = ?", (kind,)).fetchall():
                if name not in names and not name.startswith("sqlite_"):
                    old.execute(f"DROP {kind} {name}")
        old.execute("PRAGMA user_version = 1")
        assert old.execute(FIRST_ONLY).fetchall() == known
    return path


def check_first(path: Path) -> None:
    with closing(sqlite3.connect(path)) as look:
        assert look.execute("PRAGMA user_version").fetchone() == (1,)
        assert look.execute("SELECT id FROM sessions").fetchall() == [("s1",)]
        assert not look.execute("SELECT name FROM sqlite_master WHERE name LIKE '%knowledge%'").fetchall()


def test_it_is_brought_forward_with_all_it_holds(first: Path) -> None:
    with open_store(first) as store:
        assert store.session("t1", "s1") == session()
        assert [each.id for each in store.calls("t1")] == ["c1"]
        assert len(store.events("t1", "s1")) == 1
        [edit] = store.edits("t1", "l1")
        assert store.read_blob("t1", edit.blob) == b"bytes"
        assert store.ledger_version("t1", "l1") == 1
        put(store, entry())
        assert len(store.find_knowledge("t1", ["workers"])) == 1
        store.write(op.EndLane("t1", "l1", NOON)).result()
    with open_store(first) as store:
        assert store.knowledge("t1", "k1") == entry()
        assert store.tenants() == ["t1"]
    with closing(sqlite3.connect(first)) as look:
        assert look.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert look.execute("PRAGMA user_version").fetchone() == (len(VERSIONS),)


def test_looking_at_it_leaves_it_as_it_is(first: Path) -> None:
    found = open_existing(first)
    assert found is not None
    with found:
        assert [each.id for each in found.calls("t1")] == ["c1"]
        assert found.shown_to("t1", "s1", "l1", until=NOON) == []
    check_first(first)


def test_who_looks_for_knowledge_brings_it_up_to_date(first: Path) -> None:
    found = open_existing(first, whole=True)
    assert found is not None
    with found:
        assert found.knowledge_entries("t1") == []
        assert [each.id for each in found.calls("t1")] == ["c1"]


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
at = int(sys.argv[2])
migrate(connection, path, (VERSIONS[0], (*VERSIONS[1][:at], "SELECT here()", *VERSIONS[1][at:])))
"""


@pytest.mark.parametrize("at", [1, 6, len(VERSIONS[1])])
def test_killed_in_the_middle_it_is_still_of_the_first_schema_and_then_brought_forward(first: Path, at: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", MIGRATION, str(first), str(at)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        assert program.stdout.readline() == b"in the middle\n"
        program.kill()
    assert program.returncode == -9
    check_first(first)
    with open_store(first) as store:
        assert store.session("t1", "s1") == session()
        assert put(store, entry()).revision == 1


UPGRADE = """
import sys
from pathlib import Path
from holdfast.store import open_existing, open_store

print("ready", flush=True)
sys.stdin.readline()
opened = open_store(Path(sys.argv[1])) if sys.argv[2] == "write" else open_existing(Path(sys.argv[1]), whole=True)
with opened as store:
    print(len(store.calls("t1")), len(store.knowledge_entries("t1")))
"""


@pytest.mark.slow
def test_processes_that_bring_it_forward_at_once_do_it_once(first: Path) -> None:
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", UPGRADE, str(first), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for how in ("write", "look", "write", "look")
    ]
    for program in programs:
        assert program.stdout.readline() == "ready\n"
    for program in programs:
        program.stdin.write("go\n")
        program.stdin.flush()
    assert [program.communicate()[0] for program in programs] == ["1 0\n"] * 4
    assert [program.returncode for program in programs] == [0] * 4
    with open_store(first) as store:
        assert store.session("t1", "s1") == session()
    with closing(sqlite3.connect(first)) as look:
        assert look.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert look.execute("PRAGMA user_version").fetchone() == (len(VERSIONS),)


def test_a_python_without_full_text_search_is_told_so(path: Path) -> None:
    problem = str(store_problem(path, sqlite3.OperationalError("no such module: fts5")))
    assert "full-text search" in problem
    assert "use another Python" in problem
