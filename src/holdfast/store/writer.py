"""The one writer thread: takes every write that is waiting, runs them in one transaction, then answers them.

Knows no tables. A write is a function of the transaction; it fails alone unless the whole store is in trouble. Where
nobody waits for an answer, writes gather for a few milliseconds: what is lost by a kill then is what nobody waited for.
While they keep coming the thread looks for them by itself: to be woken costs the request that does it more.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from ..errors import HoldfastError
from .base import VersionConflictError
from .bill_sums import BillSums
from .blobs import BlobFiles
from .bulk_insert import NewCalls, Pending
from .change_counter import Turns
from .connections import OpenedFile
from .event_insert import Appended
from .migrations import check_ours
from .problems import concerns_whole_store, store_problem
from .rollups import Sums
from .write_future import Answer, give
from .write_queue import Joint, Waiting, folded

logger = logging.getLogger(__name__)

T = TypeVar("T")

ROWS_PER_COMMIT = 40_000
BACKLOG_ROWS = 200_000
LINGER = 0.03
"""Seconds that writes gather for, where nobody waits for one of them."""
MANY, LONGER = 32, 5
"""So many in that time, and they gather so many times as long: calls and ledgers are written once, not twice."""
LOOKS = 30
"""How often in a row it finds nothing before it sleeps until it is woken."""
GATHERED = 1_000
"""Rows that are not waited with."""
_UNFOLDED = 2_000  # writes that gather before those of one value are put together, where none is taken
_PENDING = 5_000
_STREAMS = 50_000  # remembered at once; sessions have no end


class Transaction:
    """What a write may touch. `later` holds work for a transaction of its own once this one is durable."""

    def __init__(self, connection: sqlite3.Connection, blobs: BlobFiles, file: OpenedFile) -> None:
        self.connection = connection
        self.blobs = blobs
        self._file = file
        self.later: list[Write[None]] = []
        self.streams: dict[tuple[str, str], int] = {}
        self.pending: Pending = {}
        self.together = False
        """Whether the transaction is made again one by one if a write fails."""
        self.calls = NewCalls()
        self.sums = Sums()
        self.bills = BillSums()
        self.appended = Appended()
        self.turns = Turns(file.path)
        self._seen = -1

    def begin(self) -> None:
        self._file.check()
        self.connection.execute("BEGIN IMMEDIATE")
        # Moves when another process has committed: what we know of the tables may be wrong then.
        seen = self.connection.execute("PRAGMA data_version").fetchone()[0]
        self.turns.take(foreign=seen != self._seen)
        if seen != self._seen:
            check_ours(self.connection, self._file.path)
            self.streams.clear()
            self.pending.clear()
            self._seen = seen
        if len(self.streams) > _STREAMS:
            self.streams.clear()
        if len(self.pending) > _PENDING:
            self.pending.clear()
        self.later = []
        self.calls.clear()
        self.sums.clear()
        self.bills.clear()
        self.appended.clear()

    def pour(self) -> None:
        """Write what was put off to be written at once."""
        self.calls.write(self.connection, self.pending)
        self.appended.write(self.connection, self.streams, self.sums, together=self.together)
        self.sums.write(self.connection)
        self.bills.write(self.connection)

    def undo(self, statement: str) -> None:
        self.streams.clear()
        self.pending.clear()
        self.calls.clear()
        self.sums.clear()
        self.bills.clear()
        self.appended.clear()
        if self.connection.in_transaction:
            self.connection.execute(statement)


Write = Callable[[Transaction], T]


class Writer:
    """Group commit: while one transaction is being written the next ones gather."""

    def __init__(self, connection: sqlite3.Connection, blobs: BlobFiles, file: OpenedFile) -> None:
        self.failed = 0
        self._file = file
        self._path = file.path
        self._transaction = Transaction(connection, blobs, file)
        self.others = self._transaction.turns.others  # moves on when somebody else has written; None: not certain
        self._backlog = BACKLOG_ROWS
        self._queue: deque[Waiting] = deque()
        self._queued_rows = 0
        self._added = 0  # since those of one value were last put together
        self._hurried = False
        self._asleep = False
        self._looks = LOOKS
        self._lingers = 1
        self._closed = False
        self._trouble: Exception | None = None
        self._lock = threading.RLock()
        self._ready = threading.Condition(self._lock)
        self._done = threading.Condition()  # what waits for an answer waits on this
        self._thread = threading.Thread(target=self._run, name="holdfast-store", daemon=True)
        self._thread.start()

    def submit(self, write: Write[T], *, rows: int = 1, apart: bool = False) -> Answer[T]:
        """Queue a write and return at once. A full backlog fails the write rather than hold up the caller.

        `apart` says that it touches no row of a joint write: one that is made later may still follow an earlier one.
        """
        answer: Answer[T] = Answer(self._done, self.hurry)
        self._queue_up(Waiting(write, rows, [answer], None, apart))
        return answer

    def join(self, write: Joint) -> Answer[Any]:
        """Queue a write of a value, which is made in the place of the queued one of the same value if it can follow
        that."""
        answer: Answer[Any] = Answer(self._done, self.hurry)
        self._queue_up(Waiting(write, 1, [answer], write))
        return answer

    def leave(self, write: Joint) -> None:
        """The same for one who wants no answer."""
        self._queue_up(Waiting(write, 1, [], write))

    def answer(self) -> Answer[Any]:
        """One for a part of a write."""
        return Answer(self._done, self.hurry)

    def hurry(self) -> None:
        """Somebody waits: what is queued is written now."""
        with self._ready:
            self._hurried = True
            self._ready.notify()

    def _queue_up(self, waiting: Waiting) -> None:
        file = self._file
        if file.forks != file.born:
            file.check()
        with self._lock:
            if self._closed:
                raise HoldfastError(f"the store {self._path} is closed; open it again to write to it")
            self._added += 1
            if self._added > _UNFOLDED:  # the writer is behind: what it need not write any more must not pile up
                self._queue = deque(folded(self._queue))
                self._queued_rows, self._added = sum(each.rows for each in self._queue), 0
            rows = self._queued_rows + waiting.rows
            full = bool(self._queue) and rows > self._backlog
            if not full:
                self._queue.append(waiting)
                self._queued_rows = rows
                if self._asleep or rows >= GATHERED:
                    self._ready.notify()
        if full:
            waiting.error = HoldfastError(
                f"the store {self._path} is {self._queued_rows} rows behind; wait for earlier writes before making more"
            )
            self._answer([waiting])

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
                    self._commit([Waiting(write, 1, [])])
        finally:
            self._transaction.connection.close()
            self._transaction.turns.close()

    def _take(self) -> list[Waiting]:
        """Everything that waits, up to one commit's worth; empty only when closed and drained."""
        batch: list[Waiting] = []
        rows = 0
        with self._ready:
            self._gather()
            if self._queued_rows <= ROWS_PER_COMMIT:
                batch, rows = [*self._queue], self._queued_rows
                self._queue.clear()
            while self._queue and (not batch or rows + self._queue[0].rows <= ROWS_PER_COMMIT):
                waiting = self._queue.popleft()
                batch.append(waiting)
                rows += waiting.rows
            self._lingers = LONGER if len(batch) > MANY * self._lingers else 1
            self._queued_rows -= rows
            self._added = len(self._queue)
            self._hurried = self._hurried and bool(self._queue)
        return folded(batch)

    def _gather(self) -> None:
        """Until there is something to write, and those who wait for nothing have had time to add to it."""
        while True:
            if self._looks >= LOOKS and not self._queue and not self._closed:
                self._asleep = True
                self._ready.wait_for(lambda: self._queue or self._closed)
                self._asleep, self._looks = False, 0
            linger = LINGER * self._lingers
            self._ready.wait_for(lambda: self._hurried or self._closed or self._queued_rows >= GATHERED, linger)
            if self._queue or self._closed:
                self._looks = 0
                return
            self._hurried = False  # what it was for is written
            self._looks += 1

    def _commit(self, batch: Sequence[Waiting]) -> None:
        transaction = self._transaction
        try:
            transaction.begin()
            if len(batch) == 1 or not self._together(batch):
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
        if self._closed:
            return HoldfastError(f"the store {self._path} is closed; open it again to write to it")
        return self._trouble

    def _together(self, batch: Sequence[Waiting]) -> bool:
        """All of them without savepoints, as they almost always succeed. If one fails, nothing has happened: they are
        made again one by one."""
        transaction = self._transaction
        transaction.together = True
        try:
            for waiting in batch:
                waiting.result = waiting.write(transaction)
            transaction.pour()
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
        """Run one write inside a savepoint, so that its failure leaves the others of the batch alone."""
        connection = self._transaction.connection
        connection.execute("SAVEPOINT one")
        later = len(self._transaction.later)
        try:
            waiting.result = waiting.write(self._transaction)
            self._transaction.pour()
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

    def _answer(self, batch: Sequence[Waiting]) -> None:
        made: list[tuple[Answer[Any], Any]] = []
        for waiting in batch:
            if waiting.error is None:
                answers, result = waiting.answers, waiting.result
                if waiting.joint is None or result is None:
                    result = [result] * len(answers)
                made += zip(answers, result, strict=True)
                continue
            with self._ready:
                self.failed += max(1, len(waiting.answers))
            # Who writes over a version is told that there is another by now, and decides again.
            if waiting.error is not self._trouble and not isinstance(waiting.error, VersionConflictError):
                logger.warning("store write failed: %s", waiting.error)
            for answer in waiting.answers:
                answer.set_exception(waiting.error)
        give(self._done, made)
