"""What ages: old calls, breaks and events; then lanes and sessions that have none left, with all that belongs to them.

In small steps, so that other writes are never held up for long. A lane goes only when no call of it is left, asked in
the transaction that removes it: one that was used lately stays, whatever happens meanwhile. Sums stay. Sessions that
are to be kept are not touched at all.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from typing import Literal

from .bill_sums import SUM_OF_CALLS
from .removals import drop_lane_state, release
from .rows import Owner
from .writer import Transaction

STEP = 2_000
LANES = 200
"""Lanes and sessions of one step: each takes a few statements."""
_STALE = 7 * 24 * 3_600_000_000
"""Microseconds after which a call that is still under way is not any more: its process was killed."""

Table = Literal["calls", "breaks", "events", "shown"]
TABLES: tuple[Table, ...] = ("shown", "calls", "breaks", "events")
Kept = str
"""Ids of sessions that are not touched, as JSON."""

_NOT_KEPT = "NOT IN (SELECT value FROM json_each(:kept))"
_STREAM = f"stream IN (SELECT id FROM streams WHERE session {_NOT_KEPT})"
_OLD: dict[Table, str] = {
    "calls": f"started_at < :before AND session {_NOT_KEPT} "
    f"AND (status != 'pending' OR started_at < :before - {_STALE})",
    "breaks": f"at < :before AND session {_NOT_KEPT}",
    "events": f"at < :before AND {_STREAM}",
    "shown": f"at < :before AND session {_NOT_KEPT}",
}
_LANES = (
    f"FROM lanes WHERE started_at < :before AND session {_NOT_KEPT} AND NOT EXISTS "
    "(SELECT 1 FROM calls WHERE calls.tenant = lanes.tenant AND calls.lane = lanes.id {newer})"
)
_SESSIONS = (
    f"FROM sessions WHERE started_at < :before AND id {_NOT_KEPT} "
    "AND NOT EXISTS (SELECT 1 FROM lanes WHERE lanes.tenant = sessions.tenant AND lanes.session = sessions.id {begun}) "
    "AND NOT EXISTS (SELECT 1 FROM calls WHERE calls.tenant = sessions.tenant AND calls.session = sessions.id {newer}) "
    "AND NOT EXISTS (SELECT 1 FROM events JOIN streams ON streams.id = events.stream WHERE "
    "streams.tenant = sessions.tenant AND streams.session = sessions.id {told})"
)


def kept_sessions(sessions: Iterable[str], client: str | None, connection: sqlite3.Connection) -> Kept:
    """Those that were named, and all of a client."""
    rows = connection.execute("SELECT id FROM sessions WHERE client = ?", (client,)).fetchall()
    return json.dumps(sorted({*sessions, *(id_ for (id_,) in rows)}))


def count(connection: sqlite3.Connection, before: int, kept: Kept) -> dict[str, int]:
    """What would go, by table."""
    values = {"before": before, "kept": kept}
    newer, begun, told = (
        "AND calls.started_at >= :before",
        "AND lanes.started_at >= :before",
        "AND events.at >= :before",
    )
    questions: dict[str, str] = {table: f"FROM {table} WHERE {_OLD[table]}" for table in TABLES}
    questions["lanes"] = _LANES.format(newer=newer)
    questions["sessions"] = _SESSIONS.format(newer=newer, begun=begun, told=told)
    return {
        name: int(connection.execute(f"SELECT count(*) {question}", values).fetchone()[0])
        for name, question in questions.items()
    }


def begin(before: int, transaction: Transaction) -> None:
    """From now on questions about hours before this are answered from the sums alone."""
    transaction.connection.execute("UPDATE retention SET pruned_before = max(pruned_before, ?) WHERE id = 1", (before,))


def rows_step(table: Table, before: int, kept: Kept, transaction: Transaction) -> int:
    transaction.pour()
    column = "started_at" if table == "calls" else "at"
    old = f"SELECT seq FROM {table} WHERE {_OLD[table]} ORDER BY {column} LIMIT {STEP}"
    values = {"before": before, "kept": kept}
    return transaction.connection.execute(f"DELETE FROM {table} WHERE seq IN ({old})", values).rowcount


def lanes_step(before: int, kept: Kept, transaction: Transaction) -> int:
    """Lanes of which no call is left, with ledger, edits, injected texts and blobs."""
    transaction.pour()
    connection = transaction.connection
    question = f"SELECT tenant, id {_LANES.format(newer='')} LIMIT {LANES}"
    found = connection.execute(question, {"before": before, "kept": kept}).fetchall()
    for tenant, lane in found:
        drop_lane_state(tenant, lane, transaction)
        connection.execute("DELETE FROM lanes WHERE tenant = ? AND id = ?", (tenant, lane))
    return len(found)


def sessions_step(before: int, kept: Kept, transaction: Transaction) -> int:
    """Sessions of which nothing is left."""
    transaction.pour()
    connection = transaction.connection
    question = f"SELECT tenant, id {_SESSIONS.format(newer='', begun='', told='')} LIMIT {LANES}"
    found = connection.execute(question, {"before": before, "kept": kept}).fetchall()
    for tenant, session in found:
        release(tenant, Owner("session", session), transaction)
        connection.execute("DELETE FROM sessions WHERE tenant = ? AND id = ?", (tenant, session))
    return len(found)


def rest(before: int, kept: Kept, transaction: Transaction) -> None:
    """What belonged to what is gone: sums of single sessions, streams, pinned texts that hold no more, blobs."""
    transaction.pour()
    connection, values = transaction.connection, {"before": before, "kept": kept}
    of_old = f"< :before AND session {_NOT_KEPT}"
    connection.execute(f"DELETE FROM bill_hours WHERE hour {of_old}", values)
    connection.execute(
        f"INSERT INTO bill_hours {SUM_OF_CALLS} AND started_at {of_old} GROUP BY 1, 2, 3, 4, 5, 6, 7, 8", values
    )
    connection.execute(
        f"DELETE FROM streams WHERE session {_NOT_KEPT} "
        "AND NOT EXISTS (SELECT 1 FROM events WHERE stream = streams.id) AND NOT EXISTS "
        "(SELECT 1 FROM sessions WHERE sessions.tenant = streams.tenant AND sessions.id = streams.session)",
        {"kept": kept},
    )
    transaction.streams.clear()
    connection.execute("DELETE FROM pins WHERE until < ?", (before,))
    connection.execute(
        "DELETE FROM blobs WHERE made_at < ? AND ((owner_kind = 'lane' AND NOT EXISTS (SELECT 1 FROM lanes "
        "WHERE lanes.tenant = blobs.tenant AND lanes.id = blobs.owner) AND NOT EXISTS (SELECT 1 FROM edits "
        "WHERE edits.tenant = blobs.tenant AND edits.lane = blobs.owner)) OR (owner_kind = 'session' AND NOT EXISTS "
        "(SELECT 1 FROM sessions WHERE sessions.tenant = blobs.tenant AND sessions.id = blobs.owner)))",
        (before,),
    )
