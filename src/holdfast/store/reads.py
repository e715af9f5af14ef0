"""Every question about single rows, as SQL on a read connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from holdfast.records.events import Envelope, decode_payload

from .rows import Break, Call, Edit, Lane, Ledger, Pool, Session
from .tables import (
    BREAK_COLUMNS,
    CALL_COLUMNS,
    EDIT_COLUMNS,
    LANE_COLUMNS,
    SESSION_COLUMNS,
    names,
    read_break,
    read_call,
)


def _where(
    equal: Mapping[str, object], time: str, start: int | None = None, end: int | None = None
) -> tuple[str, list[Any]]:
    """Conditions for what was asked; None asks nothing."""
    terms = [(f"{name} = ?", value) for name, value in equal.items() if value is not None]
    if start is not None:
        terms.append((f"{time} >= ?", start))
    if end is not None:
        terms.append((f"{time} < ?", end))
    return " AND ".join(term for term, _ in terms) or "1", [value for _, value in terms]


def account(connection: sqlite3.Connection, name: str) -> str | None:
    row = connection.execute("SELECT tenant FROM accounts WHERE name = ?", (name,)).fetchone()
    return None if row is None else str(row[0])


def session(connection: sqlite3.Connection, tenant: str, id_: str) -> Session | None:
    row = connection.execute(
        f"SELECT {names(SESSION_COLUMNS)} FROM sessions WHERE tenant = ? AND id = ?", (tenant, id_)
    ).fetchone()
    return None if row is None else Session(**dict(zip(SESSION_COLUMNS, row, strict=True)))


def sessions(connection: sqlite3.Connection, tenant: str | None, limit: int) -> list[Session]:
    """Newest first."""
    where, values = _where({"tenant": tenant}, "started_at")
    rows = connection.execute(
        f"SELECT {names(SESSION_COLUMNS)} FROM sessions WHERE {where} ORDER BY started_at DESC, id LIMIT ?",
        [*values, limit],
    )
    return [Session(**dict(zip(SESSION_COLUMNS, row, strict=True))) for row in rows]


def lane(connection: sqlite3.Connection, tenant: str, id_: str) -> Lane | None:
    row = connection.execute(
        f"SELECT {names(LANE_COLUMNS)} FROM lanes WHERE tenant = ? AND id = ?", (tenant, id_)
    ).fetchone()
    return None if row is None else Lane(**dict(zip(LANE_COLUMNS, row, strict=True)))


def lanes(connection: sqlite3.Connection, tenant: str, session_id: str) -> list[Lane]:
    rows = connection.execute(
        f"SELECT {names(LANE_COLUMNS)} FROM lanes WHERE tenant = ? AND session = ? ORDER BY started_at, id",
        (tenant, session_id),
    )
    return [Lane(**dict(zip(LANE_COLUMNS, row, strict=True))) for row in rows]


def ledger(connection: sqlite3.Connection, tenant: str, lane_id: str) -> Ledger | None:
    row = connection.execute(
        "SELECT version, data FROM ledgers WHERE tenant = ? AND lane = ?", (tenant, lane_id)
    ).fetchone()
    return None if row is None else Ledger(tenant=tenant, lane=lane_id, version=row[0], data=row[1])


def pool(connection: sqlite3.Connection, tenant: str, model: str) -> Pool | None:
    row = connection.execute(
        "SELECT version, data FROM pools WHERE tenant = ? AND model = ?", (tenant, model)
    ).fetchone()
    return None if row is None else Pool(tenant=tenant, model=model, version=row[0], data=row[1])


def edits(connection: sqlite3.Connection, tenant: str, lane_id: str) -> list[Edit]:
    rows = connection.execute(
        f"SELECT {names(EDIT_COLUMNS)} FROM edits WHERE tenant = ? AND lane = ? ORDER BY seq",
        (tenant, lane_id),
    )
    return [Edit(**dict(zip(EDIT_COLUMNS, row, strict=True))) for row in rows]


def call(connection: sqlite3.Connection, tenant: str | None, id_: str) -> Call | None:
    where, values = _where({"id": id_, "tenant": tenant}, "started_at")
    row = connection.execute(f"SELECT {names(CALL_COLUMNS)} FROM calls WHERE {where}", values).fetchone()
    return None if row is None else read_call(row)


def calls(
    connection: sqlite3.Connection,
    equal: Mapping[str, object],
    start: int | None,
    end: int | None,
    limit: int,
) -> list[Call]:
    where, values = _where(equal, "started_at", start, end)
    rows = connection.execute(
        f"SELECT {names(CALL_COLUMNS)} FROM calls WHERE {where} ORDER BY started_at, seq LIMIT ?",
        [*values, limit],
    )
    return [read_call(row) for row in rows]


def pending_calls(connection: sqlite3.Connection) -> list[Call]:
    rows = connection.execute(
        f"SELECT {names(CALL_COLUMNS)} FROM calls WHERE status = 'pending' ORDER BY started_at, seq"
    )
    return [read_call(row) for row in rows]


def breaks(
    connection: sqlite3.Connection,
    equal: Mapping[str, object],
    start: int | None,
    end: int | None,
    limit: int,
) -> list[Break]:
    where, values = _where(equal, "at", start, end)
    rows = connection.execute(
        f"SELECT {names(BREAK_COLUMNS)} FROM breaks WHERE {where} ORDER BY at, seq LIMIT ?", [*values, limit]
    )
    return [read_break(row) for row in rows]


def events(
    connection: sqlite3.Connection, tenant: str, session_id: str, after: str | None, limit: int | None
) -> list[Envelope]:
    rows = connection.execute(
        "SELECT id, at, turn, parent, type, actor, sensitivity, payload FROM events "
        "WHERE stream = (SELECT id FROM streams WHERE tenant = ? AND session = ?) AND id > ? "
        "ORDER BY id LIMIT ?",
        (tenant, session_id, after or "", -1 if limit is None else limit),
    )
    return [
        Envelope(
            id=id_,
            at=at,
            session=session_id,
            turn=turn,
            parent=parent,
            actor=actor,
            payload=decode_payload(name, payload),
            sensitivity=sensitivity,
        )
        for id_, at, turn, parent, name, actor, sensitivity, payload in rows
    ]


def owns_blob(connection: sqlite3.Connection, tenant: str, digest: str) -> bool:
    row = connection.execute("SELECT 1 FROM blobs WHERE tenant = ? AND digest = ? LIMIT 1", (tenant, digest)).fetchone()
    return row is not None


def marks(connection: sqlite3.Connection) -> dict[str, int]:
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'marks'").fetchone() is None:
        return {}  # an older version wrote it, and it was opened to be read
    return dict(connection.execute("SELECT name, at FROM marks").fetchall())
