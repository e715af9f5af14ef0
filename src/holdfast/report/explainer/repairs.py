"""What repairs would have saved for the requests of logs.

The gateway's store has it for every call. If a log has bodies, a lane with divergences is repaired as the engine would
(`engine.repairs.savings`), with the client's own markers and nothing else of ours: the rest is the effect of repairs
alone. Other logs do not count.
"""

from __future__ import annotations

import logging
from decimal import Decimal

from msgspec import Struct

from holdfast.core import Experience
from holdfast.engine.repairs import AS_SENT, Billed, Shadow, ShadowReaders
from holdfast.facts import ModelFacts, Rates
from holdfast.lru import LRU
from holdfast.records import Usage
from holdfast.wire import Body

from ..logs.records import LoggedRequest
from ..repair_estimates import worth_saying
from ..results import RepairSavings
from .bodies import BodyMemory, LaneName

MOST_SHADOWS = 32
"""Lanes that are played with repairs; the least recently used begin again."""

ALIKE = 0.95
"""The part of a body that the next one of its lane begins with, if it goes on from it."""
LOOKED_AT = 8
"""Pairs of a lane that are looked at however much they have in common: what changes may stand behind a long text."""
MOST_LANES = 10_000

log = logging.getLogger(__name__)


class RepairCandidate(Struct, frozen=True, kw_only=True):
    """A request of a log, what it was billed or is worked out to be, and when it was sent."""

    record: LoggedRequest
    lane: LaneName
    model: ModelFacts
    usage: Usage
    rates: Rates | None
    at: float | None
    inside: bool


class RepairEstimates:
    """Adds up what repairs would have saved, and the cost of the requests with a known saving."""

    def __init__(self, bodies: BodyMemory) -> None:
        self._bodies = bodies
        self._shared = ShadowReaders()
        self._shadows: LRU[LaneName, Shadow] = LRU(MOST_SHADOWS)
        self._looked: LRU[LaneName, int] = LRU(MOST_LANES)
        self._cost = self._saves = self._exact = Decimal(0)

    def result(self, level: str) -> RepairSavings | None:
        """Return the savings; None if they are insignificant or the user has chosen another `level`."""
        return worth_saying(self._saves, self._exact, self._cost, level)

    def add(self, request: RepairCandidate) -> None:
        """One more request, before its body is remembered as its lane's last one."""
        record = request.record
        if record.judged:
            if record.repairs is not None:
                self._count(request, request.usage.cost, record.repairs, record.repairs_exact)
            return
        if record.body is None or request.rates is None or request.at is None or record.subscription:
            return
        saves, exact = None, False
        try:
            playable = self._shadow(request)
            if playable is not None:
                shadow, body = playable
                saves, exact = self._played(shadow, body, request, request.rates), shadow.exact
        except Exception as problem:  # noqa: BLE001  the report goes on without this figure
            self._shadows.pop(request.lane, None)
            log.debug("what repairs would have saved is not known (%s: %s)", type(problem).__name__, problem)
        self._count(request, _cost(request.usage, request.rates), saves, exact)

    def _count(self, request: RepairCandidate, cost: Decimal | None, saves: Decimal | None, exact: bool) -> None:
        if request.inside and cost is not None:
            self._cost += cost
            self._saves += saves or 0
            self._exact += (saves or 0) if exact else 0

    def _shadow(self, request: RepairCandidate) -> tuple[Shadow, Body] | None:
        """The lane as it would be with repairs, and the request; it begins where a request could be repaired."""
        shadow_before = self._shadows.get(request.lane)
        if shadow_before is not None and self._bodies.knows(request.lane):
            body = self._bodies.parsed(request.record)
            if body is None:
                return None
            shadow_before.suggest(body)
            return shadow_before, body
        self._shadows.pop(request.lane, None)
        looked = self._looked[request.lane] = self._looked.get(request.lane, 0) + 1
        alike = 1.0 if looked <= LOOKED_AT + 1 else ALIKE  # the first of a lane has none before it
        pair = self._bodies.departing(request.record, request.lane, alike=alike)
        if pair is None:
            return None
        shadow = Shadow(self._shared, request.model, Experience())
        shadow.suggest(pair.earlier)
        if not shadow.suggest(pair.now):
            return None
        shadow.sent(pair.earlier, pair.at)
        self._shadows[request.lane] = shadow
        return shadow, pair.now

    def _played(self, shadow: Shadow, body: Body, request: RepairCandidate, rates: Rates) -> Decimal:
        at = request.at or 0.0
        began = request.record.first_token_at
        began = at if began is None else max(at, began)
        tokens = self._shared.reader.read(body, request.model).prompt.tokens
        call = Billed(body=body, tokens=tokens, usage=request.usage, at=at, first_token=began, ended=began)
        would = shadow.would_cost(call, AS_SENT)
        return _cost(request.usage, rates) - _cost(would, rates)


def _cost(usage: Usage, rates: Rates) -> Decimal:
    cost = usage.input * rates.input + usage.read * rates.read + usage.output * rates.output
    return cost + sum((tokens * rates.write(ttl) for ttl, tokens in usage.writes), Decimal(0))
