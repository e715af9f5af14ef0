"""Sessions while their logs are read: counts, money, the lanes used last and the dearest of their breaks; in which of
them a record is counted, or in none, because another log had it already.

A log may have very many sessions, so one has room for what most never have only once it is there.

Clients name their sessions with ids that no other has, and their readers give a copied request once. In other logs a
name may be anybody's, and files are copied and cut into pieces. There a request that another file had is not counted
again; a session goes on in another file if that is later on the same clock, and a lane of it is compared across the
files only if it reads all that it had covered. Otherwise it is another session of that name.
"""

from __future__ import annotations

import heapq
from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.facts import Rates
from holdfast.lru import LRU
from holdfast.records import Usage

from ..logs.conversations import RecentHashes
from ..logs.records import LoggedRequest
from . import advice
from .advice import SENTENCES, kind, others
from .lanes import LaneUsage, lost_by_provider
from .prices import ZERO, LostTokens, TokenBill, UnmarkedRequests, moneys, plus
from .results import BreakFinding, CureSum, HeadFinding, Money, TokenSums

MOST_BREAKS = 1_000
"""Breaks that are kept of one session: the dearest; the others are counted."""

Why = tuple[str | None, str | None]
"""A cause and a reset, of which one is None."""


class BreakTally:
    """Breaks of one kind."""

    __slots__ = ("breaks", "cost", "tokens")

    def __init__(self) -> None:
        self.breaks = self.tokens = 0
        self.cost: Decimal | None = None

    def add(self, breaks: int, tokens: int, cost: Decimal | None) -> None:
        self.breaks += breaks
        self.tokens += tokens
        self.cost = plus(self.cost, cost)


class CureTally(BreakTally):
    """The breaks with one cure, and its advice for the most expensive of them. `told` has the most expensive sentences
    about different subjects, with their costs."""

    __slots__ = ("advice", "dearest", "requests", "setting", "told")

    def __init__(self) -> None:
        super().__init__()
        self.requests = 0
        self.advice = ""
        self.setting: str | None = None
        self.dearest = Decimal(-1)
        self.told: dict[str, tuple[Decimal, str]] = {}

    def read_as(self, advice: str, setting: str | None, cost: Decimal) -> None:
        if cost > self.dearest:
            self.advice, self.setting, self.dearest = advice, setting, cost
        self._tell(advice, cost)

    def read_like(self, other: CureTally) -> None:
        """The same cure of another session."""
        self.read_as(other.advice, other.setting, other.dearest)
        for cost, sentence in other.told.values():
            self._tell(sentence, cost)

    def _tell(self, advice: str, cost: Decimal) -> None:
        advice_kind = kind(advice)
        counted_before = self.told.get(advice_kind)
        if counted_before is None or cost > counted_before[0]:
            self.told[advice_kind] = cost, advice
        if len(self.told) > SENTENCES:
            del self.told[min(self.told, key=lambda each: self.told[each][0])]

    def result(self, name: str) -> CureSum:
        return CureSum(
            cure=name,
            advice=self.advice,
            also=others(self.advice, (advice for _, advice in sorted(self.told.values(), reverse=True))),
            setting=self.setting,
            breaks=self.breaks,
            saves_usd=self.cost,
            requests=self.requests,
        )


class SessionBreaks:
    """What broke in a session."""

    __slots__ = ("causes", "cures", "kept", "left_out", "lost")

    def __init__(self) -> None:
        self.lost = LostTokens()
        self.causes: dict[Why, BreakTally] = {}
        self.cures: dict[str, CureTally] = {}
        self.kept: list[tuple[Decimal, int, int, BreakFinding]] = []
        self.left_out = 0

    def add(self, break_: BreakFinding) -> None:
        why = (break_.cause, break_.reset)
        self.causes.setdefault(why, BreakTally()).add(1, break_.tokens_lost, break_.cost_usd)
        if break_.reset is None and break_.cure is not None:
            cured = self.cures.setdefault(break_.cure, CureTally())
            cured.add(1, break_.tokens_lost, break_.cost_usd)
            cured.read_as(break_.advice or "", break_.setting, break_.cost_usd or ZERO)
        entry = (break_.cost_usd or ZERO, break_.tokens_lost, -break_.request, break_)
        if len(self.kept) < MOST_BREAKS:
            heapq.heappush(self.kept, entry)
        else:
            heapq.heappushpop(self.kept, entry)
            self.left_out += 1

    def listed(self) -> list[BreakFinding]:
        """Those that were kept, in their order."""
        return sorted((entry[3] for entry in self.kept), key=lambda break_: break_.request)


