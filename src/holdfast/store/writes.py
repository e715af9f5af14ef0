"""Every write as SQL: functions of a transaction and values, without threads and without decisions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Literal, TypeVar

import msgspec

from ..errors import HoldfastError
from .base import Merge, VersionConflictError
from .blobs import digest_of
from .reads import pending_calls
from .rollups import hour_of
from .rows import Blob, Break, Call, Edit, EventRow, Lane, Owner, Session
from .tables import (
    BREAK_COLUMNS,
    CALL_COLUMNS,
    FIXED,
    LANE_COLUMNS,
    SESSION_COLUMNS,
    break_row,
    call_row,
    fixed_part,
    read_usage,
)
from .writer import Transaction

T = TypeVar("T")


def _upsert(table: str, columns: Sequence[str]) -> str:
    names = ", ".join(f'"{name}"' for name in columns)
    updates = ", ".join(f'"{name}" = excluded."{name}"' for name in columns if name not in ("tenant", "id"))
    marks = ", ".join("?" * len(columns))
    return f"INSERT INTO {table} ({names}) VALUES ({marks}) ON CONFLICT (tenant, id) DO UPDATE SET {updates}"


_PUT_SESSION = _upsert("sessions", SESSION_COLUMNS)
_PUT_LANE = _upsert("lanes", LANE_COLUMNS)
_PUT_CALL = _upsert("calls", CALL_COLUMNS)
_PUT_BREAK = _upsert("breaks", BREAK_COLUMNS)
_NEW_CALL = _PUT_CALL.partition(" DO UPDATE ")[0] + " DO NOTHING"
_CHANGING = tuple(i for i, name in enumerate(CALL_COLUMNS) if name not in ("tenant", "id", *FIXED))
_CHANGE_CALL = (
    f"UPDATE calls SET {', '.join(f'{CALL_COLUMNS[i]} = ?' for i in _CHANGING)} WHERE seq = ? AND tenant = ? AND id = ?"
)


def checked(write: Callable[[T, Transaction], None], value: T, kind: type[T], transaction: Transaction) -> None:
    check(value, kind)
    write(value, transaction)


def check(value: T, kind: type[T]) -> None:
    """A value must be what it claims to be; a wrong one is named now and not when it is read back."""
    try:
        msgspec.convert(msgspec.to_builtins(value, builtin_types=(bytes, Decimal)), kind)
    except msgspec.ValidationError as error:
        name = kind.__name__.lower()
        raise HoldfastError(f"this {name} cannot be stored: {error}; correct the value and write it again") from error


def put_session(session: Session, transaction: Transaction) -> None:
    transaction.connection.execute(_PUT_SESSION, [getattr(session, name) for name in SESSION_COLUMNS])


def put_account(name: str, tenant: str, at: int, transaction: Transaction) -> None:
    transaction.connection.execute("INSERT OR REPLACE INTO accounts VALUES (?, ?, ?)", (name, tenant, at))


def put_lane(lane: Lane, transaction: Transaction) -> None:
    transaction.connection.execute(_PUT_LANE, [getattr(lane, name) for name in LANE_COLUMNS])


def put_break(found: Break, transaction: Transaction) -> None:
    transaction.connection.execute(_PUT_BREAK, break_row(found))


def put_call(call: Call, transaction: Transaction, *, first: bool = False) -> None:
    """Insert the call or replace it. One that we have inserted ourselves as pending is found by its place, and its
    indexes need not be touched. `first` says that nothing of it should be stored yet."""
    connection, name = transaction.connection, (call.tenant, call.id)
    row, fixed = call_row(call), fixed_part(call)
    if name in transaction.calls:
        transaction.calls.write(connection, transaction.pending)
    known = transaction.pending.pop(name, None)
    if first and known is None and transaction.together:
        transaction.calls.add(name, row, fixed if call.status == "pending" else None, call.usage)
        _count(call, transaction)
        return
    place: int | None = None
    if known is not None and known[1] == fixed:
        values = [row[index] for index in _CHANGING]
        if connection.execute(_CHANGE_CALL, (*values, known[0], *name)).rowcount == 1:
            place = known[0]
            if known[2] is not None:
                transaction.sums.usage((hour_of(call.started_at), call.tenant, call.model), known[2], sign=-1)
    if place is None:
        found = connection.execute(_NEW_CALL, row)
        place = found.lastrowid if found.rowcount == 1 else None
    if place is None:
        _replace_call(call, row, transaction)
    elif call.status == "pending":
        transaction.pending[name] = place, fixed, call.usage
    _count(call, transaction)


def end_pending(ended: Callable[[Call], Call], transaction: Transaction) -> int:
    """Under the write lock, so that what another process ends meanwhile stays as that leaves it."""
    found = pending_calls(transaction.connection)
    for call in found:
        put_call(ended(call), transaction)
    return len(found)


def _count(call: Call, transaction: Transaction) -> None:
    if call.usage is not None:
        transaction.sums.usage((hour_of(call.started_at), call.tenant, call.model), call.usage, sign=1)
        transaction.bills.add(call)


def _replace_call(call: Call, row: list[Any], transaction: Transaction) -> None:
    before = transaction.connection.execute(
        "SELECT started_at, session, model, status, input, read, output, writes, cost, price_version FROM calls "
        "WHERE tenant = ? AND id = ?",
        (call.tenant, call.id),
    ).fetchone()
    counted = None if before is None else read_usage(*before[4:])
    if counted is not None:
        transaction.sums.usage((hour_of(before[0]), call.tenant, before[2]), counted, sign=-1)
        if before[3] != "pending":
            transaction.bills.change(call.tenant, before[1], before[0])
            transaction.bills.change(call.tenant, call.session, call.started_at)
    transaction.connection.execute(_PUT_CALL, row)


def put_mark(name: str, at: int, transaction: Transaction) -> None:
    transaction.connection.execute(
        "INSERT INTO marks VALUES (?, ?) ON CONFLICT DO UPDATE SET at = max(at, excluded.at)", (name, at)
    )


def put_versioned(
    table: Literal["ledgers", "pools", "injections"],
    key: Literal["lane", "model"],
    tenant: str,
    name: str,
    data: bytes,
    expected: int,
    merge: Merge | None,
    transaction: Transaction,
    *,
    steps: int = 1,
) -> int:
    """Compare and set: what somebody else wrote since version `expected` is merged, or kept by refusing the write.

    `steps` is how many versions it goes on by: as many as writes it stands for. Below 0 no version is expected."""
    if expected <= 0:
        sql = f"INSERT INTO {table} (data, version, tenant, {key}) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
        values: tuple[object, ...] = (data, steps, tenant, name)
    else:
        sql = f"UPDATE {table} SET data = ?, version = ? WHERE tenant = ? AND {key} = ? AND version = ?"
        values = (data, expected + steps, tenant, name, expected)
    if transaction.connection.execute(sql, values).rowcount == 1:
        return max(expected, 0) + steps
    where = f"WHERE tenant = ? AND {key} = ?"
    row = transaction.connection.execute(f"SELECT data, version FROM {table} {where}", (tenant, name)).fetchone()
    if merge is None or row is None:
        raise VersionConflictError(
            f"the {table[:-1]} of {key} {name} is no longer at version {expected}; read it again and decide again"
        )
    version = int(row[1]) + 1
    if version == expected + steps:  # whoever made it must not take it for what they expected
        version += 1
    values = (merge(row[0]), version, tenant, name)
    transaction.connection.execute(f"UPDATE {table} SET data = ?, version = ? {where}", values)
    return version


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


def append_events(tenant: str, events: list[EventRow], transaction: Transaction) -> int:
    """Inserted with all others of the transaction, before it is committed."""
    transaction.appended.add(tenant, events)
    return len(events)
