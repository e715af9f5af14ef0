"""The store in one SQLite file: WAL, one writer thread with group commit, readers beside it."""

from __future__ import annotations

import sqlite3
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from holdfast.errors import HoldfastError, wrong_argument

from .. import operations as op
from ..blobs import BlobFiles, blobs_of, file_problem
from ..interface import Writes
from ..operations import Operation
from ..rows import Pruned
from ..sums import hour_of
from . import calls, integrity, knowledge, retention, sessions, space
from .activity import ActivityQuestions
from .bill_sums import BillQuestions
from .calls import CallQuestions
from .connections import OpenedFile, Readers, connect, make_private, prepare_file, use_wal
from .knowledge import KnowledgeQuestions
from .problems import store_problem
from .rollups import HourQuestions
from .schema import APPLICATION_ID, VERSIONS, check_ours, migrate, schema_version
from .sessions import SessionQuestions
from .text_search import WordCounts
from .transaction import Transaction
from .write_queue import WriteFuture
from .writer import Writer

T = TypeVar("T")

_CHECK_S = 10.0
_GIVE_BACK_S = 1.0


class WriteTogether(Operation[list[Any]], frozen=True):
    """Several operations of which all become durable, or none does; gives the results of all."""

    independent = False

    operations: tuple[Operation[Any], ...]

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.operations)


def execute(transaction: Transaction, operation: Operation[T]) -> T:
    """Carry out an operation."""
    result: T = EXECUTORS[type(operation)](transaction, operation)
    return result


def _write_together(transaction: Transaction, operation: WriteTogether) -> list[Any]:
    return [execute(transaction, each) for each in operation.operations]


EXECUTORS: dict[type[Operation[Any]], Callable[[Transaction, Any], Any]] = {
    op.Commit: lambda _transaction, _operation: None,
    op.PutSession: sessions.put_session,
    op.PutAccount: sessions.put_account,
    op.PutLane: sessions.put_lane,
    op.PutLedger: sessions.put_version,
    op.PutPool: sessions.put_version,
    op.PutInjection: sessions.put_version,
    op.PutEdit: sessions.put_edit,
    op.PutBlob: sessions.put_blob,
    op.PutMark: sessions.put_mark,
    op.PutCall: calls.put_call,
    op.EndCalls: calls.end_calls,
    op.PutBreak: calls.put_break,
    op.AppendEvents: calls.append_events,
    op.PutKnowledge: knowledge.put_knowledge,
    op.EraseKnowledge: knowledge.erase_knowledge,
    op.PutVectors: knowledge.put_vectors,
    op.PutPin: knowledge.put_pin,
    op.PutShown: knowledge.put_shown,
    knowledge.MergeWords: knowledge.merge_words,
    op.EndLane: retention.end_lane,
    op.DeleteSession: retention.delete_session,
    retention.BeginPrune: retention.begin_prune,
    retention.PruneRows: retention.prune_rows,
    retention.PruneLanes: retention.prune_lanes,
    retention.PruneSessions: retention.prune_sessions,
    retention.PruneActivity: retention.prune_activity,
    retention.PruneRest: retention.prune_rest,
    retention.SweepBlobs: retention.sweep_blobs,
    retention.RemoveBlobs: retention.remove_blobs,
    space.FreePages: space.free_pages,
    WriteTogether: _write_together,
}
"""What carries out each kind of operation."""


class Batch(Writes):
    """Collects operations that become durable together; their futures are resolved together."""

    def __init__(self, future: Callable[[], WriteFuture[Any]]) -> None:
        self._future = future
        self.ended = False
        self._operations: list[Operation[Any]] = []
        self._futures: list[WriteFuture[Any]] = []

    def write(self, operation: Operation[T]) -> Future[T]:
        if self.ended:
            raise HoldfastError("this batch of writes has ended; begin another one with store.batch()")
        future: WriteFuture[T] = self._future()
        self._operations.append(operation)
        self._futures.append(future)
        return future

    def together(self) -> WriteTogether:
        return WriteTogether(tuple(self._operations))

    def resolve(self, whole: Future[list[Any]]) -> None:
        error = whole.exception()
        for index, future in enumerate(self._futures):
            if error is None:
                future.set_result(whole.result()[index])
            else:
                future.set_exception(error)

    def abandon(self) -> None:
        for future in self._futures:
            future.set_exception(HoldfastError("a batch of writes ended with an error; none was made"))


