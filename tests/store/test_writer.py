"""The writer: one thread, group commit, answers after the commit, failures that stay alone."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError
from holdfast.store import SqliteStore, open_store
from holdfast.store import operations as op
from holdfast.store.sqlite import transaction as transaction_module
from holdfast.store.sqlite import writer as writer_module
from holdfast.store.sqlite.schema import VERSIONS

from .samples import NOON, Hold, call, event, lane, session


def test_an_answer_comes_only_after_the_commit_and_writes_gather_meanwhile(store: SqliteStore) -> None:
    held = Hold(store)
    answers = [store.write(op.PutSession(session(id=f"s{n}"))) for n in range(50)]
    assert not any(answer.done() for answer in answers)
    assert store.sessions() == []
    held.go.set()
    answers[-1].result()
    assert all(answer.done() for answer in answers)
    assert len(store.sessions()) == 50


def test_one_bad_write_does_not_harm_its_neighbours(store: SqliteStore, caplog: pytest.LogCaptureFixture) -> None:
    held = Hold(store)
    with caplog.at_level(logging.WARNING):
        good = store.write(op.PutSession(session()))
        bad = [
            store.write(op.PutSession(session(id="big", started_at=2**70))),
            store.write(op.PutSession(session(id="surrogate", client="\ud83d"))),
            store.write(op.PutSession(session(id=None))),
            store.write(op.PutSession(session(id="type", data={"not": "bytes"}))),
        ]
        after = store.write(op.PutLane(lane()))
        held.go.set()
        for answer in bad:
            with pytest.raises(HoldfastError) as error:
                answer.result()
            assert "write it again" in str(error.value)
    assert (good.result(), after.result()) == (None, None)
    assert [one.id for one in store.sessions()] == ["s1"]
    assert store.writer.failed == len(bad)
    assert caplog.text.count("store write failed") == len(bad)


def test_ignored_failures_are_logged_and_counted(store: SqliteStore, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        store.write(op.PutLedger("t1", "l1", b"x", expected=7))
        store.write(op.PutSession(session(started_at=2**70)))
        store.write(op.PutLane(lane())).result()
    assert store.writer.failed == 2
    assert caplog.text.count("store write failed") == 1
    assert "no longer at version 7" not in caplog.text, "who writes over a version asks again"


def test_a_store_far_behind_refuses_rather_than_hold_up_or_grow(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store.writer, "backlog", 10)
    held = Hold(store)
    first = store.write(op.AppendEvents.of("t1", [event(n) for n in range(500)]))
    second = store.write(op.AppendEvents.of("t1", [event()]))
    assert second.done()
    with pytest.raises(HoldfastError, match="500 rows behind; wait for earlier writes"):
        second.result()
    held.go.set()
    assert first.result() == 500
    assert store.write(op.AppendEvents.of("t1", [event()])).result() == 1


def test_more_than_one_commits_worth_is_split(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "ROWS_PER_COMMIT", 3)
    held = Hold(store)
    answers = [store.write(op.AppendEvents.of("t1", [event(n), event(n)])) for n in range(10)]
    held.go.set()
    assert [answer.result() for answer in answers] == [2] * 10


def test_giving_up_the_wait_does_not_undo_the_write(store: SqliteStore) -> None:
    held = Hold(store)

    async def impatient() -> None:
        await asyncio.wait_for(asyncio.wrap_future(store.write(op.PutSession(session()))), 0.01)

    with pytest.raises(TimeoutError):
        asyncio.run(impatient())
    held.go.set()
    store.write(op.PutLane(lane())).result()
    assert store.session("t1", "s1") == session()


def test_an_answer_can_be_awaited(store: SqliteStore) -> None:
    async def write() -> int:
        return await asyncio.wrap_future(store.write(op.PutLedger("t1", "l1", b"x", expected=0)))

    assert asyncio.run(write()) == 1


def test_text_that_is_not_unicode_is_refused_at_once(store: SqliteStore) -> None:
    bad = event(private=True)
    payload = type(bad.payload)(text="\ud83d")
    with pytest.raises(HoldfastError, match="not valid Unicode"):
        store.write(op.AppendEvents.of("t1", [type(bad).of(payload, id=bad.id, at=NOON, session="s1", actor="user")]))


def test_close_writes_what_was_accepted_and_refuses_the_rest(path: Path) -> None:
    store = open_store(path)
    held = Hold(store)
    for n in range(100):
        store.write(op.PutSession(session(id=f"s{n}")))
    threading.Timer(0.05, held.go.set).start()
    store.close()
    store.close()
    with pytest.raises(HoldfastError, match="is closed; open it again to write"):
        store.write(op.PutSession(session()))
    with pytest.raises(HoldfastError, match="is closed; open it again to read"):
        store.sessions()
    with pytest.raises(HoldfastError, match="is closed"), store.batch() as batch:
        answer = batch.write(op.PutSession(session()))
    assert answer.exception() is not None
    assert not path.with_name(path.name + "-wal").exists(), "the log was folded into the file"
    with open_store(path) as again:
        assert len(again.sessions(limit=1000)) == 100


def test_threads_read_and_write_at_once(store: SqliteStore) -> None:
    failures: list[Exception] = []

    def work(thread: int) -> None:
        try:
            for n in range(30):
                own = call(session=f"s{thread}", started_at=NOON + n)
                store.write(op.PutCall(own)).result()
                assert store.call("t1", own.id) == own, "what was answered is seen"
                assert len(store.calls(session=f"s{thread}")) == n + 1
        except AssertionError as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert store.cache_effectiveness(NOON, NOON + 60).total.call_count == 120


def test_a_reader_still_open_at_close_is_closed_when_it_is_done(path: Path) -> None:
    store = open_store(path)
    with store.readers.snapshot() as connection:
        store.close()
        assert connection.execute("SELECT count(*) FROM sessions").fetchone() == (0,)


def test_a_reader_cannot_write(store: SqliteStore) -> None:
    with pytest.raises(HoldfastError, match="cannot be written"), store.readers.snapshot() as connection:
        connection.execute("DELETE FROM retention")


PROGRAM = """
import sys
from pathlib import Path
from holdfast.store import Session, open_store, operations as op

