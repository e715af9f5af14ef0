"""Hourly sums, kept in the transaction of the rows they sum, and questions answered from them.

A window is exact to the microsecond: whole hours come from the sums, the partial hours at its edges from the
rows.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal, localcontext
from typing import Any

from holdfast.records import Usage

from ..interface import Store
from ..rows import CacheEffectiveness, CallHour
from ..sums import EXACT, HOUR, effectiveness, hour_of
from .connections import Questions

Span = tuple[int, int]
Key = tuple[int, str, str]
"""Hour, tenant, model."""


class HourSums:
    """What the operations of one transaction add to the hours: written once, before it is committed."""

    def __init__(self) -> None:
        self._usage: dict[Key, list[Usage]] = defaultdict(list)
        self._calls: Counter[Key] = Counter()
        self._events: Counter[tuple[int, str, str]] = Counter()

    def usage(self, key: Key, usage: Usage, *, sign: int) -> None:
        """Count one call in (sign 1) or out again (sign -1), under its hour, tenant and model."""
        self._calls[key] += sign
        self._usage[key].append(usage if sign == 1 else _negative(usage))

    def events(self, counted: Counter[tuple[int, str, str]]) -> None:
        """So many, by the number of their hour, tenant and type."""
        for (hour, tenant, name), count in counted.items():
            self._events[hour * HOUR, tenant, name] += count

    def clear(self) -> None:
        self._usage.clear()
        self._calls.clear()
        self._events.clear()

    def write(self, connection: sqlite3.Connection) -> None:
        for key, usages in self._usage.items():
            _add_usage(connection, key, self._calls[key], usages)
        if self._events:
            connection.executemany(
                "INSERT INTO event_hours VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
                [(*key, count) for key, count in self._events.items()],
            )
        self.clear()


def _negative(usage: Usage) -> Usage:
    writes = tuple((ttl, -tokens) for ttl, tokens in usage.writes)
    cost = None if usage.cost is None else -usage.cost
    return Usage(input=-usage.input, read=-usage.read, writes=writes, output=-usage.output, cost=cost)


def _add_usage(connection: sqlite3.Connection, key: Key, calls: int, usages: Sequence[Usage]) -> None:
    row = connection.execute("SELECT cost FROM call_hours WHERE hour = ? AND tenant = ? AND model = ?", key).fetchone()
    # Dollars are text: SQLite's own numbers would round them.
    with localcontext(EXACT):
        cost = sum((each.cost or Decimal(0) for each in usages), Decimal(row[0] if row else 0))
    counts = [sum(column) for column in zip(*[(u.input, u.read, u.written, u.output) for u in usages], strict=True)]
    connection.execute(
        "INSERT INTO call_hours VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
        "calls = calls + excluded.calls, input = input + excluded.input, read = read + excluded.read, "
        "written = written + excluded.written, output = output + excluded.output, cost = excluded.cost",
        (*key, calls, *counts, str(cost)),
    )
    writes: Counter[str] = Counter()
    for usage in usages:
        for ttl, tokens in usage.writes:
            writes[ttl] += tokens
    connection.executemany(
        "INSERT INTO write_hours VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET tokens = tokens + excluded.tokens",
        [(*key, ttl, tokens) for ttl, tokens in writes.items()],
    )


class HourQuestions(Questions, Store):
    def call_hours(self, start: int, end: int, tenant: str | None = None) -> list[CallHour]:
        where, values = _window("hour", (start, end), tenant)
        writes: dict[Key, list[tuple[str, int]]] = defaultdict(list)
        with self.readers.snapshot() as connection:
            for hour, owner, model, ttl, tokens in connection.execute(
                f"SELECT hour, tenant, model, ttl, tokens FROM write_hours WHERE {where} AND tokens != 0 "
                "ORDER BY hour, tenant, model, ttl",
                values,
            ):
                writes[hour, owner, model].append((ttl, tokens))
            return [
                CallHour(
                    hour=hour,
                    tenant=owner,
                    model=model,
                    calls=calls,
                    input=input_,
                    read=read,
                    writes=tuple(writes[hour, owner, model]),
                    output=output,
                    cost=Decimal(cost),
                )
                for hour, owner, model, calls, input_, read, output, cost in connection.execute(
                    f"SELECT hour, tenant, model, calls, input, read, output, cost FROM call_hours "
                    f"WHERE {where} AND calls != 0 ORDER BY hour, tenant, model",
                    values,
                )
            ]

    def newest_hour(self, calls: int) -> int | None:
        total, first = 0, None
        with self.readers.snapshot() as connection:
            sql = "SELECT hour, sum(calls) FROM call_hours GROUP BY hour ORDER BY hour DESC"
            for hour, count in connection.execute(sql):
                if not count:
                    continue
                if first is not None and total + count > calls:
                    break
                total, first = total + count, hour
        return first

    def event_counts(self, start: int, end: int, tenant: str | None = None) -> dict[str, int]:
        counts: Counter[str] = Counter()
        with self.readers.snapshot() as connection:
            hours, edges = split(start, end, pruned_before(connection))
            where, values = _window("hour", hours, tenant)
            sql = f"SELECT type, sum(count) FROM event_hours WHERE {where} GROUP BY type"
            counts.update(dict(connection.execute(sql, values).fetchall()))
            for edge in edges:
                where, values = _window("at", edge, tenant)
                table = "events" if tenant is None else "events CROSS JOIN streams ON streams.id = events.stream"
                sql = f"SELECT type, count(*) FROM {table} WHERE {where} GROUP BY type"
                counts.update(dict(connection.execute(sql, values).fetchall()))
        return dict(sorted(counts.items()))

    def cache_effectiveness(self, start: int, end: int, tenant: str | None = None) -> CacheEffectiveness:
        with self.readers.snapshot() as connection:
            hours, edges = split(start, end, pruned_before(connection))
            where, values = _window("hour", hours, tenant)
            # Added up here as far as numbers go: there are many hours, tenants and models.
            sql = (
                "SELECT model, sum(calls), sum(input), sum(read), sum(written), sum(output), group_concat(cost, ' ') "
                f"FROM call_hours WHERE {where} GROUP BY model"
            )
            rows = connection.execute(sql, values).fetchall()
            for edge in edges:
                where, values = _window("started_at", edge, tenant)
                sql = (
                    "SELECT model, 1, input, read, written, output, coalesce(cost, '0') FROM calls "
                    f"WHERE {where} AND input IS NOT NULL"
                )
                rows += connection.execute(sql, values).fetchall()
        covered = [span for span in (hours, *edges) if span[0] < span[1]]
        first = min((span[0] for span in covered), default=start)
        return _summary(first, max((span[1] for span in covered), default=end), rows)


def _summary(start: int, end: int, rows: Iterable[tuple[Any, ...]]) -> CacheEffectiveness:
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0, 0])
    costs: dict[str, Decimal] = defaultdict(Decimal)
    with localcontext(EXACT):
        for model, *counts, cost in rows:
            sums[model] = [total + count for total, count in zip(sums[model], counts, strict=True)]
            costs[model] += sum(map(Decimal, cost.split()))
        dollars = sum(costs.values(), Decimal(0))
    everything = [sum(column) for column in zip(*sums.values(), strict=True)] or [0, 0, 0, 0, 0]
    return CacheEffectiveness(
        start=start,
        end=end,
        models=tuple(effectiveness(m, sums[m], costs[m]) for m in sorted(sums) if sums[m][0]),
        total=effectiveness(None, everything, dollars),
    )


def pruned_before(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT pruned_before FROM retention").fetchone()[0])


def split(start: int, end: int, pruned: int) -> tuple[Span, list[Span]]:
    """The whole hours of [start, end), and its partial edges.

    Hours before `pruned` have no rows any more, only sums: an edge there is widened to its whole hour.
    """
    if start >= end:
        return (start, start), []
    if start < pruned:
        start = hour_of(start)
    if end < pruned:
        end = hour_of(end + HOUR - 1)
    first, last = hour_of(start + HOUR - 1), hour_of(end)
    if first > last:
        return (first, first), [(start, end)]
    edges = [(low, high) for low, high in ((start, first), (last, end)) if low < high]
    return (first, last), edges


def _window(column: str, span: Span, tenant: str | None) -> tuple[str, list[int | str]]:
    if tenant is None:
        return f"{column} >= ? AND {column} < ?", [*span]
    return f"{column} >= ? AND {column} < ? AND tenant = ?", [*span, tenant]
