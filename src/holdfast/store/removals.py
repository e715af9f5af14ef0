"""What ends: lanes, sessions, and blobs nobody owns any more. What ages is `retention`.

A blob's file goes in a transaction after the one that removed its last row, and only if no row names it
again: a crash in between leaves a file too many, never a row without its file.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from .rows import Owner
from .writer import Transaction


def end_lane(tenant: str, lane: str, at: int, transaction: Transaction) -> None:
    transaction.connection.execute("UPDATE lanes SET ended_at = ? WHERE tenant = ? AND id = ?", (at, tenant, lane))
    drop_lane_state(tenant, lane, transaction)


def delete_session(tenant: str, session: str, transaction: Transaction) -> None:
    transaction.pour()
    connection = transaction.connection
    of_session = "WHERE tenant = ? AND session = ?"
    key = (tenant, session)
    for (lane,) in connection.execute(f"SELECT id FROM lanes {of_session}", key).fetchall():
        drop_lane_state(tenant, lane, transaction)
    release(tenant, Owner("session", session), transaction)
    connection.execute(f"DELETE FROM events WHERE stream IN (SELECT id FROM streams {of_session})", key)
    for table in ("streams", "lanes", "calls", "breaks", "shown", "bill_hours"):
        connection.execute(f"DELETE FROM {table} {of_session}", key)
    connection.execute("DELETE FROM sessions WHERE tenant = ? AND id = ?", key)
    transaction.streams.pop(key, None)


def drop_lane_state(tenant: str, lane: str, transaction: Transaction) -> None:
    for table in ("ledgers", "edits", "injections"):
        transaction.connection.execute(f"DELETE FROM {table} WHERE tenant = ? AND lane = ?", (tenant, lane))
    release(tenant, Owner("lane", lane), transaction)


def release(tenant: str, owner: Owner, transaction: Transaction) -> None:
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
