"""Events on their way into their table: made ready by whoever appends them, inserted once for a whole transaction.

A statement with many rows costs little more than one with a single row, and lets go of the GIL only once.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import chain
from operator import itemgetter

from ..errors import HoldfastError
from ..events import Envelope, encode_payload
from .rollups import HOUR, Sums
from .together import execute_many, marks

_COLUMNS = ("id", "at", "stream", "turn", "parent", "type", "actor", "sensitivity", "payload")

Streams = dict[tuple[str, str], int]
"""The number of each session, by tenant and name."""

EventRow = tuple[str, str, int, str | None, str | None, str, str, str, bytes]
"""A session's name and what stands in its columns, but for the number of its stream."""


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
            for session, id_, at, turn, parent, kind, actor, sensitivity, payload in events:
                stream = streams.get((tenant, session)) or _stream(connection, streams, tenant, session)
                rows.append((id_, at, stream, turn, parent, kind, actor, sensitivity, payload))
                counted[at // HOUR, tenant, kind] += 1
        self._waiting.clear()
        sums.events(counted)
        # Neighbours of one session fill neighbouring entries of its index; ids keep the order within it.
        rows.sort(key=itemgetter(2))
        try:
            statement = _insertion_together if together else _insertion
            execute_many(connection, statement, len(_COLUMNS), list(chain.from_iterable(rows)))
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