NOTHING = SessionBreaks()
"""Of a session in which nothing broke; never added to."""


MOST_LANES = 1_024
"""Lanes tracked per session, the last used ones. One used again after more others begins anew."""

LaneKey = tuple[str, str]
"""Agent and model."""


class SessionTally:
    __slots__ = (
        *("_model", "_requests", "_unmarked", "bills", "billed", "broken", "client", "clock", "compactions", "cut"),
        *("ended", "estimated"),
        *("file", "head", "key", "lanes", "latest", "latest_at", "name", "number", "numbered", "origin", "requests"),
        *("source", "started", "subscription", "turns", "unmarked"),
    )

    def __init__(
        self, name: str, client: str, source: str, origin: str, file: str = "", *, key: str = "", number: int = 0
    ) -> None:
        self.name, self.client, self.source, self.origin, self.file = name, client, source, origin, file
        self.key, self.number = key or name, number  # `key` differs from that of all others; names may not
        self.latest = 0  # what the last request is known again by
        self.latest_at: float | None = None
        self.numbered = 0  # requests of the log, whether they are counted or not
        self.requests = 0
        self.cut = 0  # of them, those whose usage is in part an estimate
        self.turns = self.compactions = 0  # of the user's, as far as the log tells
        self._model = ""  # the first, which most often is the only one
        self._requests: dict[str, int] | None = None  # by model, where there are more
        self.started: float | None = None
        self.ended: float | None = None
        self.billed = self.subscription = False
        self.clock = 0.0
        self.begin_again()

    def begin_again(self) -> None:
        """Reset all estimates, which are not needed once the provider's usage is known."""
        self.lanes: LRU[LaneKey, LaneUsage] = LRU(MOST_LANES, on_evict=self._ended)
        self.bills: list[TokenBill] = []
        self.estimated = False
        self.broken = NOTHING
        self.head: HeadFinding | None = None
        self.unmarked: UnmarkedRequests | None = None  # of lanes that are over
        self._unmarked: dict[LaneKey, UnmarkedRequests] | None = None

    def later(self, at: float | None) -> bool:
        """Whether a request comes after all before it, on one clock with them."""
        return at is not None and self.latest_at is not None and at >= self.latest_at

    def goes_on(self, file: str) -> None:
        """Another file repeats all that was read of it: what follows there belongs to the same lanes."""
        self.file = file
        for lane in self.lanes.values():
            lane.file = file

    def counted(self, model: str, at: float | None) -> None:
        """One more request."""
        if self._requests is not None:
            self._requests[model] = self._requests.get(model, 0) + 1
        elif not self.requests:
            self._model = model
        elif model != self._model:
            self._requests = {self._model: self.requests, model: 1}
        self.requests += 1
        if at is not None:
            self.started = at if self.started is None or at < self.started else self.started
            self.ended = at if self.ended is None or at > self.ended else self.ended

    def models(self) -> list[str]:
        """Those with the most requests first."""
        counts = self._requests
        return [self._model] if counts is None else sorted(counts, key=lambda name: -counts[name])

    def bill(self, rates: Rates | None, sells: bool) -> TokenBill:
        """The bill of these rates."""
        for bill in self.bills:
            if bill.rates is rates and bill.sells is sells:
                return bill
        self.bills.append(bill := TokenBill(rates, sells))
        return bill

    def tokens(self) -> TokenSums:
        bills = self.bills
        return TokenSums(
            input=sum(bill.input for bill in bills),
            read=sum(bill.read for bill in bills),
            write_5m=sum(bill.short for bill in bills),
            write_1h=sum(bill.long for bill in bills),
            write_other=sum(bill.other for bill in bills),
            output=sum(bill.output for bill in bills),
        )

    def money(self) -> Money:
        """Return the parts of the cost, which add up to the bill."""
        parts = [bill.money() for bill in self.bills]
        return moneys(parts if self.broken is NOTHING else [*parts, self.broken.lost.money()])

    def lane(self, key: LaneKey) -> LaneUsage | None:
        """A lane that is remembered, which is now the one used last."""
        return self.lanes.get(key)

    def begin(self, key: LaneKey, lane: LaneUsage) -> None:
        """A new lane, instead of one of this name if there was one."""
        if key in self.lanes:
            self._ended(key, self.lanes.pop(key))
        self.lanes[key] = lane

    def end(self) -> None:
        """Nothing follows."""
        while self.lanes:
            self.lanes.evict()

    def _ended(self, key: LaneKey, lane: LaneUsage) -> None:
        self.settle(lane, None)
        for each in lane.held or ():
            self.broke(advice.at_the_head(each, len(lane.held or ()), lane.asked, self.client))
        unmarked = None if self._unmarked is None else self._unmarked.pop(key, None)
        if unmarked is not None and unmarked.saves > 0:
            self.unmarked = unmarked if self.unmarked is None else self.unmarked.plus(unmarked)

    def unmarked_of(self, key: LaneKey) -> UnmarkedRequests:
        """The requests of a lane that have no marker."""
        if self._unmarked is None:
            self._unmarked = {}
        return self._unmarked.setdefault(key, UnmarkedRequests())

    def paid_again(self, lost: int, usage: Usage, rates: Rates, *, reset: bool) -> Decimal:
        """Return the cost of a break or a reset."""
        return self._breaks().lost.add(lost, usage, rates, reset=reset)

    def broke(self, break_: BreakFinding) -> None:
        """A break or a reset, once all is known of it."""
        self._breaks().add(break_)

    def noted(self, head: HeadFinding) -> None:
        """A head that could not be shared; of several lanes, the dearest."""
        if self.head is None or head.tokens > self.head.tokens:
            self.head = head

    def _breaks(self) -> SessionBreaks:
        if self.broken is NOTHING:
            self.broken = SessionBreaks()
        return self.broken

    def settle(self, lane: LaneUsage, usage: Usage | None) -> None:
        """A break that waited for the lane's next request, which is here with its usage, or never came."""
        pending, lane.pending = lane.pending, None
        if pending is None:
            return
        if usage is not None and lost_by_provider(lane, usage, pending.expected):
            cure = advice.plain("likely_server_side", lane.model)
            pending = replace(
                pending, cause="likely_server_side", cure=cure.name, advice=cure.sentence, setting=cure.setting
            )
        elif pending.kind == "user" and not pending.read:
            lane.held = [*(lane.held or ()), pending]
            return
        self.broke(pending)


