"""The writer's transaction: what an operation may touch, the rows it defers, and whether another process has written.

Rows that operations defer are inserted together. A statement with many rows costs little more than one with a single
row, and lets go of the GIL only once. One that may fail halfway has to copy every page it changes; with `OR ROLLBACK`
it need not, and is for transactions that are made again one by one if it fails.
"""

from __future__ import annotations

import logging
import mmap
import os
import sqlite3
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.records import Usage
from holdfast.records.events import encode_payload

from ..blobs import BlobFiles
from ..operations import Operation
from ..rows import EventRow
from ..sums import HOUR
from .activity import ActivityOfSessions
from .bill_sums import SessionHourSums
from .connections import OpenedFile
from .rollups import HourSums
from .schema import check_ours
from .tables import CALL_COLUMNS, names

_ROWS_PER_STATEMENT = 2_000
_PENDING = 5_000
STREAMS = 50_000  # remembered at once; sessions have no end
_EVENT_COLUMNS = ("stream", "id", "at", "turn", "parent", "type", "actor", "sensitivity", "payload")

CallName = tuple[str, str]
"""Tenant and id."""
PendingCalls = dict[CallName, tuple[int, tuple[Any, ...], Usage | None]]
"""Calls that will be written again: where they stand, what of them does not change, and what of them counts already."""
Streams = dict[tuple[str, str], int]
"""The number of each session, by tenant and name."""


def execute_many(
    connection: sqlite3.Connection, statement: Callable[[int], str], width: int, values: list[Any]
) -> int | None:
    """Rows of `width` values each, in few statements: of a few sizes, so that every one is compiled once. Gives the
    number of the last row."""
    most = min(_ROWS_PER_STATEMENT, connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) // width)
    at, last = 0, None
    for size in (most, 64, 32, 16, 8, 4, 3, 2, 1):
        while len(values) - at >= size * width and size <= most:
            last = connection.execute(statement(size), values[at : at + size * width]).lastrowid
            at += size * width
    return last


def _marks(width: int, rows: int) -> str:
    return ", ".join([f"({', '.join('?' * width)})"] * rows)


class NewCalls:
    """Calls that are not stored yet."""

    def __init__(self) -> None:
        self._rows: dict[CallName, tuple[list[Any], tuple[Any, ...] | None, Usage | None]] = {}

    def add(self, name: CallName, row: list[Any], fixed: tuple[Any, ...] | None, usage: Usage | None) -> None:
        """`fixed` are the parts that do not change when it is written again, `usage` the part already counted."""
        self._rows[name] = row, fixed, usage

    def __contains__(self, name: CallName) -> bool:
        return name in self._rows

    def clear(self) -> None:
        self._rows.clear()

    def write(self, connection: sqlite3.Connection, pending: PendingCalls) -> None:
        if not self._rows:
            return
        values = [value for row, _, _ in self._rows.values() for value in row]
        last = execute_many(connection, _insert_calls, len(CALL_COLUMNS), values) or 0
        # They are numbered one after the other.
        for place, (name, (_, fixed, usage)) in enumerate(self._rows.items(), last - len(self._rows) + 1):
            if fixed is not None:
                pending[name] = place, fixed, usage
        self._rows.clear()


@cache
def _insert_calls(rows: int) -> str:
    return f"INSERT OR ROLLBACK INTO calls ({names(CALL_COLUMNS)}) VALUES {_marks(len(CALL_COLUMNS), rows)}"


