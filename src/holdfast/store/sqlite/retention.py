"""Removal of what ends and what ages: lanes, sessions and blobs without an owner; old calls, breaks and events.

Old rows are removed in small steps, so that other writes never wait long. Lanes and sessions without any rows follow,
with all that belongs to them. Whether a lane has a call left is asked in the transaction that removes it, so a lane
that was used lately stays. Sums stay. Protected sessions are not touched at all.

A blob's file is removed in a transaction after the one that removed its last row, and only if no row names it again: a
crash in between leaves a file too many, never a row without its file.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from typing import Literal

from .. import operations as op
from ..operations import Operation
from ..rows import Owner
from .activity import renew
from .bill_sums import SUM_OF_CALLS
from .transaction import Transaction

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
    "(SELECT 1 FROM calls WHERE calls.tenant = lanes.tenant AND calls.lane = lanes.id {recent_calls})"
)
_SESSIONS = (
    f"FROM sessions WHERE started_at < :before AND id {_NOT_KEPT} "
    "AND NOT EXISTS (SELECT 1 FROM lanes WHERE lanes.tenant = sessions.tenant "
    "AND lanes.session = sessions.id {recent_lanes}) "
    "AND NOT EXISTS (SELECT 1 FROM calls WHERE calls.tenant = sessions.tenant "
    "AND calls.session = sessions.id {recent_calls}) "
    "AND NOT EXISTS (SELECT 1 FROM events JOIN streams ON streams.id = events.stream WHERE "
    "streams.tenant = sessions.tenant AND streams.session = sessions.id {recent_events})"
)


class _PruneStep(Operation[int], frozen=True):
    """Removes some of what is older than `before`, but nothing of the sessions in `kept`; gives how many."""

    independent = False

    before: int
    kept: Kept

    @property
    def rows(self) -> int:
        return STEP


class BeginPrune(_PruneStep, frozen=True):
    """From now on questions about hours before this are answered from the sums alone."""


class PruneRows(_PruneStep, frozen=True):
    table: Table


class PruneLanes(_PruneStep, frozen=True):
    """Lanes of which no call is left, with ledger, edits, injected texts and blobs."""


class PruneSessions(_PruneStep, frozen=True):
    """Delete sessions without lanes."""


class PruneActivity(_PruneStep, frozen=True):
    """Sessions of which the first or the last call is gone were active at other times, or not at all."""


class PruneRest(_PruneStep, frozen=True):
    """What belonged to what is gone: sums of single sessions, streams, pinned texts that hold no more, blobs."""


class SweepBlobs(Operation[int], frozen=True):
    """Removes files that no row names: left by a crash or a write that failed."""

    independent = False


class RemoveBlobs(Operation[None], frozen=True):
    """Removes files of a tenant that no row names any more."""

    independent = False

    tenant: str
    digests: tuple[str, ...]


def kept_sessions(sessions: Iterable[str], client: str | None, connection: sqlite3.Connection) -> Kept:
    """Those that were named, and all of a client."""
    rows = connection.execute("SELECT id FROM sessions WHERE client = ?", (client,)).fetchall()
    return json.dumps(sorted({*sessions, *(id_ for (id_,) in rows)}))


def count(connection: sqlite3.Connection, before: int, kept: Kept) -> dict[str, int]:
    """What would go, by table."""
    values = {"before": before, "kept": kept}
    recent_calls, recent_lanes, recent_events = (
        "AND calls.started_at >= :before",
        "AND lanes.started_at >= :before",
        "AND events.at >= :before",
    )
    questions: dict[str, str] = {table: f"FROM {table} WHERE {_OLD[table]}" for table in TABLES}
    questions["lanes"] = _LANES.format(recent_calls=recent_calls)
    questions["sessions"] = _SESSIONS.format(
        recent_calls=recent_calls, recent_lanes=recent_lanes, recent_events=recent_events
    )
    return {
        name: int(connection.execute(f"SELECT count(*) {question}", values).fetchone()[0])
        for name, question in questions.items()
    }


def begin_prune(transaction: Transaction, operation: BeginPrune) -> int:
    sql = "UPDATE retention SET pruned_before = max(pruned_before, ?) WHERE id = 1"
    return transaction.connection.execute(sql, (operation.before,)).rowcount


def prune_rows(transaction: Transaction, operation: PruneRows) -> int:
    transaction.insert_deferred()
    table = operation.table
    column = "started_at" if table == "calls" else "at"
    old = f"SELECT seq FROM {table} WHERE {_OLD[table]} ORDER BY {column} LIMIT {STEP}"
    return transaction.connection.execute(f"DELETE FROM {table} WHERE seq IN ({old})", _values(operation)).rowcount


def prune_lanes(transaction: Transaction, operation: PruneLanes) -> int:
    transaction.insert_deferred()
    connection = transaction.connection
    question = f"SELECT tenant, id {_LANES.format(recent_calls='')} LIMIT {LANES}"
    rows = connection.execute(question, _values(operation)).fetchall()
    for tenant, lane in rows:
        _drop_lane_state(transaction, tenant, lane)
        connection.execute("DELETE FROM lanes WHERE tenant = ? AND id = ?", (tenant, lane))
    return len(rows)


def prune_sessions(transaction: Transaction, operation: PruneSessions) -> int:
    transaction.insert_deferred()
    connection = transaction.connection
    question = f"SELECT tenant, id {_SESSIONS.format(recent_calls='', recent_lanes='', recent_events='')} LIMIT {LANES}"
    rows = connection.execute(question, _values(operation)).fetchall()
    for tenant, session in rows:
        _release(transaction, tenant, Owner("session", session))
        connection.execute("DELETE FROM sessions WHERE tenant = ? AND id = ?", (tenant, session))
    return len(rows)


def _values(operation: _PruneStep) -> dict[str, object]:
    return {"before": operation.before, "kept": operation.kept}


def prune_activity(transaction: Transaction, operation: PruneActivity) -> int:
    transaction.insert_deferred()
    connection = transaction.connection
    there = (
        "EXISTS (SELECT 1 FROM calls WHERE calls.tenant = active.tenant AND calls.session = active.session "
        "AND calls.started_at = active.{0})"
    )
    rows = connection.execute(
        f"SELECT tenant, session FROM session_activity AS active WHERE first < :before AND session {_NOT_KEPT} "
        f"AND NOT ({there.format('first')} AND {there.format('last')}) LIMIT {STEP}",
        _values(operation),
    ).fetchall()
    for tenant, session in rows:
        renew(connection, tenant, session)
    return len(rows)


def prune_rest(transaction: Transaction, operation: PruneRest) -> int:
    transaction.insert_deferred()
    connection, values = transaction.connection, _values(operation)
    of_old = f"< :before AND session {_NOT_KEPT}"
    connection.execute(f"DELETE FROM bill_hours WHERE hour {of_old}", values)
    connection.execute(
        f"INSERT INTO bill_hours {SUM_OF_CALLS} AND started_at {of_old} GROUP BY 1, 2, 3, 4, 5, 6, 7, 8", values
    )
    connection.execute(
        f"DELETE FROM streams WHERE session {_NOT_KEPT} "
        "AND NOT EXISTS (SELECT 1 FROM events WHERE stream = streams.id) AND NOT EXISTS "
        "(SELECT 1 FROM sessions WHERE sessions.tenant = streams.tenant AND sessions.id = streams.session)",
        {"kept": operation.kept},
    )
    transaction.streams.clear()
    connection.execute("DELETE FROM pins WHERE until < ?", (operation.before,))
    connection.execute(
        "DELETE FROM blobs WHERE made_at < ? AND ((owner_kind = 'lane' AND NOT EXISTS (SELECT 1 FROM lanes "
        "WHERE lanes.tenant = blobs.tenant AND lanes.id = blobs.owner) AND NOT EXISTS (SELECT 1 FROM edits "
        "WHERE edits.tenant = blobs.tenant AND edits.lane = blobs.owner)) OR (owner_kind = 'session' AND NOT EXISTS "
        "(SELECT 1 FROM sessions WHERE sessions.tenant = blobs.tenant AND sessions.id = blobs.owner)))",
        (operation.before,),
    )
    return 0


def end_lane(transaction: Transaction, operation: op.EndLane) -> None:
    tenant, lane = operation.tenant, operation.lane
    sql = "UPDATE lanes SET ended_at = ? WHERE tenant = ? AND id = ?"
    transaction.connection.execute(sql, (operation.at, tenant, lane))
    _drop_lane_state(transaction, tenant, lane)


def delete_session(transaction: Transaction, operation: op.DeleteSession) -> None:
    transaction.insert_deferred()
    connection, tenant, session = transaction.connection, operation.tenant, operation.session
    of_session = "WHERE tenant = ? AND session = ?"
    key = (tenant, session)
    for (lane,) in connection.execute(f"SELECT id FROM lanes {of_session}", key).fetchall():
        _drop_lane_state(transaction, tenant, lane)
    _release(transaction, tenant, Owner("session", session))
    connection.execute(f"DELETE FROM events WHERE stream IN (SELECT id FROM streams {of_session})", key)
    for table in ("streams", "lanes", "calls", "breaks", "shown", "bill_hours", "session_activity"):
        connection.execute(f"DELETE FROM {table} {of_session}", key)
    connection.execute("DELETE FROM sessions WHERE tenant = ? AND id = ?", key)
    transaction.streams.pop(key, None)


def _drop_lane_state(transaction: Transaction, tenant: str, lane: str) -> None:
    for table in ("ledgers", "edits", "injections"):
        transaction.connection.execute(f"DELETE FROM {table} WHERE tenant = ? AND lane = ?", (tenant, lane))
    _release(transaction, tenant, Owner("lane", lane))


def _release(transaction: Transaction, tenant: str, owner: Owner) -> None:
    of_owner = "WHERE tenant = ? AND owner_kind = ? AND owner = ?"
    key = (tenant, owner.kind, owner.id)
    rows = transaction.connection.execute(f"SELECT digest FROM blobs {of_owner}", key).fetchall()
    if rows:
        transaction.connection.execute(f"DELETE FROM blobs {of_owner}", key)
        transaction.later.append(RemoveBlobs(tenant, tuple([row[0] for row in rows])))


def remove_blobs(transaction: Transaction, operation: RemoveBlobs) -> None:
    tenant = operation.tenant
    for digest in operation.digests:
        owned = transaction.connection.execute(
            "SELECT 1 FROM blobs WHERE tenant = ? AND digest = ?", (tenant, digest)
        ).fetchone()
        if owned is None:
            transaction.blobs.remove(tenant, digest)


def sweep_blobs(transaction: Transaction, _: SweepBlobs) -> int:
    rows = transaction.connection.execute("SELECT DISTINCT tenant, digest FROM blobs")
    owned = {(transaction.blobs.tenant_directory(tenant), digest) for tenant, digest in rows}
    removed = 0
    for directory, name, path in transaction.blobs.stored():
        if (directory, name) not in owned:
            transaction.blobs.unlink(path)
            removed += 1
    return removed
