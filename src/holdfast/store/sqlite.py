"""The store in one SQLite file: WAL, one writer thread with group commit, readers beside it."""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from holdfast.records.events import Envelope

from ..errors import HoldfastError
from . import reads, removals, rollups, space, writes
from .base import Merge, Store
from .blobs import BlobFiles
from .coalescing import PutCall, PutVersioned
from .connections import OpenedFile, Readers, connect, make_private, prepare_file, use_wal
from .event_insert import event_rows
from .knowledge_store import KnowledgeReads, KnowledgeWrites
from .maintenance import Maintenance
from .migrations import migrate
from .problems import file_problem, store_problem
from .queries import Looking
from .rows import (
    Blob,
    Break,
    CacheEffectiveness,
    Call,
    CallHour,
    CallStatus,
    Edit,
    EventHour,
    Lane,
    LateCall,
    Ledger,
    Owner,
    Pool,
    Session,
)
from .schema import APPLICATION_ID
from .write_future import Answer
from .write_queue import Joint
from .writer import Transaction, Write, Writer

T = TypeVar("T")


class SqliteWrites(KnowledgeWrites):
    """The writes of `base.Writes`, each handed on as a function of a transaction. Times are UTC microseconds."""

    def _write(self, write: Write[T], *, rows: int = 1) -> Future[T]:
        raise NotImplementedError

    def _add(self, write: Write[T], *, rows: int = 1) -> Future[T]:
        """A write that touches no row of a joint one."""
        return self._write(write, rows=rows)

    def _join(self, write: Joint) -> Future[Any]:
        """A write of a value that may stand for queued ones of the same value."""
        return self._write(partial(_alone, write))

    def put_session(self, session: Session) -> Future[None]:
        return self._add(partial(writes.checked, writes.put_session, session, Session))

    def put_account(self, name: str, tenant: str, *, at: int) -> Future[None]:
        return self._add(partial(writes.put_account, name, tenant, at))

    def put_lane(self, lane: Lane) -> Future[None]:
        return self._add(partial(writes.checked, writes.put_lane, lane, Lane))

    def end_lane(self, tenant: str, lane: str, at: int) -> Future[None]:
        return self._write(partial(removals.end_lane, tenant, lane, at))

    def delete_session(self, tenant: str, session: str) -> Future[None]:
        return self._write(partial(removals.delete_session, tenant, session))

    def put_ledger(
        self, tenant: str, lane: str, data: bytes, *, expected: int, merge: Merge | None = None
    ) -> Future[int]:
        return self._join(PutVersioned("ledgers", "lane", tenant, lane, data, expected, merge))

    def put_pool(
        self, tenant: str, model: str, data: bytes, *, expected: int, merge: Merge | None = None
    ) -> Future[int]:
        return self._join(PutVersioned("pools", "model", tenant, model, data, expected, merge))

    def put_edit(
        self, tenant: str, lane: str, block: str, replacement: bytes, *, at: int, data: bytes | None = None
    ) -> Future[Edit]:
        return self._add(partial(writes.put_edit, tenant, lane, block, replacement, at, data))

    def put_call(self, call: Call, told: Iterable[Envelope] = ()) -> Future[None]:
        return self._join(PutCall(call, (tuple(told),)))

    def leave_call(self, call: LateCall) -> None:
        self._join(PutCall(call, (call.told,), call.first))

    def end_pending(self, ended: Callable[[Call], Call]) -> Future[int]:
        return self._write(partial(writes.end_pending, ended))

    def put_break(self, found: Break) -> Future[None]:
        return self._add(partial(writes.checked, writes.put_break, found, Break))

    def put_blob(self, tenant: str, owner: Owner, data: bytes, *, at: int) -> Future[Blob]:
        return self._add(partial(writes.put_blob, tenant, owner, data, at))

    def append_events(self, tenant: str, envelopes: Iterable[Envelope]) -> Future[int]:
        events = event_rows(envelopes)
        return self._add(partial(writes.append_events, tenant, events), rows=len(events))


def _alone(write: Joint, transaction: Transaction) -> Any:
    results = write(transaction)
    return None if results is None else results[0]


class Batch(SqliteWrites):
    """Collects writes that become durable together; their futures are resolved together."""

    def __init__(self, answer: Callable[[], Answer[Any]]) -> None:
        self._answer = answer
        self.rows = 0
        self.ended = False
        self._parts: list[tuple[Write[Any], Future[Any]]] = []

    def _write(self, write: Write[T], *, rows: int = 1) -> Future[T]:
        if self.ended:
            raise HoldfastError("this batch of writes has ended; begin another one with store.batch()")
        answer = self._answer()
        self._parts.append((write, answer))
        self.rows += rows
        return answer

    def run(self, transaction: Transaction) -> list[Any]:
        return [write(transaction) for write, _ in self._parts]

    def resolve(self, whole: Future[list[Any]]) -> None:
        error = whole.exception()
        for index, (_, answer) in enumerate(self._parts):
            if error is None:
                answer.set_result(whole.result()[index])
            else:
                answer.set_exception(error)

    def abandon(self) -> None:
        for _, answer in self._parts:
            answer.set_exception(HoldfastError("a batch of writes ended with an error; none was made"))


