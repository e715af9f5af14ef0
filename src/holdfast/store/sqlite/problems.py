"""SQLite's errors as sentences on which a user can act."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from holdfast.errors import HoldfastError

_ELSEWHERE = "set store.url to another file"

_SENTENCES = {
    sqlite3.SQLITE_NOTADB: f"is not a SQLite database; move it away or {_ELSEWHERE}",
    sqlite3.SQLITE_CORRUPT: f"is damaged; restore a backup or {_ELSEWHERE}",
    sqlite3.SQLITE_READONLY: f"cannot be written; make the file and its directory writable or {_ELSEWHERE}",
    sqlite3.SQLITE_PERM: f"cannot be written; make the file and its directory writable or {_ELSEWHERE}",
    sqlite3.SQLITE_CANTOPEN: f"cannot be opened; make it and its directory writable or {_ELSEWHERE}",
    sqlite3.SQLITE_BUSY: f"is locked by another process; end that process, try again, or {_ELSEWHERE}",
    sqlite3.SQLITE_LOCKED: f"is locked by another process; end that process, try again, or {_ELSEWHERE}",
    sqlite3.SQLITE_PROTOCOL: f"is locked by another process; end that process, try again, or {_ELSEWHERE}",
    sqlite3.SQLITE_FULL: "has no room left: the disk is full or its size limit is reached; free some space "
    "or prune the store, nothing written before is lost",
    sqlite3.SQLITE_IOERR: f"could not be read or written by the disk; check the disk or {_ELSEWHERE}",
    sqlite3.SQLITE_NOMEM: "needs more memory than this machine has free; free some and try again",
}


def primary_code(error: sqlite3.Error) -> int:
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def concerns_whole_store(error: sqlite3.Error) -> bool:
    """True when no other write of the same transaction can be expected to succeed either."""
    return primary_code(error) in _SENTENCES


def store_problem(path: Path, error: sqlite3.Error) -> HoldfastError:
    sentence = _SENTENCES.get(primary_code(error))
    if "no such module: fts5" in str(error):
        sentence = (
            "needs an SQLite with full-text search (FTS5), which this Python was built without; use another Python"
        )
    if sentence is None:
        sentence = f"refused a statement ({error}); report this as a fault of Holdfast"
    return HoldfastError(f"the store {path} {sentence}")
