"""Rows of tables to values and back: the one place that knows which column is which field."""

from __future__ import annotations

from decimal import Decimal
from operator import attrgetter
from typing import Any

import msgspec
from msgspec.structs import fields

from holdfast.records import Usage

from ..errors import HoldfastError
from .rows import Break, Call, Edit, KnowledgeEntry, Lane, Session, ShownEntry

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


def break_row(found: Break) -> list[Any]:
    values = [getattr(found, name) for name in BREAK_COLUMNS]
    values[BREAK_COLUMNS.index("dollars")] = str(found.dollars)
    return values


def read_break(row: tuple[Any, ...]) -> Break:
    values = dict(zip(BREAK_COLUMNS, row, strict=True))
    return Break(**{**values, "dollars": Decimal(values["dollars"])})


def names(columns: tuple[str, ...]) -> str:
    return ", ".join(f'"{name}"' for name in columns)
