"""Run as a program and killed by `test_crash`: writes everything a store can hold, says what was answered.

One line on stdout per answered write, after the answer: `KIND NUMBER`. The parent keeps what it could read.
"""

from __future__ import annotations

import sys
from concurrent.futures import Future
from decimal import Decimal
from pathlib import Path
from typing import Any

from holdfast.records.events import Envelope, Ulids
from holdfast.records.events.sessions import TurnCancelled
from holdfast.records.token_usage import Usage
from holdfast.store import Call, SqliteStore, open_store
from holdfast.store import operations as op

HOUR = 3_600_000_000


def main(path: Path, run: int) -> None:
    ids = Ulids()
    with open_store(path) as store:
        waiting: list[tuple[str, Future[Any]]] = []
        number = run * 1_000_000
        while True:
            waiting += start_writes(store, ids, number)
            number += 1
            # A few rounds ahead, so that a kill finds writes queued, being written and just committed.
            while len(waiting) > 12:
                name, answer = waiting.pop(0)
                answer.result()
                sys.stdout.write(f"{name}\n")
                sys.stdout.flush()


def start_writes(store: SqliteStore, ids: Ulids, number: int) -> list[tuple[str, Future[Any]]]:
    at = number * HOUR // 7
    usage = Usage(input=number % 97, read=3, writes=(("5m", number % 11 + 1),), output=1, cost=Decimal("0.0001"))
    pending = Call(tenant="t", id=f"c{number}", session="s", lane="l", model=f"m{number % 3}", started_at=at)
    settled = Call(
        tenant="t",
        id=f"c{number}",
        session="s",
        lane="l",
        model=f"m{number % 3}",
        started_at=at,
        status="settled",
        usage=usage,
    )
    events = [
        Envelope.of(TurnCancelled(open_tool_calls=number), id=ids.new(), at=at, session="s", actor="agent")
        for _ in range(20)
    ]
    store.write(op.PutCall(pending))
    writes = [
        (f"call {number}", store.write(op.PutCall(settled))),
        (f"events {number}", store.write(op.AppendEvents.of("t", events))),
    ]
    with store.batch() as batch:
        edit = batch.write(op.PutEdit("t", f"lane{number}", "block", b"bytes %d" % number, at=at))
        batch.write(op.PutLedger("t", f"lane{number}", b"%d" % number, expected=0))
    writes.append((f"edit {number}", edit))
    if number % 3 == 0:
        writes.append((f"ended {number}", store.write(op.EndLane("t", f"lane{number}", at))))
    return writes


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
