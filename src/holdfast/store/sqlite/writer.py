"""The one writer thread: takes all queued operations, executes them in one transaction, and sets their results.

Knows no tables: `execute` does. An operation fails alone unless the whole store is in trouble. If no caller waits,
operations are gathered for a few milliseconds: what a kill loses then is what no caller waited for. While they keep
coming the thread polls for them: a wake-up would cost the request more.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from holdfast.errors import HoldfastError

from ..blobs import BlobFiles
from ..interface import VersionConflictError
from ..operations import Operation
from .connections import OpenedFile
from .problems import concerns_whole_store, store_problem
from .transaction import Transaction
from .write_queue import Waiting, WriteFuture, combined, resolve

logger = logging.getLogger(__name__)

T = TypeVar("T")

ROWS_PER_COMMIT = 40_000
BACKLOG_ROWS = 200_000
LINGER = 0.03
"""Seconds that operations gather for, where nobody waits for one of them."""
MANY, LONGER = 32, 5
"""So many in that time, and they gather so many times as long: calls and ledgers are written once, not twice."""
LOOKS = 30
"""How often in a row the queue is found empty before the thread sleeps until it is woken."""
GATHERED = 1_000
"""Rows that end the gathering."""
UNCOMBINED = 2_000  # operations that gather before those of one value are combined, where none is taken


Execute = Callable[[Transaction, Operation[Any]], Any]


class Writer:
    """Group commit: while one transaction is being written the next ones gather."""

    def __init__(self, connection: sqlite3.Connection, blobs: BlobFiles, file: OpenedFile, execute: Execute) -> None:
        self.failed = 0
        self._file = file
        self._path = file.path
        self._execute = execute
        self.transaction = Transaction(connection, blobs, file)
        self.others = self.transaction.changes.others
        self.backlog = BACKLOG_ROWS
        self.queue: deque[Waiting] = deque()
        self.queued_rows = 0
        self._added = 0  # since those of one value were last combined
        self._hurried = False
        self.asleep = False
        self._looks = LOOKS
        self._lingers = 1
        self.closed = False
        self._trouble: Exception | None = None
        self._lock = threading.RLock()
        self._ready = threading.Condition(self._lock)
        self._done = threading.Condition()  # all futures wait on this
        self._thread = threading.Thread(target=self._run, name="holdfast-store", daemon=True)
        self._thread.start()

    def submit(self, operation: Operation[T]) -> WriteFuture[T]:
        """Queue an operation and return at once. A full backlog fails it rather than hold up the caller."""
        future: WriteFuture[T] = WriteFuture(self._done, self.hurry)
        self._enqueue(Waiting(operation, operation.rows, [future]))
        return future

    def post(self, operation: Operation[Any]) -> None:
        """The same for a caller who wants no answer."""
        self._enqueue(Waiting(operation, operation.rows, []))

    def future(self) -> WriteFuture[Any]:
        """One for a part of an operation."""
        return WriteFuture(self._done, self.hurry)

    def combine(self) -> int:
        """Combine the operations of one value that wait. Gives how many are left."""
        with self._lock:
            self.queue = deque(combined(self.queue))
            self.queued_rows, self._added = sum(each.rows for each in self.queue), 0
            return len(self.queue)

    def hurry(self) -> None:
        """Write the queue now, because a caller waits."""
        with self._ready:
            self._hurried = True
            self._ready.notify()

    def _enqueue(self, waiting: Waiting) -> None:
        file = self._file
        if file.forks != file.born:
            file.check()
        with self._lock:
            if self.closed:
                raise HoldfastError(f"the store {self._path} is closed; open it again to write to it")
            self._added += 1
            if self._added > UNCOMBINED:  # the writer is behind: what it need not write any more must not pile up
                self.combine()
            rows = self.queued_rows + waiting.rows
            full = bool(self.queue) and rows > self.backlog
            if not full:
                self.queue.append(waiting)
                self.queued_rows = rows
                if self.asleep or rows >= GATHERED:
                    self._ready.notify()
        if full:
            waiting.error = HoldfastError(
                f"the store {self._path} is {self.queued_rows} rows behind; wait for earlier writes before making more"
            )
            self._answer([waiting])

    def close(self) -> None:
        """Wait until everything accepted is written, except in the writer thread itself: it ends by itself."""
        if self._file.inherited():
            return
        with self._ready:
            self.closed = True
            self._ready.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        try:
            while batch := self._take():
                self._commit(batch)
                for operation in self.transaction.later:
                    self._commit([Waiting(operation, 1, [])])
        finally:
            self.transaction.connection.close()
            self.transaction.changes.close()

    def _take(self) -> list[Waiting]:
        """Everything that waits, up to one commit's worth; empty only when closed and drained."""
        batch: list[Waiting] = []
        rows = 0
        with self._ready:
            self._gather()
            if self.queued_rows <= ROWS_PER_COMMIT:
                batch, rows = [*self.queue], self.queued_rows
                self.queue.clear()
            while self.queue and (not batch or rows + self.queue[0].rows <= ROWS_PER_COMMIT):
                waiting = self.queue.popleft()
                batch.append(waiting)
                rows += waiting.rows
            self._lingers = LONGER if len(batch) > MANY * self._lingers else 1
            self.queued_rows -= rows
            self._added = len(self.queue)
            self._hurried = self._hurried and bool(self.queue)
        return combined(batch)

    def _gather(self) -> None:
        """Until there is something to write, and those who wait for nothing have had time to add to it."""
        while True:
            if self._looks >= LOOKS and not self.queue and not self.closed:
                self.asleep = True
                self._ready.wait_for(lambda: self.queue or self.closed)
                self.asleep, self._looks = False, 0
            linger = LINGER * self._lingers
            self._ready.wait_for(lambda: self._hurried or self.closed or self.queued_rows >= GATHERED, linger)
            if self.queue or self.closed:
                self._looks = 0
                return
            self._hurried = False  # what it was for is written
            self._looks += 1

    def _commit(self, batch: Sequence[Waiting]) -> None:
        transaction = self.transaction
        try:
            transaction.begin()
            if len(batch) == 1 or not self._attempt_all(batch):
                for waiting in batch:
                    self._attempt(waiting)
            transaction.connection.execute("COMMIT")
            self._recovered()
        except (sqlite3.Error, HoldfastError, MemoryError) as error:
            # A rollback that fails leaves the transaction open: the next one cannot begin and tries again.
            with suppress(sqlite3.Error):
                transaction.undo("ROLLBACK")
            transaction.later = []
            self._trouble, before = self._problem(error), self._trouble
            level = logging.WARNING if before is None else logging.DEBUG  # not again for every write of an outage
            logger.log(level, "%s writes to the store failed: %s", len(batch), self._trouble)
            for waiting in batch:
                waiting.error = waiting.error or self._trouble
        self._answer(batch)

    def _recovered(self) -> None:
        if self._trouble is not None:
            self._trouble = None
            logger.warning("the store %s can be written again", self._path)

    def trouble(self) -> Exception | None:
        """Why the last transaction could not be made; None if it could."""
        if self.closed:
            return HoldfastError(f"the store {self._path} is closed; open it again to write to it")
        return self._trouble

    def _attempt_all(self, batch: Sequence[Waiting]) -> bool:
        """Carry out all of them without savepoints, as they almost always succeed. If one fails, nothing has happened:
        they are carried out again one by one."""
        transaction = self.transaction
        transaction.together = True
        try:
            for waiting in batch:
                waiting.result = self._execute(transaction, waiting.operation)
            transaction.insert_deferred()
        except sqlite3.IntegrityError:
            logger.debug("a row is there already; the writes are made one by one", exc_info=True)
        except sqlite3.Error as error:
            if concerns_whole_store(error) or not transaction.connection.in_transaction:
                raise
        except Exception:
            logger.debug("a write fails; those beside it are made one by one", exc_info=True)
        else:
            return True
        finally:
            transaction.together = False
        transaction.undo("ROLLBACK")
        transaction.begin()
        return False

    def _attempt(self, waiting: Waiting) -> None:
        """Carry out one operation inside a savepoint, so that its failure leaves the others of the batch alone."""
        connection = self.transaction.connection
        connection.execute("SAVEPOINT one")
        later = len(self.transaction.later)
        try:
            waiting.result = self._execute(self.transaction, waiting.operation)
            self.transaction.insert_deferred()
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
            self.transaction.undo("ROLLBACK TO one")
            del self.transaction.later[later:]
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

    def _answer(self, batch: Sequence[Waiting]) -> None:
        results: list[tuple[WriteFuture[Any], Any]] = []
        for waiting in batch:
            futures = waiting.futures
            if waiting.error is None:
                if futures:
                    results += zip(futures, waiting.operation.results(waiting.result, len(futures)), strict=True)
                continue
            with self._ready:
                self.failed += max(1, len(futures))
            # Who writes over a version is told that there is another by now, and decides again.
            if waiting.error is not self._trouble and not isinstance(waiting.error, VersionConflictError):
                logger.warning("store write failed: %s", waiting.error)
            for future in futures:
                future.set_exception(waiting.error)
        resolve(self._done, results)
