"""A bill from the sums of whole hours says to the last digit what adding up every call says."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from datetime import UTC, tzinfo
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from benchmarks import bill as filling
from holdfast import report
from holdfast.records.token_usage import usage
from holdfast.store import HOUR, SIZES, Call, CallDraft, SqliteStore, open_existing, open_store
from holdfast.store import operations as op
from holdfast.store.sqlite.schema import VERSIONS

START = filling.START
MODELS = ("anthropic:claude-opus-4-6", "gemini:gemini-2.5-pro", "deepseek:deepseek-chat", "openai:gpt-5", "x:nobody")


def odd_call(chance: random.Random, number: int) -> Call:
    """A call of any shape: sizes around the steps of prices, costs of any number of digits, statuses, no client."""
    size = chance.choice(SIZES) + chance.randrange(-1, 2)
    at = START + chance.randrange(50 * HOUR)
    answered = chance.random() < 0.9
    used = usage(
        input=chance.randrange(9), read=size, output=chance.randrange(900), writes={"5m": 3, "1h": chance.randrange(2)}
    )
    cost = None if chance.random() < 0.2 else Decimal(chance.randrange(10**9)).scaleb(-chance.randrange(3, 25))
    saved = chance.choice(['"-0.250"', '"0.1000000001"', "0.5", "null", '"1E-12"'])
    judged = b'{"explained":true,"saved":%b}' % saved.encode()
    return Call(
        tenant=chance.choice(("a", "b", "s-subscription")),
        id=f"odd-{number:05d}",
        session=chance.choice("pqr"),
        lane="l",
        model=chance.choice(MODELS),
        started_at=at,
        status=chance.choice(("settled", "settled", "pending") if answered else ("pending", "failed", "abandoned")),
        kind=chance.choice(("request", "side", "ping", "bypassed")),
        client=chance.choice((None, "", "=", "claude-code", "holdfast")),
        usage=msgspec.structs.replace(used, cost=cost) if answered else None,
        verdict=chance.choice((None, b"not json", judged, b'{"estimated":true}', b'{"possible":"0.0150"}')),
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many calls: replaced, moved to another hour, deleted with their session, pruned."""
    path = tmp_path_factory.mktemp("bills") / "holdfast.db"
    chance = random.Random(5)
    with open_store(path) as store:
        filling.fill(store, 1_500)
        for number in range(1_200):
            made = odd_call(chance, number)
            if number % 2:
                store.write(op.PutCall(made))
            else:  # as the engine does, of whose calls many are written together
                store.post(op.PutCall(CallDraft(made), first=True))
        store.flush()  # or a call that is replaced would never be written
        for number in chance.sample(range(1_200), 150):
            store.write(op.PutCall(odd_call(chance, number)))
        gone = store.sessions(limit=1)[0]
        store.write(op.DeleteSession(gone.tenant, gone.id)).result()
    return path


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    found = open_existing(path)
    assert found is not None
    with found:
        yield found


def both(store: SqliteStore, monkeypatch: pytest.MonkeyPatch, **asked: object) -> tuple[bytes, bytes]:
    """The bill from the sums, and with every call added up."""
    summed = report.bill(store, **asked)  # type: ignore[arg-type]
    with monkeypatch.context() as patch:
        patch.setattr(SqliteStore, "bill_extent", lambda _: None)
        added = report.bill(store, **asked)  # type: ignore[arg-type]
    assert summed.total.calls > 0
    return msgspec.json.encode(summed), msgspec.json.encode(added)


@pytest.mark.parametrize("zone", [UTC, ZoneInfo("Asia/Kolkata"), ZoneInfo("Australia/Lord_Howe")], ids=str)
def test_of_everything(store: SqliteStore, zone: tzinfo, monkeypatch: pytest.MonkeyPatch) -> None:
    summed, added = both(store, monkeypatch, zone=zone)
    assert summed == added


@pytest.mark.parametrize("tenant", [None, "a", "00" * 16])
@pytest.mark.parametrize(
    ("start", "end"),
    [
        (START + HOUR // 3, START + 40 * HOUR + 7),
        (START + 5 * HOUR, None),
        (None, START + 30 * HOUR - 1),
        (START + HOUR + 10, START + 2 * HOUR - 10),
        (START + HOUR - 10, START + HOUR + 10),
    ],
)
def test_of_windows_that_begin_and_end_anywhere(
    store: SqliteStore, start: int | None, end: int | None, tenant: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(SqliteStore, "bill_extent", lambda _: None)
        added = report.bill(store, start=start, end=end, tenant=tenant)
    summed = report.bill(store, start=start, end=end, tenant=tenant)
    assert msgspec.json.encode(summed) == msgspec.json.encode(added)


def test_calls_are_visited_only_where_a_price_changes_within_an_hour(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DeepSeek's does: it is lower from half past four to half past twelve."""
    spans: list[tuple[int, int]] = []
    visit = SqliteStore.visit_calls

    def counted(self: SqliteStore, each: Any, tenant: str | None = None, **asked: int) -> None:
        spans.append((asked["start"] // HOUR % 24, asked["end"] - asked["start"]))
        visit(self, each, tenant, start=asked["start"], end=asked["end"])

    monkeypatch.setattr(SqliteStore, "visit_calls", counted)
    assert report.bill(store).total.calls > 2_000
    assert set(spans) == {(16, HOUR), (0, HOUR)}


def test_after_a_migration_of_a_store_of_0_1_0(path: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.db"
    with sqlite3.connect(path) as source, sqlite3.connect(old) as target:
        source.backup(target)
        before = target.execute("SELECT * FROM bill_hours ORDER BY 1, 2, 3, 4, 5, 6, 7, 8").fetchall()
        target.execute("DROP TABLE bill_hours")
        target.execute("DROP TABLE session_activity")
        target.execute("DROP TABLE marks")
        target.execute("DROP TABLE accounts")
        target.execute("DROP INDEX calls_unanswered")
        target.execute("DROP INDEX calls_pending")
        target.execute("DROP INDEX calls_repairable")
        target.execute("PRAGMA user_version = 2")
    source.close()
    target.close()
    unopened = open_existing(old)
    assert unopened is not None
    with unopened:
        without = report.bill(unopened)
    with open_store(old) as store:
        assert len(VERSIONS) == 5
        with sqlite3.connect(store.path) as again:
            rows = again.execute("SELECT * FROM bill_hours ORDER BY 1, 2, 3, 4, 5, 6, 7, 8").fetchall()
        again.close()
        assert rows == before
        assert report.bill(store) == without
