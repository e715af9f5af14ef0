"""How fast events go into the store against bare batched sqlite3 inserts, and how fast rollups answer.

Both sides take the same envelopes in the same batches, encode the same payload bytes, write the same columns
under WAL and NORMAL with the same cache and checkpoint size, and take turns, so that a slow moment of the
machine hits both. The bare table has no index and no rollup; the store has them all.
"""

from __future__ import annotations

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
from holdfast.records.events import Envelope, Event, Ulids, encode_payload
from holdfast.records.events.calls import CacheVerdict, LlmCallCompleted
from holdfast.records.events.sessions import TurnStarted
from holdfast.records.events.tools import ToolCalled
from holdfast.records.token_usage import Usage
from holdfast.store import HOUR, Call, SqliteStore, open_store
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
                    written = [batch.put_call(call) for call in chunk]
                written[-1].result()
            yield from _questions(store, events, calls)


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
    answers: list[Future[int]] = [store.append_events(TENANT, batch) for batch in batches]
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
