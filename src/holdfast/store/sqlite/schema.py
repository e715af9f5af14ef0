"""The tables, as the statements of each schema version, and how a file is brought to the last one.

A version that was released is never edited. Migrations go forward only, one transaction per version.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from holdfast.errors import HoldfastError

from .activity import ACTIVITY_OF_CALLS
from .bill_sums import SUM_OF_CALLS
from .connections import add_functions

APPLICATION_ID = 0x484F4C44  # "HOLD": tells our files from other programs' databases

_SESSIONS = (
    """CREATE TABLE sessions (
        tenant TEXT NOT NULL, id TEXT NOT NULL, started_at INTEGER NOT NULL, client TEXT, agent TEXT,
        parent TEXT, ended_at INTEGER, data BLOB, PRIMARY KEY (tenant, id))""",
    "CREATE INDEX sessions_by_start ON sessions (started_at)",
    """CREATE TABLE lanes (
        tenant TEXT NOT NULL, id TEXT NOT NULL, session TEXT NOT NULL, model TEXT NOT NULL,
        started_at INTEGER NOT NULL, agent TEXT, client TEXT, parent TEXT, ended_at INTEGER, data BLOB,
        PRIMARY KEY (tenant, id))""",
    "CREATE INDEX lanes_by_session ON lanes (tenant, session)",
)

_STATE = (
    """CREATE TABLE ledgers (
        tenant TEXT NOT NULL, lane TEXT NOT NULL, version INTEGER NOT NULL, data BLOB NOT NULL,
        PRIMARY KEY (tenant, lane))""",
    """CREATE TABLE pools (
        tenant TEXT NOT NULL, model TEXT NOT NULL, version INTEGER NOT NULL, data BLOB NOT NULL,
        PRIMARY KEY (tenant, model))""",
    """CREATE TABLE edits (
        seq INTEGER PRIMARY KEY, tenant TEXT NOT NULL, lane TEXT NOT NULL, block TEXT NOT NULL,
        blob TEXT NOT NULL, made_at INTEGER NOT NULL, data BLOB, UNIQUE (tenant, lane, block))""",
    """CREATE TABLE blobs (
        tenant TEXT NOT NULL, digest TEXT NOT NULL, owner_kind TEXT NOT NULL, owner TEXT NOT NULL,
        size INTEGER NOT NULL, made_at INTEGER NOT NULL,
        PRIMARY KEY (tenant, digest, owner_kind, owner)) WITHOUT ROWID""",
    "CREATE INDEX blobs_by_owner ON blobs (tenant, owner_kind, owner)",
)

_CALLS = (
    # written is the sum over `writes`, kept beside it so that SQL can add it up.
    """CREATE TABLE calls (
        seq INTEGER PRIMARY KEY, tenant TEXT NOT NULL, id TEXT NOT NULL, session TEXT NOT NULL,
        lane TEXT NOT NULL, model TEXT NOT NULL, started_at INTEGER NOT NULL, status TEXT NOT NULL,
        kind TEXT NOT NULL, client TEXT, first_token_at INTEGER, ended_at INTEGER,
        input INTEGER, read INTEGER, written INTEGER, output INTEGER, writes TEXT, cost TEXT,
        price_version TEXT, reset TEXT, error TEXT, plan BLOB, prediction BLOB, verdict BLOB, chain BLOB,
        UNIQUE (tenant, id))""",
    "CREATE INDEX calls_by_start ON calls (started_at)",
    "CREATE INDEX calls_by_lane ON calls (tenant, lane, started_at)",
    "CREATE INDEX calls_by_session ON calls (tenant, session, started_at)",
    """CREATE TABLE breaks (
        seq INTEGER PRIMARY KEY, tenant TEXT NOT NULL, id TEXT NOT NULL, call TEXT NOT NULL,
        session TEXT NOT NULL, lane TEXT NOT NULL, model TEXT NOT NULL, at INTEGER NOT NULL, cause TEXT,
        reason TEXT, tokens INTEGER NOT NULL, dollars TEXT NOT NULL, path TEXT, "offset" INTEGER, owner TEXT,
        cure TEXT, data BLOB, UNIQUE (tenant, id))""",
    "CREATE INDEX breaks_by_time ON breaks (at)",
    "CREATE INDEX breaks_by_session ON breaks (tenant, session, at)",
    "CREATE INDEX breaks_by_call ON breaks (tenant, call)",
)

_EVENTS = (
    # A number in place of (tenant, session) makes the index by session four times cheaper to keep.
    """CREATE TABLE streams (
        id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, session TEXT NOT NULL, UNIQUE (tenant, session))""",
    """CREATE TABLE events (
        seq INTEGER PRIMARY KEY, id TEXT NOT NULL, at INTEGER NOT NULL, stream INTEGER NOT NULL, turn TEXT,
        parent TEXT, type TEXT NOT NULL, actor TEXT NOT NULL, sensitivity TEXT NOT NULL,
        payload BLOB NOT NULL)""",
    "CREATE UNIQUE INDEX events_by_stream ON events (stream, id)",
    "CREATE INDEX events_by_time ON events (at)",
)

_ROLLUPS = (
    """CREATE TABLE call_hours (
        hour INTEGER NOT NULL, tenant TEXT NOT NULL, model TEXT NOT NULL, calls INTEGER NOT NULL,
        input INTEGER NOT NULL, read INTEGER NOT NULL, written INTEGER NOT NULL, output INTEGER NOT NULL,
        cost TEXT NOT NULL, PRIMARY KEY (hour, tenant, model)) WITHOUT ROWID""",
    """CREATE TABLE write_hours (
        hour INTEGER NOT NULL, tenant TEXT NOT NULL, model TEXT NOT NULL, ttl TEXT NOT NULL,
        tokens INTEGER NOT NULL, PRIMARY KEY (hour, tenant, model, ttl)) WITHOUT ROWID""",
    """CREATE TABLE event_hours (
        hour INTEGER NOT NULL, tenant TEXT NOT NULL, type TEXT NOT NULL, count INTEGER NOT NULL,
        PRIMARY KEY (hour, tenant, type)) WITHOUT ROWID""",
    # Before this moment raw rows may be gone and only rollups are complete.
    "CREATE TABLE retention (id INTEGER PRIMARY KEY CHECK (id = 1), pruned_before INTEGER NOT NULL)",
    "INSERT INTO retention VALUES (1, -9223372036854775808)",
)

_KNOWLEDGE = (
    # The number stands in the words of the index; the version counts on with every change.
    """CREATE TABLE knowledge_tenants (
        number INTEGER PRIMARY KEY, tenant TEXT NOT NULL UNIQUE, version INTEGER NOT NULL, entries INTEGER NOT NULL)""",
    # What is filtered by stands before the long texts, so that it is found on the row's first page.
    """CREATE TABLE knowledge (
        number INTEGER PRIMARY KEY, tenant TEXT NOT NULL, id TEXT NOT NULL, project TEXT, category TEXT NOT NULL,
        forgotten_at INTEGER, confidence REAL NOT NULL, revision INTEGER NOT NULL, hash TEXT NOT NULL,
        source TEXT NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, title TEXT NOT NULL,
        content TEXT NOT NULL, UNIQUE (tenant, id))""",
    "CREATE INDEX knowledge_by_title ON knowledge (tenant, category, title, id)",
    "CREATE INDEX knowledge_by_project ON knowledge (tenant, project, category, forgotten_at)",
    "CREATE INDEX knowledge_by_confidence ON knowledge (tenant, project, confidence DESC, updated_at DESC, id)",
    """CREATE TABLE knowledge_history (
        tenant TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL, at INTEGER NOT NULL,
        operation TEXT NOT NULL, by TEXT NOT NULL, entry BLOB NOT NULL, PRIMARY KEY (tenant, id, revision))""",
    # Without a copy of the texts: it is given words that are ready (see words.py), and only stems them.
    """CREATE VIRTUAL TABLE knowledge_fts USING fts5 (title, content, content = '', tokenize = 'porter ascii')""",
    """CREATE TABLE knowledge_vectors (
        tenant TEXT NOT NULL, id TEXT NOT NULL, model TEXT NOT NULL, revision INTEGER NOT NULL, data BLOB NOT NULL,
        PRIMARY KEY (tenant, id, model))""",
)

_SURFACED = (
    """CREATE TABLE pins (
        tenant TEXT NOT NULL, key TEXT NOT NULL, text TEXT NOT NULL, entries BLOB NOT NULL, made_at INTEGER NOT NULL,
        until INTEGER NOT NULL, PRIMARY KEY (tenant, key))""",
    """CREATE TABLE shown (
        seq INTEGER PRIMARY KEY, tenant TEXT NOT NULL, entry TEXT NOT NULL, revision INTEGER NOT NULL,
        at INTEGER NOT NULL, session TEXT NOT NULL, lane TEXT NOT NULL, place TEXT NOT NULL, why TEXT NOT NULL)""",
    "CREATE INDEX shown_by_entry ON shown (tenant, entry, at)",
    "CREATE INDEX shown_by_session ON shown (tenant, session)",
    "CREATE INDEX shown_by_time ON shown (at)",
    """CREATE TABLE injections (
        tenant TEXT NOT NULL, lane TEXT NOT NULL, version INTEGER NOT NULL, data BLOB NOT NULL,
        PRIMARY KEY (tenant, lane))""",
)

_ACCOUNTS = (
    # Tenants of login tokens, each with the one that its account was known as first; and what links them. Digests.
    """CREATE TABLE accounts (
        name TEXT PRIMARY KEY, tenant TEXT NOT NULL, seen_at INTEGER NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX accounts_by_tenant ON accounts (tenant)",
)

