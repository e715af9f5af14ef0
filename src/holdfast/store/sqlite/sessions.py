"""Sessions, lanes and what is stored of them: versions of ledgers, pools and injections, edits, blobs, marks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.errors import HoldfastError

from .. import operations as op
from ..blobs import digest_of
from ..interface import Store, VersionConflictError
from ..rows import Blob, Edit, Injection, Lane, Ledger, Owner, Pool, Session
from .activity import tenants_in
from .connections import Questions, conditions, has_table
from .tables import EDIT_COLUMNS, LANE_COLUMNS, SESSION_COLUMNS, checked, names, read_row, upsert
from .transaction import Transaction

_PUT_SESSION = upsert("sessions", SESSION_COLUMNS)
_PUT_LANE = upsert("lanes", LANE_COLUMNS)


class SessionQuestions(Questions, Store):
    def session(self, tenant: str, id: str) -> Session | None:
        sql = f"SELECT {names(SESSION_COLUMNS)} FROM sessions WHERE tenant = ? AND id = ?"
        row = self.readers.one(sql, (tenant, id))
        return None if row is None else read_row(Session, row)

    def sessions(self, tenant: str | None = None, *, limit: int = 100) -> list[Session]:
        where, values = conditions({"tenant": tenant}, "started_at")
        sql = f"SELECT {names(SESSION_COLUMNS)} FROM sessions WHERE {where} ORDER BY started_at DESC, id LIMIT ?"
        return [read_row(Session, row) for row in self.readers.all(sql, [*values, limit])]

    def account(self, name: str) -> str | None:
        row = self.readers.one("SELECT tenant FROM accounts WHERE name = ?", (name,))
        return None if row is None else str(row[0])

    def tenants(self) -> list[str]:
        with self.readers.snapshot() as connection:
            return tenants_in(connection, "sessions", "knowledge")

    def lane(self, tenant: str, id: str) -> Lane | None:
        sql = f"SELECT {names(LANE_COLUMNS)} FROM lanes WHERE tenant = ? AND id = ?"
        row = self.readers.one(sql, (tenant, id))
        return None if row is None else read_row(Lane, row)

    def lanes(self, tenant: str, session: str) -> list[Lane]:
        sql = f"SELECT {names(LANE_COLUMNS)} FROM lanes WHERE tenant = ? AND session = ? ORDER BY started_at, id"
        return [read_row(Lane, row) for row in self.readers.all(sql, (tenant, session))]

    def ledger(self, tenant: str, lane: str) -> Ledger | None:
        row = self._version("ledgers", "lane", tenant, lane)
        return None if row is None else Ledger(tenant=tenant, lane=lane, version=row[0], data=row[1])

    def ledger_version(self, tenant: str, lane: str) -> int:
        row = self.readers.one("SELECT version FROM ledgers WHERE tenant = ? AND lane = ?", (tenant, lane))
        return 0 if row is None else int(row[0])

    def pool(self, tenant: str, model: str) -> Pool | None:
        row = self._version("pools", "model", tenant, model)
        return None if row is None else Pool(tenant=tenant, model=model, version=row[0], data=row[1])

    def injection(self, tenant: str, lane: str) -> Injection | None:
        row = self._version("injections", "lane", tenant, lane)
        return None if row is None else Injection(tenant=tenant, lane=lane, version=row[0], data=row[1])

    def injected(self, tenant: str) -> bool:
        return self.readers.one("SELECT 1 FROM injections WHERE tenant = ? LIMIT 1", (tenant,)) is not None

    def _version(self, table: str, key: str, tenant: str, name: str) -> Any:
        return self.readers.one(f"SELECT version, data FROM {table} WHERE tenant = ? AND {key} = ?", (tenant, name))

    def edits(self, tenant: str, lane: str) -> list[Edit]:
        sql = f"SELECT {names(EDIT_COLUMNS)} FROM edits WHERE tenant = ? AND lane = ? ORDER BY seq"
        return [read_row(Edit, row) for row in self.readers.all(sql, (tenant, lane))]

    def read_blob(self, tenant: str, digest: str) -> bytes:
        with self.readers.snapshot() as connection:
            sql = "SELECT 1 FROM blobs WHERE tenant = ? AND digest = ? LIMIT 1"
            if connection.execute(sql, (tenant, digest)).fetchone() is None:
                raise HoldfastError(f"this tenant has no blob {digest[:64]}; its lane may have ended, record it again")
            return self._blobs.read(tenant, digest)

    def marks(self) -> dict[str, int]:
        with self.readers.snapshot() as connection:
            if not has_table(connection, "marks"):
                return {}
            return dict(connection.execute("SELECT name, at FROM marks").fetchall())


def put_session(transaction: Transaction, operation: op.PutSession) -> None:
    session = checked(operation.session, Session)
    transaction.connection.execute(_PUT_SESSION, _values(session, SESSION_COLUMNS))


def put_account(transaction: Transaction, operation: op.PutAccount) -> None:
    values = (operation.name, operation.tenant, operation.at)
    transaction.connection.execute("INSERT OR REPLACE INTO accounts VALUES (?, ?, ?)", values)


def put_lane(transaction: Transaction, operation: op.PutLane) -> None:
    lane = checked(operation.lane, Lane)
    transaction.connection.execute(_PUT_LANE, _values(lane, LANE_COLUMNS))


def _values(row: Session | Lane, columns: Sequence[str]) -> list[Any]:
    return [getattr(row, name) for name in columns]


def put_mark(transaction: Transaction, operation: op.PutMark) -> None:
    transaction.connection.execute(
        "INSERT INTO marks VALUES (?, ?) ON CONFLICT DO UPDATE SET at = max(at, excluded.at)",
        (operation.name, operation.at),
    )


_VERSIONED: dict[type[op.PutVersion], tuple[str, str]] = {
    op.PutLedger: ("ledgers", "lane"),
    op.PutPool: ("pools", "model"),
    op.PutInjection: ("injections", "lane"),
}


def put_version(transaction: Transaction, operation: op.PutVersion) -> int:
    """Compare and set."""
    (table, key), execute = _VERSIONED[type(operation)], transaction.connection.execute
    expected, data, count = operation.expected, operation.data, operation.count
    name = operation.tenant, operation.name
    if expected <= 0:
        sql = f"INSERT INTO {table} (data, version, tenant, {key}) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
        values: tuple[object, ...] = (data, count, *name)
    else:
        sql = f"UPDATE {table} SET data = ?, version = ? WHERE tenant = ? AND {key} = ? AND version = ?"
        values = (data, expected + count, *name, expected)
    if execute(sql, values).rowcount == 1:
        return max(expected, 0) + count
    where = f"WHERE tenant = ? AND {key} = ?"
    row = execute(f"SELECT version FROM {table} {where}", name).fetchone()
    if operation.on_conflict == "refuse" or row is None:
        raise VersionConflictError(
            f"the {table[:-1]} of {key} {operation.name} is no longer at version {expected}; "
            "read it again and decide again"
        )
    version = int(row[0]) + 1
    if version == expected + count:  # whoever made it must not take it for what they expected
        version += 1
    if operation.on_conflict == "replace":
        execute(f"UPDATE {table} SET data = ?, version = ? {where}", (data, version, *name))
    else:
        execute(f"UPDATE {table} SET version = ? {where}", (version, *name))
    return version


def put_blob(transaction: Transaction, operation: op.PutBlob) -> Blob:
    """The file first, then the row: a row never names bytes that are not there."""
    tenant, owner, data = operation.tenant, operation.owner, operation.data
    digest = transaction.blobs.write(tenant, data)
    transaction.connection.execute(
        "INSERT INTO blobs (tenant, digest, owner_kind, owner, size, made_at) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT DO NOTHING",
        (tenant, digest, owner.kind, owner.id, len(data), operation.at),
    )
    return Blob(tenant=tenant, digest=digest, size=len(data))


def put_edit(transaction: Transaction, operation: op.PutEdit) -> Edit:
    tenant, lane, block, at, data = operation.tenant, operation.lane, operation.block, operation.at, operation.data
    row = transaction.connection.execute(
        "SELECT blob, made_at, data FROM edits WHERE tenant = ? AND lane = ? AND block = ?", (tenant, lane, block)
    ).fetchone()
    if row is not None:
        if row[0] != digest_of(operation.replacement):
            raise HoldfastError(
                f"block {block} of lane {lane} already has a recorded edit with other bytes; replay that one"
            )
        return Edit(tenant=tenant, lane=lane, block=block, blob=row[0], made_at=row[1], data=row[2])
    blob = put_blob(transaction, op.PutBlob(tenant, Owner("lane", lane), operation.replacement, at))
    transaction.connection.execute(
        "INSERT INTO edits (tenant, lane, block, blob, made_at, data) VALUES (?, ?, ?, ?, ?, ?)",
        (tenant, lane, block, blob.digest, at, data),
    )
    return Edit(tenant=tenant, lane=lane, block=block, blob=blob.digest, made_at=at, data=data)
