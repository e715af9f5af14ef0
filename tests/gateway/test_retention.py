"""What ages goes, as a whole and with its room; what is used, sums, the agent's conversations and memory stay."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from holdfast import report
from holdfast.agent.session import CLIENT
from holdfast.gateway import retention
from holdfast.gateway.retention import GRACE_DAYS, RetentionPeriod
from holdfast.store import KnowledgeEntry, Pin, SqliteStore, open_store
from holdfast.store import operations as op
from holdfast.store.blobs import BlobFiles
from holdfast.store.sqlite.backup import blobs_of
from holdfast.store.sqlite.integrity import check
from tests.cli.serve_program import ServeProgram
from tests.gateway.chore_gates import START, Driven, driven
from tests.store.samples import call, event, found, lane, session

from .gate import configured, eventually

DAY = 86_400
US = 1_000_000
NOW = round(START * US)
OLD = NOW - 100 * DAY * US
TABLES = (
    "sessions",
    "lanes",
    "ledgers",
    "edits",
    "injections",
    "streams",
    "events",
    "calls",
    "breaks",
    "shown",
    "pins",
)


def conversation(store: SqliteStore, name: str, at: int, last: int | None = None, client: str = "claude-code") -> None:
    """A session with everything that one can have; used again at `last`."""
    tenant = "t1"
    store.write(op.PutSession(session(tenant=tenant, id=name, started_at=at, client=client)))
    store.write(op.PutLane(lane(tenant=tenant, id=f"{name}/l", session=name, started_at=at)))
    store.write(op.PutLedger(tenant, f"{name}/l", b"ledger", expected=0))
    store.write(op.PutEdit(tenant, f"{name}/l", "block", f"replacement of {name}".encode(), at=at))
    store.write(op.PutInjection(tenant, f"{name}/l", b"injected", expected=0))
    store.write(op.PutShown(tenant, [("k1", "")], at=at, session=name, lane=f"{name}/l", place="delta", why="x"))
    store.write(op.AppendEvents.of(tenant, [event(at=at, session=name)]))
    store.write(
        op.PutCall(call(tenant=tenant, id=f"{name}-1", session=name, lane=f"{name}/l", started_at=at, client=client))
    )
    store.write(
        op.PutBreak(found(tenant=tenant, id=f"{name}-b", call=f"{name}-1", session=name, lane=f"{name}/l", at=at))
    ).result()
    if last is not None:
        more = call(tenant=tenant, id=f"{name}-2", session=name, lane=f"{name}/l", started_at=last, client=client)
        store.write(op.PutCall(more)).result()


def fill(store: SqliteStore) -> None:
    store.write(
        op.PutKnowledge(
            KnowledgeEntry(
                tenant="t1", id="k1", category="fact", title="t", content="remembered", created_at=OLD, updated_at=OLD
            ),
            expected=0,
            operation="add",
            by="u",
        )
    ).result()
    store.write(op.PutPin(Pin(tenant="t1", key="p", text="pinned", made_at=OLD, until=OLD + 1))).result()
    conversation(store, "old", OLD)
    conversation(store, "used", OLD, NOW - DAY * US)
    conversation(store, "new", NOW - DAY * US)
    conversation(store, "chat", OLD, client=CLIENT)
    conversation(store, "logged", OLD, client="a program of one's own")


def counts(path: Path) -> dict[str, dict[str, int]]:
    """How many rows of each table every session has; of `pins` all."""
    with closing(sqlite3.connect(path)) as look:
        rows: dict[str, dict[str, int]] = {}
        for name in ("old", "used", "new", "chat", "logged"):
            of = {"sessions": ("id", name), "lanes": ("session", name)}
            of |= dict.fromkeys(("ledgers", "edits", "injections"), ("lane", f"{name}/l"))
            of |= dict.fromkeys(("streams", "calls", "breaks", "shown"), ("session", name))
            rows[name] = {
                table: look.execute(f"SELECT count(*) FROM {table} WHERE {column} = ?", (value,)).fetchone()[0]
                for table, (column, value) in of.items()
            }
        rows["pins"] = {"": look.execute("SELECT count(*) FROM pins").fetchone()[0]}
    return rows


def stored(gate: Driven) -> SqliteStore:
    store = gate.gate.gateway.store
    assert isinstance(store, SqliteStore)
    return store


@pytest.fixture
def logged(tmp_path: Path) -> Path:
    """Where the agent keeps its conversations; one of them is there."""
    folder = tmp_path / "holdfast" / retention.SESSIONS
    folder.mkdir(parents=True)
    (folder / "logged.jsonl").write_text("{}\n")
    return folder


def test_everything_of_what_has_aged_goes_and_nothing_else(tmp_path: Path, logged: Path) -> None:
    with driven(tmp_path, store__retention=90) as gate:
        store = stored(gate)
        fill(store)
        for number in range(100):  # pages that nothing stands on afterwards
            store.write(
                op.PutCall(
                    call(tenant="t1", id=f"x{number}", session="old", lane="old/l", started_at=OLD, plan=bytes(9_000))
                )
            )
        store.flush()
        before, paid = counts(store.path), report.bill(store).total
        gate.round()
        after = counts(store.path)
        assert set(after["old"].values()) == {0}
        assert after["pins"] == {"": 0}
        for name in ("new", "chat", "logged"):
            assert after[name] == before[name], name
        assert after["used"] == before["used"] | {"calls": 1, "breaks": 0, "shown": 0}
        assert report.bill(store).total.cost == paid.cost
        assert store.knowledge("t1", "k1") is not None
        with closing(sqlite3.connect(store.path)) as look:
            assert look.execute("PRAGMA freelist_count").fetchone() == (0,)
        assert check(store.path, blobs_of(store.path)).damage == ()
        files = {path.read_bytes() for _, _, path in BlobFiles(store.path.with_name("holdfast.db.blobs")).stored()}
        assert files == {f"replacement of {name}".encode() for name in ("used", "new", "chat", "logged")}


def test_a_call_that_ends_while_old_ones_are_removed_is_on_the_bill(tmp_path: Path) -> None:
    with open_store(tmp_path / "holdfast.db") as store:
        conversation(store, "old", OLD)
        late = call(tenant="t1", id="late", session="other", lane="other/l", started_at=OLD)

        def ends(what: str, _count: int) -> None:
            if what == "lanes":
                store.write(op.PutCall(late)).result()

        store.prune(NOW, progress=ends)
        assert [each.id for each in store.calls()] == ["late"]
        assert check(store.path, blobs_of(store.path)).damage == ()


def test_the_default_removes_nothing_before_it_was_announced(tmp_path: Path, logged: Path) -> None:
    with driven(tmp_path) as gate:
        store, keeps = stored(gate), gate.gate.gateway.retention
        fill(store)
        before = counts(store.path)
        gate.round()
        assert counts(store.path) == before
        assert (keeps.days, keeps.chosen, keeps.is_news(store)) == (90, False, True)
        keeps.announced(store, gate.clock.now())
        store.flush()
        for _ in range(GRACE_DAYS - 1):
            gate.clock.advance(DAY + 1)
            gate.round()
            keeps.announced(store, gate.clock.now())  # said again, which puts nothing off
            assert counts(store.path) == before
        gate.clock.advance(DAY + 1)
        gate.round()
        assert set(counts(store.path)["old"].values()) == {0}
        assert counts(store.path)["chat"] == before["chat"]


def test_zero_keeps_everything(tmp_path: Path) -> None:
    with driven(tmp_path, store__retention=0) as gate:
        fill(stored(gate))
        before = counts(stored(gate).path)
        gate.clock.advance(1_000 * DAY)
        gate.round()
        assert counts(stored(gate).path) == before


def test_a_lane_that_is_taken_up_after_it_was_removed(tmp_path: Path) -> None:
    """The process that still has it in memory goes on with it as with a new one."""
    with driven(tmp_path, store__retention=1) as gate:
        store = stored(gate)
        for turns in (1, 2):
            gate.anthropic(turns)
        eventually(lambda: [each.status for each in store.calls()] == ["settled"] * 2)
        gate.clock.advance(3 * DAY)
        gate.round()
        assert (store.sessions(), store.calls()) == ([], [])
        for turns in (3, 4):
            gate.anthropic(turns)
        eventually(lambda: [each.status for each in store.calls()] == ["settled"] * 2)
        (again,) = store.sessions()
        (kept,) = store.lanes(again.tenant, again.id)
        eventually(lambda: store.ledger(kept.tenant, kept.id) is not None)
        assert all(each.passage is not None and each.passage.bypass is None for each in gate.gate.calls)


@pytest.mark.parametrize("legacy", [False, True], ids=["new", "of 0.1.0"])
def test_the_room_is_given_back(tmp_path: Path, legacy: bool) -> None:
    path = tmp_path / "holdfast.db"
    if legacy:
        with closing(sqlite3.connect(path)) as file:
            file.execute("CREATE TABLE made (x)")
            file.execute("DROP TABLE made")
            assert file.execute("PRAGMA page_count").fetchone()[0]
    with open_store(path) as store:
        for number in range(400):
            store.write(op.PutCall(call(id=f"c{number}", started_at=OLD, plan=bytes(8_000))))
        store.flush()
        with closing(sqlite3.connect(path)) as look:
            look.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            assert look.execute("PRAGMA auto_vacuum").fetchone()[0] == (0 if legacy else 2)
        before = path.stat().st_size
        store.prune(NOW)
        store.give_back()
        assert path.stat().st_size < before / 4
        assert store.check(whole=True) is None


@pytest.mark.slow
def test_it_is_said_at_the_start_and_counts_from_then_on(tmp_path: Path) -> None:
    with ServeProgram(tmp_path, "http://127.0.0.1:1") as program:
        eventually(lambda: "Kept: from " in program.out)
        assert "older than 90 days will be removed" in " ".join(program.out.split())
        with open_store(program.home / "holdfast.db") as store:
            eventually(lambda: "retention_announced" in store.marks())
            keeps = RetentionPeriod.configured(configured(tmp_path, "http://127.0.0.1:1"))
            begins = keeps.begins(store)
            assert begins is not None
            assert keeps.cutoff(store, begins - 1) is None
            assert keeps.cutoff(store, begins + 1) is not None


@pytest.mark.slow
def test_run_says_it_once(tmp_path: Path) -> None:
    environ = {**os.environ, "HOLDFAST_HOME": str(tmp_path / "home"), "HOLDFAST_GATEWAY_PORT": "0"}
    command = [sys.executable, "-m", "holdfast", "run", "--", sys.executable, "-c", "pass"]
    said = [
        " ".join(subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stderr.split())
        for _ in range(2)
    ]
    assert ["older than 90 days will be removed" in each for each in said] == [True, False]


def test_the_agents_client_is_known_here() -> None:
    assert retention.AGENT == CLIENT