_PENDING = (
    # Few are pending at any time; those that a process left behind are looked for at the next start.
    "CREATE INDEX calls_pending ON calls (started_at) WHERE status = 'pending'",
)

_MARKS = (
    # When something happened to the store as a whole: retention was announced, the gateway was switched off…
    "CREATE TABLE marks (name TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID",
)

_BILLS = (
    # The sums of the answered calls that are stored, in parts that have one price each (see bill_sums.py).
    """CREATE TABLE bill_hours (
        tenant TEXT NOT NULL, session TEXT NOT NULL, hour INTEGER NOT NULL, model TEXT NOT NULL, client TEXT NOT NULL,
        kind TEXT NOT NULL, size INTEGER NOT NULL, priced INTEGER NOT NULL, calls INTEGER NOT NULL,
        input INTEGER NOT NULL, read INTEGER NOT NULL, written INTEGER NOT NULL, output INTEGER NOT NULL,
        cost TEXT, saved TEXT, estimated INTEGER NOT NULL,
        PRIMARY KEY (tenant, session, hour, model, client, kind, size, priced)) WITHOUT ROWID""",
    f"INSERT INTO bill_hours {SUM_OF_CALLS} GROUP BY 1, 2, 3, 4, 5, 6, 7, 8",
    "CREATE INDEX calls_unanswered ON calls (started_at, tenant, session, model, client, kind) WHERE input IS NULL",
)

