"""A store that nobody else has open: for what must not happen under a program that remembers what was there before."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.errors import HoldfastError

from .connections import connect
from .migrations import migrate
from .problems import primary_code, store_problem

_BUSY_S = 1.0


class StoreInUseError(HoldfastError):
    """Another process has the store open."""


@contextmanager
def alone(path: Path) -> Iterator[sqlite3.Connection]:
    """The store with nobody beside, and nobody let in meanwhile. Its log is written into it first: there is no file
    beside it then. StoreInUseError where another process has it open."""
    try:
        connection = connect(path, busy_timeout=_BUSY_S, create=False)
        try:
            migrate(connection, path)
            # SQLite changes this only where no other connection is open, and holds the lock afterwards.
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            mode = connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0]
            if mode != "delete":
                raise _in_use(path)
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("COMMIT")
            yield connection
        finally:
            connection.close()
    except sqlite3.Error as error:
        if primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise _in_use(path) from error
        raise store_problem(path, error) from error


def _in_use(path: Path) -> StoreInUseError:
    return StoreInUseError(
        f"the store {path} is in use; end `holdfast serve`, chats and programs that use it, then try again"
    )
