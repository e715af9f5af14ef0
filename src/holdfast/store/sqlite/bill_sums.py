"""Sums of answered calls, for bills: by hour, tenant, session, model, client and kind, and in parts of one price.

Pending calls change their usage when they end: they are not in the sums, and returned one by one. The sums are written
in the transaction of their calls, and equal the result of adding up the stored calls one by one. If a call is counted
again, or calls are deleted, the sums of its session's hour are recomputed from its calls. Dollars are text, as in the
calls: SQLite's own numbers would round them.
"""

from __future__ import annotations

import json
import sqlite3
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal, localcontext
from typing import Any

from ..interface import Store
from ..rows import BillExtent, BillPart, BillQuestion, BillSums, Call, GoneHour, UnansweredCall
from ..sums import DAY, EXACT, HOUR, SIZES, has_estimate, read_verdict
from .connections import Questions, conditions, has_table
from .tables import CALL_COLUMNS, names, read_call

NO_CLIENT = ""

_ZERO = Decimal(0)
_prompt = "(input + read + written)"
_size = " ".join(f"WHEN {_prompt} > {size} THEN {size}" for size in reversed(SIZES))

SUM_OF_CALLS = (
    f"SELECT tenant, session, started_at - (started_at % {HOUR} + {HOUR}) % {HOUR}, model, "
    f"CASE WHEN client IS NULL THEN '{NO_CLIENT}' ELSE '=' || client END, kind, CASE {_size} ELSE 0 END, "
    "cost IS NOT NULL, count(*), sum(input), sum(read), sum(written), sum(output), "
    "decimal_sum(cost), decimal_sum(saved_of(verdict)), sum(has_estimate(verdict)) FROM calls WHERE input IS NOT NULL "
    "AND status != 'pending'"
)
"""One row of `bill_hours` for each group of stored calls. Needs the functions of `add_functions`."""

_COLUMNS = "tenant, session, hour, model, client, kind, size, priced"
_KEY = " AND ".join(f"{name.strip()} = ?" for name in _COLUMNS.split(","))

Key = tuple[str, str, int, str, str, str, int, bool]
"""Tenant, session, hour, model, client, kind, size, whether a price is known."""
Hour = tuple[str, str, int]
"""Tenant, session, hour."""


class SessionHourSums:
    """What the operations of one transaction add to the sums: written once, before it is committed."""

    def __init__(self) -> None:
        self._added: dict[Key, list[Call]] = defaultdict(list)
        self._changed: set[Hour] = set()

    def add(self, call: Call) -> None:
        """A call that was not counted before; one without usage, or still pending, counts nowhere."""
        usage = call.usage
        if usage is None or call.status == "pending":
            return
        client = NO_CLIENT if call.client is None else f"={call.client}"
        size = (0, *SIZES)[bisect_left(SIZES, usage.prompt)]
        hour = call.started_at - call.started_at % HOUR
        key = (call.tenant, call.session, hour, call.model, client, call.kind, size, usage.cost is not None)
        self._added[key].append(call)

    def change(self, tenant: str, session: str, started_at: int) -> None:
        """A call of this session's hour was counted and is replaced or gone."""
        self._changed.add((tenant, session, started_at - started_at % HOUR))

    def clear(self) -> None:
        self._added.clear()
        self._changed.clear()

    def write(self, connection: sqlite3.Connection) -> None:
        """The calls themselves are written already."""
        for key, calls in self._added.items():
            if key[:3] not in self._changed:
                _add(connection, key, calls)
        for tenant, session, hour in self._changed:
            of_hour = (tenant, session, hour)
            connection.execute("DELETE FROM bill_hours WHERE tenant = ? AND session = ? AND hour = ?", of_hour)
            connection.execute(
                f"INSERT INTO bill_hours {SUM_OF_CALLS} AND tenant = ? AND session = ? AND started_at >= ? "
                "AND started_at < ? GROUP BY 1, 2, 3, 4, 5, 6, 7, 8",
                (*of_hour, hour + HOUR),
            )
        self.clear()


