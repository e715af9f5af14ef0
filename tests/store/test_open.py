"""Opening: where, with which modes, and one sentence for everything that cannot be opened."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError
from holdfast.store import open_store
from holdfast.store import operations as op
from holdfast.store.sqlite.connections import use_wal
from holdfast.store.sqlite.schema import APPLICATION_ID, VERSIONS, migrate, schema_version

from .samples import call, event, lane, session

NOBODY = 65534


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A directory of a user that file modes bind; root would write anywhere."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        if os.geteuid() != 0:
            yield directory
            return
        os.chown(directory, NOBODY, NOBODY)
        os.seteuid(NOBODY)
        try:
            yield directory
        finally:
            os.seteuid(0)


def test_it_makes_what_is_missing_for_this_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "store.db"
    with open_store(path) as store:
        store.write(op.PutSession(session())).result()
        for file in (path, path.with_name("store.db-wal"), path.with_name("store.db-shm")):
            assert file.stat().st_mode & 0o777 == 0o600
    for directory in (tmp_path / "a", tmp_path / "a" / "b"):
        assert directory.stat().st_mode & 0o777 == 0o700


def test_an_existing_file_that_others_can_read_is_tightened(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch(mode=0o644)
    path.chmod(0o644)
    with open_store(path):
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_log_that_others_could_read_is_tightened_too(path: Path) -> None:
    with open_store(path) as store:
        store.write(op.PutSession(session())).result()
        beside = [path.with_name(path.name + end) for end in ("-wal", "-shm")]
        for file in (path, *beside):
            file.chmod(0o644)
        with open_store(path):
            assert [file.stat().st_mode & 0o777 for file in (path, *beside)] == [0o600] * 3


def test_a_file_that_is_refused_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes, and my group reads them\n" * 100)
    path.chmod(0o664)
    refused(path, "is not a SQLite database")
    assert path.stat().st_mode & 0o777 == 0o664


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o644)
    refused(tmp_path / "pipe", "is not a regular file; set store.url to one")
    assert (tmp_path / "pipe").stat().st_mode & 0o777 == 0o644


def test_a_change_of_directory_does_not_lose_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "before")
    with open_store("store.db") as store:
        monkeypatch.chdir(tmp_path / "after")
        store.write(op.PutEdit("t1", "l1", "b1", b"bytes", at=0)).result()
        assert len(store.edits("t1", "l1")) == 1
    assert list((tmp_path / "after").iterdir()) == []


def test_blobs_are_found_by_whatever_link_the_store_is_opened(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(path)
    (tmp_path / "linked").symlink_to(path.parent)
    with open_store(tmp_path / "link.db") as store:
        digest = store.write(op.PutEdit("t1", "l1", "b1", b"bytes", at=0)).result().blob
    for name in (path, tmp_path / "linked" / path.name):
        with open_store(name) as store:
            assert store.read_blob("t1", digest) == b"bytes"


def test_characters_that_mean_something_in_an_address_are_part_of_the_name(tmp_path: Path) -> None:
    path = tmp_path / "a?b#c%20 é.db"
    with open_store(path) as store:
        store.write(op.PutSession(session())).result()
        assert store.session("t1", "s1") == session()
    assert path.exists()


@pytest.mark.parametrize("name", ["~nobody-has-this-name/x.db", "x" * 300, "loop/x.db"])
def test_a_path_that_leads_nowhere_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    with pytest.raises(HoldfastError, match=r"set store.url to another file"):
        open_store(name)
    with pytest.raises(HoldfastError, match="names no file"):
        open_store(Path("a\0b"))


def test_urls_and_paths_name_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "my store.db"
    with open_store(path) as store:
        store.write(op.PutSession(session())).result()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    urls = (str(path), "my store.db", "~/my store.db", f"sqlite:///{path}", f"sqlite:///{tmp_path}/my%20store.db")
    for url in (*urls, "sqlite:///my store.db", "sqlite:///~/my store.db", Path("~/my store.db")):
        with open_store(url) as store:
            assert store.path.resolve() == path.resolve()
            assert store.session("t1", "s1") == session()


@pytest.mark.parametrize("url", ["postgresql://x/y", "sqlite://host/x", "mysql:///x", "", "sqlite:///", "a\0b"])
def test_a_url_that_names_no_file_is_told(url: str) -> None:
    with pytest.raises(HoldfastError, match="use sqlite:///PATH or a plain path"):
        open_store(url)


def test_it_uses_wal_with_normal_synchronisation(path: Path) -> None:
    with open_store(path), closing(sqlite3.connect(path)) as look:
        assert look.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert look.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert look.execute("PRAGMA user_version").fetchone() == (len(VERSIONS),)


def refused(path: Path, sentence: str, **how: float) -> None:
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(HoldfastError, match=sentence) as error:
        open_store(path, **how)
    text = str(error.value)
    assert str(path) in text
    assert "\n" not in text
    if before is not None:
        assert path.read_bytes() == before, "a file that is refused is left as it was"


def test_a_directory(tmp_path: Path) -> None:
    refused(tmp_path, "is a directory; set store.url to a file inside it")


def test_a_parent_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused(tmp_path / "file" / "store.db", "cannot be used")


def test_not_a_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"these are my notes, do not overwrite them\n" * 100)
    refused(path, "is not a SQLite database; move it away")


def test_a_database_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE theirs (x)")
    refused(path, "database of another program")
    with closing(sqlite3.connect(path)) as other:
        other.execute("DROP TABLE theirs")
        other.execute("PRAGMA application_id = 77")
    refused(path, "database of another program")


def test_a_newer_schema(path: Path) -> None:
    open_store(path).close()
    with closing(sqlite3.connect(path)) as newer:
        newer.execute(f"PRAGMA user_version = {len(VERSIONS) + 1}")
    refused(path, f"schema {len(VERSIONS) + 1} and this Holdfast knows {len(VERSIONS)}; upgrade Holdfast")


def test_a_damaged_file(path: Path) -> None:
    with open_store(path) as store:
        store.write(op.PutSession(session())).result()
    data = bytearray(path.read_bytes())
    data[100:4096] = b"\xff" * 3996
    path.write_bytes(bytes(data))
    refused(path, "is damaged; restore a backup")


def test_a_read_only_file(unprivileged: Path) -> None:
    path = unprivileged / "store.db"
    open_store(path).close()
    path.chmod(0o400)
    refused(path, "cannot be written; make the file and its directory writable or set store.url")


def test_a_read_only_directory(unprivileged: Path) -> None:
    path = unprivileged / "store.db"
    open_store(path).close()
    unprivileged.chmod(0o500)
    try:
        refused(path, "writable or set store.url")
        refused(unprivileged / "new.db", "make it writable or set store.url")
    finally:
        unprivileged.chmod(0o700)
    open_store(path).close()


def test_a_file_another_process_has_locked(path: Path) -> None:
    open_store(path).close()
    script = (
        "import sqlite3, sys\n"
        "c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "c.execute('PRAGMA locking_mode = EXCLUSIVE')\n"
        "c.execute('BEGIN EXCLUSIVE')\n"
        "print('locked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"locked\n"
        refused(path, "is locked by another process; end that process", busy_timeout=0.05)
        holder.communicate(b"")
    open_store(path).close()


def test_switching_to_wal_waits_for_another_who_is_reading(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with (
        closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other,
        closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as own,
    ):
        other.execute("CREATE TABLE t (x)")
        other.execute("BEGIN")
        other.execute("SELECT * FROM t").fetchall()
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            use_wal(own, busy_timeout=0.02)
        timer = threading.Timer(0.05, other.execute, ["ROLLBACK"])
        timer.start()
        use_wal(own, busy_timeout=30)
        timer.join()
        assert own.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_lock_taken_later_fails_writes_with_a_sentence_and_then_passes(path: Path) -> None:
    with open_store(path, busy_timeout=0.05) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(HoldfastError, match="is locked by another process"):
            store.write(op.PutSession(session())).result()
        assert store.session("t1", "s1") is None, "reading goes on"
        other.execute("ROLLBACK")
        store.write(op.PutSession(session())).result()
        assert store.session("t1", "s1") == session()


def test_a_full_disk_fails_new_writes_and_loses_nothing(path: Path) -> None:
    stored = []

    def fill() -> None:
        for _ in range(1000):
            one = call(plan=b"x" * 5000)
            store.write(op.PutCall(one)).result()
            stored.append(one)

    with open_store(path, max_bytes=400_000) as store:
        with pytest.raises(HoldfastError, match="has no room left"):
            fill()
        assert stored
        assert store.writer.failed == 1
        with pytest.raises(HoldfastError, match="has no room left"):
            store.write(op.AppendEvents.of("t1", [event(n) for n in range(20_000)])).result()
        assert store.calls() == stored
    with open_store(path) as store:
        assert store.calls() == stored
        assert store.cache_effectiveness(0, 2**62).total.call_count == len(stored)
        store.write(op.PutLane(lane())).result()
    with closing(sqlite3.connect(path)) as look:
        assert look.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_failing_migration_leaves_the_version_before(path: Path) -> None:
    with open_store(path) as store:
        store.write(op.PutSession(session())).result()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        with pytest.raises(sqlite3.OperationalError):
            migrate(connection, path, (*VERSIONS, ("CREATE TABLE extra (x)", "NOT SQL")))
        assert not connection.in_transaction
        assert schema_version(connection) == len(VERSIONS)
        assert not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'extra'").fetchall()
    with open_store(path) as store:
        assert store.session("t1", "s1") == session()


def test_an_older_file_is_brought_forward_with_its_data(path: Path) -> None:
    with open_store(path) as store:
        store.write(op.PutSession(session())).result()
    newer = (*VERSIONS, ("ALTER TABLE sessions ADD COLUMN colour TEXT",), ("CREATE TABLE extra (x)",))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, path, newer)
        migrate(connection, path, newer)
        assert schema_version(connection) == len(newer)
        assert connection.execute("SELECT id, colour FROM sessions").fetchall() == [("s1", None)]