class SqliteStore(SessionQuestions, CallQuestions, ActivityQuestions, HourQuestions, BillQuestions, KnowledgeQuestions):
    """Made by `open_store`."""

    def __init__(self, path: Path, writer: Writer, readers: Readers, blobs: BlobFiles) -> None:
        self._path = path
        self.writer = writer
        self.readers = readers
        self._blobs = blobs
        self._word_counts = WordCounts()
        # Also runs when the program ends without closing us: what was accepted is still written.
        self._finish = weakref.finalize(self, _shut, writer, readers)

    @property
    def path(self) -> Path:
        return self._path

    def close(self) -> None:
        _shut(self.writer, self.readers)
        self._finish.detach()

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, operation: Operation[T]) -> Future[T]:
        return self.writer.submit(operation)

    def post(self, operation: Operation[T]) -> None:
        self.writer.post(operation)

    @contextmanager
    def batch(self) -> Iterator[Writes]:
        batch = Batch(self.writer.future)
        try:
            yield batch
            batch.ended = True
            whole = self.writer.submit(batch.together())
        except BaseException:
            batch.ended = True
            batch.abandon()
            raise
        whole.when_done(batch.resolve)

    def flush(self, timeout: float | None = None) -> None:
        with suppress(HoldfastError, TimeoutError):
            self.writer.submit(op.Commit()).result(timeout)

    def trouble(self) -> Exception | None:
        return self.writer.trouble()

    def others(self) -> int | None:
        return self.writer.others()

    # The store as a whole

    def check(self, *, whole: bool = False) -> None:
        now, before = time.time_ns() // 1_000, self.trouble()
        self.write(op.PutMark(integrity.SEEN, now)).result(_CHECK_S)
        integrity.check_open(self.path, self._blobs, now, whole=whole)
        if before is not None:  # there may be room for a mark and not for a call
            raise before

    def prune(
        self,
        before: int,
        *,
        keep: Iterable[str] = (),
        keep_client: str | None = None,
        progress: Callable[[str, int], None] = lambda _what, _count: None,
    ) -> Pruned:
        before = hour_of(before)
        with self.readers.snapshot() as connection:
            kept = retention.kept_sessions(keep, keep_client, connection)
        self.write(retention.BeginPrune(before, kept)).result()
        gone = {
            table: self._steps(retention.PruneRows(before, kept, table), table, progress) for table in retention.TABLES
        }
        lanes = self._steps(retention.PruneLanes(before, kept), "lanes", progress)
        ended = self._steps(retention.PruneSessions(before, kept), "sessions", progress)
        self._steps(retention.PruneActivity(before, kept))
        self.write(retention.PruneRest(before, kept)).result()
        blobs = self.write(retention.SweepBlobs()).result()
        return Pruned(
            before=before,
            calls=gone["calls"],
            breaks=gone["breaks"],
            events=gone["events"],
            sessions=ended,
            lanes=lanes,
            blobs=blobs,
        )

    def would_prune(self, before: int, *, keep: Iterable[str] = (), keep_client: str | None = None) -> Pruned:
        before = hour_of(before)
        with self.readers.snapshot() as connection:
            counts = retention.count(connection, before, retention.kept_sessions(keep, keep_client, connection))
        del counts["shown"]
        return Pruned(before=before, blobs=0, **counts)

    def gives_back(self) -> bool:
        """Whether pages can be released one by one: not in a store of 0.1.0 that was never rewritten."""
        with self.readers.snapshot() as connection:
            return space.is_incremental(connection)

    def give_back(self) -> None:
        if self.gives_back():
            self._steps(space.FreePages())
            space.shrink(self.path, busy_timeout=_GIVE_BACK_S)
        elif self.path.stat().st_size <= space.SMALL:
            space.vacuum(self.path, busy_timeout=_GIVE_BACK_S)

    def _steps(
        self, step: Operation[int], table: str = "", progress: Callable[[str, int], None] = lambda _what, _count: None
    ) -> int:
        total = 0
        while removed := self.write(step).result():
            total += removed
            progress(table, total)
        return total


