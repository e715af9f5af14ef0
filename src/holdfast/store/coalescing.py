"""Writes of one value that can stand for each other: of those still queued only the latest is made.

A call, a ledger and what a tenant has learned are written several times within milliseconds. Each of these writes knows
how to follow an earlier one of the same value, and gives a result for every write that it stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from msgspec import Struct

from holdfast.records.events import Envelope

from . import writes
from .base import Merge
from .event_insert import event_rows
from .rows import Call, EventRow, LateCall
from .writer import Transaction

Told = Sequence[Envelope] | Callable[[], Sequence[EventRow]] | None


class PutCall(Struct, frozen=True, gc=False):
    """A call with the events told of it: those of all the writes that it stands for."""

    call: Call | LateCall
    told: tuple[Told, ...] = ()
    first: bool = False

    @property
    def key(self) -> tuple[str, ...]:
        return "call", self.call.tenant, self.call.id

    def after(self, earlier: Any) -> PutCall | None:
        return PutCall(self.call, earlier.told + self.told, earlier.first)

    def __call__(self, transaction: Transaction) -> None:
        call = self.call.call() if isinstance(self.call, LateCall) else self.call
        told: list[EventRow] = []
        for each in self.told:
            if each:
                told += each() if callable(each) else event_rows(each)
        if told:
            transaction.appended.add(call.tenant, told)
        writes.check(call, Call)
        writes.put_call(call, transaction, first=self.first)


class PutVersioned(Struct, frozen=True, gc=False):
    """A write that takes version `expected` to the next, for as many versions as it stands for."""

    table: Literal["ledgers", "pools"]
    column: Literal["lane", "model"]
    tenant: str
    name: str
    data: bytes
    expected: int
    merge: Merge | None
    count: int = 1

    @property
    def key(self) -> tuple[str, ...]:
        return self.table, self.tenant, self.name

    def after(self, earlier: Any) -> PutVersioned | None:
        """One write for both, if this one expects what the earlier one makes and both merges can be one."""
        expected, count = earlier.expected, earlier.count
        follow = getattr(self.merge, "after", None)
        if follow is None or earlier.merge is None or self.expected != expected + count:
            return None
        merge = follow(earlier.merge)
        if merge is None:
            return None
        return PutVersioned(
            self.table, self.column, self.tenant, self.name, self.data, expected, merge, count + self.count
        )

    def __call__(self, transaction: Transaction) -> list[int]:
        found = writes.put_versioned(
            self.table,
            self.column,
            self.tenant,
            self.name,
            self.data,
            self.expected,
            self.merge,
            transaction,
            steps=self.count,
        )
        if found == self.expected + self.count:
            return [*range(self.expected + 1, found + 1)]
        return [found] * self.count  # somebody else wrote in between: everybody is told the version that is there now