def _add(connection: sqlite3.Connection, key: Key, calls: list[Call]) -> None:
    row = connection.execute(f"SELECT cost, saved FROM bill_hours WHERE {_KEY}", key).fetchone() or (None, None)
    counts, estimated = [0, 0, 0, 0], 0
    costs = [] if row[0] is None else [Decimal(row[0])]
    savings = [] if row[1] is None else [Decimal(row[1])]
    for call in calls:
        usage = call.usage
        assert usage is not None
        for place, count in enumerate((usage.input, usage.read, usage.written, usage.output)):
            counts[place] += count
        estimated += has_estimate(call.verdict)
        if usage.cost is not None:
            costs.append(usage.cost)
        if (saved := read_verdict(call.verdict).saved) is not None:
            savings.append(saved)
    connection.execute(
        f"INSERT INTO bill_hours VALUES ({', '.join('?' * 16)}) ON CONFLICT DO UPDATE SET "
        "calls = calls + excluded.calls, input = input + excluded.input, read = read + excluded.read, "
        "written = written + excluded.written, output = output + excluded.output, "
        "cost = excluded.cost, saved = excluded.saved, estimated = estimated + excluded.estimated",
        (*key, len(calls), *counts, _text(costs), _text(savings), estimated),
    )


def _text(values: list[Decimal]) -> str | None:
    if not values:
        return None
    with localcontext(EXACT):
        return str(sum(values, _ZERO))


class BillQuestions(Questions, Store):
    def bill_extent(self) -> BillExtent | None:
        with self.readers.snapshot() as connection:
            if not has_table(connection, "bill_hours"):
                return None
            first, last = connection.execute("SELECT min(hour), max(hour) FROM call_hours").fetchone()
            if first is None:
                return BillExtent(0, 0, ())
            models = connection.execute("SELECT DISTINCT model FROM call_hours").fetchall()
        return BillExtent(first, last + HOUR, tuple(model for (model,) in models))

    def bill_sums(self, question: BillQuestion) -> BillSums:
        with self.readers.snapshot() as connection:
            parts: list[BillPart] = []
            for start, end, offset in question.stretches:
                parts += _parts(connection, question, start, end, offset)
            return BillSums(
                parts,
                _unanswered(connection, question),
                _pending(connection, question),
                _pruned_hours(connection, question),
                _callers(connection, question),
            )

    def repair_savings(
        self,
        tenant: str | None = None,
        *,
        session: str | None = None,
        start: int | None = None,
        end: int | None = None,
    ) -> tuple[Decimal, Decimal, Decimal]:
        where, values = conditions({"tenant": tenant, "session": session}, "started_at", start, end)
        # The condition is that of the index `calls_repairable`, without which an older store is read through.
        sql = f"""SELECT verdict, cost FROM calls WHERE instr(verdict, '"repairs":') > 0 AND {where}"""
        saves = exact = cost = _ZERO
        with self.readers.snapshot() as connection:
            for data, paid in connection.execute(sql, values):
                verdict = read_verdict(data)
                if verdict.repairs is not None and paid is not None:
                    saves += verdict.repairs
                    exact += verdict.repairs if verdict.exact else 0
                    cost += Decimal(paid)
        return saves, exact, cost


def _parts(
    connection: sqlite3.Connection, question: BillQuestion, start: int, end: int, offset: int
) -> Iterator[BillPart]:
    named = "CASE WHEN model IN (SELECT value FROM json_each(:{0})) THEN {1} END"
    size = f"coalesce({named.format('sized', 'size')}, 0)" if question.sized else "0"
    of_hour = named.format("hourly", "hour") if question.hourly else "NULL"
    rows = connection.execute(
        f"SELECT tenant, session, model, client, kind, {size}, priced, (hour + :offset) / :day, {of_hour}, min(hour), "
        "sum(calls), sum(input), sum(read), sum(written), sum(output), group_concat(cost, ' '), "
        "group_concat(saved, ' '), sum(estimated) FROM bill_hours WHERE hour >= :start AND hour < :end "
        "AND (:tenant IS NULL OR tenant = :tenant) AND (hour + :offset) % :day <= :day - :hour "
        "GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9",
        {
            "offset": offset,
            "day": DAY,
            "hour": HOUR,
            "hourly": json.dumps(question.hourly),
            "sized": json.dumps(question.sized),
            "start": start,
            "end": end,
            "tenant": question.tenant,
        },
    )
    with localcontext(EXACT):
        for tenant, session, model, client, kind, size_, priced, day, _, hour, *sums in rows:
            *counts, cost, saved, estimated = sums
            whose = None if client == NO_CLIENT else client[1:]
            names = (tenant, session, model, whose, kind, size_, bool(priced), day, hour)
            yield BillPart._make((*names, *counts, _sum(cost), _sum(saved), estimated))


