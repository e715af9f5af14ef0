"""The one interface of every store: what can be written, what can be asked.

A write returns at once with a future that is resolved when the write is durable (it survives kill -9). Who
needs that waits for it; who does not may drop it, and a failure is then still logged and counted. Writes of
one caller take effect in the order they were made. Reads see everything whose future is resolved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Protocol

from ..errors import HoldfastError
from ..events import Envelope
from .looking import Looks
from .rows import (
    Blob,
    Break,
    CacheEffectiveness,
    Call,
    CallHour,
    CallStatus,
    Edit,
    EventHour,
    Lane,
    LateCall,
    Ledger,
    Owner,
    Pool,
    Pruned,
    Session,
)


class VersionConflictError(HoldfastError):
    """A ledger or pool was written by somebody else since it was read: read it again and decide again."""


Merge = Callable[[bytes], bytes]
"""Makes, of what somebody else wrote, what is to be stored. Runs inside the transaction, so it must be quick.

One that has a method `after(earlier)` can stand for an earlier one of the same value whose bytes were never stored: it
gives the merge of both, or None. Then of two writes that are still queued only the later is made.
"""


class Writes(Protocol):
    """Writes, alone or as parts of a batch."""

    def put_session(self, session: Session) -> Future[None]: ...

    def put_lane(self, lane: Lane) -> Future[None]: ...

    def end_lane(self, tenant: str, lane: str, at: int) -> Future[None]:
        """Mark the lane ended and drop its ledger, edits and blobs; its calls and breaks stay."""
        ...

    def delete_session(self, tenant: str, session: str) -> Future[None]:
        """Remove a session with all its lanes, calls, breaks, events and blobs; rollups stay."""
        ...

    def put_ledger(
        self, tenant: str, lane: str, data: bytes, *, expected: int, merge: Merge | None = None
    ) -> Future[int]:
        """Replace version `expected` (0: there is none yet; below 0: nobody knows); gives the new one.

        If it is another by now: `merge` makes of it what is stored instead. Without one, or if there is none any more,
        VersionConflictError.
        """
        ...

    def put_pool(
        self, tenant: str, model: str, data: bytes, *, expected: int, merge: Merge | None = None
    ) -> Future[int]: ...

    def put_edit(
        self, tenant: str, lane: str, block: str, replacement: bytes, *, at: int, data: bytes | None = None
    ) -> Future[Edit]:
        """Record an edit once. The same bytes again change nothing; other bytes are refused."""
        ...

    def put_call(self, call: Call, told: Iterable[Envelope] = ()) -> Future[None]:
        """Insert the call, or replace it as a whole, with the events that are `told` of it."""
        ...

    def leave_call(self, call: LateCall) -> None:
        """The same for a call that is made when it is written, and that nobody waits for."""
        ...

    def put_break(self, found: Break) -> Future[None]: ...

    def put_blob(self, tenant: str, owner: Owner, data: bytes, *, at: int) -> Future[Blob]: ...

    def append_events(self, tenant: str, envelopes: Iterable[Envelope]) -> Future[int]:
        """Append them all or none; gives their number."""
        ...


class Store(Writes, Looks, Protocol):
    def batch(self) -> AbstractContextManager[Writes]:
        """Writes made inside are one: all of them become durable together, or none does."""
        ...

    def session(self, tenant: str, id: str) -> Session | None: ...

    def sessions(self, tenant: str | None = None, *, limit: int = 100) -> list[Session]: ...

    def lane(self, tenant: str, id: str) -> Lane | None: ...

    def lanes(self, tenant: str, session: str) -> list[Lane]: ...

    def ledger(self, tenant: str, lane: str) -> Ledger | None: ...

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything written so far is durable, or cannot be: then reads see it."""
        ...

    def trouble(self) -> Exception | None:
        """Why the last transaction could not be made; None if it could."""
        ...

    def others(self) -> int | None:
        """A number that is the same as before only if no other process has written in between; None while that is not
        known. Who finds it unchanged need not read again what he has read."""
        ...

    def ledger_version(self, tenant: str, lane: str) -> int:
        """The version of the ledger alone, 0 where there is none."""
        ...

    def pool(self, tenant: str, model: str) -> Pool | None: ...

    def edits(self, tenant: str, lane: str) -> list[Edit]:
        """The lane's edits in the order they were recorded."""
        ...

    def call(self, tenant: str | None, id: str) -> Call | None: ...

    def calls(
        self,
        tenant: str | None = None,
        *,
        session: str | None = None,
        lane: str | None = None,
        model: str | None = None,
        status: CallStatus | None = None,
        start: int | None = None,
        end: int | None = None,
        limit: int = 1000,
    ) -> list[Call]:
        """Calls by start, oldest first."""
        ...

    def breaks(
        self,
        tenant: str | None = None,
        *,
        session: str | None = None,
        lane: str | None = None,
        call: str | None = None,
        start: int | None = None,
        end: int | None = None,
        limit: int = 1000,
    ) -> list[Break]: ...

    def events(
        self, tenant: str, session: str, *, after: str | None = None, limit: int | None = None
    ) -> list[Envelope]:
        """A session's events in the order of their ids, from the one after `after`."""
        ...

    def read_blob(self, tenant: str, digest: str) -> bytes:
        """The tenant's own blob, verified against its digest."""
        ...

    def call_hours(self, start: int, end: int, tenant: str | None = None) -> list[CallHour]:
        """Rollups of the hours that begin in the window."""
        ...

    def event_hours(self, start: int, end: int, tenant: str | None = None) -> list[EventHour]: ...

    def cache_effectiveness(self, start: int, end: int, tenant: str | None = None) -> CacheEffectiveness:
        """Calls that started in [start, end), per model and in total; None means every tenant."""
        ...

    def event_counts(self, start: int, end: int, tenant: str | None = None) -> dict[str, int]: ...

    def prune(self, before: int) -> Pruned:
        """Delete what is older than the hour of `before`, in small steps; pending calls and rollups stay."""
        ...

    def close(self) -> None:
        """Make everything durable that was written, then let go of the files."""
        ...