class SqliteStore(SqliteWrites, KnowledgeReads, Looking, Maintenance):
    """Made by `open_store`; satisfies `base.Store`."""

    def __init__(self, path: Path, writer: Writer, readers: Readers, blobs: BlobFiles) -> None:
        super().__init__()
        self._path = path
        self._writer = writer
        self._readers = readers
        self._blobs = blobs
        # Also runs when the program ends without closing us: what was accepted is still written.
        self._finish = weakref.finalize(self, _shut, writer, readers)

    @property
    def path(self) -> Path:
        return self._path

    @property
    def failed_writes(self) -> int:
        return self._writer.failed

    def close(self) -> None:
        _shut(self._writer, self._readers)
        self._finish.detach()

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, write: Write[T], *, rows: int = 1) -> Answer[T]:
        return self._writer.submit(write, rows=rows)

    def _add(self, write: Write[T], *, rows: int = 1) -> Answer[T]:
        return self._writer.submit(write, rows=rows, apart=True)

    def _join(self, write: Joint) -> Answer[Any]:
        return self._writer.join(write)

    def leave_call(self, call: LateCall) -> None:
        self._writer.leave(PutCall(call, (call.told,), call.first))

    @contextmanager
    def batch(self) -> Iterator[Batch]:
        batch = Batch(self._writer.answer)
        try:
            yield batch
            batch.ended = True
            whole = self._write(batch.run, rows=batch.rows)
        except BaseException:
            batch.ended = True
            batch.abandon()
            raise
        whole.when_done(batch.resolve)

    def _read(self, question: Callable[..., T], *values: Any) -> T:
        with self._readers.snapshot() as connection:
            return question(connection, *values)

    def session(self, tenant: str, id: str) -> Session | None:
        return self._read(reads.session, tenant, id)

    def sessions(self, tenant: str | None = None, *, limit: int = 100) -> list[Session]:
        return self._read(reads.sessions, tenant, limit)

    def account(self, name: str) -> str | None:
        return self._read(reads.account, name)

    def lane(self, tenant: str, id: str) -> Lane | None:
        return self._read(reads.lane, tenant, id)

    def lanes(self, tenant: str, session: str) -> list[Lane]:
        return self._read(reads.lanes, tenant, session)

    def ledger(self, tenant: str, lane: str) -> Ledger | None:
        return self._read(reads.ledger, tenant, lane)

    def flush(self, timeout: float | None = None) -> None:
        with suppress(HoldfastError, TimeoutError):
            self._writer.submit(lambda _: None, apart=True).result(timeout)

    def trouble(self) -> Exception | None:
        return self._writer.trouble()

    def others(self) -> int | None:
        return self._writer.others()

    def ledger_version(self, tenant: str, lane: str) -> int:
        row = self._readers.one("SELECT version FROM ledgers WHERE tenant = ? AND lane = ?", (tenant, lane))
        return 0 if row is None else int(row[0])

    def pool(self, tenant: str, model: str) -> Pool | None:
        return self._read(reads.pool, tenant, model)

    def edits(self, tenant: str, lane: str) -> list[Edit]:
        return self._read(reads.edits, tenant, lane)

    def call(self, tenant: str | None, id: str) -> Call | None:
        return self._read(reads.call, tenant, id)

    def calls(
        self,
        tenant: str | None = None,
        *,
        session: str | None = None,
        lane: str | None = None,
        model: str | None = None,
        status: CallStatus | None = None,
        start: int | None = None,
        end: int | None = None,
        limit: int = 1000,
    ) -> list[Call]:
        equal = {"tenant": tenant, "session": session, "lane": lane, "model": model, "status": status}
        return self._read(reads.calls, equal, start, end, limit)

    def breaks(
        self,
        tenant: str | None = None,
        *,
        session: str | None = None,
        lane: str | None = None,
        call: str | None = None,
        start: int | None = None,
        end: int | None = None,
        limit: int = 1000,
    ) -> list[Break]:
        equal = {"tenant": tenant, "session": session, "lane": lane, "call": call}
        return self._read(reads.breaks, equal, start, end, limit)

    def events(
        self, tenant: str, session: str, *, after: str | None = None, limit: int | None = None
    ) -> list[Envelope]:
        return self._read(reads.events, tenant, session, after, limit)

    def read_blob(self, tenant: str, digest: str) -> bytes:
        with self._readers.snapshot() as connection:
            if not reads.owns_blob(connection, tenant, digest):
                raise HoldfastError(f"this tenant has no blob {digest[:64]}; its lane may have ended, record it again")
            return self._blobs.read(tenant, digest)

    def call_hours(self, start: int, end: int, tenant: str | None = None) -> list[CallHour]:
        return self._read(rollups.call_hours, start, end, tenant)

    def event_hours(self, start: int, end: int, tenant: str | None = None) -> list[EventHour]:
        return self._read(rollups.event_hours, start, end, tenant)

    def cache_effectiveness(self, start: int, end: int, tenant: str | None = None) -> CacheEffectiveness:
        return self._read(rollups.cache_effectiveness, start, end, tenant)

    def event_counts(self, start: int, end: int, tenant: str | None = None) -> dict[str, int]:
        return self._read(rollups.event_counts, start, end, tenant)


if TYPE_CHECKING:
    _satisfies: type[Store] = SqliteStore


def _shut(writer: Writer, readers: Readers) -> None:
    readers.close()
    writer.close()


def open_store(
    url: str | Path, *, busy_timeout: float = 5.0, read_timeout: float = 0.5, max_bytes: int | None = None
) -> SqliteStore:
    """Open or create the store at `sqlite:///PATH` or a plain path; blobs stand in `PATH.blobs` beside it.

    `busy_timeout` is how many seconds writes wait for another process, `read_timeout` reads: they need not wait unless
    somebody locks the whole file, and then a request must not.
    `max_bytes` is a size the database file must not pass; writes beyond it fail as on a full disk.
    """
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
    blobs = BlobFiles(path.with_name(path.name + ".blobs"))
    file = OpenedFile(path)
    return SqliteStore(path, Writer(connection, blobs, file), Readers(file, busy_timeout=read_timeout), blobs)


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
