"""Long-term knowledge as SQL: entries with their history, vectors, and what of them was pinned and shown.

An entry, its history and the words it is found by change in one transaction, or not at all. The tenant is part of every
key and of every question.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from ..errors import HoldfastError
from .base import VersionConflictError
from .rows import Injection, KnowledgeEntry, KnowledgeFilter, KnowledgeRevision, KnowledgeVector, Pin, ShownEntry
from .tables import KNOWLEDGE_COLUMNS, SHOWN_COLUMNS, names
from .words import indexed
from .writer import Transaction
from .writes import check

_COLUMNS = names(KNOWLEDGE_COLUMNS)
_MARKS = ", ".join("?" * len(KNOWLEDGE_COLUMNS))
_ADD = f"INSERT INTO knowledge ({_COLUMNS}) VALUES ({_MARKS})"
_CHANGE = f"UPDATE knowledge SET ({_COLUMNS}) = ({_MARKS}) WHERE number = ?"
_SHOWN = f"INSERT INTO shown (tenant, {names(SHOWN_COLUMNS)}) VALUES (?, {', '.join('?' * len(SHOWN_COLUMNS))})"
_known = msgspec.json.Decoder(tuple[tuple[str, str], ...])
_entry = msgspec.json.Decoder(KnowledgeEntry)


def put_knowledge(
    entry: KnowledgeEntry, expected: int, operation: str, by: str, transaction: Transaction
) -> KnowledgeEntry:
    check(entry, KnowledgeEntry)
    if not 0 <= entry.confidence <= 1:
        raise HoldfastError(
            f"knowledge entry {entry.id} has the confidence {entry.confidence}; give a number from 0 to 1"
        )
    connection, key = transaction.connection, (entry.tenant, entry.id)
    before = connection.execute(
        "SELECT number, revision, title, content FROM knowledge WHERE tenant = ? AND id = ?", key
    ).fetchone()
    if expected != (0 if before is None else before[1]):
        raise _conflict(entry.id, expected, None if before is None else before[1])
    entry = msgspec.structs.replace(entry, revision=expected + 1)
    values = [getattr(entry, name) for name in KNOWLEDGE_COLUMNS]
    tenant = _changed(entry.tenant, transaction, added=1 if before is None else 0)
    if before is None:
        number = connection.execute(_ADD, values).lastrowid or 0
    else:
        number = int(before[0])
        connection.execute(_CHANGE, [*values, number])
        connection.execute("DELETE FROM knowledge_vectors WHERE tenant = ? AND id = ?", key)
    if before is None or before[2:] != (entry.title, entry.content):
        if before is not None:
            _unindex(connection, tenant, number, *before[2:])
        words = (number, indexed(tenant, entry.title), indexed(tenant, entry.content))
        connection.execute("INSERT INTO knowledge_fts (rowid, title, content) VALUES (?, ?, ?)", words)
    connection.execute(
        "INSERT INTO knowledge_history (tenant, id, revision, at, operation, by, entry) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*key, entry.revision, entry.updated_at, operation, by, msgspec.json.encode(entry)),
    )
    return entry


def _conflict(id_: str, expected: int, found: int | None) -> VersionConflictError:
    if found is None:
        return VersionConflictError(f"knowledge entry {id_} is not there any more; somebody erased it, add it anew")
    if not expected:
        return VersionConflictError(f"there is a knowledge entry {id_} already; edit that one, or give another id")
    return VersionConflictError(
        f"knowledge entry {id_} was changed meanwhile: it is at revision {found} and not at {expected}; "
        "look at it again, then make your change again"
    )


def _changed(tenant: str, transaction: Transaction, *, added: int = 0) -> int:
    """Count a change of the tenant's knowledge, and its entries; gives the tenant's number."""
    connection = transaction.connection
    connection.execute(
        "INSERT INTO knowledge_tenants (tenant, version, entries) VALUES (?, 1, ?) "
        "ON CONFLICT (tenant) DO UPDATE SET version = version + 1, entries = entries + excluded.entries",
        (tenant, added),
    )
    row = connection.execute("SELECT number FROM knowledge_tenants WHERE tenant = ?", (tenant,)).fetchone()
    return int(row[0])


def _unindex(connection: sqlite3.Connection, tenant: int, number: int, title: str, content: str) -> None:
    """The index has no copy of what it was given and must be told the same words again to forget them."""
    connection.execute(
        "INSERT INTO knowledge_fts (knowledge_fts, rowid, title, content) VALUES ('delete', ?, ?, ?)",
        (number, indexed(tenant, title), indexed(tenant, content)),
    )


def erase_knowledge(tenant: str, id_: str, transaction: Transaction) -> bool:
    connection, key = transaction.connection, (tenant, id_)
    row = connection.execute("SELECT number, title, content FROM knowledge WHERE tenant = ? AND id = ?", key).fetchone()
    if row is None:
        return False
    _unindex(connection, _changed(tenant, transaction, added=-1), *row)
    for table in ("knowledge", "knowledge_history", "knowledge_vectors"):
        connection.execute(f"DELETE FROM {table} WHERE tenant = ? AND id = ?", key)
    connection.execute("DELETE FROM shown WHERE tenant = ? AND entry = ?", key)
    connection.execute("DELETE FROM pins WHERE tenant = ? AND instr(text, ?)", key)  # with its title, or in full
    if _merge_words not in transaction.later:
        transaction.later.append(_merge_words)
    return True


def _merge_words(transaction: Transaction) -> None:
    """The index only notes that words are gone, until it writes them anew: a second for a hundred thousand entries, and
    nothing where that was just done."""
    transaction.connection.execute("INSERT INTO knowledge_fts (knowledge_fts) VALUES ('optimize')")


def put_vectors(tenant: str, model: str, vectors: Sequence[KnowledgeVector], transaction: Transaction) -> int:
    kept = 0
    for vector in vectors:
        check(vector, KnowledgeVector)
        kept += transaction.connection.execute(
            "INSERT INTO knowledge_vectors (tenant, id, model, revision, data) "
            "SELECT tenant, id, ?, revision, ? FROM knowledge WHERE tenant = ? AND id = ? AND revision = ? "
            "ON CONFLICT (tenant, id, model) DO UPDATE SET revision = excluded.revision, data = excluded.data",
            (model, vector.data, tenant, vector.id, vector.revision),
        ).rowcount
    if kept:
        _changed(tenant, transaction)
    return kept


def put_pin(pin: Pin, transaction: Transaction) -> Pin:
    check(pin, Pin)
    holding = find_pin(transaction.connection, pin.tenant, pin.key, pin.made_at)
    if holding is not None:
        return holding
    connection = transaction.connection
    connection.execute("DELETE FROM pins WHERE tenant = ? AND until <= ?", (pin.tenant, pin.made_at))
    connection.execute(
        'INSERT OR REPLACE INTO pins (tenant, "key", text, entries, made_at, until) VALUES (?, ?, ?, ?, ?, ?)',
        (pin.tenant, pin.key, pin.text, msgspec.json.encode(pin.entries), pin.made_at, pin.until),
    )
    return pin


def put_shown(tenant: str, entries: Sequence[tuple[str, str]], shown: ShownEntry, transaction: Transaction) -> int:
    check(shown, ShownEntry)
    connection, noted = transaction.connection, 0
    more = [getattr(shown, name) for name in SHOWN_COLUMNS[2:]]
    for id_, said in entries:
        if revision := _revision(connection, tenant, id_, said):
            connection.execute(_SHOWN, (tenant, id_, revision, *more))
            noted += 1
    return noted


def _revision(connection: sqlite3.Connection, tenant: str, id_: str, said: str) -> int:
    """The latest revision that said this and held: a pinned text may show what was changed or forgotten since."""
    row = connection.execute(
        "SELECT revision, hash, forgotten_at FROM knowledge WHERE tenant = ? AND id = ?", (tenant, id_)
    ).fetchone()
    if row is None:
        return 0
    if said and (row[1] != said or row[2] is not None):
        for each in reversed(history(connection, tenant, id_)):
            if each.entry.hash == said and each.entry.forgotten_at is None:
                return each.entry.revision
    return int(row[0])


def entry(connection: sqlite3.Connection, tenant: str, id_: str) -> KnowledgeEntry | None:
    row = connection.execute(f"SELECT {_COLUMNS} FROM knowledge WHERE tenant = ? AND id = ?", (tenant, id_)).fetchone()
    return None if row is None else read_entry(row)


def entries(
    connection: sqlite3.Connection, tenant: str, among: KnowledgeFilter, limit: int | None, surest: bool
) -> list[KnowledgeEntry]:
    where, values = conditions(among)
    order = "confidence DESC, updated_at DESC, id" if surest else "category, title, id"
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM knowledge WHERE tenant = ? AND {where} ORDER BY {order} LIMIT ?",
        [tenant, *values, -1 if limit is None else limit],
    )
    return [read_entry(row) for row in rows]


def read_entry(row: Sequence[Any]) -> KnowledgeEntry:
    """An entry from its `KNOWLEDGE_COLUMNS`."""
    return KnowledgeEntry(**dict(zip(KNOWLEDGE_COLUMNS, row, strict=True)))


def conditions(among: KnowledgeFilter) -> tuple[str, list[Any]]:
    terms, values = [], []
    if among.projects == "project" or (among.projects == "both" and among.project is not None):
        terms.append("project = ?" if among.projects == "project" else "(project IS NULL OR project = ?)")
        values.append(among.project)
    elif among.projects != "all":
        terms.append("project IS NULL")
    chosen = among.categories or among.exclude_categories
    if chosen:
        terms.append(f"category {'IN' if among.categories else 'NOT IN'} ({', '.join('?' * len(chosen))})")
        values += chosen
    if not among.forgotten:
        terms.append("forgotten_at IS NULL")
    return " AND ".join(terms) or "1", values


def history(connection: sqlite3.Connection, tenant: str, id_: str) -> list[KnowledgeRevision]:
    rows = connection.execute(
        "SELECT at, operation, by, entry FROM knowledge_history WHERE tenant = ? AND id = ? ORDER BY revision",
        (tenant, id_),
    )
    return [
        KnowledgeRevision(at=at, operation=operation, by=by, entry=_entry.decode(data))
        for at, operation, by, data in rows
    ]


def version(connection: sqlite3.Connection, tenant: str) -> int:
    row = connection.execute("SELECT version FROM knowledge_tenants WHERE tenant = ?", (tenant,)).fetchone()
    return 0 if row is None else int(row[0])


def vectors(connection: sqlite3.Connection, tenant: str, model: str) -> list[KnowledgeVector]:
    """By the id."""
    rows = connection.execute(
        "SELECT id, revision, data FROM knowledge_vectors WHERE tenant = ? AND model = ? ORDER BY id", (tenant, model)
    )
    return [KnowledgeVector(id=id_, revision=revision, data=data) for id_, revision, data in rows]


def unlearned(connection: sqlite3.Connection, tenant: str, model: str, limit: int | None) -> list[KnowledgeEntry]:
    """By the id."""
    columns = ", ".join(f'knowledge."{name}"' for name in KNOWLEDGE_COLUMNS)
    rows = connection.execute(
        f"SELECT {columns} FROM knowledge LEFT JOIN knowledge_vectors AS vectors ON vectors.tenant = knowledge.tenant "
        "AND vectors.id = knowledge.id AND vectors.model = ? AND vectors.revision = knowledge.revision "
        "WHERE knowledge.tenant = ? AND knowledge.forgotten_at IS NULL AND vectors.id IS NULL "
        "ORDER BY knowledge.id LIMIT ?",
        (model, tenant, -1 if limit is None else limit),
    )
    return [read_entry(row) for row in rows]


def revisions(connection: sqlite3.Connection, tenant: str, among: KnowledgeFilter) -> list[tuple[str, int]]:
    where, values = conditions(among)
    return connection.execute(
        f"SELECT id, revision FROM knowledge WHERE tenant = ? AND {where}", [tenant, *values]
    ).fetchall()


def find_pin(connection: sqlite3.Connection, tenant: str, key: str, now: int) -> Pin | None:
    row = connection.execute(
        'SELECT text, entries, made_at, until FROM pins WHERE tenant = ? AND "key" = ? AND until > ?',
        (tenant, key, now),
    ).fetchone()
    if row is None:
        return None
    return Pin(tenant=tenant, key=key, text=row[0], entries=_known.decode(row[1]), made_at=row[2], until=row[3])


def shown(connection: sqlite3.Connection, tenant: str, entry_id: str, limit: int) -> list[ShownEntry]:
    rows = connection.execute(
        f"SELECT {names(SHOWN_COLUMNS)} FROM shown WHERE tenant = ? AND entry = ? ORDER BY at DESC, seq DESC LIMIT ?",
        (tenant, entry_id, limit),
    )
    return [ShownEntry(**dict(zip(SHOWN_COLUMNS, row, strict=True))) for row in rows]


def shown_to(connection: sqlite3.Connection, tenant: str, session: str, lane: str, until: int) -> list[ShownEntry]:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'shown'").fetchone():
        return []  # an older version wrote it, and it was opened to be read
    rows = connection.execute(
        f"SELECT {names(SHOWN_COLUMNS)} FROM shown WHERE tenant = ? AND session = ? AND lane = ? AND at <= ? "
        "ORDER BY seq",
        (tenant, session, lane, until),
    )
    return [ShownEntry(**dict(zip(SHOWN_COLUMNS, row, strict=True))) for row in rows]


def injection(connection: sqlite3.Connection, tenant: str, lane: str) -> Injection | None:
    row = connection.execute(
        "SELECT version, data FROM injections WHERE tenant = ? AND lane = ?", (tenant, lane)
    ).fetchone()
    return None if row is None else Injection(tenant=tenant, lane=lane, version=row[0], data=row[1])


def injected(connection: sqlite3.Connection, tenant: str) -> bool:
    return connection.execute("SELECT 1 FROM injections WHERE tenant = ? LIMIT 1", (tenant,)).fetchone() is not None


def tenants(connection: sqlite3.Connection) -> list[str]:
    """From one tenant to the next along the keys: each has many rows."""
    found: set[str] = set()
    for table in ("sessions", "knowledge"):
        sql = f"SELECT min(tenant) FROM {table}"
        name = connection.execute(sql).fetchone()[0]
        while name is not None:
            found.add(name)
            name = connection.execute(f"{sql} WHERE tenant > ?", (name,)).fetchone()[0]
    return sorted(found)
