"""Rows that the writes of one transaction put off, to be written at once.

A statement with many rows costs little more than one with a single row. One that may fail halfway has to copy every
page it changes; with `OR ROLLBACK` it need not, and is for transactions that are made again one by one if it fails.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import cache
from typing import Any

from holdfast.records import Usage

from .tables import CALL_COLUMNS, names

_ROWS_PER_STATEMENT = 2_000

Name = tuple[str, str]
"""Tenant and id."""
Pending = dict[Name, tuple[int, tuple[Any, ...], Usage | None]]
"""Calls that will be written again: where they stand, what of them does not change, and what of them counts already."""


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


def marks(width: int, rows: int) -> str:
    return ", ".join([f"({', '.join('?' * width)})"] * rows)


class NewCalls:
    """Calls of which nothing is stored yet."""

    def __init__(self) -> None:
        self._rows: dict[Name, tuple[list[Any], tuple[Any, ...] | None, Usage | None]] = {}

    def add(self, name: Name, row: list[Any], fixed: tuple[Any, ...] | None, usage: Usage | None) -> None:
        """`fixed` is what does not change of one that will be written again, `usage` what of it counts already."""
        self._rows[name] = row, fixed, usage

    def __contains__(self, name: Name) -> bool:
        return name in self._rows

    def clear(self) -> None:
        self._rows.clear()

    def write(self, connection: sqlite3.Connection, pending: Pending) -> None:
        if not self._rows:
            return
        values = [value for row, _, _ in self._rows.values() for value in row]
        last = execute_many(connection, _new_calls, len(CALL_COLUMNS), values) or 0
        # They are numbered one after the other.
        for place, (name, (_, fixed, usage)) in enumerate(self._rows.items(), last - len(self._rows) + 1):
            if fixed is not None:
                pending[name] = place, fixed, usage
        self._rows.clear()


@cache
def _new_calls(rows: int) -> str:
    return f"INSERT OR ROLLBACK INTO calls ({names(CALL_COLUMNS)}) VALUES {marks(len(CALL_COLUMNS), rows)}"
