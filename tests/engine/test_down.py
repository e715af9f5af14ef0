"""A store that is down: no new edits, the state in memory, never an error; when it is back it is used again."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import pytest

from holdfast.core import experience, ledger
from holdfast.engine import Lane, fallible_store
from holdfast.engine.persistence import Persistence
from holdfast.engine.tenant_experience import LEARNED
from holdfast.errors import HoldfastError
from holdfast.records.events.sessions import GatewayPreflight
from holdfast.store import SqliteStore, open_store
from holdfast.store import operations as op
from holdfast.store.interface import VersionConflictError
from holdfast.store.sqlite import writer
from tests.engine.driver import ON, clocked, told_behind, worked

from .driver import Driver, raw_of, talk
from .edits import edit_of

Breaking = Callable[[SqliteStore], Iterator[None]]


def execute(store: SqliteStore, statement: str) -> None:
    """On the writer's own connection, between two of its transactions."""
    store.write(op.Commit()).result()
    store.writer.transaction.connection.execute(statement)


def full(store: SqliteStore) -> Iterator[None]:
    """The file must not grow any more; what is free in it is used up first."""
    execute(store, "PRAGMA max_page_count = 1")
    with sqlite3.connect(store.path, isolation_level=None) as other:
        while other.execute("PRAGMA freelist_count").fetchone()[0]:
            other.execute("VACUUM")
    other.close()
    yield
    execute_anyway(store, "PRAGMA max_page_count = 1000000")


def execute_anyway(store: SqliteStore, statement: str) -> None:
    store.write(op.Commit()).exception()
    store.writer.transaction.connection.execute(statement)


def read_only(store: SqliteStore) -> Iterator[None]:
    execute(store, "PRAGMA query_only = ON")
    yield
    execute_anyway(store, "PRAGMA query_only = OFF")


def locked(store: SqliteStore) -> Iterator[None]:
    store.write(op.Commit()).result()
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield
    other.execute("ROLLBACK")
    other.close()


def moved(store: SqliteStore) -> Iterator[None]:
    store.write(op.Commit()).result()
    away = store.path.with_name("away.db")
    store.path.rename(away)
    yield
    away.rename(store.path)


breaking = pytest.mark.parametrize("how", [full, read_only, locked, moved], ids=lambda how: how.__name__)


firmly = pytest.mark.parametrize("how", [read_only, locked, moved], ids=lambda how: how.__name__)
"""In a full file there is room for this and that."""


@contextmanager
def broken(driver: Driver, how: Breaking) -> Iterator[None]:
    """While the store is down, and known to be."""
    assert driver.store is not None
    failing = how(driver.store)
    next(failing)
    while driver.store.trouble() is None:  # of a full disk what is left is used up first
        driver.note("m", 0, why="x" * 50_000)
        driver.store.write(op.Commit()).exception()
    yield
    next(failing, None)


def come_back(driver: Driver) -> None:
    """What is written behind a request shows that the store is back."""
    driver.store.write(op.Commit()).result()


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    made = Driver(path=tmp_path / "h.db", busy_timeout=0.01)
    yield made
    made.close()


@breaking
def test_requests_go_on_from_memory_and_the_store_is_used_again(driver: Driver, how: Breaking) -> None:
    driver.send(worked(3))
    read = [0]
    with broken(driver, how):
        for turns in (4, 5):
            _, used, verdict = driver.send(worked(turns))
            assert verdict.explained
            assert used.read > read[-1]
            read.append(used.read)
        cut = driver.prepare(worked(6))
        driver.engine.abandon(cut, now=driver.now, error="status 529")
        driver.note("anthropic:m", 1)
        event = GatewayPreflight(call="c", action="warned", dollars=Decimal(1), limit=Decimal(1))
        driver.engine.tell(driver.lane, event, now=driver.now)
        driver.engine.announce(driver.lane, "compaction", now=driver.now)
    prepared, used, verdict = driver.send(worked(6))
    assert verdict.explained
    assert used.read > read[-1]
    driver.restart()
    stored = driver.store.call("t", prepared.call)
    assert stored.status == "settled"
    _, used, verdict = driver.send(worked(7))
    assert verdict.explained
    assert verdict.finding is None


