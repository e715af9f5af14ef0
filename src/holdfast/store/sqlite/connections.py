"""Opening the database file: its place, its mode, its pragmas, our functions in it; and connections for reading."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

from holdfast.config import close_to_others, holdfast_home
from holdfast.errors import HoldfastError

from ..blobs import PRIVATE_FILE, BlobFiles, file_problem, make_private_directory
from ..sums import EXACT, has_estimate, read_verdict
from .problems import primary_code, store_problem

_CACHE_KIB = 8 * 1024  # the tails of a few thousand sessions' index pages stay in memory
_READER_KIB = 2 * 1024
_CHECKPOINT_PAGES = 8000  # 32 MB of log: hot index pages are copied into the file less often


_creating = threading.Lock()


def prepare_file(path: Path) -> None:
    """Create the file and its missing directories for this user alone; refuse what is no plain file.

    A file that exists is not opened: closing a descriptor drops every lock this process holds on the file, also
    those of a store that is open already, and then another process folds the log away under it.
    """
    try:
        make_private_directory(path.parent)
        if path.parent.absolute() == holdfast_home(os.environ):
            close_to_others(path.parent)
        with _creating:
            if not path.exists():
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE))
        mode = path.stat().st_mode
    except OSError as error:
        raise file_problem(path, error) from error
    if stat.S_ISDIR(mode):
        raise HoldfastError(f"the store {path} is a directory; set store.url to a file inside it")
    if not stat.S_ISREG(mode):
        raise HoldfastError(f"the store {path} is not a regular file; set store.url to one")


def make_private(path: Path) -> None:
    """Take everyone else's rights away from a database that is ours, and from the log beside it."""
    for file in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        try:
            if file.stat().st_mode & 0o077:
                file.chmod(PRIVATE_FILE)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise file_problem(file, error) from error


# For every None and bytes the module looks for an adapter, by an error that it raises and forgets. One that changes
# nothing is found at once. Somebody else's stays.
_SAME: dict[type, Callable[[Any], Any]] = {type(None): {}.get, bytes: bytes}
for _kind, _same in _SAME.items():
    if (_kind, sqlite3.PrepareProtocol) not in sqlite3.adapters:
        sqlite3.register_adapter(_kind, _same)


def connect(path: Path, *, busy_timeout: float, create: bool = True) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}",
        uri=True,
        timeout=busy_timeout,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        add_functions(connection)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def add_functions(connection: sqlite3.Connection) -> None:
    """Add the SQL functions that the sums of calls use."""
    connection.create_function("saved_of", 1, _saved_of, deterministic=True)
    connection.create_function("has_estimate", 1, has_estimate, deterministic=True)
    connection.create_aggregate("decimal_sum", 1, cast(Any, _DecimalSum))


def _saved_of(verdict: bytes | None) -> str | None:
    saved = read_verdict(verdict).saved
    return None if saved is None else str(saved)


class _DecimalSum:
    """An aggregate: the exact sum of decimals that are text, None where there is none."""

    def __init__(self) -> None:
        self._sum: Decimal | None = None

    def step(self, text: str | None) -> None:
        if text is not None:
            self._sum = Decimal(text) if self._sum is None else EXACT.add(self._sum, Decimal(text))

    def finalize(self) -> str | None:
        return None if self._sum is None else str(self._sum)


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


class OpenedFile:
    """Which file was opened, by which process: SQLite notices neither a file that was moved nor a fork."""

    forks = 0
    """How many lie behind this process: quicker to compare than to ask the system who we are."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.born = self.forks
        status = path.stat()
        self._identity = (status.st_dev, status.st_ino)

    def inherited(self) -> bool:
        """True in a child process: it has no writer thread, and its locks are the parent's."""
        return self.forks != self.born

    @classmethod
    def forked(cls) -> None:
        cls.forks += 1

    def check(self) -> None:
        """Refuse to go on where a write would be answered and lost, or a read would see nothing."""
        if self.inherited():
            raise HoldfastError(f"the store {self.path} was opened before a fork; open it again in this process")
        try:
            status = self.path.stat()
        except FileNotFoundError:
            status = None
        except OSError as error:
            raise file_problem(self.path, error) from error
        if status is None or (status.st_dev, status.st_ino) != self._identity or not status.st_size:
            raise HoldfastError(
                f"the store {self.path} was moved, deleted or emptied while it was open; put it back and open it again"
            )


os.register_at_fork(after_in_child=OpenedFile.forked)


class Readers:
    """Read-only connections, as many as there are readers at one moment."""

    def __init__(self, file: OpenedFile, *, busy_timeout: float) -> None:
        self._file = file
        self._path = file.path
        self._busy_timeout = busy_timeout
        self._lock = threading.Lock()
        self.free: list[sqlite3.Connection] = []
        """Open connections that are not in use."""
        self._closed = False

    def one(self, question: str, values: Sequence[object] = ()) -> Any:
        """The first row of a single statement."""
        with self._connection() as connection:
            return connection.execute(question, values).fetchone()

    def all(self, question: str, values: Sequence[object] = ()) -> list[Any]:
        """The rows of a single statement."""
        with self._connection() as connection:
            return connection.execute(question, values).fetchall()

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection on which all statements see the same state of the store."""
        with self._connection() as connection:
            connection.execute("BEGIN")
            yield connection
            connection.execute("ROLLBACK")

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """A connection for a statement that needs no transaction around it."""
        self._file.check()
        connection = self._take()
        try:
            yield connection
        except sqlite3.Error as error:
            connection.close()
            raise store_problem(self._path, error) from error
        except (OverflowError, UnicodeEncodeError) as error:
            connection.close()
            raise HoldfastError(
                f"the store {self._path} cannot hold what was asked for ({error}); ask for another value"
            ) from error
        except BaseException:
            connection.close()
            raise
        self._give_back(connection)

    def close(self) -> None:
        if self._file.inherited():
            return
        with self._lock:
            self._closed = True
            free, self.free = self.free, []
        for connection in free:
            connection.close()

    def _take(self) -> sqlite3.Connection:
        with self._lock:
            if self._closed:
                raise HoldfastError(f"the store {self._path} is closed; open it again to read from it")
            if self.free:
                return self.free.pop()
        try:
            # An empty file in place of one that was just deleted would help nobody.
            connection = connect(self._path, busy_timeout=self._busy_timeout, create=False)
        except sqlite3.Error as error:
            raise store_problem(self._path, error) from error
        connection.execute("PRAGMA query_only = ON")
        connection.execute(f"PRAGMA cache_size = -{_READER_KIB}")
        return connection

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if not self._closed:
                self.free.append(connection)
                return
        connection.close()


class Questions:
    """The base of the queries in every part of the store."""

    readers: Readers
    _blobs: BlobFiles


def conditions(
    equal: Mapping[str, object], time: str, start: int | None = None, end: int | None = None
) -> tuple[str, list[Any]]:
    """Return the SQL conditions and their parameters; None values are ignored."""
    terms = [(f"{name} = ?", value) for name, value in equal.items() if value is not None]
    if start is not None:
        terms.append((f"{time} >= ?", start))
    if end is not None:
        terms.append((f"{time} < ?", end))
    return " AND ".join(term for term, _ in terms) or "1", [value for _, value in terms]


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    """Not where an older version wrote the store, and it was opened to be read."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone() is not None
