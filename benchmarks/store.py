"""How fast events go into the store against bare batched sqlite3 inserts, and how fast questions are answered.

Both sides take the same envelopes in the same batches, encode the same payload bytes, write the same columns
under WAL and NORMAL with the same cache and checkpoint size, and take turns, so that a slow moment of the
machine hits both. The bare table has no index and no rollup; the store has them all.

The questions are those of `holdfast sessions`, `breaks`, `show`, `bill`, `tips` and of the effectiveness, on a store
of a million calls; `python -m benchmarks.store --calls 10000000 --directory DIR` asks a larger one.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from decimal import Decimal
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

from benchmarks import Result
from benchmarks.__main__ import line
from holdfast import report
from holdfast.config.keys import Settings
from holdfast.records.events import Envelope, Event, Ulids, encode_payload
from holdfast.records.events.calls import CacheVerdict, LlmCallCompleted
from holdfast.records.events.sessions import TurnStarted
from holdfast.records.events.tools import ToolCalled
from holdfast.records.token_usage import Usage
from holdfast.store import HOUR, Call, SqliteStore, open_store
from holdfast.store import operations as op
from holdfast.store.sqlite.activity import ACTIVITY_OF_CALLS
from holdfast.store.sqlite.bill_sums import SUM_OF_CALLS
from holdfast.store.sqlite.connections import connect, use_wal

T = TypeVar("T")

BATCH = 10_000
ROUNDS = 10
SESSIONS = 2_000
DAYS = 30
START = 1_780_000_000_000_000 // HOUR * HOUR
MODELS = ("anthropic:claude-opus-4-6", "anthropic:claude-sonnet-5-5", "openai:gpt-6.1-sol")
TENANT = "0f" * 16


def run(*, quick: bool) -> Iterator[Result]:
    events = 100_000 if quick else 1_000_000
    calls = 10_000 if quick else 100_000
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as directory:
        path = Path(directory)
        with open_store(path / "store.db") as store:
            bare = _bare(path / "bare.db")
            try:
                yield _ingest(store, bare, events)
            finally:
                bare.close()
            for chunk in _chunks(_calls(calls), 1_000):
                with store.batch() as batch:
                    written = [batch.write(op.PutCall(call)) for call in chunk]
                written[-1].result()
            yield from _questions(store, events, calls)
        with filled(path / "calls.db", 100_000 if quick else 1_000_000) as store:
            yield from _commands(store)


def _ingest(store: SqliteStore, bare: sqlite3.Connection, total: int) -> Result:
    source = _envelopes(total)
    ratios, rates = [], []
    for number in range(ROUNDS):
        batches = list(_chunks(islice(source, total // ROUNDS), BATCH))
        sides: list[tuple[str, Callable[[], None]]] = [
            ("store", partial(_into_store, store, batches)),
            ("bare", partial(_into_bare, bare, batches)),
        ]
        if number % 2:
            sides.reverse()
        seconds = {name: _seconds(action) for name, action in sides}
        ratios.append(seconds["bare"] / seconds["store"])
        rates.append(total / ROUNDS / seconds["store"])
    counted = sum(store.event_counts(0, START * 2).values())
    if counted != total:
        raise AssertionError(f"{counted} of {total} events are in the store")
    return Result(
        name="store: events ingested, as a share of bare sqlite3 inserts",
        value=statistics.median(ratios),
        unit="x",
        limit=0.5,
        better="higher",
        note=f"{total:,} events, median of {ROUNDS} rounds, {statistics.median(rates):,.0f} records/events/s",
    )


def _into_store(store: SqliteStore, batches: list[list[Envelope]]) -> None:
    answers: list[Future[int]] = [store.write(op.AppendEvents.of(TENANT, batch)) for batch in batches]
    for answer in answers:
        answer.result()


def _bare(path: Path) -> sqlite3.Connection:
    connection = connect(path, busy_timeout=5)
    use_wal(connection, busy_timeout=5)
    connection.execute(
        "CREATE TABLE events (id TEXT, at INTEGER, tenant TEXT, session TEXT, turn TEXT, parent TEXT, "
        "type TEXT, actor TEXT, sensitivity TEXT, payload BLOB)"
    )
    return connection


def _into_bare(connection: sqlite3.Connection, batches: list[list[Envelope]]) -> None:
    for batch in batches:
        rows = [
            (
                event.id,
                event.at,
                TENANT,
                event.session,
                event.turn,
                event.parent,
                event.payload.type,
                event.actor,
                event.sensitivity,
                encode_payload(event.payload),
            )
            for event in batch
        ]
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        connection.execute("COMMIT")


def _questions(store: SqliteStore, events: int, calls: int) -> Iterator[Result]:
    """A window of nearly a month whose edges fall inside hours, so that raw rows are read as well."""
    start, end = START + HOUR // 3, START + DAYS * 24 * HOUR - HOUR // 3
    questions: tuple[tuple[str, str, Callable[[], object]], ...] = (
        ("event_counts", f"{events:,} events", lambda: store.event_counts(start, end)),
        ("event_counts of a tenant", f"{events:,} events", lambda: store.event_counts(start, end, TENANT)),
        ("cache_effectiveness", f"{calls:,} calls", lambda: store.cache_effectiveness(start, end)),
        ("call_hours", f"{calls:,} calls", lambda: store.call_hours(start, end, TENANT)),
    )
    for name, size, question in questions:
        question()
        yield Result(
            name=f"store: {name}",
            value=statistics.median(_seconds(question) for _ in range(15)) * 1000,
            unit="ms",
            limit=20.0,
            better="lower",
            note=f"{DAYS} days, {size}, median of 15",
        )


def _seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def _chunks(values: Iterator[T], size: int) -> Iterator[list[T]]:
    while chunk := list(islice(values, size)):
        yield chunk


def _envelopes(total: int) -> Iterator[Envelope]:
    """What a busy machine records: a few types, many interleaved sessions, a month of time."""
    chance = random.Random(7)
    at = START
    ids = Ulids(clock=lambda: at // 1000, entropy=chance.randbytes)
    sessions = [f"{chance.getrandbits(128):032x}" for _ in range(SESSIONS)]
    step = DAYS * 24 * HOUR // total
    for number in range(total):
        at = START + number * step
        payload = _payload(number, chance)
        yield Envelope.of(
            payload,
            id=ids.new(),
            at=at,
            session=sessions[min(int(chance.expovariate(1 / 200)), SESSIONS - 1)],
            turn=f"turn-{number // 20}",
            actor="agent",
        )


def _payload(number: int, chance: random.Random) -> Event:
    call = f"call-{number:020d}"
    kind = number % 4
    if kind == 0:
        return TurnStarted(text="Please look at the failing test and mend it. " * 4)
    if kind == 1:
        return ToolCalled(tool="run_command", tool_use_id=call, input='{"command": "pytest -q tests/unit"}')
    if kind == 2:
        read = chance.randrange(50_000)
        return CacheVerdict(
            call=call,
            predicted_read=read,
            actual_read=read,
            predicted_written=900,
            actual_written=900,
            explained=True,
        )
    return LlmCallCompleted(
        call=call,
        model=chance.choice(MODELS),
        input=chance.randrange(500),
        read=chance.randrange(50_000),
        writes=(("5m", 900),),
        output=300,
        cost=Decimal("0.01234"),
    )


def _calls(total: int) -> Iterator[Call]:
    chance = random.Random(11)
    step = DAYS * 24 * HOUR // total
    for number in range(total):
        usage = Usage(
            input=chance.randrange(500),
            read=chance.randrange(50_000),
            writes=(("1h", 200), ("5m", 900)),
            output=300,
            cost=Decimal("0.01234"),
        )
        yield Call(
            tenant=TENANT,
            id=f"call-{number:020d}",
            session=f"session-{number % SESSIONS}",
            lane=f"lane-{number % SESSIONS}",
            model=chance.choice(MODELS),
            started_at=START + number * step,
            status="settled",
            usage=usage,
        )


PER_SESSION = 100
QUARTER = 90 * 24 * HOUR

_CALLS = f"""
    WITH RECURSIVE number (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM number WHERE i + 1 < :calls)
    INSERT INTO calls (tenant, id, session, lane, model, started_at, status, kind, client, first_token_at, ended_at,
        input, read, written, output, writes, cost, price_version, verdict)
    SELECT printf('%032x', s % 3), printf('01%024d', i), printf('%032x', s * 7919), printf('%032x/main', s * 7919),
        CASE s % 3 WHEN 0 THEN 'anthropic:claude-opus-4-6' WHEN 1 THEN 'anthropic:claude-haiku-4-5'
        ELSE 'openai:gpt-5' END,
        at, CASE WHEN answered THEN 'settled' ELSE 'failed' END, kind, CASE s % 2 WHEN 0 THEN 'claude-code' END,
        at + 900000, at + 4000000, CASE WHEN answered THEN 5 END, CASE WHEN answered THEN k * 900 END,
        CASE WHEN answered THEN 900 END, CASE WHEN answered THEN 300 END, CASE WHEN answered THEN '[["5m",900]]' END,
        CASE WHEN answered THEN printf('0.%06d', 4000 + k * 450) END, CASE WHEN answered THEN '1' END,
        CASE WHEN answered THEN CAST('{{"explained":true,"saved":"0.001000000"}}' AS BLOB) END
    FROM (SELECT i, i / {PER_SESSION} AS s, i % {PER_SESSION} AS k, i % 50 != 49 AS answered,
        CASE WHEN i % 20 = 19 THEN 'side' ELSE 'request' END AS kind,
        {START} + (i / {PER_SESSION}) * ({QUARTER} / (:calls / {PER_SESSION})) + (i % {PER_SESSION}) * 40000000 AS at
        FROM number)"""
_BREAKS = """
    INSERT INTO breaks (tenant, id, call, session, lane, model, at, cause, tokens, dollars, path, owner, cure)
    SELECT tenant, id || 'b', id, session, lane, model, started_at + 3000000, 'messages_rewritten', 9000, '0.05',
        'messages[3].content[0]', 'user', 'messages-rewritten' FROM calls WHERE seq % 100 = 51"""
_HOURS = f"""
    INSERT INTO call_hours SELECT started_at - started_at % {HOUR}, tenant, model, count(*), sum(input), sum(read),
        sum(written), sum(output), decimal_sum(cost) FROM calls WHERE input IS NOT NULL GROUP BY 1, 2, 3"""
_SESSIONS = "INSERT INTO sessions (tenant, id, started_at) SELECT tenant, session, first FROM session_activity"
_LANES = """
    INSERT INTO lanes (tenant, id, session, model, started_at)
    SELECT tenant, session || '/main', session, '', first FROM session_activity"""


def filled(path: Path, calls: int) -> SqliteStore:
    """A store of so many calls in sessions of a hundred over three months, with their breaks and sums. The rows are
    made in the database itself, a hundred times as fast as one by one."""
    open_store(path).close()
    connection = connect(path, busy_timeout=5)
    try:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -500000")
        sql = (
            "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name IN ('calls', 'breaks') AND sql != ''"
        )
        indexes = connection.execute(sql).fetchall()
        connection.execute("BEGIN")
        for name, _ in indexes:
            connection.execute(f"DROP INDEX {name}")
        connection.execute(_CALLS, {"calls": calls})
        connection.execute(_BREAKS)
        for _, statement in indexes:
            connection.execute(statement)
        connection.execute(f"INSERT INTO session_activity {ACTIVITY_OF_CALLS} GROUP BY tenant, session")
        connection.execute(f"INSERT INTO bill_hours {SUM_OF_CALLS} GROUP BY 1, 2, 3, 4, 5, 6, 7, 8")
        connection.execute(_HOURS)
        connection.execute(_SESSIONS)
        connection.execute(_LANES)
        connection.execute("COMMIT")
    finally:
        connection.close()
    return open_store(path)


def _commands(store: SqliteStore) -> Iterator[Result]:
    """What the commands ask; with a limit where the answer must not depend on how much is stored."""
    calls = sum(each.calls for each in store.call_hours(0, 2**62))
    newest = store.active_sessions(limit=1)[0]
    call = store.calls(newest.tenant, session=newest.session)[-1]
    day = newest.last - 24 * HOUR
    end = newest.last - 30 * 24 * HOUR
    questions: tuple[tuple[str, float | None, Callable[[], object]], ...] = (
        ("sessions", 50.0, lambda: report.sessions(store, limit=20)),
        ("sessions of a tenant", 50.0, lambda: report.sessions(store, tenant=newest.tenant, limit=20)),
        ("sessions a month ago", 50.0, lambda: report.sessions(store, end=end, limit=20)),
        ("breaks", 50.0, lambda: report.breaks(store, limit=20)),
        ("breaks of a day", 50.0, lambda: report.breaks(store, start=day, limit=20)),
        ("show", 50.0, lambda: report.session(store, newest.session)),
        ("show SESSION, by its beginning", 50.0, lambda: report.session(store, newest.session[:31])),
        ("show CALL", 50.0, lambda: report.call(store, call.id)),
        ("effectiveness", 50.0, lambda: report.cache_effectiveness(store)),
        ("effectiveness of a day", 50.0, lambda: report.cache_effectiveness(store, start=day)),
        ("a tenant", 50.0, lambda: report.find_tenant(store, newest.tenant)),
        ("bill of a session", 50.0, lambda: report.bill(store, tenant=newest.tenant, session=newest.session)),
        ("bill of a day", None, lambda: report.bill(store, start=day)),
        ("bill", None, lambda: report.bill(store)),
        ("tips", None, lambda: report.evidence(store, Settings())),
    )
    for name, limit, question in questions:
        first = _seconds(question)
        rounds = 9 if first < 1 else 1
        value = statistics.median([_seconds(question) for _ in range(rounds)]) * 1000
        note = f"{calls:,} answered calls, median of {rounds}"
        yield Result(f"store: {name}", value, "ms", limit, "lower", note)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.store", description=_commands.__doc__)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--directory", type=Path, help="where the store is made; it is removed afterwards")
    arguments = parser.parse_args()
    if arguments.directory is not None:
        arguments.directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=arguments.directory) as directory:
        began = time.perf_counter()
        with filled(Path(directory) / "calls.db", arguments.calls) as store:
            size, seconds = store.path.stat().st_size / 1e6, time.perf_counter() - began
            print(f"{arguments.calls:,} calls, {size:,.0f} MB, filled in {seconds:,.0f} s", flush=True)
            for result in _commands(store):
                print(f"  {line(result)}", flush=True)


if __name__ == "__main__":
    main()
