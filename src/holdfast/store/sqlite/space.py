"""Returning unused pages to the disk; and exclusive access to a store, for changes that must not happen while another
program relies on its earlier content."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.errors import HoldfastError

from ..operations import Operation
from .connections import connect
from .problems import primary_code, store_problem
from .schema import migrate
from .transaction import Transaction

INCREMENTAL = 2
PAGES = 500
"""Pages of one step: two megabytes."""
SMALL = 64_000_000
"""Bytes of a store that is rewritten while requests run: it takes less than a second, in which writes wait."""


_ALONE_BUSY_S = 1.0


def prepare(connection: sqlite3.Connection) -> None:
    """A new file is made so that pages can be given back one by one. One that has pages is left as it is."""
    if not connection.execute("PRAGMA page_count").fetchone()[0]:
        connection.execute(f"PRAGMA auto_vacuum = {INCREMENTAL}")


class FreePages(Operation[int], frozen=True):
    """Gives back some pages; gives how many there were to give."""

    independent = False


def free_pages(transaction: Transaction, _: FreePages) -> int:
    connection = transaction.connection
    if connection.execute("PRAGMA auto_vacuum").fetchone()[0] != INCREMENTAL:
        return 0
    before = int(connection.execute("PRAGMA freelist_count").fetchone()[0])
    connection.execute(f"PRAGMA incremental_vacuum({PAGES})").fetchall()
    return before - int(connection.execute("PRAGMA freelist_count").fetchone()[0])


def is_incremental(connection: sqlite3.Connection) -> bool:
    return int(connection.execute("PRAGMA auto_vacuum").fetchone()[0]) == INCREMENTAL


def vacuum(path: Path, *, busy_timeout: float, progress: Callable[[], int] | None = None) -> None:
    """Rewrite the whole file without gaps, so that pages can be released one by one from now on. No other process can
    write meanwhile."""
    try:
        connection = connect(path, busy_timeout=busy_timeout, create=False)
        try:
            if progress is not None:
                connection.set_progress_handler(progress, 1_000_000)
            connection.execute(f"PRAGMA auto_vacuum = {INCREMENTAL}")
            connection.execute("VACUUM")
            empty_log(connection)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise store_problem(path, error) from error


def empty_log(connection: sqlite3.Connection) -> None:
    """Move what stands in the log into the file and cut both; readers that are at work may prevent it, until later."""
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def shrink(path: Path, *, busy_timeout: float) -> None:
    """Do the same without rewriting anything."""
    try:
        connection = connect(path, busy_timeout=busy_timeout, create=False)
        try:
            empty_log(connection)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise store_problem(path, error) from error


class StoreInUseError(HoldfastError):
    """Another process has the store open."""


@contextmanager
def alone(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the store exclusively; no other process can open it meanwhile. Its write-ahead log is merged first, so that
    there is no file beside it. Raises StoreInUseError if another process has it open."""
    try:
        connection = connect(path, busy_timeout=_ALONE_BUSY_S, create=False)
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
