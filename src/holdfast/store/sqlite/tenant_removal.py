"""Everything of one tenant, out of every table and every page: nothing of it is left in the file."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

from ..blobs import BlobFiles, file_problem
from .connections import connect
from .problems import store_problem
from .text_search import indexed


def tenants(path: Path) -> list[str]:
    """Return every tenant named in a table."""
    try:
        connection = connect(path, busy_timeout=1.0, create=False)
        try:
            return owners(connection)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise store_problem(path, error) from error


def owners(connection: sqlite3.Connection) -> list[str]:
    names: set[str] = set()
    for table in _tables(connection):
        names |= {name for (name,) in connection.execute(f"SELECT DISTINCT tenant FROM {table}")}
    return sorted(names)


def account(connection: sqlite3.Connection, tenant: str) -> list[str]:
    """The tenants of all login tokens that are known to belong to one account with this one, itself among them."""
    links = dict(connection.execute("SELECT name, tenant FROM accounts").fetchall())
    linked, grown = {tenant}, True
    while grown:
        more = {name for name, first in links.items() if first in linked} | {
            links[name] for name in linked & links.keys()
        }
        grown = not more <= linked
        linked |= more
    owner_names = set(owners(connection))
    return sorted(linked & owner_names | {tenant})


def count(connection: sqlite3.Connection, tenant: str) -> dict[str, int]:
    """How many rows of each table are the tenant's; tables without any are left out."""
    counts = {
        table: int(connection.execute(f"SELECT count(*) FROM {table} WHERE tenant = ?", (tenant,)).fetchone()[0])
        for table in _tables(connection)
    }
    counts["events"] = int(connection.execute(f"SELECT count(*) FROM events WHERE {_STREAMS}", (tenant,)).fetchone()[0])
    return {table: number for table, number in sorted(counts.items()) if number}


def sessions(connection: sqlite3.Connection, tenant: str) -> set[str]:
    """The ids of all sessions that anything of the tenant belongs to."""
    columns = {"sessions": "id", "lanes": "session", "calls": "session", "breaks": "session", "streams": "session"}
    ids: set[str] = set()
    for table, column in columns.items():
        rows = connection.execute(f"SELECT DISTINCT {column} FROM {table} WHERE tenant = ?", (tenant,))
        ids |= {name for (name,) in rows}
    return ids


def forget(connection: sqlite3.Connection, tenant: str) -> dict[str, int]:
    """Remove all rows of a tenant and write the file anew without them. The connection must be alone (see `alone.py`).
    Gives how many there were."""
    gone = count(connection, tenant)
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(f"DELETE FROM events WHERE {_STREAMS}", (tenant,))
        for table in _tables(connection):
            connection.execute(f"DELETE FROM {table} WHERE tenant = ?", (tenant,))
        if "knowledge" in gone or "knowledge_tenants" in gone:
            _rebuild_index(connection)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("VACUUM")
    return gone


def forget_blobs(blobs: BlobFiles, tenant: str) -> int:
    """Remove the files of a tenant, which are in a directory of its own; how many there were."""
    folder = blobs.root / blobs.tenant_directory(tenant)
    files = sum(1 for each in folder.glob("*/*") if each.is_file())
    try:
        if folder.exists():
            shutil.rmtree(folder)
    except OSError as error:
        raise file_problem(folder, error) from error
    return files


_STREAMS = "stream IN (SELECT id FROM streams WHERE tenant = ?)"


def _tables(connection: sqlite3.Connection) -> list[str]:
    """Return all tables with a tenant column, including those of later versions."""
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return [
        name
        for (name,) in names.fetchall()
        if any(column[1] == "tenant" for column in connection.execute(f'PRAGMA table_info("{name}")'))
    ]


def _rebuild_index(connection: sqlite3.Connection) -> None:
    """The index has no copy of what it was given: it is emptied, and given what is left."""
    connection.execute("INSERT INTO knowledge_fts (knowledge_fts) VALUES ('delete-all')")
    left = connection.execute(
        "SELECT knowledge.number, knowledge_tenants.number, title, content FROM knowledge "
        "JOIN knowledge_tenants ON knowledge_tenants.tenant = knowledge.tenant"
    ).fetchall()
    connection.executemany(
        "INSERT INTO knowledge_fts (rowid, title, content) VALUES (?, ?, ?)",
        [(number, indexed(whose, title), indexed(whose, content)) for number, whose, title, content in left],
    )
    connection.execute("INSERT INTO knowledge_fts (knowledge_fts) VALUES ('optimize')")
