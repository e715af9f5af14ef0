"""A store that may fail: what cannot be read counts as not there, what cannot be written is lost, and nothing raises.

While it is down the engine goes on with what it has in memory and makes nothing that must not be sent before it is
durable (law 4). A store that could not be read is left alone for a while: a locked file must not hold up every request.
It is told once when it goes down and once when it is back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from time import monotonic
from typing import Any, ParamSpec, TypeVar

from holdfast.errors import HoldfastError
from holdfast.records.events import Envelope
from holdfast.store import Activity, Break, Call, Edit, Lane, LateCall, Ledger, Merge, Owner, Pool, Session, Store

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

LEFT_ALONE = 5.0
"""Seconds without reading after a read that failed."""


class Shelf:
    """The part of a store that the engine needs."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = monotonic) -> None:
        self._store, self._clock = store, clock
        self.others = store.others
        self._blind_until = 0.0
        self._late_until = 0.0
        self._blind = False
        self._troubled = False
        self._told = False

    def late(self, problem: Exception) -> None:
        """Something was waited for in vain: for a while nothing is asked of it that must be waited for."""
        self._late_until = self._clock() + LEFT_ALONE
        self._tell(problem)

    @property
    def down(self) -> bool:
        """Whether it cannot be read or written just now, as far as is known."""
        problem = self._store.trouble()
        if problem is None and not (self._troubled or self._blind or self._late_until or self._told):
            return False
        if problem is None and self._troubled:  # it could be written again: then it can be read too
            self._blind = False
        self._troubled = problem is not None
        blind = self._blind and self._clock() < self._blind_until
        if self._clock() < self._late_until:
            return True
        if problem is None and not self._blind:
            if self._told:
                self._told = False
                logger.warning("the store can be used again")
            return False
        if not self._told and problem is not None:
            self._tell(problem)
        return blind or problem is not None

    def _tell(self, problem: Exception) -> None:
        if not self._told:
            self._told = True
            logger.warning("%s. Until then nothing is kept and no new edits are made.", str(problem).rstrip("."))

    def _read(self, read: Callable[[], T], otherwise: T) -> T:
        if self._blind and self._clock() < self._blind_until:
            return otherwise
        try:
            found = read()
        except HoldfastError as error:
            self._blind, self._blind_until = True, self._clock() + LEFT_ALONE
            self._tell(error)
            return otherwise
        self._blind = False
        return found

    def _write(self, write: Callable[P, Future[T]], *values: P.args, **named: P.kwargs) -> Future[T]:
        try:
            return write(*values, **named)
        except HoldfastError as error:
            return self._lost(error)

    def _lost(self, error: HoldfastError) -> Future[Any]:
        self._tell(error)
        failed: Future[Any] = Future()
        failed.set_exception(error)
        return failed

    # Reading

    def ledger(self, tenant: str, lane: str) -> Ledger | None:
        return self._read(lambda: self._store.ledger(tenant, lane), None)

    def ledger_version(self, tenant: str, lane: str) -> int | None:
        """None where it cannot be told."""
        return self._read(lambda: self._store.ledger_version(tenant, lane), None)

    def has_session(self, tenant: str, session: str) -> bool:
        return self._read(lambda: self._store.session(tenant, session) is not None, True)

    def pool(self, tenant: str, model: str) -> Pool | None:
        return self._read(lambda: self._store.pool(tenant, model), None)

    def calls(self, tenant: str, *, model: str, start: int, limit: int) -> list[Call]:
        return self._read(lambda: self._store.calls(tenant, model=model, start=start, limit=limit), [])

    def recent(self, start: int, most: int) -> list[tuple[str, str]]:
        """Sessions with a call since then, by tenant and id, the one used last first."""
        nothing: list[Activity] = []
        found = self._read(lambda: self._store.active_sessions(start=start, limit=most), nothing)
        return [(each.tenant, each.session) for each in found]

    def lanes(self, tenant: str, session: str) -> list[Lane]:
        return self._read(lambda: self._store.lanes(tenant, session), [])

    def edits(self, tenant: str, lane: str) -> list[Edit]:
        return self._read(lambda: self._store.edits(tenant, lane), [])

    def read_blob(self, tenant: str, digest: str) -> bytes:
        """Raises where there is none; that one is lost says nothing of the store."""
        return self._store.read_blob(tenant, digest)

    # Writing

    def put_session(self, session: Session) -> Future[None]:
        return self._write(self._store.put_session, session)

    def put_lane(self, lane: Lane) -> Future[None]:
        return self._write(self._store.put_lane, lane)

    def end_lane(self, tenant: str, lane: str, at: int) -> Future[None]:
        return self._write(self._store.end_lane, tenant, lane, at)

    def put_ledger(self, tenant: str, lane: str, data: bytes, *, expected: int, merge: Merge | None) -> Future[int]:
        try:
            return self._store.put_ledger(tenant, lane, data, expected=expected, merge=merge)
        except HoldfastError as error:
            return self._lost(error)

    def put_pool(self, tenant: str, model: str, data: bytes, *, expected: int, merge: Merge) -> Future[int]:
        try:
            return self._store.put_pool(tenant, model, data, expected=expected, merge=merge)
        except HoldfastError as error:
            return self._lost(error)

    def put_edit(self, tenant: str, lane: str, block: str, replacement: bytes, *, at: int) -> Future[Edit]:
        return self._write(self._store.put_edit, tenant, lane, block, replacement, at=at)

    def put_blob(self, tenant: str, owner: Owner, data: bytes, *, at: int) -> Future[Any]:
        return self._write(self._store.put_blob, tenant, owner, data, at=at)

    def put_call(self, call: Call, told: Iterable[Envelope] = ()) -> Future[None]:
        return self._write(self._store.put_call, call, told)

    def end_pending(self, ended: Callable[[Call], Call]) -> Future[int]:
        return self._write(self._store.end_pending, ended)

    def leave_call(self, call: LateCall) -> None:
        try:
            self._store.leave_call(call)
        except HoldfastError as error:
            self._tell(error)

    def put_break(self, found: Break) -> Future[None]:
        return self._write(self._store.put_break, found)

    def append_events(self, tenant: str, envelopes: Iterable[Envelope]) -> Future[int]:
        return self._write(self._store.append_events, tenant, envelopes)
