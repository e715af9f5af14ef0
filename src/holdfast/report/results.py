"""The answers, as frozen values. See the package's docstring for times, dollars and windows."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from msgspec import Struct

from holdfast.core import TextChange
from holdfast.records import Usage


class TimeWindow(Struct, frozen=True):
    """From `start` up to but without `end`; None is open."""

    start: datetime | None
    end: datetime | None


class Sums(Struct, frozen=True, kw_only=True):
    """The sums of calls. `id` names what they have in common (a model, a session, a day…), None in a total.

    `unanswered` calls have no usage: they failed, were abandoned or are in progress; `possible` is what may have been
    billed at most for those abandoned before their answer began, beyond `cost`. `estimated` calls have a partly
    estimated usage: their answers were cut off, or are still arriving. `kinds` counts the calls other than ordinary
    requests: side, bypassed, ping. `unpriced` calls have a usage and no known price; they are not in `cost`, which is
    None if no call has one. `without_cache` is what the priced calls would have cost if every prompt token had been
    billed as plain input, and no ping sent; as paid where the price is no longer known. `saved` is what the client
    alone would have paid more, None if no call has it. Breaks are counted without resets, which have a reason;
    `break_cost` is None if none of them has a price. `missed` counts turns that bypassed us, and those of a
    conversation left without markers until then; `missed_cost` is what they cost more for that. `list_price` is the
    part of `cost` that is not billed: calls of a subscription's login at list price, None if there are none.
    """

    id: str | None = None
    calls: int = 0
    unanswered: int = 0
    estimated: int = 0
    possible: Decimal | None = None
    kinds: dict[str, int] = {}
    uncached_tokens: int = 0
    cached_tokens: int = 0
    creation_tokens: int = 0
    output_tokens: int = 0
    hit_rate: float | None = None
    cache_write_share: float | None = None
    cost: Decimal | None = None
    unpriced: int = 0
    without_cache: Decimal | None = None
    saved: Decimal | None = None
    breaks: int = 0
    break_tokens: int = 0
    break_cost: Decimal | None = None
    resets: int = 0
    reset_tokens: int = 0
    reset_cost: Decimal | None = None
    list_price: Decimal | None = None
    missed: int = 0
    missed_cost: Decimal | None = None

    @property
    def prompt_tokens(self) -> int:
        return self.uncached_tokens + self.cached_tokens + self.creation_tokens


class Effectiveness(Struct, frozen=True, kw_only=True):
    """How well a model's cache was used; `model` is None in the total. The rates are None without any prompt token.
    `list_price` is the part of `cost` that subscriptions paid for."""

    model: str | None
    call_count: int
    uncached_tokens: int
    cached_tokens: int
    creation_tokens: int
    output_tokens: int
    hit_rate: float | None
    cache_write_share: float | None
    cost: Decimal | None
    list_price: Decimal | None = None


class Effectivenesses(Struct, frozen=True, kw_only=True):
    """`window` is the time covered: an hour with pruned calls counts as a whole."""

    window: TimeWindow
    models: tuple[Effectiveness, ...]
    total: Effectiveness


class BreakReport(Struct, frozen=True, kw_only=True):
    """A break, or a reset if it has a reason. `offset` counts bytes of the body that was sent.

    `cure` is the name of the recognised cure, `advice` a sentence with what to do, `setting` the setting that does it.
    `subscription` if a subscription paid for the call: the dollars are at list price. `changes` are the differences in
    the block, if its report on disk was read; `masked` describes what they leave out.
    """

    id: str
    at: datetime
    cause: str | None
    reason: str | None
    tokens: int
    dollars: Decimal | None
    path: str | None
    offset: int | None
    owner: str | None
    cure: str | None
    advice: str | None
    setting: str | None
    call: str
    lane: str
    session: str
    tenant: str
    client: str | None
    model: str
    subscription: bool = False
    changes: tuple[TextChange, ...] = ()
    masked: str | None = None


class BreakReports(Struct, frozen=True, kw_only=True):
    """Newest first. `more` says that the limit left older ones out; `repairs` is what repairs would have saved of all
    calls that were asked about, None where that is not worth saying."""

    window: TimeWindow
    breaks: tuple[BreakReport, ...]
    more: bool = False
    repairs: RepairSavings | None = None


class PredictedUsage(Struct, frozen=True):
    """What a call was expected to read, write and be billed in full, in tokens."""

    read: int
    written: int
    input: int


class SentMarker(Struct, frozen=True):
    """A cache marker that went out; `path` is None where only the number of its block is still known."""

    path: str | None
    ttl: str
    block: int | None = None


class RepairReport(Struct, frozen=True, kw_only=True):
    """What was done to the request, or, if it is not `applied`, what would help."""

    name: str
    path: str
    why: str = ""
    saved_tokens: int = 0
    applied: bool = True


class RepairSavings(Struct, frozen=True, kw_only=True):
    """What repairs would have saved of what requests cost, and the command that switches on what is enough for it."""

    saves: Decimal
    cost: Decimal
    share: float
    command: str


class PlanReport(Struct, frozen=True, kw_only=True):
    strategy: str
    markers: tuple[SentMarker, ...] = ()
    edits: int = 0
    mode: str = ""
    reasons: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    repairs: tuple[RepairReport, ...] = ()


class CallEvent(Struct, frozen=True):
    """Something else that happened to a call: a warning before it, a bypass."""

    at: datetime
    type: str
    data: dict[str, object]


class CallReport(Struct, frozen=True, kw_only=True):
    """Everything known of one call. `why` says why one that was not planned was not; `subscription` that its dollars
    are at list price. `estimated`: a part of the usage is an estimate; `possible` is the most that may have been billed
    where nothing is known of it."""

    id: str
    tenant: str
    session: str
    lane: str
    client: str | None
    model: str
    kind: str
    status: str
    started: datetime
    first_token: datetime | None
    ended: datetime | None
    plan: PlanReport | None
    predicted: PredictedUsage | None
    usage: Usage | None
    estimated: bool = False
    possible: Decimal | None = None
    without_cache: Decimal | None
    explained: bool | None
    saved: Decimal | None
    reset: str | None
    breaks: tuple[BreakReport, ...] = ()
    events: tuple[CallEvent, ...] = ()
    error: str | None = None
    why: str | None = None
    subscription: bool = False


class LaneReport(Sums, frozen=True, kw_only=True):
    """One lane of a session: the sums of its calls, who it belongs to, and what it was started from."""

    model: str
    agent: str | None = None
    parent: str | None = None
    started: datetime
    last_call: datetime
    ended: datetime | None = None


class SessionSummary(Sums, frozen=True, kw_only=True):
    """A session and the sums of its calls in the window; `started` and `last_call` are its own, whatever the window."""

    tenant: str
    client: str | None
    started: datetime
    last_call: datetime
    models: tuple[str, ...]
    lanes: int


class SessionSums(Sums, frozen=True, kw_only=True):
    """A session on a bill: the same id may be known to several tenants."""

    tenant: str


class SessionReports(Struct, frozen=True, kw_only=True):
    """Sessions, the last used first. `more` if the limit left some out."""

    window: TimeWindow
    sessions: tuple[SessionSummary, ...]
    more: bool = False


class SessionReport(Struct, frozen=True, kw_only=True):
    """A session, its lanes, and its newest calls in the order they were made; `left_out` counts the older ones."""

    session: SessionSummary
    lanes: tuple[LaneReport, ...]
    calls: tuple[CallReport, ...]
    left_out: int = 0


class Bill(Struct, frozen=True, kw_only=True):
    """What was paid. `days` are oldest first, everything else the most expensive first.

    Calls that are no longer stored one by one count in the total, by model and by day; their session, client and kind
    are unknown (`id` None). `zone` is the zone in which days begin: "UTC", or "local" for this machine's time.
    `repairs` is what repairs would have saved, None if insignificant.
    """

    window: TimeWindow
    zone: str = "UTC"
    total: Sums
    models: tuple[Sums, ...]
    sessions: tuple[SessionSums, ...]
    clients: tuple[Sums, ...]
    days: tuple[Sums, ...]
    kinds: tuple[Sums, ...]
    repairs: RepairSavings | None = None


class SkillUsage(Struct, frozen=True, kw_only=True):
    """How often a skill was loaded; `skill` is None in the total. `loads` and their `tokens` are by reason: `always` is
    a body that stood in the prompt from the start, `on_demand` one that the agent asked for.

    `preloaded` counts sessions with that body in their prompt from the start, in the total all such bodies;
    `referenced` those of them that the agent asked for afterwards. `referenced_share` is None where none was preloaded.
    """

    skill: str | None
    loads: dict[str, int]
    tokens: dict[str, int]
    sessions: int
    preloaded: int
    referenced: int
    referenced_share: float | None
    last: datetime | None


class SkillUsages(Struct, frozen=True, kw_only=True):
    """The one that took most tokens first. `never_referenced` names those that were preloaded and never asked for."""

    window: TimeWindow
    skills: tuple[SkillUsage, ...]
    total: SkillUsage
    never_referenced: tuple[str, ...] = ()
