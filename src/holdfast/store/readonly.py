"""Opening a database to look at it: nothing is created, migrated or written, and whoever writes to it goes on."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError

from .blobs import BlobFiles
from .connections import OpenedFile, Readers, connect
from .migrations import check_ours, schema_version
from .problems import file_problem, store_problem
from .schema import VERSIONS
from .sqlite import SqliteStore, open_store, path_of
from .write_future import Answer
from .write_queue import Joint
from .writer import T, Write, Writer


class _NoWriter(Writer):
    """Takes the writer's place where there is nothing to write."""

    def __init__(self, path: Path) -> None:
        self.failed = 0
        self._path = path

    def submit(self, write: Write[T], *, rows: int = 1, apart: bool = False) -> Answer[T]:
        raise HoldfastError(f"the store {self._path} was opened to be read; open it with open_store to write to it")

    def join(self, write: Joint) -> Answer[Any]:
        return self.submit(write)

    def leave(self, write: Joint) -> None:
        self.submit(write)

    def others(self) -> int | None:
        return None

    def trouble(self) -> Exception | None:
        return None

    def hurry(self) -> None:
        """Nobody can be waiting."""

    def close(self) -> None:
        """There is nothing to finish."""


def open_existing(url: str | Path, *, busy_timeout: float = 5.0, whole: bool = False) -> SqliteStore | None:
    """The store at `sqlite:///PATH` or a plain path, for reading; None where nothing was ever stored.

    What an older version has written can be read without what came later; `whole` is for those who want that too, and
    brings the file up to date first.
    """
    path = path_of(url)
    try:
        if not path.exists() or (path.is_file() and not path.stat().st_size):
            return None
    except OSError as error:
        raise file_problem(path, error) from error
    try:
        connection = connect(path, busy_timeout=busy_timeout, create=False)
        try:
            check_ours(connection, path)
            version = schema_version(connection)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise store_problem(path, error) from error
    if not version:
        return None
    if whole and version < len(VERSIONS):
        open_store(path, busy_timeout=busy_timeout).close()
    readers = Readers(OpenedFile(path), busy_timeout=busy_timeout)
    return SqliteStore(path, _NoWriter(path), readers, BlobFiles(path.with_name(path.name + ".blobs")))
