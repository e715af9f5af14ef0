"""What can be written, as data: one frozen record for each kind of write, with its arguments.

A store carries them out in the order they were given, several in one transaction. Of those of one value that wait
together only the last need be made: `combine` makes one operation of two, without looking into the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Generic, Literal, TypeVar

from msgspec import Struct

from holdfast.records.events import Envelope, encode_payload

from .rows import (
    Blob,
    Break,
    Call,
    CallDraft,
    Edit,
    EventRow,
    KnowledgeEntry,
    KnowledgeVector,
    Lane,
    Owner,
    Pin,
    Session,
)

T = TypeVar("T")

OnConflict = Literal["refuse", "keep", "replace"]
"""What a write of a version does if another version is stored: fail with VersionConflictError; leave it, under a
version that nothing expects; replace it."""


class Operation(Struct, Generic[T], frozen=True):
    """One write; `T` is the type of its result."""

    independent: ClassVar[bool] = True
    """Whether it writes no row of an operation with a key, so that those may be combined across it."""

    @property
    def rows(self) -> int:
        """About how many rows it writes."""
        return 1

    @property
    def key(self) -> tuple[str, ...] | None:
        """The name of the one value that it writes; None if it cannot be combined with others."""
        return None

    def combine(self, earlier: Any) -> Operation[T] | None:
        """Return one operation for `earlier`, of the same key, and this one; None if both have to stay."""
        return None

    def results(self, result: Any, count: int) -> list[Any]:
        """Return the result of each of the `count` operations combined in this one."""
        return [result] * count


class Commit(Operation[None], frozen=True):
    """Nothing; done when everything before is durable."""


class PutSession(Operation[None], frozen=True):
    """Inserts a session, or replaces it as a whole."""

    session: Session


class PutAccount(Operation[None], frozen=True):
    """A login token's tenant, or what links two of them, belongs to the account that is known as this tenant."""

    name: str
    tenant: str
    at: int


class PutLane(Operation[None], frozen=True):
    """Inserts a lane, or replaces it as a whole."""

    lane: Lane


class EndLane(Operation[None], frozen=True):
    """Marks the lane ended and drops its ledger, edits and blobs; its calls and breaks stay."""

    independent = False

    tenant: str
    lane: str
    at: int


class DeleteSession(Operation[None], frozen=True):
    """Removes a session with all its lanes, calls, breaks, events and blobs; rollups of hours stay."""

    independent = False

    tenant: str
    session: str


class PutVersion(Operation[int], frozen=True, gc=False):
    """Takes a value from version `expected` (0: there is none) to the next, or as many on as operations it stands
    for; gives the version that is stored then, `expected + 1` unless it was another one before."""

    tenant: str
    name: str
    data: bytes
    expected: int
    on_conflict: OnConflict = "refuse"
    count: int = 1

    @property
    def key(self) -> tuple[str, ...]:
        return type(self).__name__, self.tenant, self.name

    def combine(self, earlier: Any) -> PutVersion | None:
        if self.on_conflict != earlier.on_conflict or self.expected != earlier.expected + earlier.count:
            return None
        count = earlier.count + self.count
        return type(self)(self.tenant, self.name, self.data, earlier.expected, self.on_conflict, count)

    def results(self, result: int, count: int) -> list[int]:
        if result == self.expected + count:
            return [*range(self.expected + 1, result + 1)]
        return [result] * count  # somebody else wrote in between: everybody gets the version that is there now


class PutLedger(PutVersion, frozen=True, gc=False):
    """The ledger of the lane `name`."""


class PutPool(PutVersion, frozen=True, gc=False):
    """The pool of the model `name`."""


class PutInjection(PutVersion, frozen=True, gc=False):
    """Store what was injected into the lane `name`."""


class PutEdit(Operation[Edit], frozen=True):
    """Records an edit once. The same bytes again change nothing; other bytes are refused."""

    tenant: str
    lane: str
    block: str
    replacement: bytes
    at: int
    data: bytes | None = None


class PutBlob(Operation[Blob], frozen=True):
    """Stores bytes under their digest, as long as one of their owners is there."""

    tenant: str
    owner: Owner
    data: bytes
    at: int


class PutCall(Operation[None], frozen=True, gc=False):
    """Inserts a call with its events, or replaces it as a whole. `first` says that nothing of it was written before:
    that saves a look, and may be wrong."""

    call: Call | CallDraft
    events: tuple[EventRow, ...] = ()
    first: bool = False

    @property
    def key(self) -> tuple[str, ...]:
        return "PutCall", self.call.tenant, self.call.id

    def combine(self, earlier: Any) -> PutCall:
        return PutCall(self.call, earlier.events + self.events, earlier.first)


class EndCalls(Operation[int], frozen=True):
    """Replaces calls, each only if it is still pending and its answer has not begun since: gives how many."""

    independent = False

    calls: Sequence[Call]

    @property
    def rows(self) -> int:
        return len(self.calls)


class PutBreak(Operation[None], frozen=True):
    break_: Break


class AppendEvents(Operation[int], frozen=True):
    """Appends all events or none; gives their number."""

    tenant: str
    events: tuple[EventRow, ...]

    @classmethod
    def of(cls, tenant: str, envelopes: Iterable[Envelope]) -> AppendEvents:
        return cls(tenant, event_rows(envelopes))

    @property
    def rows(self) -> int:
        return len(self.events)


class PutMark(Operation[None], frozen=True):
    """When something happened to the store as a whole; the latest counts."""

    name: str
    at: int


class PutKnowledge(Operation[KnowledgeEntry], frozen=True):
    """Writes an entry over its revision `expected` (0: it is new); what it said before stays in its history. Gives it
    with its new revision. VersionConflictError if it has another one by now, or the id is taken."""

    entry: KnowledgeEntry
    expected: int
    operation: str
    by: str


class EraseKnowledge(Operation[bool], frozen=True):
    """Removes an entry for good, with its history, its vector, all that says when it was shown, and the pinned texts
    that name it."""

    tenant: str
    id: str


class PutVectors(Operation[int], frozen=True):
    """What entries mean to `model`; one of another revision than the entry's is left out. Gives how many count."""

    tenant: str
    model: str
    vectors: Sequence[KnowledgeVector]

    @property
    def rows(self) -> int:
        return len(self.vectors)


class PutPin(Operation[Pin], frozen=True):
    """Pins a text, unless one of its key holds at `made_at`: gives the one that counts."""

    pin: Pin


class PutShown(Operation[int], frozen=True):
    """Record entries put into a prompt, by id, each with its content hash (empty: withdrawn). The latest revision with
    that hash is recorded; deleted entries are left out. Returns the number recorded."""

    tenant: str
    entries: Sequence[tuple[str, str]]
    at: int
    session: str
    lane: str
    place: str
    why: str

    @property
    def rows(self) -> int:
        return len(self.entries)


def event_rows(envelopes: Iterable[Envelope], *, encode: bool = True) -> tuple[EventRow, ...]:
    """Return events as rows; payloads are encoded now, so that the caller gets the errors, or when they are written."""
    return tuple(
        [
            (
                event.session,
                event.id,
                event.at,
                event.turn,
                event.parent,
                event.payload.type,
                event.actor,
                event.sensitivity,
                encode_payload(event.payload) if encode else event.payload,
            )
            for event in envelopes
        ]
    )