_REPAIRABLE = (
    # Calls of which it is known what repairs would have saved: asked for by every bill.
    "CREATE INDEX calls_repairable ON calls (started_at) WHERE instr(verdict, '\"repairs\":') > 0",
)

_ACTIVITY = (
    # When each session had its first and its last call: which were used last is asked all the time.
    """CREATE TABLE session_activity (
        tenant TEXT NOT NULL, session TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
        PRIMARY KEY (tenant, session)) WITHOUT ROWID""",
    f"INSERT INTO session_activity {ACTIVITY_OF_CALLS} GROUP BY tenant, session",
    "CREATE INDEX session_activity_by_last ON session_activity (last, first)",
    "CREATE INDEX session_activity_by_session ON session_activity (session)",
)

VERSIONS: tuple[tuple[str, ...], ...] = (
    _SESSIONS + _STATE + _CALLS + _EVENTS + _ROLLUPS,
    _KNOWLEDGE + _SURFACED,
    _ACCOUNTS + _PENDING + _MARKS + _BILLS,
    _REPAIRABLE,
    _ACTIVITY,
)
"""`VERSIONS[n - 1]` turns schema n - 1 into schema n."""


def migrate(connection: sqlite3.Connection, path: Path, versions: Sequence[Sequence[str]] = VERSIONS) -> None:
    """Apply what is missing. A crash or an error leaves the version before, complete and usable."""
    check_ours(connection, path, newest=len(versions))
    add_functions(connection)
    while schema_version(connection) < len(versions):
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Asked again under the lock: another process may have migrated meanwhile.
            current = schema_version(connection)
            check_ours(connection, path, newest=len(versions))
            if current < len(versions):
                for statement in versions[current]:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {current + 1}")
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")


def schema_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def check_ours(connection: sqlite3.Connection, path: Path, *, newest: int = len(VERSIONS)) -> None:
    """Refuse, before anything is written, a file of another program or of a newer Holdfast."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    version = schema_version(connection)
    if application != APPLICATION_ID and (application or tables or version):
        raise HoldfastError(
            f"{path} is a database of another program; set store.url to another file, it was left untouched"
        )
    if version > newest:
        raise HoldfastError(
            f"the store {path} has schema {version} and this Holdfast knows {newest}; "
            "upgrade Holdfast or set store.url to another file, it was left untouched"
        )
