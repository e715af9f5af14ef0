"""Values the store tests share, and a hand on the writer thread."""

from __future__ import annotations

import threading
from decimal import Decimal
from typing import Any

from holdfast.records.events import Envelope, Ulids
from holdfast.records.events.sessions import TurnCancelled, TurnStarted
from holdfast.records.token_usage import Usage
from holdfast.store import Break, Call, Lane, Operation, Session, SqliteStore
from holdfast.store.sqlite.store import EXECUTORS

HOUR = 3_600_000_000
NOON = 1_780_012_800_000_000 // HOUR * HOUR
ids = Ulids()


def call(**more: Any) -> Call:
    values: dict[str, Any] = {
        "tenant": "t1",
        "id": ids.new(),
        "session": "s1",
        "lane": "l1",
        "model": "anthropic:opus",
        "started_at": NOON,
        "status": "settled",
        "usage": usage(),
    }
    return Call(**{**values, **more})


def usage(input: int = 10, read: int = 60, w5: int = 20, w1: int = 10, cost: str | None = "0.1") -> Usage:
    writes = tuple((ttl, tokens) for ttl, tokens in (("1h", w1), ("5m", w5)) if tokens)
    dollars = None if cost is None else Decimal(cost)
    return Usage(input=input, read=read, writes=writes, output=5, cost=dollars, price_version="v1")


def session(**more: Any) -> Session:
    return Session(**{"tenant": "t1", "id": "s1", "started_at": NOON, **more})


def lane(**more: Any) -> Lane:
    values = {"tenant": "t1", "id": "l1", "session": "s1", "model": "anthropic:opus", "started_at": NOON}
    return Lane(**{**values, **more})


def found(**more: Any) -> Break:
    values = {"tenant": "t1", "id": ids.new(), "call": "c1", "session": "s1", "lane": "l1", "model": "m", "at": NOON}
    return Break(**{**values, **more})


def event(number: int = 0, *, at: int = NOON, session: str = "s1", private: bool = False) -> Envelope:
    payload = TurnStarted(text=f"text {number}") if private else TurnCancelled(open_tool_calls=number)
    return Envelope.of(payload, id=ids.new(), at=at, session=session, actor="agent", turn="turn-1")


class Wait(Operation[None], frozen=True):
    """An operation that keeps the writer thread busy until it is let go."""

    independent = False

    entered: threading.Event
    go: threading.Event


def _wait(_transaction: object, operation: Wait) -> None:
    operation.entered.set()
    operation.go.wait(30)


EXECUTORS[Wait] = _wait


class Hold:
    """Keeps the writer thread of a store busy until `go` is set."""

    def __init__(self, store: SqliteStore) -> None:
        self.entered, self.go = threading.Event(), threading.Event()
        self.answer = store.write(Wait(self.entered, self.go))
        assert self.entered.wait(30)


def queued(store: SqliteStore) -> int:
    """How many writes wait, those of one value combined."""
    return store.writer.combine()
