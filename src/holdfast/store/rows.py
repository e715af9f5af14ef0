"""The store's rows as frozen values. Times are UTC microseconds, money is Decimal dollars.

`plan`, `prediction`, `chain` and every `data` are bytes that the store does not read: only their writers know the
format. From `verdict` it reads what was saved, for the sums of bills.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from holdfast.records import BreakCause, ResetReason, Usage
from holdfast.records.events import Event

CallStatus = Literal["pending", "settled", "abandoned", "failed", "unknown"]
"""`unknown`: the process that carried it ended before the call did."""
OwnerKind = Literal["lane", "session"]

EventRow = tuple[str, str, int, str | None, str | None, str, str, str, bytes | Event]
"""An event made ready: session, id, time, turn, parent, type, actor, sensitivity, and its payload, encoded or not."""

SUBSCRIPTION = "s-"
"""How the tenants of subscriptions' logins begin: what they spend is not billed by the token."""


def is_subscription(tenant: str) -> bool:
    """Whether a tenant pays by subscription: its dollars are what the same tokens would cost at list price."""
    return tenant.startswith(SUBSCRIPTION)


class Session(Struct, frozen=True, kw_only=True):
    """The stored form of a session."""

    tenant: str
    id: str
    started_at: int
    client: str | None = None
    agent: str | None = None
    parent: str | None = None
    ended_at: int | None = None
    data: bytes | None = None


class Lane(Struct, frozen=True, kw_only=True):
    """The stored form of a lane. `parent` is the lane a sub-agent was started from."""

    tenant: str
    id: str
    session: str
    model: str
    started_at: int
    agent: str | None = None
    client: str | None = None
    parent: str | None = None
    ended_at: int | None = None
    data: bytes | None = None


class Ledger(Struct, frozen=True, kw_only=True):
    """The stored form of a lane's ledger."""

    tenant: str
    lane: str
    version: int
    data: bytes


class Pool(Struct, frozen=True, kw_only=True):
    """The stored form of a tenant's pool of one model."""

    tenant: str
    model: str
    version: int
    data: bytes


class Edit(Struct, frozen=True, kw_only=True):
    """The stored form of an edit: `block` is the identity of the block it replaces, `blob` its replacement bytes."""

    tenant: str
    lane: str
    block: str
    blob: str
    made_at: int
    data: bytes | None = None


class Call(Struct, frozen=True, kw_only=True):
    """The stored form of a call. It counts in the rollups, in the hour it started, once its usage is known: an
    estimate when its answer begins, and what was billed when it ends."""

    tenant: str
    id: str
    session: str
    lane: str
    model: str
    started_at: int
    status: CallStatus = "pending"
    kind: str = "request"
    client: str | None = None
    first_token_at: int | None = None
    ended_at: int | None = None
    usage: Usage | None = None
    reset: ResetReason | None = None
    error: str | None = None
    plan: bytes | None = None
    prediction: bytes | None = None
    verdict: bytes | None = None
    chain: bytes | None = None


class CallDraft(Struct, frozen=True, gc=False):
    """A call with large parts still as values: the writer encodes them, once for all pending writes of the call."""

    call: Call
    plan: Any = None
    """Becomes JSON."""
    prediction: Any = None
    """Becomes JSON."""
    chain: Sequence[Struct] | None = None
    """Becomes MessagePack, by `pack_records`."""

    @property
    def tenant(self) -> str:
        return self.call.tenant

    @property
    def id(self) -> str:
        return self.call.id

    def encoded(self) -> Call:
        return msgspec.structs.replace(
            self.call,
            plan=None if self.plan is None else _json.encode(self.plan),
            prediction=None if self.prediction is None else _json.encode(self.prediction),
            chain=None if self.chain is None else pack_records(self.chain),
        )


_json, _msgpack = msgspec.json.Encoder(), msgspec.msgpack.Encoder()


def pack_records(records: Sequence[Struct]) -> bytes:
    """Records without the names of their fields; one that equals the first is nil."""
    first = records[0]
    return _msgpack.encode([_unnamed(first), *[None if each == first else _unnamed(each) for each in records[1:]]])


def _unnamed(record: Struct) -> list[object]:
    return [
        [*map(astuple, value)] if type(value) is tuple and value and isinstance(value[0], Struct) else value
        for value in astuple(record)
    ]


class Break(Struct, frozen=True, kw_only=True):
    """A prefix that was not read as predicted: its cause, or the reason of a reset."""

    tenant: str
    id: str
    call: str
    session: str
    lane: str
    model: str
    at: int
    cause: BreakCause | None = None
    reason: ResetReason | None = None
    tokens: int = 0
    dollars: Decimal = Decimal(0)
    path: str | None = None
    offset: int | None = None
    owner: str | None = None
    cure: str | None = None
    data: bytes | None = None


class SessionActivity(Struct, frozen=True, kw_only=True):
    """A session that has calls, with the start of its first and of its last one, whatever the window."""

    tenant: str
    session: str
    first: int
    last: int


class StoredEvent(Struct, frozen=True, kw_only=True, gc=False):
    """An event with the JSON of its payload, which another version may have written."""

    tenant: str
    session: str
    at: int
    payload: bytes


class Owner(Struct, frozen=True):
    """Who keeps a blob alive: when its last owner goes, the blob goes."""

    kind: OwnerKind
    id: str


class Blob(Struct, frozen=True, kw_only=True):
    tenant: str
    digest: str
    size: int