BY_ID = frozenset({"claude-code", "codex", "pi", "opencode", "store"})
"""Kinds of logs with session ids of their own."""


class RequestWindow(Struct, frozen=True):
    """Which requests are counted. Those outside are still what others are compared with, and have their numbers."""

    since: float | None = None
    until: float | None = None
    session: str | None = None

    def holds(self, at: float | None) -> bool:
        if self.since is None and self.until is None:
            return True
        return at is not None and at >= (self.since or at) and (self.until is None or at < self.until)


class SessionIndex:
    """The sessions found so far, in the order in which their logs begin."""

    def __init__(self, prefix: str | None) -> None:
        self._wanted = prefix
        self._known: dict[str, SessionTally] = {}  # of those with one name, the last
        self._given = RecentHashes()
        self._earlier: list[SessionTally] = []
        self.repeated: set[str] = set()
        """Sessions that were left out because logs of another kind had them already."""
        self.copied = 0
        """Requests that were left out because another file of the same kind had them."""

    def all(self) -> list[SessionTally]:
        return sorted([*self._earlier, *self._known.values()], key=lambda session: session.number)

    def of(self, record: LoggedRequest, origin: str, file: str) -> SessionTally | None:
        """The session a record is counted in."""
        name = record.session
        if self._wanted is not None and not name.startswith(self._wanted):
            return None
        session = self._known.get(name)
        if session is None:
            session = self._begin(record, origin, file)
        elif session.origin != origin:
            self.repeated.add(name)
            return None
        if origin in BY_ID or not file:
            return session
        key = _key(record)
        if not self._given.first_time(*key) and session.file != file:
            self.copied += 1
            if hash(key) == session.latest:
                session.goes_on(file)
            return None
        if session.file != file:
            if session.later(record.at):
                session.file = file
            else:
                earlier, session = session, self._begin(record, origin, file)
                self._earlier.append(earlier)
        session.latest = hash(key)
        return session

    def _begin(self, record: LoggedRequest, origin: str, file: str) -> SessionTally:
        source = record.source.rpartition(":")[0] or record.source  # without the line
        name, number = record.session, len(self._earlier) + len(self._known)
        key = f"{name}\0{number}" if name in self._known else name
        session = SessionTally(name, record.client, source, origin, file, key=key, number=number)
        self._known[name] = session
        return session


def _key(record: LoggedRequest) -> tuple[object, ...]:
    """Return the key of duplicate requests: time and usage, or the bytes if either is missing."""
    bytes_ = record.body if record.at is None or record.usage is None else None
    return record.session, record.agent, record.model, record.at, record.usage, bytes_
