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
from typing import Any

from msgspec import Struct

from ..errors import HoldfastError
from ..events import Envelope, encode_payload
from .rollups import HOUR

_COLUMNS = ("id", "at", "stream", "turn", "parent", "type", "actor", "sensitivity", "payload")
_ROWS_PER_STATEMENT = 2_000

Streams = dict[tuple[str, str], int]
"""The number of each session, by tenant and name."""


class EventRows(Struct, frozen=True):
    """Events made ready by whoever appends them, so that the writer thread has only SQL to do.

    Each of `rows` holds a session's name and what stands before and after the number of its stream.
    """

    rows: list[tuple[str, tuple[Any, ...], tuple[Any, ...]]]
    counted: Counter[tuple[int, str]]


def event_rows(envelopes: Iterable[Envelope]) -> EventRows:
    counted: Counter[tuple[int, str]] = Counter()
    rows = []
    for event in envelopes:
        payload, at = event.payload, event.at
        kind = payload.type
        counted[at // HOUR, kind] += 1
        after = (event.turn, event.parent, kind, event.actor, event.sensitivity, encode_payload(payload))
        rows.append((event.session, (event.id, at), after))
    return EventRows(rows, counted)


class Appended:
    """The events that the writes of one transaction append."""

    def __init__(self) -> None:
        self._waiting: list[tuple[str, EventRows]] = []

    def add(self, tenant: str, events: EventRows) -> None:
        self._waiting.append((tenant, events))

    def clear(self) -> None:
        self._waiting.clear()

    def write(self, connection: sqlite3.Connection, streams: Streams) -> None:
        if not self._waiting:
            return
        rows = [
            (*before, _stream(connection, streams, tenant, session), *after)
            for tenant, events in self._waiting
            for session, before, after in events.rows
        ]
        self._waiting.clear()
        # Neighbours of one session fill neighbouring entries of its index; ids keep the order within it.
        rows.sort(key=itemgetter(2))
        try:
            _insert(connection, list(chain.from_iterable(rows)))
        except sqlite3.IntegrityError as error:
            raise HoldfastError(
                "an event of this session is already stored under the same id; append each event once"
            ) from error


def _insert(connection: sqlite3.Connection, values: list[Any]) -> None:
    """A few sizes of statements are enough, so that every one is compiled once."""
    width = len(_COLUMNS)
    most = min(_ROWS_PER_STATEMENT, connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) // width)
    at = 0
    for size in (most, 64, 16, 8, 4, 3, 2, 1):
        while len(values) - at >= size * width and size <= most:
            connection.execute(_insertion(size), values[at : at + size * width])
            at += size * width


@cache
def _insertion(rows: int) -> str:
    one = f"({', '.join('?' * len(_COLUMNS))})"
    return f"INSERT INTO events ({', '.join(_COLUMNS)}) VALUES " + ", ".join([one] * rows)


def _stream(connection: sqlite3.Connection, streams: Streams, tenant: str, session: str) -> int:
    known = streams.get((tenant, session))
    if known is not None:
        return known
    connection.execute("INSERT INTO streams (tenant, session) VALUES (?, ?) ON CONFLICT DO NOTHING", (tenant, session))
    row = connection.execute("SELECT id FROM streams WHERE tenant = ? AND session = ?", (tenant, session))
    stream = int(row.fetchone()[0])
    streams[tenant, session] = stream
    return stream
