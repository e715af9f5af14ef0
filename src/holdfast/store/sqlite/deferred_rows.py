"""Rows that the operations of one transaction put off, to be inserted at once.

A statement with many rows costs little more than one with a single row, and lets go of the GIL only once. One that may
fail halfway has to copy every page it changes; with `OR ROLLBACK` it need not, and is for transactions that are made
again one by one if it fails.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from operator import itemgetter
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.records import Usage
from holdfast.records.events import encode_payload

from ..rows import EventRow
from ..sums import HOUR
from .rollups import HourSums
from .tables import CALL_COLUMNS, names

_ROWS_PER_STATEMENT = 2_000
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
    """Calls of which nothing is stored yet."""

    def __init__(self) -> None:
        self._rows: dict[CallName, tuple[list[Any], tuple[Any, ...] | None, Usage | None]] = {}

    def add(self, name: CallName, row: list[Any], fixed: tuple[Any, ...] | None, usage: Usage | None) -> None:
        """`fixed` is what does not change of one that will be written again, `usage` what of it counts already."""
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
        """`together` says that the whole transaction is made again if this fails."""
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