def _sum(texts: str | None) -> Decimal | None:
    return None if texts is None else sum(map(Decimal, texts.split()), _ZERO)


def _window(question: BillQuestion, column: str) -> tuple[str, list[Any]]:
    terms = [("tenant = ?", question.tenant), (f"{column} >= ?", question.start), (f"{column} < ?", question.end)]
    used = [(term, value) for term, value in terms if value is not None]
    return " AND ".join(term for term, _ in used) or "1", [value for _, value in used]


def _unanswered(connection: sqlite3.Connection, question: BillQuestion) -> list[UnansweredCall]:
    where, values = _window(question, "started_at")
    rows = connection.execute(
        "SELECT tenant, session, model, client, kind, started_at, verdict FROM calls INDEXED BY calls_unanswered "
        f"WHERE input IS NULL AND {where}",
        values,
    )
    return [UnansweredCall._make((*row, read_verdict(verdict).possible)) for *row, verdict in rows]


def _pending(connection: sqlite3.Connection, question: BillQuestion) -> list[Call]:
    where, values = _window(question, "started_at")
    rows = connection.execute(
        f"SELECT {names(CALL_COLUMNS)} FROM calls INDEXED BY calls_pending "
        f"WHERE status = 'pending' AND input IS NOT NULL AND {where}",
        values,
    )
    return [read_call(row) for row in rows]


def _pruned_hours(connection: sqlite3.Connection, question: BillQuestion) -> list[GoneHour]:
    """The whole hours of the window that count more calls than are stored."""
    window = "hour >= ? AND hour <= ? AND (? IS NULL OR tenant = ?)"
    end = 2**62 if question.end is None else question.end
    values = [question.start or 0, end - HOUR, question.tenant, question.tenant]
    counted, stored = (
        connection.execute(f"SELECT total(calls) FROM {table} WHERE {window}", values).fetchone()[0]
        for table in ("call_hours", "bill_hours")
    )
    if counted == stored:
        return []
    rows = connection.execute(
        "SELECT hour, tenant, model, all_.calls - coalesce(kept.calls, 0), all_.input - coalesce(kept.input, 0), "
        "all_.read - coalesce(kept.read, 0), all_.written - coalesce(kept.written, 0), "
        "all_.output - coalesce(kept.output, 0), all_.cost, kept.cost FROM call_hours AS all_ LEFT JOIN ("
        "SELECT hour, tenant, model, sum(calls) AS calls, sum(input) AS input, sum(read) AS read, "
        "sum(written) AS written, sum(output) AS output, group_concat(cost, ' ') AS cost "
        f"FROM bill_hours WHERE {window} GROUP BY hour, tenant, model) AS kept USING (hour, tenant, model) "
        f"WHERE {window} AND all_.calls > coalesce(kept.calls, 0) ORDER BY hour, tenant, model",
        [*values, *values],
    )
    with localcontext(EXACT):
        return [GoneHour._make((*gone, Decimal(cost) - (_sum(kept) or _ZERO))) for *gone, cost, kept in rows]


def _callers(connection: sqlite3.Connection, question: BillQuestion) -> dict[tuple[str, str], tuple[str | None, str]]:
    """Client and kind of the calls of the window that have breaks in it, by tenant and id."""
    broken, values = _window(question, "at")
    called, more = _window(question, "started_at")
    rows = connection.execute(
        f"SELECT calls.tenant, calls.id, client, kind FROM (SELECT DISTINCT tenant, call FROM breaks WHERE {broken}) "
        "AS broken CROSS JOIN calls ON calls.tenant = broken.tenant AND calls.id = broken.call WHERE "
        + called.replace("tenant", "calls.tenant"),
        [*values, *more],
    )
    return {(tenant, id_): (client, kind) for tenant, id_, client, kind in rows}
