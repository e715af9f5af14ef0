"""A database that is only looked at: nothing is created, migrated or written, and who writes goes on."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from holdfast import report
from holdfast.errors import HoldfastError
from holdfast.store import open_existing, open_store
from holdfast.store import operations as op
from holdfast.store.sqlite import store as module
from tests.store.samples import call


def test_what_is_not_there_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "home" / "holdfast.db"
    assert open_existing(path) is None
    assert open_existing(f"sqlite:///{path}") is None
    assert not path.parent.exists()
    path.parent.mkdir()
    path.touch()
    assert open_existing(path) is None
    assert path.stat().st_size == 0


def test_a_database_without_tables_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    assert open_existing(path) is None


def test_it_is_read_while_it_is_written(tmp_path: Path) -> None:
    with open_store(tmp_path / "h.db") as writing:
        writing.write(op.PutCall(call(id="c1"))).result()
        reading = open_existing(tmp_path / "h.db")
        assert reading is not None
        with reading:
            assert report.bill(reading).total.calls == 1
            writing.write(op.PutCall(call(id="c2"))).result()
            assert report.bill(reading).total.calls == 2
        writing.write(op.PutCall(call(id="c3"))).result()
        assert writing.call("t1", "c3") is not None


def test_a_writer_that_holds_the_lock_does_not_hold_up_readers(tmp_path: Path) -> None:
    with open_store(tmp_path / "h.db") as store:
        store.write(op.PutCall(call(id="c1"))).result()
    other = sqlite3.connect(tmp_path / "h.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    reading = open_existing(tmp_path / "h.db", busy_timeout=0.1)
    assert reading is not None
    with reading:
        assert report.call(reading, "c1").id == "c1"
    other.execute("ROLLBACK")
    other.close()


def test_it_cannot_be_written_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with open_store(tmp_path / "h.db") as store:
        store.write(op.PutCall(call(id="c1"))).result()
    files, content = sorted(tmp_path.iterdir()), (tmp_path / "h.db").read_bytes()
    reading = open_existing(tmp_path / "h.db")
    assert reading is not None
    with reading, pytest.raises(HoldfastError, match="was opened to be read"):
        reading.write(op.PutCall(call(id="c2")))
    assert reading.writer.failed == 0
    assert (sorted(tmp_path.iterdir()), (tmp_path / "h.db").read_bytes()) == (files, content)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"this is a text and no database at all, however long it may be" * 20, "is not a SQLite database")],
)
def test_what_is_no_database_is_left_alone(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    path.write_bytes(content)
    with pytest.raises(HoldfastError, match=message):
        open_existing(path)
    assert path.read_bytes() == content


def test_a_directory_or_a_way_that_cannot_be_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="cannot be opened"):
        open_existing(tmp_path)
    with pytest.raises(HoldfastError, match="cannot be used"):
        open_existing(tmp_path / ("x" * 300))


def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "h.db")
    connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    with pytest.raises(HoldfastError, match="database of another program"):
        open_existing(tmp_path / "h.db")


def test_an_older_schema_is_read_and_not_migrated_by_looking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_store(tmp_path / "h.db").close()
    monkeypatch.setattr(module, "VERSIONS", (*module.VERSIONS, ("CREATE TABLE later (a)",)))
    before = (tmp_path / "h.db").read_bytes()
    found = open_existing(tmp_path / "h.db")
    assert found is not None
    with found:
        assert found.sessions() == []
    assert (tmp_path / "h.db").read_bytes() == before
