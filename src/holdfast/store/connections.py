"""Opening the database file: its place, its mode, its pragmas; and a pool of connections for reading."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import HoldfastError
from .problems import file_problem, primary_code, store_problem

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700
_CACHE_KIB = 32 * 1024  # the tails of a few thousand sessions' index pages stay in memory
_CHECKPOINT_PAGES = 8000  # 32 MB of log: hot index pages are copied into the file less often


def prepare_file(path: Path) -> None:
    """Create the file and its missing directories for this user alone; tighten a file that is wider."""
    if path.is_dir():
        raise HoldfastError(f"the store {path} is a directory; set store.url to a file inside it")
    try:
        make_private_directory(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            if os.fstat(descriptor).st_mode & 0o077:
                os.fchmod(descriptor, PRIVATE_FILE)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise file_problem(path, error) from error


def make_private_directory(path: Path) -> None:
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        directory.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)


def connect(path: Path, *, busy_timeout: float) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=busy_timeout, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    try:
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def use_wal(connection: sqlite3.Connection, *, busy_timeout: float) -> None:
    """Switch to WAL. SQLite does not wait here when two processes switch at once, so we do."""
    deadline = time.monotonic() + busy_timeout
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
            time.sleep(0.01)


class Readers:
    """Read-only connections, as many as there are readers at one moment."""

    def __init__(self, path: Path, *, busy_timeout: float) -> None:
        self._path = path
        self._busy_timeout = busy_timeout
        self._lock = threading.Lock()
        self._free: list[sqlite3.Connection] = []
        self._closed = False

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """A connection whose statements all see the same state of the store."""
        connection = self._take()
        try:
            connection.execute("BEGIN")
            yield connection
        except sqlite3.Error as error:
            raise store_problem(self._path, error) from error
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._give_back(connection)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            free, self._free = self._free, []
        for connection in free:
            connection.close()

    def _take(self) -> sqlite3.Connection:
        with self._lock:
            if self._closed:
                raise HoldfastError(f"the store {self._path} is closed; open it again to read from it")
            if self._free:
                return self._free.pop()
        try:
            connection = connect(self._path, busy_timeout=self._busy_timeout)
            connection.execute("PRAGMA query_only = ON")
        except sqlite3.Error as error:
            raise store_problem(self._path, error) from error
        return connection

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if not self._closed:
                self._free.append(connection)
                return
        connection.close()
