"""Giving room back to the disk: pages that nothing stands on any more."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from .connections import connect
from .problems import store_problem
from .writer import Transaction

INCREMENTAL = 2
PAGES = 500
"""Pages of one step: two megabytes."""
SMALL = 64_000_000
"""Bytes of a store that is written anew beside the requests: that takes less than a second, in which writes wait."""


def prepare(connection: sqlite3.Connection) -> None:
    """A new file is made so that pages can be given back one by one. One that has pages is left as it is."""
    if not connection.execute("PRAGMA page_count").fetchone()[0]:
        connection.execute(f"PRAGMA auto_vacuum = {INCREMENTAL}")


def free_step(transaction: Transaction) -> int:
    """Give back some pages; how many there were to give."""
    connection = transaction.connection
    if connection.execute("PRAGMA auto_vacuum").fetchone()[0] != INCREMENTAL:
        return 0
    before = int(connection.execute("PRAGMA freelist_count").fetchone()[0])
    connection.execute(f"PRAGMA incremental_vacuum({PAGES})").fetchall()
    return before - int(connection.execute("PRAGMA freelist_count").fetchone()[0])


def is_incremental(connection: sqlite3.Connection) -> bool:
    return int(connection.execute("PRAGMA auto_vacuum").fetchone()[0]) == INCREMENTAL


def vacuum(path: Path, *, busy_timeout: float, progress: Callable[[], int] | None = None) -> None:
    """Write the whole file anew, without gaps, and so that pages can be given back one by one from now on. Nobody else
    can write meanwhile."""
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
    """The same without writing anything anew."""
    try:
        connection = connect(path, busy_timeout=busy_timeout, create=False)
        try:
            empty_log(connection)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise store_problem(path, error) from error