class BillPart(NamedTuple):
    """The sum of answered calls that have everything here in common. `day` counts from 1970, in the zone asked for;
    `hour` is their first one. `size` is what their prompts are larger than; `priced`: they have a known cost.
    Of `estimated` calls a part of the usage is an estimate."""

    tenant: str
    session: str
    model: str
    client: str | None
    kind: str
    size: int
    priced: bool
    day: int
    hour: int
    calls: int
    input: int
    read: int
    written: int
    output: int
    cost: Decimal | None
    saved: Decimal | None
    estimated: int


class UnansweredCall(NamedTuple):
    """A call without usage; `possible` is the most that may have been billed for it."""

    tenant: str
    session: str
    model: str
    client: str | None
    kind: str
    started_at: int
    possible: Decimal | None


class BillExtent(NamedTuple):
    """Hours from `first` to `last`, and the models of their calls."""

    first: int
    last: int
    models: tuple[str, ...]


class BillQuestion(NamedTuple):
    """Sums for a bill: those of whole hours in `stretches` (from, to, microseconds the zone is ahead of UTC), without
    hours that lie in two days; by hour for the models in `hourly`, by prompt size for those in `sized`. Unanswered
    calls and calls that broke are of the whole window."""

    tenant: str | None
    start: int | None
    end: int | None
    stretches: tuple[tuple[int, int, int], ...]
    hourly: tuple[str, ...]
    sized: tuple[str, ...]


class GoneHour(NamedTuple):
    """The sums of an hour of calls that were pruned."""

    hour: int
    tenant: str
    model: str
    calls: int
    input: int
    read: int
    written: int
    output: int
    cost: Decimal


class BillSums(NamedTuple):
    """What the stored calls add up to, all of one state of the store."""

    parts: list[BillPart]
    unanswered: list[UnansweredCall]
    pending: list[Call]
    """Calls in progress with a partial usage."""
    gone: list[GoneHour]
    callers: dict[tuple[str, str], tuple[str | None, str]]
    """Client and kind of calls that broke, by tenant and id."""


class CallHour(Struct, frozen=True, kw_only=True):
    """Calls of one tenant and model that started in one hour; `hour` is its first microsecond."""

    hour: int
    tenant: str
    model: str
    calls: int
    input: int
    read: int
    writes: tuple[tuple[str, int], ...]
    output: int
    cost: Decimal


class Pruned(Struct, frozen=True, kw_only=True):
    """What retention removed; `before` is the whole hour it went up to."""

    before: int
    calls: int
    breaks: int
    events: int
    sessions: int
    lanes: int
    blobs: int


class ModelEffectiveness(Struct, frozen=True, kw_only=True):
    """`model` is None in the total. The rates are None when there was no prompt token at all."""

    model: str | None
    call_count: int
    uncached_tokens: int
    cached_tokens: int
    creation_tokens: int
    output_tokens: int
    cost: Decimal
    hit_rate: float | None
    cache_write_share: float | None


class CacheEffectiveness(Struct, frozen=True, kw_only=True):
    """`start` and `end` limit the time covered: a partial hour with pruned calls counts as a whole."""

    start: int
    end: int
    models: tuple[ModelEffectiveness, ...]
    total: ModelEffectiveness


class KnowledgeEntry(Struct, frozen=True, kw_only=True):
    """One piece of knowledge that outlives a session. `project` None: in every project. `hash` is that of title and
    content in their normal form: it changes with the meaning. A forgotten entry stays, with its history, and is never
    chosen."""

    tenant: str
    id: str
    category: str
    title: str
    content: str
    project: str | None = None
    confidence: float = 1.0
    source: str = ""
    created_at: int
    updated_at: int
    revision: int = 1
    hash: str = ""
    forgotten_at: int | None = None


class KnowledgeRevision(Struct, frozen=True, kw_only=True):
    """An entry as it was from `at` on, what was done to it then (add, edit, forget, restore, import), and by whom."""

    at: int
    operation: str
    by: str
    entry: KnowledgeEntry


Projects = Literal["both", "project", "cross", "all"]


class KnowledgeFilter(Struct, frozen=True, kw_only=True):
    """Which entries count. `projects`: those of this project and those of every project (`both`), one kind alone, or
    whatever project they belong to (`all`). Of categories, those to include win; an empty list is no filter."""

    project: str | None = None
    projects: Projects = "both"
    categories: tuple[str, ...] = ()
    exclude_categories: tuple[str, ...] = ()
    forgotten: bool = False
    """Forgotten ones too."""


class KnowledgeVector(Struct, frozen=True, kw_only=True):
    """What an entry of this revision means to a model, as little-endian float32."""

    id: str
    revision: int
    data: bytes


class Pin(Struct, frozen=True, kw_only=True):
    """A stable memory text that sessions begin with until `until`; `entries` are ids and hashes of what is in it."""

    tenant: str
    key: str
    text: str
    entries: tuple[tuple[str, str], ...] = ()
    made_at: int
    until: int


class ShownEntry(Struct, frozen=True, kw_only=True):
    """An entry was put into a prompt: when, whose, where (`stable`, `context`, `delta`, `recall`) and why."""

    entry: str
    revision: int
    at: int
    session: str
    lane: str = ""
    place: str
    why: str


class Injection(Struct, frozen=True, kw_only=True):
    """What was put into a lane's requests, in the format of its writer."""

    tenant: str
    lane: str
    version: int
    data: bytes
