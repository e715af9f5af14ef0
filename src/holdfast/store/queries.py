"""Questions of people who look at what is stored: many calls or events in small pieces, newest first, ids by their
beginning.

Everything here is a read; `existing.py` opens a database for nothing else.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct

from . import bill_sums
from .reads import _where
from .rollups import HOUR, hour_of
from .rows import BillExtent, BillQuestion, BillSumsFound, Break, Call
from .tables import BREAK_COLUMNS, CALL_COLUMNS, names, read_break, read_call

T = TypeVar("T")

_LARGE = ("plan", "prediction", "chain")
_BRIEF = ", ".join(f'NULL AS "{name}"' if name in _LARGE else f'"{name}"' for name in CALL_COLUMNS)


class Activity(Struct, frozen=True, kw_only=True):
    """A session that has calls, with the start of its first and of its last one, whatever the window."""

    tenant: str
    session: str
    first: int
    last: int


class EventTold(Struct, frozen=True, kw_only=True, gc=False):
    """An event as it was told, with the JSON of its payload: another version may have written it."""

    tenant: str
    session: str
    at: int
    payload: bytes


class Looks(Protocol):
    """What `observe` asks beyond the rows of one call or session."""

    def visit_calls(
        self,
        visit: Callable[[Call], None],
        tenant: str | None = None,
        *,
        session: str | None = None,
        start: int | None = None,
        end: int | None = None,
    ) -> None:
        """Show every call, by start, without plan, prediction and chain: any number of them, one at a time."""
        ...

    def repair_savings(
        self,
        tenant: str | None = None,
        *,
        session: str | None = None,
        start: int | None = None,
        end: int | None = None,
    ) -> tuple[Decimal, Decimal, Decimal]:
        """Of calls of which it is known: the dollars that repairs would have saved, those of them for which unambiguous
        values are enough, and what the calls cost."""
        ...

    def visit_events(
        self,
        visit: Callable[[EventTold], None],
        type: str,
        tenant: str | None = None,
        *,
        session: str | None = None,
        tool: str | None = None,
        start: int | None = None,
        end: int | None = None,
    ) -> None:
        """Show every event of a type, by time (of one session: in the order told), any number of them, one at a
        time; with `tool` only those whose payload names that tool."""
        ...

    def newest_breaks(
        self,
        tenant: str | None = None,
        *,
        session: str | None = None,
        start: int | None = None,
        end: int | None = None,
        limit: int = 1000,
    ) -> list[Break]: ...

    def active_sessions(
        self,
        tenant: str | None = None,
        *,
        prefix: str = "",
        start: int | None = None,
        end: int | None = None,
        limit: int = 100,
    ) -> list[Activity]:
        """Sessions with a call in the window, the one used last first; one whose whole id is `prefix` before all."""
        ...

    def call_ids(self, prefix: str, tenant: str | None = None, *, limit: int = 10) -> list[tuple[str, str]]:
        """Tenant and id of the calls whose id begins like this: the whole id, then the newest first."""
        ...

    def bill_extent(self) -> BillExtent | None:
        """The hours that have sums for bills; None where an older version wrote the store, without such sums."""
        ...

    def bill_sums(self, asked: BillQuestion) -> BillSumsFound:
        """What the stored calls of many sessions add up to, without a look at each."""
        ...


class Looking:
    """`Looks` for a store whose reads are functions of a connection."""

    def _read(self, question: Callable[..., T], *values: Any) -> T:
        raise NotImplementedError

    def visit_calls(
        self,
        visit: Callable[[Call], None],
        tenant: str | None = None,
        *,
        session: str | None = None,
        start: int | None = None,
        end: int | None = None,
    ) -> None:
        self._read(_visit, visit, *_where({"tenant": tenant, "session": session}, "started_at", start, end))

    def repair_savings(
        self,
        tenant: str | None = None,
        *,
        session: str | None = None,
        start: int | None = None,
        end: int | None = None,
    ) -> tuple[Decimal, Decimal, Decimal]:
        return self._read(_savings, *_where({"tenant": tenant, "session": session}, "started_at", start, end))

    def visit_events(
        self,
        visit: Callable[[EventTold], None],
        type: str,
        tenant: str | None = None,
        *,
        session: str | None = None,
        tool: str | None = None,
        start: int | None = None,
        end: int | None = None,
    ) -> None:
        where, values = _where({"tenant": tenant, "session": session}, "at", start, end)
        where, values = f"{where} AND type = ?", [*values, type]
        if tool is not None:
            # Payloads are written without spaces, and quotes inside of texts are escaped: this is the member alone.
            where, values = f"{where} AND instr(payload, ?)", [*values, msgspec.json.encode({"tool": tool})[1:-1]]
        if session is not None:
            self._read(_visit_session, visit, where, values)
        else:
            hours = _where({"tenant": tenant}, "hour", None if start is None else hour_of(start), end)
            self._read(_visit_hours, visit, where, values, type, *hours)

    def newest_breaks(
        self,
        tenant: str | None = None,
        *,
        session: str | None = None,
        start: int | None = None,
        end: int | None = None,
        limit: int = 1000,
    ) -> list[Break]:
        return self._read(_newest, *_where({"tenant": tenant, "session": session}, "at", start, end), limit)

    def active_sessions(
        self,
        tenant: str | None = None,
        *,
        prefix: str = "",
        start: int | None = None,
        end: int | None = None,
        limit: int = 100,
    ) -> list[Activity]:
        return self._read(_active, *_where({"tenant": tenant}, "started_at", start, end), prefix, limit)

    def call_ids(self, prefix: str, tenant: str | None = None, *, limit: int = 10) -> list[tuple[str, str]]:
        return self._read(_call_ids, *_where({"tenant": tenant}, "started_at"), prefix, limit)

    def bill_extent(self) -> BillExtent | None:
        return self._read(bill_sums.extent)

    def bill_sums(self, asked: BillQuestion) -> BillSumsFound:
        return self._read(bill_sums.found, asked)


def _visit(connection: sqlite3.Connection, visit: Callable[[Call], None], where: str, values: list[Any]) -> None:
    for row in connection.execute(f"SELECT {_BRIEF} FROM calls WHERE {where} ORDER BY started_at, seq", values):
        visit(read_call(row))


def _savings(connection: sqlite3.Connection, where: str, values: list[Any]) -> tuple[Decimal, Decimal, Decimal]:
    saves = exact = cost = Decimal(0)
    # The condition is that of the index `calls_repairable`, without which an older store is read through.
    sql = f"""SELECT verdict, cost FROM calls WHERE instr(verdict, '"repairs":') > 0 AND {where}"""
    for verdict, paid in connection.execute(sql, values):
        said = bill_sums.judged(verdict)
        if said.repairs is not None and paid is not None:
            saves += said.repairs
            exact += said.repairs if said.exact else 0
            cost += Decimal(paid)
    return saves, exact, cost


_TOLD = "SELECT tenant, session, at, payload FROM"


def _visit_session(
    connection: sqlite3.Connection, visit: Callable[[EventTold], None], where: str, values: list[Any]
) -> None:
    tables = "streams CROSS JOIN events INDEXED BY events_by_stream ON events.stream = streams.id"
    for row in connection.execute(f"{_TOLD} {tables} WHERE {where} ORDER BY events.id", values):
        visit(_told(row))


def _visit_hours(
    connection: sqlite3.Connection,
    visit: Callable[[EventTold], None],
    where: str,
    values: list[Any],
    type: str,
    hours: str,
    given: list[Any],
) -> None:
    """There is no index of types, which every event would pay for. The sums know the hours that have any of it."""
    sql = f"SELECT DISTINCT hour FROM event_hours WHERE {hours} AND type = ? ORDER BY hour"
    found = connection.execute(sql, [*given, type]).fetchall()
    tables = "events INDEXED BY events_by_time CROSS JOIN streams ON streams.id = events.stream"
    sql = f"{_TOLD} {tables} WHERE {where} AND at >= ? AND at < ? ORDER BY at, seq"
    for (hour,) in found:
        for row in connection.execute(sql, [*values, hour, hour + HOUR]):
            visit(_told(row))


def _told(row: tuple[Any, ...]) -> EventTold:
    tenant, session, at, payload = row
    return EventTold(tenant=tenant, session=session, at=at, payload=payload)


def _newest(connection: sqlite3.Connection, where: str, values: list[Any], limit: int) -> list[Break]:
    sql = f"SELECT {names(BREAK_COLUMNS)} FROM breaks WHERE {where} ORDER BY at DESC, seq DESC LIMIT ?"
    return [read_break(row) for row in connection.execute(sql, [*values, limit])]


def _active(connection: sqlite3.Connection, where: str, values: list[Any], prefix: str, limit: int) -> list[Activity]:
    found = connection.execute(
        f"SELECT tenant, session, max(started_at) AS last FROM calls WHERE {where} AND substr(session, 1, ?) = ? "
        "GROUP BY tenant, session ORDER BY session != ?, last DESC, session LIMIT ?",
        [*values, len(prefix), prefix, prefix, limit],
    ).fetchall()
    sql = "SELECT min(started_at), max(started_at) FROM calls WHERE tenant = ? AND session = ?"
    spans = [connection.execute(sql, (tenant, session)).fetchone() for tenant, session, _ in found]
    return [
        Activity(tenant=tenant, session=session, first=first, last=last)
        for (tenant, session, _), (first, last) in zip(found, spans, strict=True)
    ]


def _call_ids(
    connection: sqlite3.Connection, where: str, values: list[Any], prefix: str, limit: int
) -> list[tuple[str, str]]:
    sql = f"SELECT tenant, id FROM calls WHERE {where} AND substr(id, 1, ?) = ? ORDER BY id != ?, id DESC LIMIT ?"
    return [(tenant, id_) for tenant, id_ in connection.execute(sql, [*values, len(prefix), prefix, prefix, limit])]
