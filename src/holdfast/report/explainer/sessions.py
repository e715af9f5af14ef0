"""A session while its log is read: counts, money, the lanes used last and the dearest of its breaks.

A log may have very many sessions, so one has room for what most never have only once it is there.
"""

from __future__ import annotations

from decimal import Decimal

from msgspec.structs import replace

from holdfast.facts import Rates
from holdfast.records import Usage

from . import advice
from .break_sums import NOTHING, SessionBreaks
from .causes import lost_by_provider
from .lanes import LaneUsage
from .no_markers import UnmarkedRequests
from .prices import TokenBill, moneys
from .results import BreakFinding, HeadFinding, Money, TokenSums

MOST_LANES = 1_024
"""Lanes that are remembered of one session: those used last. One that goes on after more others begins anew."""

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
        """Forget what was worked out: it is not needed where the provider has billed."""
        self.lanes: dict[LaneKey, LaneUsage] = {}
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
        found = self._requests
        return [self._model] if found is None else sorted(found, key=lambda name: -found[name])

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
        """Where the money went; all parts together are what was billed."""
        parts = [bill.money() for bill in self.bills]
        return moneys(parts if self.broken is NOTHING else [*parts, self.broken.lost.money()])

    def lane(self, key: LaneKey) -> LaneUsage | None:
        """A lane that is remembered, which is now the one used last."""
        found = self.lanes.get(key)
        if found is not None and len(self.lanes) > 1:
            del self.lanes[key]
            self.lanes[key] = found
        return found

    def begin(self, key: LaneKey, lane: LaneUsage) -> None:
        """A new lane, instead of one of this name if there was one."""
        if key in self.lanes:
            self._end(key)
        elif len(self.lanes) >= MOST_LANES:
            self._end(next(iter(self.lanes)))
        self.lanes[key] = lane

    def end(self) -> None:
        """Nothing follows."""
        while self.lanes:
            self._end(next(iter(self.lanes)))

    def _end(self, key: LaneKey) -> None:
        lane = self.lanes.pop(key)
        self.settle(lane, None)
        for each in lane.held or ():
            self.broke(advice.at_the_head(each, len(lane.held or ()), lane.asked, self.client))
        found = None if self._unmarked is None else self._unmarked.pop(key, None)
        if found is not None and found.saves > 0:
            self.unmarked = found if self.unmarked is None else self.unmarked.plus(found)

    def unmarked_of(self, key: LaneKey) -> UnmarkedRequests:
        """The requests of a lane that have no marker."""
        if self._unmarked is None:
            self._unmarked = {}
        return self._unmarked.setdefault(key, UnmarkedRequests())

    def paid_again(self, lost: int, usage: Usage, rates: Rates, *, reset: bool) -> Decimal:
        """What a break or a reset cost."""
        return self._breaks().lost.add(lost, usage, rates, reset=reset)

    def broke(self, found: BreakFinding) -> None:
        """A break or a reset, once all is known of it."""
        self._breaks().add(found)

    def noted(self, found: HeadFinding) -> None:
        """A head that could not be shared; of several lanes, the dearest."""
        if self.head is None or found.tokens > self.head.tokens:
            self.head = found

    def _breaks(self) -> SessionBreaks:
        if self.broken is NOTHING:
            self.broken = SessionBreaks()
        return self.broken

    def settle(self, lane: LaneUsage, usage: Usage | None) -> None:
        """A break that waited for the lane's next request, which is here with its usage, or never came."""
        found, lane.pending = lane.pending, None
        if found is None:
            return
        if usage is not None and lost_by_provider(lane, usage, found.expected):
            cure = advice.plain("likely_server_side", lane.model)
            found = replace(
                found, cause="likely_server_side", cure=cure.name, advice=cure.sentence, setting=cure.setting
            )
        elif found.kind == "user" and not found.read:
            lane.held = [*(lane.held or ()), found]
            return
        self.broke(found)