@firmly
def test_an_edit_is_not_made_while_it_cannot_be_kept(driver: Driver, how: Breaking) -> None:
    driver.send(worked(3))
    driver.wait(4_000)
    digest, data = edit_of(driver, worked(4))
    with broken(driver, how):
        prepared, _, verdict = driver.send(worked(4), edits={digest: data})
        assert not prepared.edits.made
        assert "store is down" in prepared.edits.why
        assert data not in prepared.raw
        assert verdict.explained
    driver.send(worked(5))
    come_back(driver)
    driver.wait(4_000)
    prepared, _, verdict = driver.send(worked(6), edits={digest: data})
    assert prepared.edits.made
    assert data in prepared.raw
    assert verdict.explained


@breaking
def test_an_edit_that_is_recorded_is_replayed_from_memory(driver: Driver, how: Breaking) -> None:
    driver.send(worked(3))
    driver.wait(4_000)
    digest, data = edit_of(driver, worked(4))
    assert data in driver.send(worked(4), edits={digest: data})[0].raw
    assert data in driver.send(worked(5))[0].raw
    with broken(driver, how):
        prepared, _, verdict = driver.send(worked(6))
        assert data in prepared.raw
        assert prepared.reset is None
        assert verdict.explained


@firmly
def test_what_was_told_stays_and_nothing_new_is_told(tmp_path: Path, how: Breaking) -> None:
    driver = Driver(ON, path=tmp_path / "h.db", busy_timeout=0.01).after(clocked(0, 0))
    assert told_behind(driver.send(clocked(1, 1))[0]) == [2]
    with broken(driver, how):
        prepared, _, verdict = driver.send(clocked(2, 1))  # nothing new
        assert told_behind(prepared) == [2]
        assert prepared.reset is None
        assert verdict.explained
        prepared, _, verdict = driver.send(clocked(3, 3))  # the clock went on: the client's own text goes
        assert told_behind(prepared) in ([2], [])
        assert prepared.reset == "bypassed"
        assert verdict.explained
    driver.send(clocked(4, 3))
    come_back(driver)
    again, _, verdict = driver.send(clocked(5, 5))
    assert told_behind(again)[:1] == [2]
    assert told_behind(again)[-1] == 10
    assert verdict.explained
    driver.close()


def test_a_lane_that_cannot_be_read_begins_anew_and_goes_on_when_it_can(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fallible_store, "PAUSE", 0.0)
    driver.send(worked(3))
    driver.restart()
    with broken(driver, moved):
        _, _, verdict = driver.send(worked(4))
        assert verdict.finding is None
    driver.send(worked(5))
    ledger = driver.engine.ledger(driver.lane, now=driver.now)
    assert ledger.requests == 2  # what was stored, and what came after
    assert driver.send(worked(6))[2].explained


