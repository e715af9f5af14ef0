"""Rows of tables to values and back: the one place that knows which column is which field."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
from msgspec.structs import fields

from holdfast.errors import HoldfastError
from holdfast.records import Usage

from ..rows import Break, Call, Edit, KnowledgeEntry, Lane, Session, ShownEntry

T = TypeVar("T")
R = TypeVar("R", bound=msgspec.Struct)

SESSION_COLUMNS = tuple(field.name for field in fields(Session))
LANE_COLUMNS = tuple(field.name for field in fields(Lane))
EDIT_COLUMNS = tuple(field.name for field in fields(Edit))
KNOWLEDGE_COLUMNS = tuple(field.name for field in fields(KnowledgeEntry))
SHOWN_COLUMNS = tuple(field.name for field in fields(ShownEntry))
BREAK_COLUMNS = tuple(field.name for field in fields(Break))
_PLAIN = tuple(field.name for field in fields(Call) if field.name != "usage")
_USAGE = ("input", "read", "output", "writes", "cost", "price_version")
CALL_COLUMNS = (*_PLAIN, *_USAGE, "written")
FIXED = ("session", "lane", "model", "started_at", "kind", "client")
"""What of a call does not change from its beginning to its end: the columns that its indexes are made of."""

_plain_part = attrgetter(*_PLAIN)
fixed_part = attrgetter(*FIXED)
_writes = msgspec.json.Decoder(tuple[tuple[str, int], ...])


def call_row(call: Call) -> list[Any]:
    usage = call.usage
    plain = _plain_part(call)
    if usage is None:
        return [*plain, None, None, None, None, None, None, None]
    if usage.cost is not None and not usage.cost.is_finite():
        # It could never be taken out of the sums of its hour again.
        raise HoldfastError(f"call {call.id} costs {usage.cost} dollars; give a number or leave the cost out")
    return [
        *plain,
        usage.input,
        usage.read,
        usage.output,
        msgspec.json.encode(usage.writes).decode(),
        None if usage.cost is None else str(usage.cost),
        usage.price_version,
        usage.written,
    ]


def read_usage(
    input_: int | None,
    read: int,
    output: int,
    writes: str,
    cost: str | None,
    price_version: str | None,
) -> Usage | None:
    if input_ is None:
        return None
    return Usage(
        input=input_,
        read=read,
        output=output,
        writes=_writes.decode(writes),
        cost=None if cost is None else Decimal(cost),
        price_version=price_version,
    )


def read_call(row: tuple[Any, ...]) -> Call:
    """A call from its `CALL_COLUMNS`."""
    size = len(_PLAIN)
    return Call(**dict(zip(_PLAIN, row, strict=False)), usage=read_usage(*row[size : size + len(_USAGE)]))


def break_row(break_: Break) -> list[Any]:
    values = [getattr(break_, name) for name in BREAK_COLUMNS]
    values[BREAK_COLUMNS.index("dollars")] = str(break_.dollars)
    return values


def read_break(row: tuple[Any, ...]) -> Break:
    values = dict(zip(BREAK_COLUMNS, row, strict=True))
    return Break(**{**values, "dollars": Decimal(values["dollars"])})


def read_row(kind: type[R], row: Sequence[Any]) -> R:
    """A value from the columns that are its fields, in their order."""
    return kind(**dict(zip(kind.__struct_fields__, row, strict=True)))


def names(columns: tuple[str, ...]) -> str:
    return ", ".join(f'"{name}"' for name in columns)


def upsert(table: str, columns: Sequence[str]) -> str:
    """The statement that inserts a row with tenant and id, or replaces it."""
    listed = ", ".join(f'"{name}"' for name in columns)
    updates = ", ".join(f'"{name}" = excluded."{name}"' for name in columns if name not in ("tenant", "id"))
    marks = ", ".join("?" * len(columns))
    return f"INSERT INTO {table} ({listed}) VALUES ({marks}) ON CONFLICT (tenant, id) DO UPDATE SET {updates}"


def checked(value: T, kind: type[T]) -> T:
    """The value, if it is what it claims to be; a wrong one is named now and not when it is read back."""
    try:
        msgspec.convert(msgspec.to_builtins(value, builtin_types=(bytes, Decimal)), kind)
    except msgspec.ValidationError as error:
        name = kind.__name__.lower()
        raise HoldfastError(f"this {name} cannot be stored: {error}; correct the value and write it again") from error
    return value