def _shut(writer: Writer, readers: Readers) -> None:
    readers.close()
    writer.close()


def open_store(
    url: str | Path, *, busy_timeout: float = 5.0, read_timeout: float = 0.5, max_bytes: int | None = None
) -> SqliteStore:
    """Open or create the store at `sqlite:///PATH` or a plain path; blobs are in `PATH.blobs` beside it.

    `busy_timeout` is how many seconds writes wait for another process, `read_timeout` reads: they wait only if the
    whole file is locked, and then a request must not. `max_bytes` is a size the database file must not pass; writes
    beyond it fail as on a full disk.
    """
    if not isinstance(url, (str, Path)):
        raise wrong_argument("open_store", url, "a file, such as open_store('holdfast.db')")
    path = path_of(url)
    prepare_file(path)
    try:
        connection = connect(path, busy_timeout=busy_timeout)
    except sqlite3.Error as error:
        raise store_problem(path, error) from error
    try:
        space.prepare(connection)
        migrate(connection, path)
        make_private(path)
        use_wal(connection, busy_timeout=busy_timeout)
        # Writing once tells a read-only or locked file now; on a read-only file the lock alone is granted.
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("ROLLBACK")
        if max_bytes is not None:
            page = connection.execute("PRAGMA page_size").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {max(1, max_bytes // page)}")
    except sqlite3.Error as error:
        connection.close()
        raise store_problem(path, error) from error
    except HoldfastError:
        connection.close()
        raise
    blobs, file = blobs_of(path), OpenedFile(path)
    return SqliteStore(path, Writer(connection, blobs, file, execute), Readers(file, busy_timeout=read_timeout), blobs)


class _NoWriter(Writer):
    """Takes the writer's place where there is nothing to write."""

    def __init__(self, path: Path) -> None:
        self.failed = 0
        self._path = path

    def submit(self, operation: Operation[T]) -> WriteFuture[T]:
        raise HoldfastError(f"the store {self._path} was opened to be read; open it with open_store to write to it")

    def post(self, operation: Operation[Any]) -> None:
        self.submit(operation)

    def others(self) -> int | None:
        return None

    def trouble(self) -> Exception | None:
        return None

    def hurry(self) -> None:
        """Nobody can be waiting."""

    def close(self) -> None:
        """There is nothing to finish."""


def open_existing(url: str | Path, *, busy_timeout: float = 5.0, whole: bool = False) -> SqliteStore | None:
    """Open the store at `sqlite:///PATH` or a plain path for reading; None if nothing was ever stored. Nothing is
    created, migrated or written, and writers are not disturbed.

    Data of an older version can be read without later additions; `whole` is for callers that need those too, and
    migrates the file first.
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
    return SqliteStore(path, _NoWriter(path), readers, blobs_of(path))


def path_of(url: str | Path) -> Path:
    """Absolute, so that a later change of directory does not matter, and the same by whatever link it was named."""
    text = str(url)
    scheme, separator, rest = text.partition("://")
    if isinstance(url, str) and separator:
        if scheme != "sqlite" or not rest.startswith("/"):
            raise HoldfastError(f"store.url {text!r} is not understood; use sqlite:///PATH or a plain path")
        text = unquote(rest[1:])
    if not text or "\0" in text:
        raise HoldfastError(f"store.url {str(url)!r} names no file; use sqlite:///PATH or a plain path")
    try:
        return Path(text).expanduser().resolve()
    except OSError as error:
        raise file_problem(Path(text), error) from error
    except RuntimeError as error:
        raise HoldfastError(f"the store {text} leads nowhere ({error}); set store.url to another file") from error
