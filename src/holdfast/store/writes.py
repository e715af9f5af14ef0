"""Every write as SQL: functions of a transaction and values, without threads and without decisions."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Literal

from msgspec import Struct

from ..errors import HoldfastError
from ..events import Envelope, encode_payload
from .base import Merge, VersionConflictError
from .blobs import digest_of
from .rollups import HOUR, add_events, add_usage, hour_of
from .rows import Blob, Break, Call, Edit, Lane, Owner, Session
from .tables import (
    BREAK_COLUMNS,
    CALL_COLUMNS,
    LANE_COLUMNS,
    SESSION_COLUMNS,
    break_row,
    call_row,
    read_usage,
)
from .writer import Transaction

_ROWS_PER_STATEMENT = 2_000
_EVENT_COLUMNS = ("id", "at", "stream", "turn", "parent", "type", "actor", "sensitivity", "payload")


def _upsert(table: str, columns: Sequence[str]) -> str:
    names = ", ".join(f'"{name}"' for name in columns)
    updates = ", ".join(f'"{name}" = excluded."{name}"' for name in columns if name not in ("tenant", "id"))
    marks = ", ".join("?" * len(columns))
    return f"INSERT INTO {table} ({names}) VALUES ({marks}) ON CONFLICT (tenant, id) DO UPDATE SET {updates}"


_PUT_SESSION = _upsert("sessions", SESSION_COLUMNS)
_PUT_LANE = _upsert("lanes", LANE_COLUMNS)
_PUT_CALL = _upsert("calls", CALL_COLUMNS)
_PUT_BREAK = _upsert("breaks", BREAK_COLUMNS)


def put_session(session: Session, transaction: Transaction) -> None:
    transaction.connection.execute(_PUT_SESSION, [getattr(session, name) for name in SESSION_COLUMNS])


def put_lane(lane: Lane, transaction: Transaction) -> None:
    transaction.connection.execute(_PUT_LANE, [getattr(lane, name) for name in LANE_COLUMNS])


def put_break(found: Break, transaction: Transaction) -> None:
    transaction.connection.execute(_PUT_BREAK, break_row(found))


def put_call(call: Call, transaction: Transaction) -> None:
    connection = transaction.connection
    before = connection.execute(
        "SELECT started_at, model, input, read, output, writes, cost, price_version FROM calls "
        "WHERE tenant = ? AND id = ?",
        (call.tenant, call.id),
    ).fetchone()
    if before is not None:
        counted = read_usage(*before[2:])
        if counted is not None:
            add_usage(connection, (hour_of(before[0]), call.tenant, before[1]), counted, sign=-1)
    connection.execute(_PUT_CALL, call_row(call))
    if call.usage is not None:
        add_usage(connection, (hour_of(call.started_at), call.tenant, call.model), call.usage, sign=1)


def put_versioned(
    table: Literal["ledgers", "pools"],
    key: Literal["lane", "model"],
    tenant: str,
    name: str,
    data: bytes,
    expected: int,
    merge: Merge | None,
    transaction: Transaction,
) -> int:
    """Compare and set: what somebody else wrote since version `expected` is merged, or kept by refusing the write."""
    if expected == 0:
        sql = f"INSERT INTO {table} (data, version, tenant, {key}) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
        values: tuple[object, ...] = (data, 1, tenant, name)
    else:
        sql = f"UPDATE {table} SET data = ?, version = ? WHERE tenant = ? AND {key} = ? AND version = ?"
        values = (data, expected + 1, tenant, name, expected)
    if transaction.connection.execute(sql, values).rowcount == 1:
        return expected + 1
    where = f"WHERE tenant = ? AND {key} = ?"
    row = transaction.connection.execute(f"SELECT data, version FROM {table} {where}", (tenant, name)).fetchone()
    if merge is None or row is None:
        raise VersionConflictError(
            f"the {table[:-1]} of {key} {name} is no longer at version {expected}; read it again and decide again"
        )
    values = (merge(row[0]), row[1] + 1, tenant, name)
    transaction.connection.execute(f"UPDATE {table} SET data = ?, version = ? {where}", values)
    return int(row[1]) + 1


def put_blob(tenant: str, owner: Owner, data: bytes, at: int, transaction: Transaction) -> Blob:
    """The file first, then the row: a row never names bytes that are not there."""
    digest = transaction.blobs.write(tenant, data)
    transaction.connection.execute(
        "INSERT INTO blobs (tenant, digest, owner_kind, owner, size, made_at) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT DO NOTHING",
        (tenant, digest, owner.kind, owner.id, len(data), at),
    )
    return Blob(tenant=tenant, digest=digest, size=len(data))


def put_edit(
    tenant: str,
    lane: str,
    block: str,
    replacement: bytes,
    at: int,
    data: bytes | None,
    transaction: Transaction,
) -> Edit:
    row = transaction.connection.execute(
        "SELECT blob, made_at, data FROM edits WHERE tenant = ? AND lane = ? AND block = ?",
        (tenant, lane, block),
    ).fetchone()
    if row is not None:
        if row[0] != digest_of(replacement):
            raise HoldfastError(
                f"block {block} of lane {lane} already has a recorded edit with other bytes; replay that one"
            )
        return Edit(tenant=tenant, lane=lane, block=block, blob=row[0], made_at=row[1], data=row[2])
    blob = put_blob(tenant, Owner("lane", lane), replacement, at, transaction)
    transaction.connection.execute(
        "INSERT INTO edits (tenant, lane, block, blob, made_at, data) VALUES (?, ?, ?, ?, ?, ?)",
        (tenant, lane, block, blob.digest, at, data),
    )
    return Edit(tenant=tenant, lane=lane, block=block, blob=blob.digest, made_at=at, data=data)


class EventRows(Struct, frozen=True):
    """Events made ready by whoever appends them, so that the writer thread has only SQL to do.

    `values` holds the columns of one row after the other, with the session's name where the stream goes.
    """

    count: int
    values: list[Any]
    counted: Counter[tuple[int, str]]


def event_rows(envelopes: Iterable[Envelope]) -> EventRows:
    # Neighbours of one session fill neighbouring entries of its index; ids keep the order within it.
    events = sorted(envelopes, key=attrgetter("session"))
    counted: Counter[tuple[int, str]] = Counter()
    values: list[Any] = []
    for event in events:
        payload = event.payload
        counted[event.at // HOUR, payload.type] += 1
        values += (
            event.id,
            event.at,
            event.session,
            event.turn,
            event.parent,
            payload.type,
            event.actor,
            event.sensitivity,
            encode_payload(payload),
        )
    return EventRows(len(events), values, counted)


def append_events(tenant: str, rows: EventRows, transaction: Transaction) -> int:
    width = len(_EVENT_COLUMNS)
    place = _EVENT_COLUMNS.index("stream")
    values = rows.values.copy()
    names = values[place::width]
    streams = {name: _stream(tenant, name, transaction) for name in set(names)}
    values[place::width] = [streams[name] for name in names]
    try:
        _insert_events(transaction.connection, values)
    except sqlite3.IntegrityError as error:
        raise HoldfastError(
            "an event of this session is already stored under the same id; append each event once"
        ) from error
    add_events(transaction.connection, tenant, rows.counted)
    return rows.count


def _insert_events(connection: sqlite3.Connection, values: list[Any]) -> None:
    """Many rows per statement: the GIL is let go once per statement, not once per row."""
    width = len(_EVENT_COLUMNS)
    head = f"INSERT INTO events ({', '.join(_EVENT_COLUMNS)}) VALUES "
    one = f"({', '.join('?' * width)})"
    step = width * min(_ROWS_PER_STATEMENT, connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) // width)
    whole = len(values) - len(values) % step
    if whole:
        sql = head + ", ".join([one] * (step // width))
        for start in range(0, whole, step):
            connection.execute(sql, values[start : start + step])
    connection.executemany(head + one, [values[start : start + width] for start in range(whole, len(values), width)])


def _stream(tenant: str, session: str, transaction: Transaction) -> int:
    known = transaction.streams.get((tenant, session))
    if known is not None:
        return known
    connection = transaction.connection
    connection.execute("INSERT INTO streams (tenant, session) VALUES (?, ?) ON CONFLICT DO NOTHING", (tenant, session))
    row = connection.execute("SELECT id FROM streams WHERE tenant = ? AND session = ?", (tenant, session))
    stream = int(row.fetchone()[0])
    transaction.streams[tenant, session] = stream
    return stream