class NewEvents:
    """The events that the operations of one transaction append."""

    def __init__(self) -> None:
        self._waiting: list[tuple[str, Sequence[EventRow]]] = []

    def add(self, tenant: str, events: Sequence[EventRow]) -> None:
        self._waiting.append((tenant, events))

    def clear(self) -> None:
        self._waiting.clear()

    def write(self, connection: sqlite3.Connection, streams: Streams, sums: HourSums, *, together: bool) -> None:
        """Insert the events. With `together` the whole transaction is retried if this fails."""
        if not self._waiting:
            return
        rows, counted = [], Counter[tuple[int, str, str]]()
        for tenant, events in self._waiting:
            for event in events:
                name = tenant, event[0]
                rows.append((streams.get(name) or _stream(connection, streams, *name), event))
                counted[event[2] // HOUR, tenant, event[5]] += 1
        self._waiting.clear()
        sums.events(counted)
        # Neighbours of one session fill neighbouring entries of its index; ids keep the order within it.
        rows.sort(key=itemgetter(0))
        values: list[Any] = []
        for stream, event in rows:
            payload = event[8]
            values.append(stream)
            values += event[1:8]
            values.append(payload if isinstance(payload, bytes) else encode_payload(payload))
        try:
            statement = _insert_events_together if together else _insert_events
            execute_many(connection, statement, len(_EVENT_COLUMNS), values)
        except sqlite3.IntegrityError as error:
            raise HoldfastError(
                "an event of this session is already stored under the same id; append each event once"
            ) from error


@cache
def _insert_events(rows: int) -> str:
    return f"INSERT INTO events ({', '.join(_EVENT_COLUMNS)}) VALUES {_marks(len(_EVENT_COLUMNS), rows)}"


@cache
def _insert_events_together(rows: int) -> str:
    return _insert_events(rows).replace("INSERT", "INSERT OR ROLLBACK", 1)


def _stream(connection: sqlite3.Connection, streams: Streams, tenant: str, session: str) -> int:
    connection.execute("INSERT INTO streams (tenant, session) VALUES (?, ?) ON CONFLICT DO NOTHING", (tenant, session))
    row = connection.execute("SELECT id FROM streams WHERE tenant = ? AND session = ?", (tenant, session))
    stream = int(row.fetchone()[0])
    streams[tenant, session] = stream
    return stream


logger = logging.getLogger(__name__)

_NUMBER = struct.Struct("<Q")


class ChangeCounter:
    """Whether another process has written: a number beside the database that every process increments when it commits.

    Asking the database costs a statement, and a wait while the writer works; a number in shared memory costs nothing.
    It is changed under the write lock, so it shows at once that a commit is in progress; that it is done is certain
    when the next transaction of our own has begun. Writes of a process that does not maintain the number are found then
    too, by SQLite's own count. Without a place for the number nothing is ever certain.
    """

    def __init__(self, path: Path) -> None:
        self._memory: mmap.mmap | None = _shared(path.with_name(path.name + "-turn"))
        self._ours = -1
        self._others = 0

    def others(self) -> int | None:
        """Return a number that changes whenever another process's commit has become visible; None while one may be in
        progress."""
        others, memory = self._others, self._memory
        if memory is None or _NUMBER.unpack_from(memory)[0] != self._ours:
            return None
        return others

    def advance(self, *, foreign: bool) -> None:
        """Called under the write lock: everything before is visible. `foreign` if SQLite saw others commit."""
        if self._memory is None:
            return
        now = _NUMBER.unpack_from(self._memory)[0]
        if foreign or now != self._ours:
            self._others += 1
        self._ours = (now + 1) % 2**64
        _NUMBER.pack_into(self._memory, 0, self._ours)

    def close(self) -> None:
        memory = self._memory
        self._memory = None
        if memory is not None:
            memory.close()


def _shared(path: Path) -> mmap.mmap | None:
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(file).st_size < _NUMBER.size:
                os.ftruncate(file, _NUMBER.size)
            return mmap.mmap(file, _NUMBER.size)
        finally:
            os.close(file)
    except (OSError, ValueError) as error:
        logger.debug("no shared number at %s (%s): the database is asked instead", path, error)
        return None


class Transaction:
    """What an operation may access."""

    def __init__(self, connection: sqlite3.Connection, blobs: BlobFiles, file: OpenedFile) -> None:
        self.connection = connection
        self.blobs = blobs
        self._file = file
        self.later: list[Operation[Any]] = []
        """Operations for transactions of their own once this one is durable."""
        self.streams: Streams = {}
        self.pending: PendingCalls = {}
        self.together = False
        """Whether the transaction is made again one by one if an operation fails."""
        self.calls = NewCalls()
        self.events = NewEvents()
        self.hour_sums = HourSums()
        self.session_sums = SessionHourSums()
        self.activity = ActivityOfSessions()
        self.changes = ChangeCounter(file.path)
        self._version = -1

    def begin(self) -> None:
        self._file.check()
        self.connection.execute("BEGIN IMMEDIATE")
        # Moves when another process has committed: what we know of the tables may be wrong then.
        version = self.connection.execute("PRAGMA data_version").fetchone()[0]
        self.changes.advance(foreign=version != self._version)
        if version != self._version:
            check_ours(self.connection, self._file.path)
            self.streams.clear()
            self.pending.clear()
            self._version = version
        if len(self.streams) > STREAMS:
            self.streams.clear()
        if len(self.pending) > _PENDING:
            self.pending.clear()
        self.later = []
        self._discard()

    def insert_deferred(self) -> None:
        """Insert the deferred rows."""
        self.calls.write(self.connection, self.pending)
        self.events.write(self.connection, self.streams, self.hour_sums, together=self.together)
        self.hour_sums.write(self.connection)
        self.session_sums.write(self.connection)
        self.activity.write(self.connection)

    def undo(self, statement: str) -> None:
        self.streams.clear()
        self.pending.clear()
        self._discard()
        if self.connection.in_transaction:
            self.connection.execute(statement)

    def _discard(self) -> None:
        for deferred in (self.calls, self.events, self.hour_sums, self.session_sums, self.activity):
            deferred.clear()
