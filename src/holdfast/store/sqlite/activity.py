"""When each session had its first and its last call: kept in the transaction of the calls, asked by every list."""

from __future__ import annotations

import sqlite3
from heapq import nsmallest

from ..interface import Store
from ..rows import SessionActivity
from .connections import Questions, conditions, has_table

ACTIVITY_OF_CALLS = "SELECT tenant, session, min(started_at), max(started_at) FROM calls"
"""One row of `session_activity` for each group of calls."""

_ROWS = "SELECT tenant, session, first, last FROM session_activity"
_LAST_CHARACTER = chr(0x10FFFF)

Span = tuple[str, str, int, int]
"""Tenant, session, first and last call."""


class ActivityOfSessions:
    """What the operations of one transaction change: written once, before it is committed."""

    def __init__(self) -> None:
        self._spans: dict[tuple[str, str], tuple[int, int]] = {}
        self._changed: set[tuple[str, str]] = set()

    def add(self, tenant: str, session: str, at: int) -> None:
        """A new call."""
        first, last = self._spans.get((tenant, session), (at, at))
        self._spans[tenant, session] = min(first, at), max(last, at)

    def change(self, tenant: str, session: str) -> None:
        """A call of this session is replaced or gone."""
        self._changed.add((tenant, session))

    def clear(self) -> None:
        self._spans.clear()
        self._changed.clear()

    def write(self, connection: sqlite3.Connection) -> None:
        """The calls themselves are written already."""
        if self._spans:
            connection.executemany(
                "INSERT INTO session_activity VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
                "first = min(first, excluded.first), last = max(last, excluded.last)",
                [(*key, *span) for key, span in self._spans.items()],
            )
        for key in self._changed:
            renew(connection, *key)
        self.clear()


def renew(connection: sqlite3.Connection, tenant: str, session: str) -> None:
    """Ask the calls again."""
    of_session = "WHERE tenant = ? AND session = ?"
    connection.execute(f"DELETE FROM session_activity {of_session}", (tenant, session))
    connection.execute(
        f"INSERT INTO session_activity {ACTIVITY_OF_CALLS} {of_session} GROUP BY tenant, session", (tenant, session)
    )


class ActivityQuestions(Questions, Store):
    def active_sessions(
        self,
        tenant: str | None = None,
        *,
        prefix: str = "",
        start: int | None = None,
        end: int | None = None,
        limit: int = 100,
    ) -> list[SessionActivity]:
        with self.readers.snapshot() as connection:
            if not has_table(connection, "session_activity"):
                spans = _of_calls(connection, tenant, prefix, start, end, limit)
            else:
                spans = _of_rows(connection, tenant, prefix, start, end, limit)
        return [SessionActivity(tenant=whose, session=name, first=a, last=b) for whose, name, a, b in spans]

    def active_tenants(self, *, events: bool = False) -> list[str]:
        """From one tenant to the next along the keys."""
        with self.readers.snapshot() as connection:
            return tenants_in(connection, *(("calls", "streams") if events else ("calls",)))


def tenants_in(connection: sqlite3.Connection, *tables: str) -> list[str]:
    tenants: set[str] = set()
    for table in tables:
        sql = f"SELECT min(tenant) FROM {table}"
        name = connection.execute(sql).fetchone()[0]
        while name is not None:
            tenants.add(name)
            name = connection.execute(f"{sql} WHERE tenant > ?", (name,)).fetchone()[0]
    return sorted(tenants)


def starting_with(column: str, prefix: str) -> tuple[str, list[object]]:
    """The condition that a name begins like this, for an index of names."""
    if not prefix:
        return "1", []
    return f"{column} >= ? AND {column} < ? AND substr({column}, 1, ?) = ?", [
        prefix,
        prefix + _LAST_CHARACTER * 2,
        len(prefix),
        prefix,
    ]


def _of_rows(
    connection: sqlite3.Connection, tenant: str | None, prefix: str, start: int | None, end: int | None, limit: int
) -> list[Span]:
    equal, names = {"tenant": tenant}, starting_with("session", prefix)
    where, values = conditions(equal, "last", start, end)
    order = "ORDER BY session != ?, last DESC, session" if prefix else "ORDER BY last DESC, session"
    more = [prefix] if prefix else []
    sql = f"{_ROWS} WHERE {where} AND {names[0]} {order} LIMIT ?"
    spans: list[tuple[int, Span]] = [
        (row[3], row) for row in connection.execute(sql, [*values, *names[1], *more, limit]).fetchall()
    ]
    if end is not None:  # of those that went on behind the window, the last call in it counts
        where, values = conditions(equal, "last", end)
        sql = f"{_ROWS} WHERE {where} AND first < ? AND {names[0]}"
        within = "SELECT max(started_at) FROM calls WHERE tenant = ? AND session = ? AND started_at < ?"
        for row in connection.execute(sql, [*values, end, *names[1]]).fetchall():
            last = connection.execute(within, (row[0], row[1], end)).fetchone()[0]
            if last is not None and (start is None or last >= start):
                spans.append((last, row))
        spans = nsmallest(limit, spans, key=lambda each: (each[1][1] != prefix, -each[0], each[1][1]))
    return [row for _, row in spans]


def _of_calls(
    connection: sqlite3.Connection, tenant: str | None, prefix: str, start: int | None, end: int | None, limit: int
) -> list[Span]:
    """The same from a store that an older version wrote."""
    where, values = conditions({"tenant": tenant}, "started_at", start, end)
    rows = connection.execute(
        f"SELECT tenant, session, max(started_at) AS last FROM calls WHERE {where} "
        "AND substr(session, 1, ?) = ? GROUP BY tenant, session "
        "ORDER BY session != ?, last DESC, session LIMIT ?",
        [*values, len(prefix), prefix, prefix, limit],
    ).fetchall()
    sql = "SELECT min(started_at), max(started_at) FROM calls WHERE tenant = ? AND session = ?"
    return [(whose, name, *connection.execute(sql, (whose, name)).fetchone()) for whose, name, _ in rows]
