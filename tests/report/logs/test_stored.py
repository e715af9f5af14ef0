"""The gateway's store as a log: the calls of a day's work, with what was found when they were made."""

from __future__ import annotations

import shutil
import sqlite3
from decimal import Decimal
from pathlib import Path

import pytest

from holdfast.records import usage
from holdfast.report.logs import bodies, chat, gateway_store, shapes
from holdfast.report.logs.records import BrokenSource, LoggedBreak, LoggedRequest
from holdfast.store import Break, Call, Lane, open_existing, open_store
from holdfast.store import operations as op
from holdfast.store.sqlite.schema import VERSIONS
from tests.report.logs.request_logs import is_mine
from tests.report.workday import CHAT, CODING, GPT, HAIKU, NEW, SONNET, Workday, work

FIRST, SECOND = CODING, f"{CODING} (t-two)"


@pytest.fixture(scope="module")
def workday(tmp_path_factory: pytest.TempPathFactory) -> Workday:
    return work(tmp_path_factory.mktemp("stored") / "holdfast.db")


@pytest.fixture
def found(workday: Workday) -> dict[str, LoggedRequest]:
    """The records by the names of the calls."""
    records = read(workday.path)
    names = {call: name for name, call in workday.calls.items()}
    return {names[record.source.partition(":")[2]]: record for record in records}


def read(path: Path) -> list[LoggedRequest]:
    records = list(gateway_store.read(path, lambda _: None))
    assert not [record for record in records if isinstance(record, BrokenSource)]
    return [record for record in records if isinstance(record, LoggedRequest)]


def test_every_call_that_was_billed_is_there_once(workday: Workday, found: dict[str, LoggedRequest]) -> None:
    unbilled = {"failed", "left", "pending"}
    assert found.keys() == workday.calls.keys() - unbilled
    assert {name: found[name].usage for name in workday.usages} == dict(workday.usages)
    opened = open_existing(workday.path)
    assert opened is not None
    with opened:
        stored_calls = [call for call in opened.calls(limit=10_000) if call.usage is not None]
    assert sum((record.usage.cost or 0 for record in found.values() if record.usage), Decimal(0)) == sum(
        (call.usage.cost or 0 for call in stored_calls if call.usage), Decimal(0)
    )


def test_sessions_come_one_after_the_other_in_the_order_of_their_calls(workday: Workday) -> None:
    records = read(workday.path)
    sessions = list(dict.fromkeys(record.session for record in records))
    assert sessions == [FIRST, CHAT, NEW, SECOND]  # of two tenants' the first is what a client's own log calls it
    assert [record.session for record in records] == sorted(
        (record.session for record in records), key=lambda name: sessions.index(name)
    )
    for name in sessions:
        times = [record.at or 0 for record in records if record.session == name]
        assert times == sorted(times)


def test_lanes_have_their_agents_and_models(found: dict[str, LoggedRequest]) -> None:
    assert (found["main 0"].agent, found["main 0"].model, found["main 0"].client) == ("", SONNET, "claude-code")
    assert found["scout"].agent == "scout"
    assert (found["title"].agent, found["title"].model) == ("side", HAIKU)
    assert found["ping"].agent == "ping"
    assert (found["past"].agent, found["past"].reset) == ("", "bypassed")
    assert (found["chat 0"].model, found["chat 0"].session) == (GPT, CHAT)
    assert "\x1b" not in found["mythical"].client
    assert all(record.body is None for record in found.values())


def test_breaks_and_resets_are_told_as_they_were_found(workday: Workday, found: dict[str, LoggedRequest]) -> None:
    for name, verdict in workday.verdicts.items():
        told, finding = found[name].told, verdict.finding
        assert (told is None) == (finding is None), name
        if told is not None and finding is not None:
            assert (told.cause, told.reset, told.tokens) == (finding.cause, finding.reason, finding.tokens)
            assert told.dollars == finding.dollars
    clock = found["clock"].told
    assert (clock.cause, clock.path, clock.cure) == ("system_prompt_changed", "system[1]", "clock")
    assert clock.offset is not None
    assert clock.advice is not None
    assert clock.setting is not None
    past = found["past"].told
    assert (past.cause, past.reset) == (None, "bypassed")


