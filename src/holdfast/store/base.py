"""The one interface of every store: what can be written, what can be asked.

A write returns at once with a future that is resolved when the write is durable (it survives kill -9). Who
needs that waits for it; who does not may drop it, and a failure is then still logged and counted; that a
version is another by now is only counted. Writes of one caller take effect in the order they were made. Reads see
everything whose future is resolved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from holdfast.records.events import Envelope

from ..errors import HoldfastError
from .queries import Looks
from .rows import (
    Blob,
    Break,
    CacheEffectiveness,
    Call,
    CallHour,
    CallStatus,
    Edit,
    EventHour,
    Injection,
    KnowledgeEntry,
    KnowledgeFilter,
    KnowledgeRevision,
    KnowledgeVector,
    Lane,
    LateCall,
    Ledger,
    Owner,
    Pin,
    Pool,
    Pruned,
    Session,
    ShownEntry,
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

    def put_account(self, name: str, tenant: str, *, at: int) -> Future[None]:
        """A login token's tenant, or what links two of them, belongs to the account that is known as this tenant."""
        ...

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

    def end_pending(self, ended: Callable[[Call], Call]) -> Future[int]:
        """Replace every pending call by what `ended` makes of it, and say how many. No call is taken that somebody
        else ends at the same time."""
        ...

    def put_break(self, found: Break) -> Future[None]: ...

    def put_blob(self, tenant: str, owner: Owner, data: bytes, *, at: int) -> Future[Blob]: ...

    def append_events(self, tenant: str, envelopes: Iterable[Envelope]) -> Future[int]:
        """Append them all or none; gives their number."""
        ...

    def put_knowledge(self, entry: KnowledgeEntry, *, expected: int, operation: str, by: str) -> Future[KnowledgeEntry]:
        """Write an entry over its revision `expected` (0: it is new); what it said before stays in its history. Gives
        it with its new revision. VersionConflictError if it has another one by now, or the id is taken."""
        ...

    def erase_knowledge(self, tenant: str, id: str) -> Future[bool]:
        """Remove an entry for good, with its history, its vector, all that says when it was shown, and the pinned
        texts that name it."""
        ...

    def put_vectors(self, tenant: str, model: str, vectors: Iterable[KnowledgeVector]) -> Future[int]:
        """What entries mean to `model`; one of another revision than the entry's is not kept."""
        ...

    def put_pin(self, pin: Pin) -> Future[Pin]:
        """Pin a text, unless one of its key holds at `made_at`: gives the one that counts."""
        ...

    def put_shown(
        self, tenant: str, entries: Iterable[tuple[str, str]], *, at: int, session: str, lane: str, place: str, why: str
    ) -> Future[int]:
        """Entries were put into a prompt, each with the hash of what was said (empty: that it was withdrawn). Noted is
        the latest revision that said so; those that are there no more are left out. Gives how many were noted."""
        ...

    def put_injection(self, tenant: str, lane: str, data: bytes, *, expected: int) -> Future[int]:
        """Replace version `expected` (0: there is none yet); gives the new one. VersionConflictError if it is not."""
        ...


class Store(Writes, Looks, Protocol):
    @property
    def path(self) -> Path:
        """The file that everything is in."""
        ...

    def check(self, *, whole: bool = False) -> None:
        """Write something, read it back from the file, and raise if that cannot be done; `whole` reads every page."""
        ...

    def put_mark(self, name: str, at: int) -> Future[None]:
        """When something happened to the store as a whole."""
        ...

    def marks(self) -> dict[str, int]: ...

    def batch(self) -> AbstractContextManager[Writes]:
        """Writes made inside are one: all of them become durable together, or none does."""
        ...

    def session(self, tenant: str, id: str) -> Session | None: ...

    def sessions(self, tenant: str | None = None, *, limit: int = 100) -> list[Session]: ...

    def account(self, name: str) -> str | None:
        """The tenant that `put_account` gave."""
        ...

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

    def knowledge(self, tenant: str, id: str) -> KnowledgeEntry | None:
        """An entry by its id, also a forgotten one."""
        ...

    def knowledge_entries(
        self, tenant: str, among: KnowledgeFilter = ..., *, limit: int | None = None, surest: bool = False
    ) -> list[KnowledgeEntry]:
        """Entries, by category, then title, then id; or the `surest` first, of those the latest, then by id."""
        ...

    def find_knowledge(
        self, tenant: str, words: Sequence[str], among: KnowledgeFilter = ..., *, limit: int = 50
    ) -> list[tuple[KnowledgeEntry, float]]:
        """The entries that say any of these words, best first: with their scores, larger is better. Words are looked
        for as they are, whatever stands in them; ties go by the id."""
        ...

    def knowledge_history(self, tenant: str, id: str) -> list[KnowledgeRevision]:
        """All an entry has been, oldest first."""
        ...

    def knowledge_version(self, tenant: str) -> int:
        """A number that changes with every change of the tenant's entries and vectors."""
        ...

    def knowledge_vectors(self, tenant: str, model: str) -> list[KnowledgeVector]: ...

    def unlearned_knowledge(self, tenant: str, model: str, *, limit: int | None = None) -> list[KnowledgeEntry]:
        """Entries that hold and have no vector of this model, by the id."""
        ...

    def knowledge_revisions(self, tenant: str, among: KnowledgeFilter = ...) -> list[tuple[str, int]]:
        """The ids of entries, each with its revision; in no order."""
        ...

    def pin(self, tenant: str, key: str, *, now: int) -> Pin | None:
        """The text that is pinned under this key at that time."""
        ...

    def shown(self, tenant: str, entry: str, *, limit: int = 100) -> list[ShownEntry]:
        """When an entry was put into prompts, the latest first."""
        ...

    def shown_to(self, tenant: str, session: str, lane: str, *, until: int) -> list[ShownEntry]:
        """What a lane was shown up to that time, the earliest first."""
        ...

    def injection(self, tenant: str, lane: str) -> Injection | None: ...

    def injected(self, tenant: str) -> bool:
        """Whether any lane of the tenant has an injection."""
        ...

    def tenants(self) -> list[str]:
        """Whoever has a session or knows something, by name."""
        ...

    def call_hours(self, start: int, end: int, tenant: str | None = None) -> list[CallHour]:
        """Rollups of the hours that begin in the window."""
        ...

    def event_hours(self, start: int, end: int, tenant: str | None = None) -> list[EventHour]: ...

    def cache_effectiveness(self, start: int, end: int, tenant: str | None = None) -> CacheEffectiveness:
        """Calls that started in [start, end), per model and in total; None means every tenant."""
        ...

    def event_counts(self, start: int, end: int, tenant: str | None = None) -> dict[str, int]: ...

    def prune(
        self,
        before: int,
        *,
        keep: Iterable[str] = (),
        keep_client: str | None = None,
        progress: Callable[[str, int], None] = ...,
    ) -> Pruned:
        """Delete what is older than the hour of `before`, in small steps; calls under way and rollups stay. With its
        last call a lane goes, with ledger, edits, blobs and what was injected into it; with its last lane a session.
        Not touched are the sessions to `keep` and those of the client `keep_client`. `progress` hears what was removed
        so far of what."""
        ...

    def would_prune(self, before: int, *, keep: Iterable[str] = (), keep_client: str | None = None) -> Pruned:
        """What `prune` would delete; files of blobs are not counted."""
        ...

    def give_back(self) -> None:
        """Give the room of what was deleted back to the disk, as far as that holds nobody up."""
        ...

    def close(self) -> None:
        """Make everything durable that was written, then let go of the files."""
        ...
