"""Whether a store that is open is still there, whole and writable, looked at as a stranger would: with a fresh
connection, whose pages come from the file and not from memory.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from ..errors import HoldfastError
from .blobs import BlobFiles
from .connections import connect
from .problems import store_problem

SEEN = "seen"
"""The mark that is written to see whether it can be read back."""

_BUSY_S = 2.0


def look(path: Path, blobs: BlobFiles, seen: int, *, whole: bool) -> None:
    """Raise where something is wrong. `seen` is the mark that was just written; `whole` reads every page."""
    try:
        connection = connect(path, busy_timeout=_BUSY_S, create=False)
        try:
            connection.execute("PRAGMA query_only = ON")
            _read(connection, path, blobs, seen)
            if whole and (found := first_damage(connection)) is not None:
                raise HoldfastError(f"the store {path} is damaged ({found}); restore a backup")
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise store_problem(path, error) from error


def first_damage(connection: sqlite3.Connection) -> str | None:
    said = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    return None if said == "ok" else said.strip().splitlines()[-1]


def _read(connection: sqlite3.Connection, path: Path, blobs: BlobFiles, seen: int) -> None:
    """What was written, and something of every table."""
    row = connection.execute("SELECT at FROM marks WHERE name = ?", (SEEN,)).fetchone()
    if row is None or row[0] < seen:
        raise HoldfastError(
            f"the store {path} does not hold what was written to it: its -wal file was moved or deleted while it was "
            "open; restart the gateway"
        )
    tables = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'knowledge_fts%'"
    ).fetchall()
    for (name,) in tables:
        connection.execute(f'SELECT * FROM "{name}" LIMIT 1').fetchone()
    if not blobs.root.is_dir() and connection.execute("SELECT 1 FROM blobs LIMIT 1").fetchone() is not None:
        raise HoldfastError(f"the blobs of the store {path} are gone: put {blobs.root} back, or restore a backup")
