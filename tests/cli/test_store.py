"""`holdfast store`: check, backup, prune, vacuum, and forget, which leaves no word of a tenant in any file."""

from __future__ import annotations

import io
import json
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.cli import run as main
from holdfast.core.breaks import Finding
from holdfast.core.divergence import Place
from holdfast.engine.byte_diff import ByteDiff
from holdfast.engine.identity.identities import LOCAL
from holdfast.engine.reports import Reports
from holdfast.simulator.provider import Simulator
from holdfast.simulator.server import running as simulating
from holdfast.store import (
    KnowledgeEntry,
    KnowledgeVector,
    Owner,
    Pin,
    SqliteStore,
    open_existing,
    open_store,
)
from holdfast.store import operations as op
from holdfast.store.sqlite.backup import back_up
from holdfast.tools.offload import directory_of
from tests.cli.commands import output
from tests.gateway.gate import eventually, gated
from tests.simulator.http_client import ANTHROPIC, Client
from tests.store.samples import call, event, found, lane, session

OLD = 1_700_000_000_000_000
NOW = round(time.time() * 1_000_000)


class Said(NamedTuple):
    code: int
    out: str
    err: str


class Here:
    """The command on a home of its own."""

    def __init__(self, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.home, self._capfd = home, capfd
        self.path = home / "holdfast.db"

    def __call__(self, *arguments: str) -> Said:
        self._capfd.readouterr()
        code = main(["store", *arguments])
        return Said(code, *self._capfd.readouterr())

    def store(self) -> SqliteStore:
        return open_store(self.path)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Here:
    home = tmp_path / "hold"
    home.mkdir()
    monkeypatch.setenv("HOLDFAST_HOME", str(home))
    return Here(home, capfd)


def plant(here: Here, tenant: str, word: str, at: int = NOW) -> None:
    """Everything that can be kept of a tenant, with a word in it that stands nowhere else."""
    name, text = f"session-{word}", f"say {word} here"
    row = lane(tenant=tenant, id=f"lane-{word}", session=name, started_at=at, data=text.encode())
    with here.store() as store:
        store.write(op.PutSession(session(tenant=tenant, id=name, started_at=at, data=text.encode())))
        store.write(op.PutLane(row))
        store.write(op.PutLedger(tenant, row.id, text.encode(), expected=0))
        store.write(op.PutPool(tenant, f"model-{word}", text.encode(), expected=0))
        store.write(op.PutEdit(tenant, row.id, f"block-{word}", text.encode(), at=at))
        store.write(op.PutEdit(tenant, row.id, "shared", b"bytes that everybody has", at=at))
        store.write(op.PutInjection(tenant, row.id, text.encode(), expected=0))
        store.write(
            op.PutCall(call(tenant=tenant, id=f"c-{word}", session=name, lane=row.id, started_at=at, error=text))
        )
        store.write(op.PutBreak(found(tenant=tenant, id=f"b-{word}", session=name, lane=row.id, at=at, path=text)))
        store.write(op.AppendEvents.of(tenant, [event(at=at, session=name)]))
        store.write(op.PutBlob(tenant, Owner("session", name), f"blob {word}".encode(), at=at))
        entry = KnowledgeEntry(
            tenant=tenant, id=f"k-{word}", category="fact", title=word, content=text, created_at=at, updated_at=at
        )
        store.write(op.PutKnowledge(entry, expected=0, operation="add", by=word)).result()
        store.write(op.PutVectors(tenant, "m", [KnowledgeVector(id=entry.id, revision=1, data=word.encode())]))
        store.write(op.PutPin(Pin(tenant=tenant, key=word, text=text, made_at=at, until=at + 1)))
        store.write(
            op.PutShown(tenant, [(entry.id, "")], at=at, session=name, lane=row.id, place="delta", why=word)
        ).result()
    results = directory_of(here.home, name, tenant)
    results.mkdir(parents=True)
    (results / "1.txt").write_text(text)
    broken = found(tenant=tenant, id=f"r{word}", session=name, lane=row.id, at=at, path=text)
    finding = Finding(tokens=1, dollars=0, expected=1, read=0, cause="unknown", reason=None)  # type: ignore[arg-type]
    difference = ByteDiff(before=text.encode(), after=b"now", place=Place(offset=0, before=text, after="now"))
    reports = Reports(here.home / "cache-breaks", keep_bodies=True)
    assert reports.write(broken, finding, difference=difference) is not None
    if tenant == LOCAL:
        logs = here.home / "sessions"
        logs.mkdir(exist_ok=True)
        (logs / f"{name}.jsonl").write_text(json.dumps({"text": text}) + "\n")
        (logs / f"{name}.jsonl.torn").write_text(text)
        (logs / f"{name}.jsonl.damaged").write_text(text)
        (logs / f"unstored-{word}.jsonl").write_text(text)
        (here.home / "chat-history").write_text(text)


def leave_in_free_pages(here: Here, word: str) -> None:
    """Pages that nothing stands on any more, and that still say it."""
    with closing(sqlite3.connect(here.path, isolation_level=None)) as file:
        file.execute("PRAGMA secure_delete = OFF")
        file.execute("INSERT INTO sessions (tenant, id, started_at, data) VALUES ('x', 'y', 1, ?)", (word * 5_000,))
        file.execute("DELETE FROM sessions WHERE tenant = 'x'")
        assert file.execute("PRAGMA freelist_count").fetchone()[0] > 5


def files_with(home: Path, word: str) -> list[str]:
    """The files that hold a word, in whatever case, or are named so."""
    return [
        str(path.relative_to(home))
        for path in home.rglob("*")
        if path.is_file() and (word.encode() in path.read_bytes().lower() or word in path.name)
    ]


class TestForget:
    @pytest.mark.parametrize("tenant", [LOCAL, "aa11", "bb22"])
    def test_no_word_of_a_tenant_is_left_in_any_file(self, here: Here, tenant: str) -> None:
        words = {LOCAL: "zebrafalcon", "aa11": "mangotundra", "bb22": "quartzlagoon"}
        for each, word in words.items():
            plant(here, each, word)
        leave_in_free_pages(here, words[tenant])
        everywhere = {each: files_with(here.home, word) for each, word in words.items()}
        assert all(len(places) > 5 for places in everywhere.values())
        done = here("forget", tenant[:4], "--yes")
        assert (done.code, done.err) == (0, "")
        assert files_with(here.home, words[tenant]) == []
        assert tenant.encode() not in here.path.read_bytes() or tenant == LOCAL
        for other in set(words) - {tenant}:
            assert set(files_with(here.home, words[other])) >= set(everywhere[other]) - {"holdfast.db-wal"}
            with here.store() as store:
                found_ = store.find_knowledge(other, [words[other]])
                assert [entry.id for entry, _ in found_] == [f"k-{words[other]}"]
                (edit,) = [each for each in store.edits(other, f"lane-{words[other]}") if each.block == "shared"]
                assert store.read_blob(other, edit.blob) == b"bytes that everybody has"
        assert here("check").code == 0

    @pytest.mark.parametrize("tenant", ["s-first", "s-renewed"])
    def test_an_account_is_forgotten_with_all_its_login_tokens(self, here: Here, tenant: str) -> None:
        plant(here, "s-first", "zebrafalcon")
        plant(here, "s-renewed", "mangotundra")
        plant(here, "s-other", "quartzlagoon")
        with here.store() as store:
            store.write(op.PutAccount("l-11", "s-first", at=NOW))
            store.write(op.PutAccount("s-renewed", "s-first", at=NOW))
            store.write(op.PutAccount("l-22", "s-other", at=NOW))
        done = here("forget", tenant, "--yes", "--json")
        assert {each["tenant"] for each in json.loads(done.out)["tenants"]} == {"s-first", "s-renewed"}
        assert files_with(here.home, "zebrafalcon") == files_with(here.home, "mangotundra") == []
        assert files_with(here.home, "quartzlagoon")
        with here.store() as store:
            assert [store.account(name) for name in ("l-11", "s-renewed", "l-22")] == [None, None, "s-other"]

    def test_it_says_what_it_removed(self, here: Here) -> None:
        plant(here, "aa11", "mangotundra")
        done = here("forget", "aa11", "--yes", "--json")
        (said,) = json.loads(done.out)["tenants"]
        assert said["rows"]["calls"] == said["rows"]["knowledge"] == said["rows"]["events"] == 1
        assert (said["blobs"], said["offloaded"], said["reports"]) == (3, 1, 1)

    def test_while_a_gateway_runs_it_is_refused(self, here: Here, tmp_path: Path) -> None:
        with (
            simulating(Simulator()) as upstream,
            gated(tmp_path, upstream, store__url=f"sqlite:///{here.path}") as gate,
        ):
            body = {"model": "claude-opus-4-6", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}
            assert Client(gate.address).post("/v1/messages", json.dumps(body).encode(), ANTHROPIC).status == 200
            store = gate.gateway.store
            eventually(lambda: [each.status for each in store.calls()] == ["settled"])
            (row,) = store.calls()
            done = here("forget", row.tenant, "--yes")
            assert (done.code, "is in use; end `holdfast serve`" in done.err) == (1, True)
            assert len(store.calls()) == 1
        assert here("forget", row.tenant, "--yes").code == 0
        with here.store() as after:
            assert (after.calls(), after.sessions()) == ([], [])

    def test_nobody_is_let_in_meanwhile_and_everybody_afterwards(self, here: Here) -> None:
        plant(here, "aa11", "mangotundra")
        assert here("forget", "aa11", "--yes").code == 0
        with here.store() as store:
            store.write(op.PutSession(session())).result()
            assert store.sessions()

    def test_names_that_fit_nobody_or_several(self, here: Here) -> None:
        plant(here, "aa11", "mangotundra")
        plant(here, "aa22", "quartzlagoon")
        assert "fits more than one" in here("forget", "aa", "--yes").err
        assert "is no tenant of this store; there are aa11, aa22" in here("forget", "cc", "--yes").err
        assert files_with(here.home, "mangotundra")

    def test_it_asks(self, here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
        plant(here, "aa11", "mangotundra")
        monkeypatch.setattr("sys.stdin", io.StringIO())
        done = here("forget", "aa11")
        assert (done.code, "nothing was removed" in done.err) == (1, True)
        assert files_with(here.home, "mangotundra")


class TestCheck:
    def test_a_whole_store(self, here: Here) -> None:
        plant(here, "aa11", "mangotundra")
        done = here("check")
        assert (done.code, "whole" in done.out) == (0, True)
        assert json.loads(here("check", "--json").out)["damage"] == []

    def test_a_page_that_is_overwritten(self, here: Here) -> None:
        plant(here, "aa11", "mangotundra")
        with closing(sqlite3.connect(here.path)) as look:
            (page,) = look.execute("SELECT rootpage FROM sqlite_master WHERE name = 'calls_by_lane'").fetchone()
            (size,) = look.execute("PRAGMA page_size").fetchone()
        with here.path.open("r+b") as file:
            file.seek((page - 1) * size)
            file.write(b"\xa5" * size)
        assert here("check").code == 1

    def test_what_is_no_database(self, here: Here) -> None:
        here.path.write_bytes(b"no database" * 1_000)
        done = here("check")
        assert (done.code, "not a SQLite database" in done.out) == (1, True)

    def test_blobs_that_are_gone_changed_or_left_over(self, here: Here) -> None:
        plant(here, "aa11", "mangotundra")
        blobs = sorted(each for each in (here.home / "holdfast.db.blobs").rglob("*") if each.is_file())
        blobs[0].unlink()
        blobs[1].write_bytes(b"other bytes")
        stray = blobs[1].with_name("stray")
        stray.write_bytes(b"x")
        said = json.loads(here("check", "--json").out)
        assert [line.split()[1] for line in said["damage"]] == [blobs[0].name, blobs[1].name]
        assert said["leftovers"] == [str(stray)]

    def test_sums_that_do_not_fit(self, here: Here) -> None:
        plant(here, "aa11", "mangotundra")
        with closing(sqlite3.connect(here.path)) as look, look:
            look.execute("UPDATE bill_hours SET input = input + 1")
        assert (here("check").code, "sums" in here("check").out) == (1, True)


def test_explain_marks_what_is_estimated_of_cut_answers(here: Here, capfd: pytest.CaptureFixture[str]) -> None:
    of = {"model": "anthropic:claude-opus-4-6", "lane": "l1", "session": "s1"}
    with here.store() as store:
        store.write(op.PutSession(session(tenant="t1", id="s1", started_at=NOW)))
        store.write(op.PutLane(lane(tenant="t1", id="l1", session="s1", started_at=NOW)))
        store.write(op.PutCall(call(**of, started_at=NOW)))
        store.write(op.PutCall(call(**of, started_at=NOW + 1, status="abandoned", verdict=b'{"estimated":true}')))
    said = output("explain", str(here.path), "--quiet")
    assert "  ~$" in said
    assert "~ 1 request was cut: what the provider had not told of the usage is estimated." in said
    assert main(["explain", str(here.path), "--quiet", "--json"]) == 0
    (found_,) = json.loads(capfd.readouterr().out)["sessions"]
    assert (found_["cut"], found_["estimated"]) == (1, False)
    assert "1 request was cut: a part of the usage is estimated." in output(
        "explain", str(here.path), "--quiet", "--format", "html"
    )


class TestBackup:
    def test_a_copy_that_can_be_used(self, here: Here, tmp_path: Path) -> None:
        plant(here, "aa11", "mangotundra")
        target = tmp_path / "copies" / "copy.db"
        assert here("backup", str(target)).code == 0
        assert sorted(each.name for each in target.parent.iterdir()) == ["copy.db", "copy.db.blobs"]
        assert target.stat().st_mode & 0o077 == 0
        with open_store(target) as copy:
            (edit,) = [each for each in copy.edits("aa11", "lane-mangotundra") if each.block == "shared"]
            assert copy.read_blob("aa11", edit.blob) == b"bytes that everybody has"
            assert len(copy.calls()) == 1

    def test_of_a_damaged_store_the_store_is_named_and_not_the_copy(self, here: Here, tmp_path: Path) -> None:
        here.path.write_bytes(b"no database at all " * 500)
        done = here("backup", str(tmp_path / "copy.db"))
        assert (done.code, f"the store {here.path} is not a SQLite database" in done.err) == (1, True)
        assert list(tmp_path.glob("*copy*")) == []

    def test_nothing_is_overwritten_without_force(self, here: Here, tmp_path: Path) -> None:
        plant(here, "aa11", "mangotundra")
        target = tmp_path / "copy.db"
        target.write_text("mine")
        done = here("backup", str(target))
        assert (done.code, "there already" in done.err, target.read_text()) == (1, True, "mine")
        assert here("backup", str(target), "--force").code == 0
        copy = open_existing(target)
        copy.close()
        assert "the store itself" in here("backup", str(here.path), "--force").err

    def test_a_damaged_store_makes_no_backup(self, here: Here, tmp_path: Path) -> None:
        plant(here, "aa11", "mangotundra")
        next(each for each in (here.home / "holdfast.db.blobs").rglob("*") if each.is_file()).write_bytes(b"other")
        target = tmp_path / "copy.db"
        target.write_text("mine")
        done = here("backup", str(target), "--force")
        assert (done.code, "not whole" in done.err, target.read_text()) == (1, True, "mine")
        assert [each.name for each in tmp_path.iterdir() if "copy" in each.name] == ["copy.db"]

    def test_while_it_is_written(self, here: Here, tmp_path: Path) -> None:
        over = threading.Event()
        with here.store() as store:

            def write() -> None:
                number = 0
                while not over.is_set():
                    store.write(op.PutCall(call(id=f"c{number}", plan=bytes(2_000))))
                    store.write(op.PutEdit("t1", f"l{number}", "b", b"x%d" % number, at=NOW))
                    store.write(op.EndLane("t1", f"l{number - 3}", NOW)).result()
                    number += 1

            writing = threading.Thread(target=write)
            writing.start()
            try:
                eventually(lambda: len(store.calls()) > 50)
                for number in range(3):
                    assert back_up(here.path, tmp_path / f"{number}.db").damage == ()
            finally:
                over.set()
                writing.join()


class TestPruneAndVacuum:
    @pytest.fixture
    def filled(self, here: Here) -> Here:
        plant(here, "aa11", "mangotundra", at=OLD)
        plant(here, "bb22", "quartzlagoon")
        with here.store() as store:
            for number in range(300):
                store.write(op.PutCall(call(tenant="aa11", id=f"x{number}", started_at=OLD, plan=bytes(8_000))))
            store.flush()
        return here

    def test_prune(self, filled: Here) -> None:
        before = filled.path.stat().st_size
        would = json.loads(filled("prune", "--dry-run", "--json").out)
        assert (would["calls"], would["sessions"], would["lanes"]) == (301, 1, 1)
        with filled.store() as store:
            assert len(store.calls()) == 302
        done = json.loads(filled("prune", "--yes", "--json").out)
        assert {name: done[name] for name in ("calls", "breaks", "events", "sessions", "lanes")} == {
            name: would[name] for name in ("calls", "breaks", "events", "sessions", "lanes")
        }
        assert filled.path.stat().st_size < before / 2
        with filled.store() as store:
            assert [each.tenant for each in store.sessions()] == ["bb22"]
            assert store.knowledge("aa11", "k-mangotundra") is not None
        assert filled("check").code == 0

    def test_where_nothing_is_old_nobody_is_asked(self, here: Here) -> None:
        plant(here, "bb22", "quartzlagoon")
        done = here("prune", "--older-than", "1d")
        assert (done.code, done.err) == (0, "")
        assert "older than 1 day (" in done.out

    def test_sizes_are_those_of_the_file_and_its_log(self, here: Here) -> None:
        with here.store() as store:  # somebody else has it open: what was written stands in the log
            for number in range(50):
                store.write(op.PutCall(call(tenant="aa11", id=f"x{number}", plan=bytes(8_000))))
            store.flush()
            done = json.loads(here("vacuum", "--json").out)
        assert done["before"] > 400_000
        assert done["after"] <= done["before"]

    def test_conversations_of_the_agent_stay(self, filled: Here) -> None:
        logs = filled.home / "sessions"
        logs.mkdir()
        (logs / "session-mangotundra.jsonl").write_text("{}\n")
        assert json.loads(filled("prune", "--yes", "--json").out)["sessions"] == 0
        with filled.store() as store:
            assert len(store.sessions()) == 2
            assert store.ledger("aa11", "lane-mangotundra") is not None

    @pytest.mark.parametrize("age", ["0d", "soon", "-1d", "1h"])
    def test_ages_that_are_none(self, filled: Here, age: str) -> None:
        assert filled("prune", f"--older-than={age}", "--yes").code == 2
        with filled.store() as store:
            assert len(store.calls()) == 302

    def test_nothing_is_old_where_everything_is_kept(self, filled: Here, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOLDFAST_STORE_RETENTION", "0")
        assert "everything is kept" in filled("prune", "--yes").err
        assert filled("prune", "--older-than", "8w", "--yes").code == 0

    def test_vacuum_of_a_store_of_0_1_0(self, filled: Here) -> None:
        with closing(sqlite3.connect(filled.path, isolation_level=None)) as old:
            old.execute("PRAGMA journal_mode = DELETE")
            old.execute("PRAGMA auto_vacuum = NONE")
            old.execute("VACUUM")
            old.execute("DELETE FROM calls WHERE started_at < 1750000000000000")
            old.execute("DELETE FROM bill_hours WHERE hour < 1750000000000000")
            old.execute("DROP TABLE session_activity")  # added and filled by a later version
            old.execute("PRAGMA user_version = 4")
        before = filled.path.stat().st_size
        assert filled("vacuum").code == 0
        assert filled.path.stat().st_size < before / 2
        with closing(sqlite3.connect(filled.path)) as look:
            assert look.execute("PRAGMA auto_vacuum").fetchone() == (2,)
        assert filled("check").code == 0

    def test_vacuum_while_it_is_in_use(self, filled: Here) -> None:
        with filled.store() as store:
            before = filled.path.stat().st_size
            store.prune(NOW - 1)
            assert filled("vacuum").code == 0
            assert filled.path.stat().st_size < before / 2
            assert store.sessions()


def test_nothing_stored_yet(here: Here) -> None:
    for arguments in (("check",), ("backup", "x"), ("prune",), ("vacuum",), ("forget", "a")):
        done = here(*arguments)
        assert (done.code, "nothing is stored yet" in done.err) == (1, True)
    assert not here.path.exists()