@pytest.mark.parametrize("before", [1, 2, 3])
def test_what_could_not_be_read_is_not_taken_for_what_is_stored(
    driver: Driver, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many versions of it there are: as many as this process would have written by now, or others."""
    monkeypatch.setattr(fallible_store, "PAUSE", 0.0)
    monkeypatch.setattr(writer, "LINGER", 60.0)  # what was written during the outage is still queued behind it
    for turns in range(before):
        driver.send(worked(3 + turns))
    driver.restart()
    with broken(driver, moved):
        driver.send(worked(6))
        driver.send(worked(7))
    driver.send(worked(8))
    assert driver.engine.ledger(driver.lane, now=driver.now).requests == before + 1
    driver.restart()
    assert driver.engine.ledger(driver.lane, now=driver.now).requests == before + 1


def test_what_could_not_be_read_is_never_overwritten(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallible_store, "PAUSE", 0.0)
    driver.send(worked(3))
    driver.restart()
    keeper = Persistence(driver.store)
    with broken(driver, moved):
        keeper.lane(driver.lane, driver.now).requests = 99
    for _ in range(4):  # whatever version is stored
        keeper.save_lane(driver.lane)
        (written,) = keeper.write_lane(driver.lane)
        assert isinstance(written.exception(), VersionConflictError)
    row = driver.store.ledger("t", "l")
    assert ledger.decode(row.data).requests == 1


@pytest.mark.parametrize("before", [0, 1, 2, 3])
def test_what_was_learned_is_added_to_what_could_not_be_read(
    driver: Driver, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fallible_store, "PAUSE", 0.0)
    monkeypatch.setattr(writer, "LINGER", 60.0)
    for turns in range(before):
        driver.send(worked(3 + turns))
    driver.restart()
    with broken(driver, moved):
        for turns in range(before):
            driver.send(worked(6 + turns))
            driver.store.write(op.Commit()).exception()  # this write fails, and is made up for by the next
        driver.send(worked(9))  # this one is written when the store is back
    driver.engine.close(now=driver.now)
    driver.restart()
    row = driver.store.pool("t", LEARNED)
    assert experience.decode(row.data).clients["cli"].requests == 2 * before + 1


@firmly
def test_a_lane_that_is_born_while_the_store_is_down_goes_on_from_memory(
    driver: Driver, how: Breaking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fallible_store, "PAUSE", 0.0)
    driver.send(worked(3))
    other = Lane(tenant="t", session="s2", id="l2", client="cli")
    with broken(driver, how):
        for turns in (3, 4):
            assert driver.send(worked(turns), lane=other)[2].explained
    driver.send(worked(4))
    come_back(driver)
    assert driver.send(worked(5), lane=other)[2].explained
    assert driver.send(worked(6), lane=other)[2].explained
    assert driver.engine.ledger(other, now=driver.now).requests == 4
    driver.restart()
    assert driver.engine.ledger(other, now=driver.now).requests == 4
    assert driver.store.lane("t", "l2") is not None
    assert driver.store.session("t", "s2") is not None


def test_a_store_that_was_closed_is_no_error(tmp_path: Path) -> None:
    driver = Driver(path=tmp_path / "h.db").after(talk(0))
    driver.close()
    for turns in (1, 2):
        assert driver.send(talk(turns))[2].explained
    other = Lane(tenant="t", session="s2", id="l2")
    assert driver.send(talk(1), lane=other)[2].explained
    driver.engine.end(other, now=driver.now)
    driver.engine.close(now=driver.now)


def test_a_request_that_waits_in_vain_goes_as_it_came(tmp_path: Path) -> None:
    """The first to find out; `patience` is how long it takes."""
    driver = Driver(path=tmp_path / "h.db", timeout=0.01).after(worked(3))
    driver.wait(4_000)
    digest, data = edit_of(driver, worked(4))
    driver.store.write(op.Commit()).result()
    other = sqlite3.connect(driver.store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(HoldfastError, match=r"did not keep an edit within 0\.01 s"):
        driver.prepare(worked(4), edits={digest: data})
    other.execute("ROLLBACK")
    other.close()
    assert driver.send(raw_of(worked(4)))[2].finding is None
    driver.close()


def test_an_outage_is_told_once(driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
    driver.send(talk(0))
    with caplog.at_level(logging.WARNING), broken(driver, read_only):
        for turns in (1, 2, 3):
            driver.send(talk(turns))
    driver.send(talk(4))
    driver.store.write(op.Commit()).result()
    driver.send(talk(5))
    lines = [record.message for record in caplog.records]
    assert sum("failed" in line for line in lines) == 1
    assert sum("no new edits are made" in line for line in lines) == 1
    assert sum("can be used again" in line for line in lines) == 1
    assert sum("can be written again" in line for line in lines) == 1


def test_two_engines_on_one_store_go_on_after_an_outage(tmp_path: Path) -> None:
    driver = Driver(path=tmp_path / "h.db", busy_timeout=0.01).after(worked(3))
    with broken(driver, locked):
        driver.send(worked(4))
    driver.send(worked(5))
    driver.store.write(op.Commit()).result()
    first, driver.store = driver.store, open_store(tmp_path / "h.db")
    driver.engine, before = driver.start(), driver.engine
    assert driver.send(worked(6))[2].explained
    driver.store.close()
    driver.engine, driver.store = before, first
    _, _, verdict = driver.send(worked(7))
    assert verdict.finding is None
    assert driver.engine.ledger(driver.lane, now=driver.now).requests == 5
    driver.close()
