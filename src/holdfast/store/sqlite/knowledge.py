"""Long-term knowledge: entries with their history, vectors, and what of them was pinned and shown.

An entry, its history and the words it is found by change in one transaction, or not at all. The tenant is part of every
key and of every question.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from holdfast.errors import HoldfastError

from .. import operations as op
from ..interface import ANY_KNOWLEDGE, Store, VersionConflictError
from ..operations import Operation
from ..rows import KnowledgeEntry, KnowledgeFilter, KnowledgeRevision, KnowledgeVector, Pin, ShownEntry
from . import text_search
from .connections import Questions, has_table
from .tables import KNOWLEDGE_COLUMNS, SHOWN_COLUMNS, checked, names, read_row
from .text_search import filter_conditions, indexed
from .transaction import Transaction

_COLUMNS = names(KNOWLEDGE_COLUMNS)
_MARKS = ", ".join("?" * len(KNOWLEDGE_COLUMNS))
_ADD = f"INSERT INTO knowledge ({_COLUMNS}) VALUES ({_MARKS})"
_CHANGE = f"UPDATE knowledge SET ({_COLUMNS}) = ({_MARKS}) WHERE number = ?"
_SHOWN = f"SELECT {names(SHOWN_COLUMNS)} FROM shown"
_ADD_SHOWN = f"INSERT INTO shown (tenant, {names(SHOWN_COLUMNS)}) VALUES (?, {', '.join('?' * len(SHOWN_COLUMNS))})"
_pinned = msgspec.json.Decoder(tuple[tuple[str, str], ...])
_entry = msgspec.json.Decoder(KnowledgeEntry)


class KnowledgeQuestions(Questions, Store):
    _word_counts: text_search.WordCounts

    def knowledge(self, tenant: str, id: str) -> KnowledgeEntry | None:
        row = self.readers.one(f"SELECT {_COLUMNS} FROM knowledge WHERE tenant = ? AND id = ?", (tenant, id))
        return None if row is None else read_row(KnowledgeEntry, row)

    def knowledge_entries(
        self,
        tenant: str,
        among: KnowledgeFilter = ANY_KNOWLEDGE,
        *,
        limit: int | None = None,
        surest: bool = False,
    ) -> list[KnowledgeEntry]:
        where, values = filter_conditions(among)
        order = "confidence DESC, updated_at DESC, id" if surest else "category, title, id"
        sql = f"SELECT {_COLUMNS} FROM knowledge WHERE tenant = ? AND {where} ORDER BY {order} LIMIT ?"
        rows = self.readers.all(sql, [tenant, *values, -1 if limit is None else limit])
        return [read_row(KnowledgeEntry, row) for row in rows]

    def find_knowledge(
        self, tenant: str, words: Sequence[str], among: KnowledgeFilter = ANY_KNOWLEDGE, *, limit: int = 50
    ) -> list[tuple[KnowledgeEntry, float]]:
        with self.readers.snapshot() as connection:
            return text_search.find(connection, self._word_counts, tenant, words, among, limit)

    def knowledge_history(self, tenant: str, id: str) -> list[KnowledgeRevision]:
        with self.readers.snapshot() as connection:
            return _history(connection, tenant, id)

    def knowledge_version(self, tenant: str) -> int:
        row = self.readers.one("SELECT version FROM knowledge_tenants WHERE tenant = ?", (tenant,))
        return 0 if row is None else int(row[0])

    def knowledge_vectors(self, tenant: str, model: str) -> list[KnowledgeVector]:
        sql = "SELECT id, revision, data FROM knowledge_vectors WHERE tenant = ? AND model = ? ORDER BY id"
        return [read_row(KnowledgeVector, row) for row in self.readers.all(sql, (tenant, model))]

    def unlearned_knowledge(self, tenant: str, model: str, *, limit: int | None = None) -> list[KnowledgeEntry]:
        columns = ", ".join(f'knowledge."{name}"' for name in KNOWLEDGE_COLUMNS)
        sql = (
            f"SELECT {columns} FROM knowledge LEFT JOIN knowledge_vectors AS vectors "
            "ON vectors.tenant = knowledge.tenant AND vectors.id = knowledge.id AND vectors.model = ? "
            "AND vectors.revision = knowledge.revision WHERE knowledge.tenant = ? AND knowledge.forgotten_at IS NULL "
            "AND vectors.id IS NULL ORDER BY knowledge.id LIMIT ?"
        )
        rows = self.readers.all(sql, (model, tenant, -1 if limit is None else limit))
        return [read_row(KnowledgeEntry, row) for row in rows]

    def knowledge_revisions(self, tenant: str, among: KnowledgeFilter = ANY_KNOWLEDGE) -> list[tuple[str, int]]:
        where, values = filter_conditions(among)
        sql = f"SELECT id, revision FROM knowledge WHERE tenant = ? AND {where}"
        return self.readers.all(sql, [tenant, *values])

    def pin(self, tenant: str, key: str, *, now: int) -> Pin | None:
        with self.readers.snapshot() as connection:
            return _pin(connection, tenant, key, now)

    def shown(self, tenant: str, entry: str, *, limit: int = 100) -> list[ShownEntry]:
        sql = f"{_SHOWN} WHERE tenant = ? AND entry = ? ORDER BY at DESC, seq DESC LIMIT ?"
        return [read_row(ShownEntry, row) for row in self.readers.all(sql, (tenant, entry, limit))]

    def shown_to(self, tenant: str, session: str, lane: str, *, until: int) -> list[ShownEntry]:
        sql = f"{_SHOWN} WHERE tenant = ? AND session = ? AND lane = ? AND at <= ? ORDER BY seq"
        with self.readers.snapshot() as connection:
            if not has_table(connection, "shown"):
                return []
            rows = connection.execute(sql, (tenant, session, lane, until))
            return [read_row(ShownEntry, row) for row in rows]


def _history(connection: sqlite3.Connection, tenant: str, id_: str) -> list[KnowledgeRevision]:
    rows = connection.execute(
        "SELECT at, operation, by, entry FROM knowledge_history WHERE tenant = ? AND id = ? ORDER BY revision",
        (tenant, id_),
    )
    return [
        KnowledgeRevision(at=at, operation=operation, by=by, entry=_entry.decode(data))
        for at, operation, by, data in rows
    ]


def _pin(connection: sqlite3.Connection, tenant: str, key: str, now: int) -> Pin | None:
    row = connection.execute(
        'SELECT text, entries, made_at, until FROM pins WHERE tenant = ? AND "key" = ? AND until > ?',
        (tenant, key, now),
    ).fetchone()
    if row is None:
        return None
    return Pin(tenant=tenant, key=key, text=row[0], entries=_pinned.decode(row[1]), made_at=row[2], until=row[3])


class MergeWords(Operation[None], frozen=True):
    """Rebuilds the index where it only marks words as deleted: a second for a hundred thousand entries, and nothing if
    that was just done."""


def put_knowledge(transaction: Transaction, operation: op.PutKnowledge) -> KnowledgeEntry:
    entry, expected = checked(operation.entry, KnowledgeEntry), operation.expected
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
    tenant = _changed(transaction, entry.tenant, added=1 if before is None else 0)
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
        (*key, entry.revision, entry.updated_at, operation.operation, operation.by, msgspec.json.encode(entry)),
    )
    return entry


def _conflict(id_: str, expected: int, stored: int | None) -> VersionConflictError:
    if stored is None:
        return VersionConflictError(f"knowledge entry {id_} is not there any more; somebody erased it, add it anew")
    if not expected:
        return VersionConflictError(f"there is a knowledge entry {id_} already; edit that one, or give another id")
    return VersionConflictError(
        f"knowledge entry {id_} was changed meanwhile: it is at revision {stored} and not at {expected}; "
        "look at it again, then make your change again"
    )


def _changed(transaction: Transaction, tenant: str, *, added: int = 0) -> int:
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
    """Remove an entry from the index, which has no copy of the text and needs the same words again."""
    connection.execute(
        "INSERT INTO knowledge_fts (knowledge_fts, rowid, title, content) VALUES ('delete', ?, ?, ?)",
        (number, indexed(tenant, title), indexed(tenant, content)),
    )


def erase_knowledge(transaction: Transaction, operation: op.EraseKnowledge) -> bool:
    connection, key = transaction.connection, (operation.tenant, operation.id)
    row = connection.execute("SELECT number, title, content FROM knowledge WHERE tenant = ? AND id = ?", key).fetchone()
    if row is None:
        return False
    _unindex(connection, _changed(transaction, operation.tenant, added=-1), *row)
    for table in ("knowledge", "knowledge_history", "knowledge_vectors"):
        connection.execute(f"DELETE FROM {table} WHERE tenant = ? AND id = ?", key)
    connection.execute("DELETE FROM shown WHERE tenant = ? AND entry = ?", key)
    connection.execute("DELETE FROM pins WHERE tenant = ? AND instr(text, ?)", key)  # with its title, or in full
    if MergeWords() not in transaction.later:
        transaction.later.append(MergeWords())
    return True


def merge_words(transaction: Transaction, _: MergeWords) -> None:
    transaction.connection.execute("INSERT INTO knowledge_fts (knowledge_fts) VALUES ('optimize')")


def put_vectors(transaction: Transaction, operation: op.PutVectors) -> int:
    tenant, written = operation.tenant, 0
    for vector in operation.vectors:
        checked(vector, KnowledgeVector)
        written += transaction.connection.execute(
            "INSERT INTO knowledge_vectors (tenant, id, model, revision, data) "
            "SELECT tenant, id, ?, revision, ? FROM knowledge WHERE tenant = ? AND id = ? AND revision = ? "
            "ON CONFLICT (tenant, id, model) DO UPDATE SET revision = excluded.revision, data = excluded.data",
            (operation.model, vector.data, tenant, vector.id, vector.revision),
        ).rowcount
    if written:
        _changed(transaction, tenant)
    return written


def put_pin(transaction: Transaction, operation: op.PutPin) -> Pin:
    pin = checked(operation.pin, Pin)
    holding = _pin(transaction.connection, pin.tenant, pin.key, pin.made_at)
    if holding is not None:
        return holding
    connection = transaction.connection
    connection.execute("DELETE FROM pins WHERE tenant = ? AND until <= ?", (pin.tenant, pin.made_at))
    connection.execute(
        'INSERT OR REPLACE INTO pins (tenant, "key", text, entries, made_at, until) VALUES (?, ?, ?, ?, ?, ?)',
        (pin.tenant, pin.key, pin.text, msgspec.json.encode(pin.entries), pin.made_at, pin.until),
    )
    return pin


def put_shown(transaction: Transaction, operation: op.PutShown) -> int:
    tenant, connection, noted = operation.tenant, transaction.connection, 0
    for id_, text_hash in operation.entries:
        if revision := _revision(connection, tenant, id_, text_hash):
            row = ShownEntry(
                entry=id_,
                revision=revision,
                at=operation.at,
                session=operation.session,
                lane=operation.lane,
                place=operation.place,
                why=operation.why,
            )
            values = [getattr(checked(row, ShownEntry), name) for name in SHOWN_COLUMNS]
            connection.execute(_ADD_SHOWN, (tenant, *values))
            noted += 1
    return noted


def _revision(connection: sqlite3.Connection, tenant: str, id_: str, text_hash: str) -> int:
    """Return the latest valid revision with this hash: a pinned text may be older than the last change."""
    row = connection.execute(
        "SELECT revision, hash, forgotten_at FROM knowledge WHERE tenant = ? AND id = ?", (tenant, id_)
    ).fetchone()
    if row is None:
        return 0
    if text_hash and (row[1] != text_hash or row[2] is not None):
        for each in reversed(_history(connection, tenant, id_)):
            if each.entry.hash == text_hash and each.entry.forgotten_at is None:
                return each.entry.revision
    return int(row[0])