store = open_store(Path(sys.argv[1]))
def write(first):
    for n in range(first, first + 500):
        store.write(op.PutSession(Session(tenant="t", id=f"s{n}", started_at=n)))
"""


def test_a_program_that_forgets_to_close_still_writes_what_was_accepted(path: Path) -> None:
    subprocess.run([sys.executable, "-c", PROGRAM + "write(0)\n", str(path)], check=True, timeout=60)
    with open_store(path) as store:
        assert len(store.sessions(limit=1000)) == 500


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_leaves_through_close_and_loses_nothing(path: Path) -> None:
    tail = "with store:\n    write(0)\n    print('ready', flush=True)\n    import time; time.sleep(60)\n"
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM + tail, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        assert program.stdout.readline() == b"ready\n"
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=60)
    assert b"KeyboardInterrupt" in errors
    with open_store(path) as store:
        assert len(store.sessions(limit=1000)) == 500


def test_two_processes_create_and_write_one_store_at_the_same_time(path: Path) -> None:
    tail = (
        "import holdfast.store.rows as rows\n"
        "from holdfast.records.token_usage import Usage\n"
        "name = sys.argv[2]\n"
        "with store:\n"
        "    for n in range(100):\n"
        "        store.write(op.PutCall(rows.Call(tenant='t', id=f'{name}{n}', session='s', lane='l', model='m',\n"
        "            started_at=5, status='settled', usage=Usage(input=1)))).result()\n"
    )
    programs = [subprocess.Popen([sys.executable, "-c", PROGRAM + tail, str(path), name]) for name in "abc"]
    assert [program.wait(timeout=60) for program in programs] == [0, 0, 0]
    with open_store(path) as store:
        assert len(store.calls()) == 300
        assert store.cache_effectiveness(0, 10).total.uncached_tokens == 300
        assert store.call_hours(0, 10)[0].calls == 300


def test_a_second_process_works_beside_an_open_store(store: SqliteStore) -> None:
    store.write(op.PutSession(session(started_at=10_000))).result()
    subprocess.run([sys.executable, "-c", PROGRAM + "with store: write(0)\n", str(store.path)], check=True, timeout=60)
    assert len(store.sessions(limit=1000)) == 501
    store.write(op.PutLane(lane())).result()


def test_a_store_opened_twice_in_one_process_keeps_its_locks(store: SqliteStore) -> None:
    store.write(op.PutSession(session())).result()
    program = [sys.executable, "-c", PROGRAM + "with store: write(0)\n", str(store.path)]
    with open_store(store.path):
        subprocess.run(program, check=True, timeout=60)
        log = store.path.with_name(store.path.name + "-wal")
        assert log.exists(), "who closes elsewhere sees that the store is still open here"
        store.write(op.PutLane(lane())).result()
    script = "import sys; from holdfast.store import open_store; print(len(open_store(sys.argv[1]).lanes('t1', 's1')))"
    seen = subprocess.run([sys.executable, "-c", script, str(store.path)], capture_output=True, check=True, timeout=60)
    assert seen.stdout == b"1\n"


@pytest.mark.parametrize("how", ["moved", "deleted", "emptied", "replaced"])
def test_a_file_that_goes_away_while_it_is_open_fails_writes_instead_of_losing_them(
    store: SqliteStore, tmp_path: Path, how: str
) -> None:
    store.write(op.PutSession(session())).result()
    if how in ("moved", "replaced"):
        store.path.rename(tmp_path / "elsewhere.db")
    if how == "deleted":
        store.path.unlink()
    if how == "emptied":
        os.truncate(store.path, 0)
    if how == "replaced":
        store.path.write_bytes((tmp_path / "elsewhere.db").read_bytes())
    with pytest.raises(HoldfastError, match="was moved, deleted or emptied while it was open"):
        store.write(op.PutLane(lane())).result()
    with pytest.raises(HoldfastError, match="was moved, deleted or emptied while it was open"):
        store.sessions()
    assert store.path.exists() == (how in ("emptied", "replaced")), "nothing is made in its place"


def test_a_store_brought_forward_by_a_newer_program_takes_no_more_writes(store: SqliteStore) -> None:
    store.write(op.PutSession(session())).result()
    with closing(sqlite3.connect(store.path, isolation_level=None)) as newer:
        newer.execute(f"PRAGMA user_version = {len(VERSIONS) + 1}")
    with pytest.raises(HoldfastError, match="upgrade Holdfast"):
        store.write(op.PutLane(lane())).result()


def test_a_child_process_is_told_to_open_the_store_itself(path: Path) -> None:
    tail = (
        "import os\n"
        "store.write(op.PutSession(Session(tenant='t', id='parent', started_at=0))).result()\n"
        "if os.fork() == 0:\n"
        "    for use in (lambda: write(0), store.sessions):\n"
        "        try:\n"
        "            use()\n"
        "        except Exception as error:\n"
        "            print(error, flush=True)\n"
        "    store.close()\n"
        "    sys.exit()\n"
        "os.wait()\n"
        "store.write(op.PutSession(Session(tenant='t', id='parent again', started_at=1))).result()\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM + tail, str(path)], capture_output=True, timeout=60, check=True
    )
    assert done.stdout.count(b"was opened before a fork; open it again in this process") == 2
    with open_store(path) as store:
        assert len(store.sessions()) == 2


def test_closing_from_the_answer_of_a_write_lets_go_of_the_files(path: Path) -> None:
    store = open_store(path)
    held = Hold(store)
    store.write(op.PutSession(session())).add_done_callback(lambda _: store.close())
    last = store.write(op.PutLane(lane()))
    held.go.set()
    last.result()
    store.close()
    assert not path.with_name(path.name + "-wal").exists()
    assert not any(thread.name == "holdfast-store" for thread in threading.enumerate())


def test_everyone_who_closes_waits_until_it_is_done(path: Path) -> None:
    store = open_store(path)
    held = Hold(store)
    answer = store.write(op.PutSession(session()))
    closing_first = threading.Thread(target=store.close)
    closing_first.start()
    threading.Timer(0.05, held.go.set).start()
    while not store.writer.closed:
        closing_first.join(0.001)
    store.close()
    assert answer.done()
    closing_first.join()


class Unruly:
    """A connection whose commit or rollback fails once."""

    def __init__(self, connection: sqlite3.Connection, statement: str, error: Exception) -> None:
        self._connection, self._statement, self._error = connection, statement, error

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)

    def execute(self, statement: str, *values: object) -> sqlite3.Cursor:
        if statement == self._statement:
            self._statement = ""
            raise self._error
        if statement == "COMMIT" and self._statement == "ROLLBACK":
            raise sqlite3.OperationalError("this commit fails")
        return self._connection.execute(statement, *values)


@pytest.mark.parametrize(
    ("statement", "error"), [("ROLLBACK", sqlite3.OperationalError("no rollback")), ("COMMIT", MemoryError())]
)
def test_a_commit_or_rollback_that_fails_is_answered_and_the_writer_goes_on(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, statement: str, error: Exception
) -> None:
    transaction = store.writer.transaction
    unruly = Unruly(transaction.connection, statement, error)
    monkeypatch.setattr(transaction, "connection", unruly)
    with pytest.raises(HoldfastError):
        store.write(op.PutSession(session())).result(timeout=30)
    while store.write(op.PutLane(lane())).exception(timeout=30):  # the transaction left open is rolled back first
        pass
    assert store.sessions() == []
    assert len(store.lanes("t1", "s1")) == 1


def test_sessions_without_end_do_not_fill_the_memory(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_module, "STREAMS", 3)
    for n in range(20):
        store.write(op.AppendEvents.of("t1", [event(session=f"s{n}")])).result()
    assert len(store.writer.transaction.streams) <= 4
    assert all(len(store.events("t1", f"s{n}")) == 1 for n in range(20))
