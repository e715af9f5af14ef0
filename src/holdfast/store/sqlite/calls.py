"""Calls, breaks and events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.records.events import Envelope, decode_payload

from .. import operations as op
from ..interface import Store
from ..rows import Break, Call, CallDraft, CallStatus, StoredEvent
from ..sums import HOUR, hour_of
from .activity import starting_with, tenants_in
from .connections import Questions, conditions
from .tables import (
    BREAK_COLUMNS,
    CALL_COLUMNS,
    FIXED,
    break_row,
    call_row,
    checked,
    fixed_part,
    names,
    read_break,
    read_call,
    read_usage,
    upsert,
)
from .transaction import Transaction

_LARGE = ("plan", "prediction", "chain")
_BRIEF = ", ".join(f'NULL AS "{name}"' if name in _LARGE else f'"{name}"' for name in CALL_COLUMNS)
_CALLS = f"SELECT {names(CALL_COLUMNS)} FROM calls"
_BREAKS = f"SELECT {names(BREAK_COLUMNS)} FROM breaks"
_STORED_EVENT = "SELECT tenant, session, at, payload FROM"
_PUT_CALL = upsert("calls", CALL_COLUMNS)
_PUT_BREAK = upsert("breaks", BREAK_COLUMNS)
_NEW_CALL = _PUT_CALL.partition(" DO UPDATE ")[0] + " DO NOTHING"
_CHANGING = tuple(i for i, name in enumerate(CALL_COLUMNS) if name not in ("tenant", "id", *FIXED))
_CHANGE_CALL = (
    f"UPDATE calls SET {', '.join(f'{CALL_COLUMNS[i]} = ?' for i in _CHANGING)} WHERE seq = ? AND tenant = ? AND id = ?"
)


class CallQuestions(Questions, Store):
    def call(self, tenant: str | None, id: str) -> Call | None:
        sql = f"{_CALLS} WHERE tenant = ? AND id = ?"
        with self.readers.snapshot() as connection:
            for whose in [tenant] if tenant is not None else tenants_in(connection, "calls"):
                row = connection.execute(sql, (whose, id)).fetchone()
                if row is not None:
                    return read_call(row)
        return None

    def calls(
        self,
        tenant: str | None = None,
        *,
        session: str | None = None,
        lane: str | None = None,
        model: str | None = None,
        start: int | None = None,
        end: int | None = None,
        limit: int = 1000,
    ) -> list[Call]:
        equal = {"tenant": tenant, "session": session, "lane": lane, "model": model}
        where, values = conditions(equal, "started_at", start, end)
        rows = self.readers.all(f"{_CALLS} WHERE {where} ORDER BY started_at, seq LIMIT ?", [*values, limit])
        return [read_call(row) for row in rows]

    def calls_by_status(self, status: CallStatus, *, limit: int = 1000) -> list[Call]:
        # There is an index of those that are pending, which is found only where the word stands in the question.
        where = "status = 'pending' AND status = ?" if status == "pending" else "status = ?"
        rows = self.readers.all(f"{_CALLS} WHERE {where} ORDER BY started_at, seq LIMIT ?", (status, limit))
        return [read_call(row) for row in rows]

    def call_ids(self, prefix: str, tenant: str | None = None, *, limit: int = 10) -> list[tuple[str, str]]:
        condition, values = starting_with("id", prefix)
        sql = f"SELECT tenant, id FROM calls WHERE tenant = ? AND {condition} ORDER BY id DESC LIMIT ?"
        whole = "SELECT tenant, id FROM calls WHERE tenant = ? AND id = ?"
        ids: dict[tuple[str, str], None] = {}
        with self.readers.snapshot() as connection:
            for whose in [tenant] if tenant is not None else tenants_in(connection, "calls"):
                ids |= dict.fromkeys(connection.execute(whole, (whose, prefix)).fetchall())
                ids |= dict.fromkeys(connection.execute(sql, [whose, *values, limit]).fetchall())
        newest = sorted(ids, key=lambda each: each[1], reverse=True)
        return sorted(newest, key=lambda each: each[1] != prefix)[:limit]

    def visit_calls(
        self,
        visit: Callable[[Call], None],
        tenant: str | None = None,
        *,
        session: str | None = None,
        start: int | None = None,
        end: int | None = None,
    ) -> None:
        where, values = conditions({"tenant": tenant, "session": session}, "started_at", start, end)
        with self.readers.snapshot() as connection:
            sql = f"SELECT {_BRIEF} FROM calls WHERE {where} ORDER BY started_at, seq"
            for row in connection.execute(sql, values):
                visit(read_call(row))

    def breaks(
        self,
        tenant: str | None = None,
        *,
        session: str | None = None,
        call: str | None = None,
        start: int | None = None,
        end: int | None = None,
        newest: bool = False,
        limit: int = 1000,
    ) -> list[Break]:
        equal = {"tenant": tenant, "session": session, "call": call}
        where, values = conditions(equal, "at", start, end)
        order = "at DESC, seq DESC" if newest else "at, seq"
        rows = self.readers.all(f"{_BREAKS} WHERE {where} ORDER BY {order} LIMIT ?", [*values, limit])
        return [read_break(row) for row in rows]

    def events(
        self, tenant: str, session: str, *, after: str | None = None, limit: int | None = None
    ) -> list[Envelope]:
        with self.readers.snapshot() as connection:
            rows = connection.execute(
                "SELECT id, at, turn, parent, type, actor, sensitivity, payload FROM events "
                "WHERE stream = (SELECT id FROM streams WHERE tenant = ? AND session = ?) AND id > ? "
                "ORDER BY id LIMIT ?",
                (tenant, session, after or "", -1 if limit is None else limit),
            )
            return [
                Envelope(
                    id=id_,
                    at=at,
                    session=session,
                    turn=turn,
                    parent=parent,
                    actor=actor,
                    payload=decode_payload(name, payload),
                    sensitivity=sensitivity,
                )
                for id_, at, turn, parent, name, actor, sensitivity, payload in rows
            ]

    def visit_events(
        self,
        visit: Callable[[StoredEvent], None],
        type: str,
        tenant: str | None = None,
        *,
        session: str | None = None,
        tool: str | None = None,
        start: int | None = None,
        end: int | None = None,
    ) -> None:
        where, values = conditions({"tenant": tenant, "session": session}, "at", start, end)
        where, values = f"{where} AND type = ?", [*values, type]
        if tool is not None:
            # Payloads are written without spaces, and quotes inside of texts are escaped: this is the member alone.
            where, values = f"{where} AND instr(payload, ?)", [*values, msgspec.json.encode({"tool": tool})[1:-1]]
        with self.readers.snapshot() as connection:
            if session is not None:
                tables = "streams CROSS JOIN events INDEXED BY events_by_stream ON events.stream = streams.id"
                for row in connection.execute(f"{_STORED_EVENT} {tables} WHERE {where} ORDER BY events.id", values):
                    visit(_stored_event(row))
                return
            # There is no index of types, which every event would pay for. The sums know the hours that have any of it.
            within, more = conditions({"tenant": tenant}, "hour", None if start is None else hour_of(start), end)
            sql = f"SELECT DISTINCT hour FROM event_hours WHERE {within} AND type = ? ORDER BY hour"
            hours = connection.execute(sql, [*more, type]).fetchall()
            tables = "events INDEXED BY events_by_time CROSS JOIN streams ON streams.id = events.stream"
            sql = f"{_STORED_EVENT} {tables} WHERE {where} AND at >= ? AND at < ? ORDER BY at, seq"
            for (hour,) in hours:
                for row in connection.execute(sql, [*values, hour, hour + HOUR]):
                    visit(_stored_event(row))


def _stored_event(row: tuple[Any, ...]) -> StoredEvent:
    tenant, session, at, payload = row
    return StoredEvent(tenant=tenant, session=session, at=at, payload=payload)


def put_call(transaction: Transaction, operation: op.PutCall) -> None:
    call = operation.call
    if isinstance(call, CallDraft):
        call = call.encoded()
    if operation.events:
        transaction.events.add(call.tenant, operation.events)
    _put(transaction, checked(call, Call), first=operation.first)


def end_calls(transaction: Transaction, operation: op.EndCalls) -> int:
    """Under the write lock, so that what another process ends meanwhile stays as that leaves it."""
    sql = "SELECT 1 FROM calls WHERE tenant = ? AND id = ? AND status = 'pending' AND first_token_at IS ?"
    ended = 0
    for call in operation.calls:
        if transaction.connection.execute(sql, (call.tenant, call.id, call.first_token_at)).fetchone() is not None:
            _put(transaction, checked(call, Call))
            ended += 1
    return ended


def put_break(transaction: Transaction, operation: op.PutBreak) -> None:
    transaction.connection.execute(_PUT_BREAK, break_row(checked(operation.break_, Break)))


def append_events(transaction: Transaction, operation: op.AppendEvents) -> int:
    """Inserted with all others of the transaction, before it is committed."""
    transaction.events.add(operation.tenant, operation.events)
    return len(operation.events)


def _put(transaction: Transaction, call: Call, *, first: bool = False) -> None:
    """Insert the call or replace it. One that we have inserted ourselves as pending is found by its place, and its
    indexes need not be touched. `first` says that nothing of it should be stored yet."""
    connection, name = transaction.connection, (call.tenant, call.id)
    row, fixed = call_row(call), fixed_part(call)
    if name in transaction.calls:
        transaction.calls.write(connection, transaction.pending)
    before = transaction.pending.pop(name, None)
    if first and before is None and transaction.together:
        transaction.calls.add(name, row, fixed if call.status == "pending" else None, call.usage)
        transaction.activity.add(call.tenant, call.session, call.started_at)
        _count(transaction, call)
        return
    place: int | None = None
    if before is not None and before[1] == fixed:
        values = [row[index] for index in _CHANGING]
        if connection.execute(_CHANGE_CALL, (*values, before[0], *name)).rowcount == 1:
            place = before[0]
            if before[2] is not None:
                transaction.hour_sums.usage((hour_of(call.started_at), call.tenant, call.model), before[2], sign=-1)
    if place is None:
        inserted = connection.execute(_NEW_CALL, row)
        if inserted.rowcount == 1:
            place = inserted.lastrowid
            transaction.activity.add(call.tenant, call.session, call.started_at)
    if place is None:
        _replace(transaction, call, row)
    elif call.status == "pending":
        transaction.pending[name] = place, fixed, call.usage
    _count(transaction, call)


def _count(transaction: Transaction, call: Call) -> None:
    if call.usage is not None:
        transaction.hour_sums.usage((hour_of(call.started_at), call.tenant, call.model), call.usage, sign=1)
        transaction.session_sums.add(call)


def _replace(transaction: Transaction, call: Call, row: list[Any]) -> None:
    before = transaction.connection.execute(
        "SELECT started_at, session, model, status, input, read, output, writes, cost, price_version FROM calls "
        "WHERE tenant = ? AND id = ?",
        (call.tenant, call.id),
    ).fetchone()
    counted = None if before is None else read_usage(*before[4:])
    if counted is not None:
        transaction.hour_sums.usage((hour_of(before[0]), call.tenant, before[2]), counted, sign=-1)
        if before[3] != "pending":
            transaction.session_sums.change(call.tenant, before[1], before[0])
            transaction.session_sums.change(call.tenant, call.session, call.started_at)
    if before is not None and (before[0], before[1]) != (call.started_at, call.session):
        transaction.activity.change(call.tenant, before[1])
        transaction.activity.change(call.tenant, call.session)
    transaction.connection.execute(_PUT_CALL, row)
