"""The one interface of every store: what can be written, and what can be asked.

A store for another database implements `write`, `post`, `batch` and the questions; the operations that it carries out
are those of `operations`. Times are UTC microseconds, dollars are Decimal, a tenant's rows are never part of another's
answers. The promises that `tests/store` checks of every implementation:

- a write returns at once. Its future is resolved when the write is durable (it survives kill -9) or has failed. Who
  needs it to be durable waits; who does not may drop the future, and a failure is then still logged and counted;
- writes of one caller take effect in the order they were made, and each fails alone, unless the store as a whole is in
  trouble. Reads see everything whose future is resolved;
- sums (`call_hours`, `bill_sums`, `active_sessions`…) change in the transaction of the rows they sum.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

from holdfast.records.events import Envelope

from ..errors import HoldfastError
from .operations import Operation
from .rows import (
    BillExtent,
    BillQuestion,
    BillSums,
    Break,
    CacheEffectiveness,
    Call,
    CallHour,
    CallStatus,
    Edit,
    Injection,
    KnowledgeEntry,
    KnowledgeFilter,
    KnowledgeRevision,
    KnowledgeVector,
    Lane,
    Ledger,
    Pin,
    Pool,
    Pruned,
    Session,
    SessionActivity,
    ShownEntry,
    StoredEvent,
)

T = TypeVar("T")

ANY_KNOWLEDGE = KnowledgeFilter()


class VersionConflictError(HoldfastError):
    """A ledger, pool or entry was written by somebody else since it was read: read it again and decide again."""


class Writes(ABC):
    """Takes writes, one by one or as parts of a batch; they are those of `operations`."""

    @abstractmethod
    def write(self, operation: Operation[T]) -> Future[T]:
        """Carry out an operation soon, after all that were given before."""

    def post(self, operation: Operation[T]) -> None:
        """The same for a caller who wants no answer."""
        self.write(operation)


class Store(Writes):
    @property
    @abstractmethod
    def path(self) -> Path:
        """The file that everything is in."""

    @abstractmethod
    def batch(self) -> AbstractContextManager[Writes]:
        """Writes made inside are one: all of them become durable together, or none does."""

    @abstractmethod
    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything written so far is durable, or cannot be: then reads see it."""

    @abstractmethod
    def close(self) -> None:
        """Make all writes durable, then close the files."""

    @abstractmethod
    def trouble(self) -> Exception | None:
        """Why the last transaction could not be made; None if it could."""

    @abstractmethod
    def others(self) -> int | None:
        """A number that is the same as before only if no other process has written in between; None while that is not
        known. Who finds it unchanged need not read again what he has read."""

    # Sessions, lanes and their state

    @abstractmethod
    def session(self, tenant: str, id: str) -> Session | None: ...

    @abstractmethod
    def sessions(self, tenant: str | None = None, *, limit: int = 100) -> list[Session]:
        """The newest first."""

    @abstractmethod
    def account(self, name: str) -> str | None:
        """The tenant that `PutAccount` gave."""

    @abstractmethod
    def tenants(self) -> list[str]:
        """Return the names of all tenants with a session or with knowledge."""

    @abstractmethod
    def lane(self, tenant: str, id: str) -> Lane | None: ...

    @abstractmethod
    def lanes(self, tenant: str, session: str) -> list[Lane]:
        """In the order they began."""

    @abstractmethod
    def ledger(self, tenant: str, lane: str) -> Ledger | None: ...

    @abstractmethod
    def ledger_version(self, tenant: str, lane: str) -> int:
        """The version of the ledger alone, 0 where there is none."""

    @abstractmethod
    def pool(self, tenant: str, model: str) -> Pool | None: ...

    @abstractmethod
    def edits(self, tenant: str, lane: str) -> list[Edit]:
        """The lane's edits in the order they were recorded."""

    @abstractmethod
    def read_blob(self, tenant: str, digest: str) -> bytes:
        """The tenant's own blob, verified against its digest."""

    @abstractmethod
    def injection(self, tenant: str, lane: str) -> Injection | None: ...

    @abstractmethod
    def injected(self, tenant: str) -> bool:
        """Whether any lane of the tenant has an injection."""

    # Calls, breaks and events

    @abstractmethod
    def call(self, tenant: str | None, id: str) -> Call | None: ...

    @abstractmethod
    def calls(
        self,
        tenant: str | None = None,
        *,
        session: str | None = None,
        lane: str | None = None,
        model: str | None = None,
        start: int | None = None,
        end: int | None = None,
        limit: int = 1000,
    ) -> list[Call]:
        """Calls that started in [start, end), oldest first."""

    @abstractmethod
    def calls_by_status(self, status: CallStatus, *, limit: int = 1000) -> list[Call]:
        """Calls of all tenants, oldest first."""

    @abstractmethod
    def call_ids(self, prefix: str, tenant: str | None = None, *, limit: int = 10) -> list[tuple[str, str]]:
        """Tenant and id of the calls whose id begins like this: the whole id, then the newest first."""

    @abstractmethod
    def visit_calls(
        self,
        visit: Callable[[Call], None],
        tenant: str | None = None,
        *,
        session: str | None = None,
        start: int | None = None,
        end: int | None = None,
    ) -> None:
        """Show every call, by start, without plan, prediction and chain: any number of them, one at a time."""

    @abstractmethod
    def breaks(
        self,
        tenant: str | None = None,
        *,
        session: str | None = None,
        call: str | None = None,
        start: int | None = None,
        end: int | None = None,
        newest: bool = False,
        limit: int = 1000,
    ) -> list[Break]:
        """The oldest first, or the `newest`."""

    @abstractmethod
    def events(
        self, tenant: str, session: str, *, after: str | None = None, limit: int | None = None
    ) -> list[Envelope]:
        """A session's events in the order of their ids, from the one after `after`."""

    @abstractmethod
    def visit_events(
        self,
        visit: Callable[[StoredEvent], None],
        type: str,
        tenant: str | None = None,
        *,
        session: str | None = None,
        tool: str | None = None,
        start: int | None = None,
        end: int | None = None,
    ) -> None:
        """Show every event of a type, by time (of one session: in the order of their ids), any number of them, one at a
        time; with `tool` only those whose payload names that tool."""

    # Sums: quick over any number of calls

    @abstractmethod
    def active_sessions(
        self,
        tenant: str | None = None,
        *,
        prefix: str = "",
        start: int | None = None,
        end: int | None = None,
        limit: int = 100,
    ) -> list[SessionActivity]:
        """Sessions with a call in the window, the one used last first; one whose whole id is `prefix` before all."""

    @abstractmethod
    def active_tenants(self, *, events: bool = False) -> list[str]:
        """Whoever has calls, or with `events` calls or events, by name."""

    @abstractmethod
    def newest_hour(self, calls: int) -> int | None:
        """The hour from which on there are about so many calls with a usage, not more unless they are of one hour; None
        where there are none at all."""

    @abstractmethod
    def call_hours(self, start: int, end: int, tenant: str | None = None) -> list[CallHour]:
        """Sums of the hours that begin in the window."""

    @abstractmethod
    def event_counts(self, start: int, end: int, tenant: str | None = None) -> dict[str, int]:
        """How many events of each type are in the window, to the microsecond."""

    @abstractmethod
    def cache_effectiveness(self, start: int, end: int, tenant: str | None = None) -> CacheEffectiveness:
        """Calls that started in [start, end), per model and in total; None means every tenant."""

    @abstractmethod
    def bill_extent(self) -> BillExtent | None:
        """The hours that have sums for bills; None where an older version wrote the store, without such sums."""

    @abstractmethod
    def bill_sums(self, question: BillQuestion) -> BillSums:
        """What the stored calls of many sessions add up to, without a look at each."""

    @abstractmethod
    def repair_savings(
        self,
        tenant: str | None = None,
        *,
        session: str | None = None,
        start: int | None = None,
        end: int | None = None,
    ) -> tuple[Decimal, Decimal, Decimal]:
        """Return, for the calls with a known value, the dollars that repairs would have saved, the part for which
        unambiguous values are enough, and the calls' cost."""

    # Knowledge

    @abstractmethod
    def knowledge(self, tenant: str, id: str) -> KnowledgeEntry | None:
        """An entry by its id, also a forgotten one."""

    @abstractmethod
    def knowledge_entries(
        self,
        tenant: str,
        among: KnowledgeFilter = ANY_KNOWLEDGE,
        *,
        limit: int | None = None,
        surest: bool = False,
    ) -> list[KnowledgeEntry]:
        """Entries, by category, then title, then id; or the `surest` first, of those the latest, then by id."""

    @abstractmethod
    def find_knowledge(
        self, tenant: str, words: Sequence[str], among: KnowledgeFilter = ANY_KNOWLEDGE, *, limit: int = 50
    ) -> list[tuple[KnowledgeEntry, float]]:
        """Return the entries with any of these words and their scores, best first; a larger score is better. Words are
        matched literally; ties go by the id."""

    @abstractmethod
    def knowledge_history(self, tenant: str, id: str) -> list[KnowledgeRevision]:
        """All an entry has been, oldest first."""

    @abstractmethod
    def knowledge_version(self, tenant: str) -> int:
        """A number that changes with every change of the tenant's entries and vectors."""

    @abstractmethod
    def knowledge_vectors(self, tenant: str, model: str) -> list[KnowledgeVector]:
        """By the id."""

    @abstractmethod
    def unlearned_knowledge(self, tenant: str, model: str, *, limit: int | None = None) -> list[KnowledgeEntry]:
        """Entries that hold and have no vector of this model, by the id."""

    @abstractmethod
    def knowledge_revisions(self, tenant: str, among: KnowledgeFilter = ANY_KNOWLEDGE) -> list[tuple[str, int]]:
        """The ids of entries, each with its revision; in no order."""

    @abstractmethod
    def pin(self, tenant: str, key: str, *, now: int) -> Pin | None:
        """The text that is pinned under this key at that time."""

    @abstractmethod
    def shown(self, tenant: str, entry: str, *, limit: int = 100) -> list[ShownEntry]:
        """When an entry was put into prompts, the latest first."""

    @abstractmethod
    def shown_to(self, tenant: str, session: str, lane: str, *, until: int) -> list[ShownEntry]:
        """What a lane was shown up to that time, the earliest first."""

    # The store as a whole

    @abstractmethod
    def marks(self) -> dict[str, int]:
        """What `PutMark` wrote."""

    @abstractmethod
    def check(self, *, whole: bool = False) -> None:
        """Write something, read it back from the file, and raise if that cannot be done; `whole` reads every page."""

    @abstractmethod
    def prune(
        self,
        before: int,
        *,
        keep: Iterable[str] = (),
        keep_client: str | None = None,
        progress: Callable[[str, int], None] = lambda _what, _count: None,
    ) -> Pruned:
        """Delete what is older than the hour of `before`, in small steps; calls in progress and rollups stay. A lane is
        deleted with its last call, including ledger, edits, blobs and injections; a session with its last lane.
        Sessions in `keep` and those of the client `keep_client` stay. `progress` is called with a name and the count
        removed so far."""

    @abstractmethod
    def would_prune(self, before: int, *, keep: Iterable[str] = (), keep_client: str | None = None) -> Pruned:
        """What `prune` would delete; files of blobs are not counted."""

    @abstractmethod
    def give_back(self) -> None:
        """Return free space to the disk as far as that blocks no one."""
