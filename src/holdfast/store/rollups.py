"""Hourly sums, kept in the transaction of the rows they sum, and questions answered from them.

A window is exact to the microsecond: whole hours come from the sums, the partial hours at its edges from the
rows.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from decimal import Context, Decimal, localcontext
from typing import Any

from holdfast.records import Usage

from .rows import CacheEffectiveness, CallHour, EventHour, ModelEffectiveness

HOUR = 3_600_000_000
"""An hour in microseconds."""

Span = tuple[int, int]
Key = tuple[int, str, str]
"""Hour, tenant, model."""

_EXACT = Context(prec=60)
"""Wide enough that a sum of dollars is never rounded, whatever the caller's context."""


def hour_of(at: int) -> int:
    """The first microsecond of the hour."""
    return at - at % HOUR


class Sums:
    """What the writes of one transaction add to the hours: written once for all of them, before it is committed."""

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
    with localcontext(_EXACT):
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


def call_hours(connection: sqlite3.Connection, start: int, end: int, tenant: str | None) -> list[CallHour]:
    where, values = _window("hour", (start, end), tenant)
    writes: dict[tuple[int, str, str], list[tuple[str, int]]] = defaultdict(list)
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


def event_hours(connection: sqlite3.Connection, start: int, end: int, tenant: str | None) -> list[EventHour]:
    where, values = _window("hour", (start, end), tenant)
    rows = connection.execute(
        f"SELECT hour, tenant, type, count FROM event_hours WHERE {where} ORDER BY hour, tenant, type", values
    )
    return [EventHour(hour=hour, tenant=owner, type=name, count=count) for hour, owner, name, count in rows]


def event_counts(connection: sqlite3.Connection, start: int, end: int, tenant: str | None) -> dict[str, int]:
    hours, edges = split(start, end, pruned_before(connection))
    counts: Counter[str] = Counter()
    where, values = _window("hour", hours, tenant)
    sql = f"SELECT type, sum(count) FROM event_hours WHERE {where} GROUP BY type"
    counts.update(dict(connection.execute(sql, values).fetchall()))
    for edge in edges:
        where, values = _window("at", edge, tenant)
        table = "events" if tenant is None else "events CROSS JOIN streams ON streams.id = events.stream"
        sql = f"SELECT type, count(*) FROM {table} WHERE {where} GROUP BY type"
        counts.update(dict(connection.execute(sql, values).fetchall()))
    return dict(sorted(counts.items()))


def cache_effectiveness(connection: sqlite3.Connection, start: int, end: int, tenant: str | None) -> CacheEffectiveness:
    hours, edges = split(start, end, pruned_before(connection))
    where, values = _window("hour", hours, tenant)
    rows = connection.execute(
        f"SELECT model, calls, input, read, written, output, cost FROM call_hours WHERE {where}", values
    ).fetchall()
    for edge in edges:
        where, values = _window("started_at", edge, tenant)
        rows += connection.execute(
            "SELECT model, 1, input, read, written, output, coalesce(cost, '0') FROM calls "
            f"WHERE {where} AND input IS NOT NULL",
            values,
        ).fetchall()
    covered = [span for span in (hours, *edges) if span[0] < span[1]]
    return _summarise(
        min((span[0] for span in covered), default=start),
        max((span[1] for span in covered), default=end),
        rows,
    )


def _summarise(start: int, end: int, rows: Iterable[tuple[Any, ...]]) -> CacheEffectiveness:
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0, 0])
    costs: dict[str, Decimal] = defaultdict(Decimal)
    with localcontext(_EXACT):
        for model, *counts, cost in rows:
            sums[model] = [total + count for total, count in zip(sums[model], counts, strict=True)]
            costs[model] += Decimal(cost)
        dollars = sum(costs.values(), Decimal(0))
    everything = [sum(column) for column in zip(*sums.values(), strict=True)] or [0, 0, 0, 0, 0]
    return CacheEffectiveness(
        start=start,
        end=end,
        models=tuple(effectiveness(m, sums[m], costs[m]) for m in sorted(sums) if sums[m][0]),
        total=effectiveness(None, everything, dollars),
    )


def effectiveness(model: str | None, counts: Sequence[int], cost: Decimal) -> ModelEffectiveness:
    """The one definition of hit rate and write share: over all prompt tokens, None when there were none."""
    calls, uncached, read, written, output = counts
    prompt = uncached + read + written
    return ModelEffectiveness(
        model=model,
        call_count=calls,
        uncached_tokens=uncached,
        cached_tokens=read,
        creation_tokens=written,
        output_tokens=output,
        cost=cost,
        hit_rate=read / prompt if prompt else None,
        cache_write_share=written / prompt if prompt else None,
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
