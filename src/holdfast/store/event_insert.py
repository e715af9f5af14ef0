"""Events on their way into their table: made ready by whoever appends them, inserted once for a whole transaction.

A statement with many rows costs little more than one with a single row, and lets go of the GIL only once.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable
from functools import cache
from operator import itemgetter
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.records.events import Envelope, encode_payload

from .bulk_insert import execute_many, marks
from .rollups import HOUR, Sums
from .rows import EventRow

_COLUMNS = ("stream", "id", "at", "turn", "parent", "type", "actor", "sensitivity", "payload")

Streams = dict[tuple[str, str], int]
"""The number of each session, by tenant and name."""


def event_rows(envelopes: Iterable[Envelope]) -> list[EventRow]:
    """Events made ready by whoever appends them, so that the writer thread has only SQL to do."""
    return [
        (
            event.session,
            event.id,
            event.at,
            event.turn,
            event.parent,
            event.payload.type,
            event.actor,
            event.sensitivity,
            encode_payload(event.payload),
        )
        for event in envelopes
    ]


class Appended:
    """The events that the writes of one transaction append."""

    def __init__(self) -> None:
        self._waiting: list[tuple[str, list[EventRow]]] = []

    def add(self, tenant: str, events: list[EventRow]) -> None:
        self._waiting.append((tenant, events))

    def clear(self) -> None:
        self._waiting.clear()

    def write(self, connection: sqlite3.Connection, streams: Streams, sums: Sums, *, together: bool) -> None:
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
            values.append(stream)
            values += event[1:]
        try:
            statement = _insertion_together if together else _insertion
            execute_many(connection, statement, len(_COLUMNS), values)
        except sqlite3.IntegrityError as error:
            raise HoldfastError(
                "an event of this session is already stored under the same id; append each event once"
            ) from error


@cache
def _insertion(rows: int) -> str:
    return f"INSERT INTO events ({', '.join(_COLUMNS)}) VALUES {marks(len(_COLUMNS), rows)}"


@cache
def _insertion_together(rows: int) -> str:
    return _insertion(rows).replace("INSERT", "INSERT OR ROLLBACK", 1)


def _stream(connection: sqlite3.Connection, streams: Streams, tenant: str, session: str) -> int:
    connection.execute("INSERT INTO streams (tenant, session) VALUES (?, ?) ON CONFLICT DO NOTHING", (tenant, session))
    row = connection.execute("SELECT id FROM streams WHERE tenant = ? AND session = ?", (tenant, session))
    stream = int(row.fetchone()[0])
    streams[tenant, session] = stream
    return stream
