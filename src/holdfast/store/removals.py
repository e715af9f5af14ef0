"""What ends and what ages: lanes, sessions, old rows, and blobs nobody owns any more.

A blob's file goes in a transaction after the one that removed its last row, and only if no row names it
again: a crash in between leaves a file too many, never a row without its file.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Literal

from .rows import Owner
from .writer import Transaction

PRUNE_STEP = 2_000


def end_lane(tenant: str, lane: str, at: int, transaction: Transaction) -> None:
    transaction.connection.execute("UPDATE lanes SET ended_at = ? WHERE tenant = ? AND id = ?", (at, tenant, lane))
    _drop_lane_state(tenant, lane, transaction)


def delete_session(tenant: str, session: str, transaction: Transaction) -> None:
    transaction.pour()
    connection = transaction.connection
    of_session = "WHERE tenant = ? AND session = ?"
    key = (tenant, session)
    for (lane,) in connection.execute(f"SELECT id FROM lanes {of_session}", key).fetchall():
        _drop_lane_state(tenant, lane, transaction)
    _release(tenant, Owner("session", session), transaction)
    connection.execute(f"DELETE FROM events WHERE stream IN (SELECT id FROM streams {of_session})", key)
    for table in ("streams", "lanes", "calls", "breaks", "shown"):
        connection.execute(f"DELETE FROM {table} {of_session}", key)
    connection.execute("DELETE FROM sessions WHERE tenant = ? AND id = ?", key)
    transaction.streams.pop(key, None)


def _drop_lane_state(tenant: str, lane: str, transaction: Transaction) -> None:
    for table in ("ledgers", "edits", "injections"):
        transaction.connection.execute(f"DELETE FROM {table} WHERE tenant = ? AND lane = ?", (tenant, lane))
    _release(tenant, Owner("lane", lane), transaction)


def _release(tenant: str, owner: Owner, transaction: Transaction) -> None:
    of_owner = "WHERE tenant = ? AND owner_kind = ? AND owner = ?"
    key = (tenant, owner.kind, owner.id)
    rows = transaction.connection.execute(f"SELECT digest FROM blobs {of_owner}", key).fetchall()
    if rows:
        transaction.connection.execute(f"DELETE FROM blobs {of_owner}", key)
        transaction.later.append(partial(_remove_unowned, tenant, [row[0] for row in rows]))


def _remove_unowned(tenant: str, digests: Iterable[str], transaction: Transaction) -> None:
    for digest in digests:
        owned = transaction.connection.execute(
            "SELECT 1 FROM blobs WHERE tenant = ? AND digest = ?", (tenant, digest)
        ).fetchone()
        if owned is None:
            transaction.blobs.remove(tenant, digest)


def sweep_blobs(transaction: Transaction) -> int:
    """Remove files no row names: left by a crash or a write that failed. Needs the write lock we hold."""
    rows = transaction.connection.execute("SELECT DISTINCT tenant, digest FROM blobs")
    owned = {(transaction.blobs.tenant_directory(tenant), digest) for tenant, digest in rows}
    removed = 0
    for directory, name, path in transaction.blobs.stored():
        if (directory, name) not in owned:
            transaction.blobs.unlink(path)
            removed += 1
    return removed


def forget_before(before: int, transaction: Transaction) -> None:
    """From now on questions about hours before this are answered from the sums alone."""
    transaction.connection.execute("UPDATE retention SET pruned_before = max(pruned_before, ?) WHERE id = 1", (before,))


def prune_step(table: Literal["calls", "breaks", "events", "shown"], before: int, transaction: Transaction) -> int:
    """Delete a bounded number of old rows, so that other writes are never held up for long."""
    transaction.pour()
    column = "started_at" if table == "calls" else "at"
    finished = "AND status != 'pending'" if table == "calls" else ""
    return transaction.connection.execute(
        f"DELETE FROM {table} WHERE seq IN "
        f"(SELECT seq FROM {table} WHERE {column} < ? {finished} ORDER BY {column} LIMIT {PRUNE_STEP})",
        (before,),
    ).rowcount


def prune_injections(before: int, transaction: Transaction) -> int:
    """The same for texts that were put into lanes of which no call is left. A lane that has just begun may have none
    yet. CROSS JOIN: there are more lanes than texts, so lanes are looked up and not gone through."""
    transaction.pour()
    return transaction.connection.execute(
        "DELETE FROM injections WHERE rowid IN (SELECT injections.rowid FROM injections CROSS JOIN lanes "
        "ON lanes.tenant = injections.tenant AND lanes.id = injections.lane WHERE lanes.started_at < ? AND NOT EXISTS "
        "(SELECT 1 FROM calls WHERE calls.tenant = injections.tenant AND calls.lane = injections.lane) "
        f"LIMIT {PRUNE_STEP})",
        (before,),
    ).rowcount
