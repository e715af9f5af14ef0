"""The one writer thread: takes every write that is waiting, runs them in one transaction, then answers them.

Knows no tables. A write is a function of the transaction; it fails alone unless the whole store is in
trouble.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from msgspec import Struct

from ..errors import HoldfastError
from .blobs import BlobFiles
from .connections import OpenedFile
from .migrations import check_ours
from .problems import concerns_whole_store, store_problem

logger = logging.getLogger(__name__)

T = TypeVar("T")

ROWS_PER_COMMIT = 40_000
BACKLOG_ROWS = 200_000
_STREAMS = 50_000  # remembered at once; sessions have no end


class Transaction:
    """What a write may touch. `later` holds work for a transaction of its own once this one is durable."""

    def __init__(self, connection: sqlite3.Connection, blobs: BlobFiles, file: OpenedFile) -> None:
        self.connection = connection
        self.blobs = blobs
        self._file = file
        self.later: list[Write[None]] = []
        self.streams: dict[tuple[str, str], int] = {}
        self._seen = -1

    def begin(self) -> None:
        self._file.check()
        self.connection.execute("BEGIN IMMEDIATE")
        # Moves when another process has committed: what we know of the tables may be wrong then.
        seen = self.connection.execute("PRAGMA data_version").fetchone()[0]
        if seen != self._seen:
            check_ours(self.connection, self._file.path)
            self.streams.clear()
            self._seen = seen
        if len(self.streams) > _STREAMS:
            self.streams.clear()
        self.later = []

    def undo(self, statement: str) -> None:
        self.streams.clear()
        if self.connection.in_transaction:
            self.connection.execute(statement)


Write = Callable[[Transaction], T]


class _Waiting(Struct):
    write: Write[Any]
    rows: int
    answer: Future[Any]
    result: Any = None
    error: Exception | None = None


class Writer:
    """Group commit: while one transaction is being written the next ones gather."""

    def __init__(self, connection: sqlite3.Connection, blobs: BlobFiles, file: OpenedFile) -> None:
        self.failed = 0
        self._file = file
        self._path = file.path
        self._transaction = Transaction(connection, blobs, file)
        self._backlog = BACKLOG_ROWS
        self._queue: deque[_Waiting] = deque()
        self._queued_rows = 0
        self._closed = False
        self._ready = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="holdfast-store", daemon=True)
        self._thread.start()

    def submit(self, write: Write[T], *, rows: int = 1) -> Future[T]:
        """Queue a write and return at once. A full backlog fails the write rather than hold up the caller."""
        if self._file.inherited():
            self._file.check()
        answer: Future[T] = Future()
        # A write that was accepted is carried out: cancelling the wait for it must not undo it.
        answer.set_running_or_notify_cancel()
        waiting = _Waiting(write, rows, answer)
        with self._ready:
            if self._closed:
                raise HoldfastError(f"the store {self._path} is closed; open it again to write to it")
            if not self._queue or self._queued_rows + rows <= self._backlog:
                self._queue.append(waiting)
                self._queued_rows += rows
                self._ready.notify()
                return answer
            behind = self._queued_rows
        waiting.error = HoldfastError(
            f"the store {self._path} is {behind} rows behind; wait for earlier writes before making more"
        )
        self._answer([waiting])
        return answer

    def close(self) -> None:
        """Wait until everything accepted is written, except in the writer thread itself: it ends by itself."""
        if self._file.inherited():
            return
        with self._ready:
            self._closed = True
            self._ready.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        try:
            while batch := self._take():
                self._commit(batch)
                for write in self._transaction.later:
                    self._commit([_Waiting(write, 1, Future())])
        finally:
            self._transaction.connection.close()

    def _take(self) -> list[_Waiting]:
        """Everything that waits, up to one commit's worth; empty only when closed and drained."""
        batch: list[_Waiting] = []
        rows = 0
        with self._ready:
            while not self._queue and not self._closed:
                self._ready.wait()
            while self._queue and (not batch or rows + self._queue[0].rows <= ROWS_PER_COMMIT):
                waiting = self._queue.popleft()
                batch.append(waiting)
                rows += waiting.rows
            self._queued_rows -= rows
        return batch

    def _commit(self, batch: Sequence[_Waiting]) -> None:
        transaction = self._transaction
        try:
            transaction.begin()
            for waiting in batch:
                self._attempt(waiting)
            transaction.connection.execute("COMMIT")
        except (sqlite3.Error, HoldfastError, MemoryError) as error:
            # A rollback that fails leaves the transaction open: the next one cannot begin and tries again.
            with suppress(sqlite3.Error):
                transaction.undo("ROLLBACK")
            transaction.later = []
            problem = self._problem(error)
            for waiting in batch:
                waiting.error = waiting.error or problem
        self._answer(batch)

    def _attempt(self, waiting: _Waiting) -> None:
        """Run one write inside a savepoint, so that its failure leaves the others of the batch alone."""
        connection = self._transaction.connection
        connection.execute("SAVEPOINT one")
        later = len(self._transaction.later)
        try:
            waiting.result = waiting.write(self._transaction)
        except sqlite3.Error as error:
            if concerns_whole_store(error) or not connection.in_transaction:
                raise
            waiting.error = self._problem(error)
        except HoldfastError as error:
            waiting.error = error
        except Exception as error:
            # The thread serves every caller: a value no table can hold must fail its own write only.
            logger.exception("a write to the store %s could not be carried out", self._path)
            waiting.error = self._problem(error)
        if waiting.error is not None:
            self._transaction.undo("ROLLBACK TO one")
            del self._transaction.later[later:]
        connection.execute("RELEASE one")

    def _problem(self, error: Exception) -> Exception:
        if isinstance(error, HoldfastError):
            return error
        if isinstance(error, sqlite3.Error):
            return store_problem(self._path, error)
        return HoldfastError(
            f"a write to the store {self._path} could not be carried out "
            f"({type(error).__name__}: {error}); correct the value and write it again"
        )

    def _answer(self, batch: Sequence[_Waiting]) -> None:
        for waiting in batch:
            if waiting.error is None:
                waiting.answer.set_result(waiting.result)
                continue
            with self._ready:
                self.failed += 1
            logger.warning("store write failed: %s", waiting.error)
            waiting.answer.set_exception(waiting.error)