def test_progress_is_that_of_the_file(workday: Workday) -> None:
    told: list[int] = []
    list(gateway_store.read(workday.path, told.append))
    assert sum(told) == workday.path.stat().st_size
    assert all(step >= 0 for step in told)


def test_the_file_is_recognised_by_its_id_and_left_as_it_was(workday: Workday, tmp_path: Path) -> None:
    assert is_mine(gateway_store, workday.path)
    assert not any(is_mine(module, workday.path) for module in (bodies, chat, shapes))
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE t (x)")
    other.close()
    assert not is_mine(gateway_store, tmp_path / "other.db")
    assert not gateway_store.is_mine(tmp_path, b"")
    before = workday.path.read_bytes()
    read(workday.path)
    assert workday.path.read_bytes() == before


def put(path: Path, calls: int, *, at: int = 1_000_000, lanes: int = 1) -> None:
    """A session with so many calls, three at a time, each tenth with a break."""
    with open_store(path) as store:
        for lane in range(lanes):
            store.write(op.PutLane(Lane(tenant="t", id=f"s/{lane}", session="s", model="m", started_at=at)))
        for number in range(calls):
            name = f"c{number:06}"
            call = Call(
                tenant="t",
                id=name,
                session="s",
                lane=f"s/{number % lanes}",
                model="m",
                started_at=at + number // 3,
                ended_at=at + number // 3 + 500,
                status="settled",
                usage=usage(input=number, output=1),
                verdict=b"{}",
            )
            store.write(op.PutCall(call))
            if number % 10 == 0:
                store.write(
                    op.PutBreak(
                        Break(
                            tenant="t",
                            id=f"b{number:06}",
                            call=name,
                            session="s",
                            lane=call.lane,
                            model="m",
                            at=at + number // 3 + 500,
                            cause="unknown",
                            tokens=number,
                            data=b"not JSON",
                        )
                    )
                )
        store.flush()


def test_many_calls_come_in_pages_without_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "h.db", 200, lanes=2)
    for size in (2, 3, 7, 199, 200, 201):
        monkeypatch.setattr(gateway_store, "_PAGE", size)
        records = read(tmp_path / "h.db")
        assert [record.usage.input for record in records if record.usage] == list(range(200)), size
        assert [number for number, record in enumerate(records) if record.told] == list(range(0, 200, 10))
        assert {record.agent for record in records} == {"", "#2"}
    assert records[10].told == LoggedBreak(cause="unknown", reset=None, tokens=10, dollars=None)


def test_a_store_of_a_newer_version_is_broken_with_a_reason(workday: Workday, tmp_path: Path) -> None:
    path = tmp_path / "newer.db"
    shutil.copy(workday.path, path)
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {len(VERSIONS) + 1}")
    connection.close()
    [record] = gateway_store.read(path, lambda _: None)
    assert isinstance(record, BrokenSource)
    assert "upgrade" in record.why


@pytest.mark.parametrize("damage", ["cut", "page", "columns", "row"])
def test_a_damaged_store_is_broken_with_a_reason(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "h.db"
    put(path, 600)
    if damage in ("cut", "page"):
        raw = bytearray(path.read_bytes())
        if damage == "cut":
            del raw[len(raw) // 2 :]
        else:
            raw[8_192 : len(raw) - 4_096] = b"\xa5" * (len(raw) - 12_288)
        path.write_bytes(bytes(raw))
    else:
        with sqlite3.connect(path) as connection:
            change = "ALTER TABLE calls RENAME COLUMN writes TO written_by"
            connection.execute(change if damage == "columns" else "UPDATE calls SET writes = 'many' WHERE input = 300")
        connection.close()
    records = list(gateway_store.read(path, lambda _: None))
    assert isinstance(records[-1], BrokenSource)
    assert 0 < len(records[-1].why) < 400
    assert all(isinstance(record, LoggedRequest) for record in records[:-1])


def test_an_empty_store_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "h.db").touch()
    assert list(gateway_store.read(tmp_path / "h.db", lambda _: None)) == []
    with open_store(tmp_path / "new.db"):
        pass
    assert list(gateway_store.read(tmp_path / "new.db", lambda _: None)) == []
