"""Reads the records of logs one by one and finds the breaks.

A break is a request that read less than the request before it in its lane had covered. What was billed decides that;
why, and where, the bytes tell where a log has them, the log itself where it has looked, else the usage alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.canonical import Usage
from holdfast.engine.where import Where
from holdfast.facts import Rates
from holdfast.prefix.cures import Cure
from holdfast.traces.logs.values import Broken, Logged, Record

from . import advice, report
from .bodies import Bodies, LaneName, Seen, facts_of
from .causes import cause_of, lost_by_provider
from .lanes import Lane
from .lifetimes import sells_lifetimes
from .pricing import Prices, plus, request_cost
from .sessions import Session
from .showing import shown
from .unmarked import Unmarked, is_unmarked
from .values import BreakFound, BrokenLine, Evidence, Explained, FileRead, utf8

NAMED = 20
"""Broken lines that are named; the others are counted."""
STEP = 10.0
"""Seconds between the requests of a log that has no times."""


class Window(Struct, frozen=True):
    """Which requests are counted. Those outside are still what others are compared with, and have their numbers."""

    since: float | None = None
    until: float | None = None
    session: str | None = None

    def holds(self, at: float | None) -> bool:
        if self.since is None and self.until is None:
            return True
        return at is not None and at >= (self.since or at) and (self.until is None or at < self.until)


class _Why(Struct, frozen=True):
    cause: str | None
    reset: str | None
    cure: Cure | None
    evidence: Evidence
    where: Where = Where()


class Explainer:
    """`add` each record, then ask for the `result`. A break needs more lost tokens than `min_tokens`."""

    def __init__(self, *, min_tokens: int = 0, window: Window = Window()) -> None:  # noqa: B008
        self._least, self._window = min_tokens, window
        self._sessions: dict[str, Session] = {}
        self._prices = Prices()
        self._bodies = Bodies()
        self._broken: list[BrokenLine] = []
        self.broken = 0
        self.repeated: set[str] = set()
        """Sessions that were left out because logs of another kind had them already."""

    def add(self, record: Record, origin: str = "") -> None:
        """One more record. `origin` is the kind of log: one session told by two kinds is counted once."""
        if isinstance(record, Broken):
            self.broken += 1
            if len(self._broken) < NAMED:
                self._broken.append(BrokenLine(source=utf8(record.source), why=utf8(record.why)))
            return
        session = self._session(record, origin)
        if session is not None:
            self._request(session, record)

    def result(self, read: Sequence[FileRead] = ()) -> Explained:
        """What was found. Nothing is to be added afterwards."""
        for session in self._sessions.values():
            for lane in session.lanes.values():
                _settle(session, lane, None)
        return report.explained(
            [session for session in self._sessions.values() if session.requests],
            read=tuple(read),
            broken=self.broken,
            lines=tuple(self._broken),
            prices="; ".join(sorted(self._prices.versions)),
        )

    def _session(self, record: Logged, origin: str) -> Session | None:
        name, wanted = record.session, self._window.session
        if wanted is not None and not name.startswith(wanted):
            return None
        session = self._sessions.get(name)
        if session is None:
            source = record.source.rpartition(":")[0] or record.source  # without the line
            session = self._sessions[name] = Session(name, record.client, source, origin)
        elif session.origin != origin:
            self.repeated.add(name)
            return None
        return session

    def _request(self, session: Session, record: Logged) -> None:
        session.numbered += 1
        usage = record.usage
        if usage is not None and usage.prompt and not session.billed:
            session.billed = True
            if session.estimated:  # those before it were failures, not a log without usage
                session.begin_again()
                self._bodies.forget(session.name)
        lane = session.lanes.get((record.agent, record.model))
        if lane is None:
            lane = session.lanes[record.agent, record.model] = Lane(facts_of(record.model, record.dialect))
        inside = self._window.holds(record.at)
        if inside:
            session.counted(record.model, record.at)
        seen = None
        if record.body is not None and not session.billed:
            session.clock = session.clock + STEP if record.at is None else record.at
            seen = self._bodies.next(record, _name(record), lane.model, session.clock)
        if seen is not None:
            usage, session.estimated = seen.foreseen, True
        if usage is None or not usage.prompt:
            lane.reset = lane.reset or record.reset
            if usage is not None and inside:
                self._paid(session, lane, usage, record.at)
            return
        self._billed(session, lane, record, usage, seen, inside)

    def _billed(
        self, session: Session, lane: Lane, record: Logged, usage: Usage, seen: Seen | None, inside: bool
    ) -> None:
        at, told = record.at, record.told
        reset, gap = record.reset or lane.reset, lane.gap(at)
        _settle(session, lane, usage)
        lost = lane.lost(usage, self._least)
        if lost and seen is None and told is None:
            seen = self._bodies.beside(record, _name(record), lane.model, lane.covered)
        if lost and lane.by_chance(usage) and not (seen is not None and seen.departs):
            lost = 0
        if told is not None:
            lost = told.tokens
        rates = self._paid(session, lane, usage, record.at) if inside else None
        passed = lane.expired(usage, gap)
        why = None
        if lost or told is not None:
            why = self._why(lane, record, usage, seen, rates, reset, passed)
        expired = why is not None and (why.cause or "").startswith("ttl_expired")
        if inside and rates is not None and sells_lifetimes(lane.model):
            session.lifetimes.add(lane, usage, rates, gap, lost=lost, expired=expired)
        if inside and rates is not None and why is None and is_unmarked(usage, lane.model, record.body):
            unmarked = session.unmarked.setdefault((record.agent, record.model), Unmarked())
            unmarked.add(usage, lane.model, rates, gap, self._bodies.same(record, _name(record)))
        if inside and why is not None:
            self._broke(session, lane, record, usage, why, rates, lost, gap)
        if session.billed:
            self._bodies.sent(record, _name(record))
        elif seen is not None:
            self._bodies.read(seen, _name(record), usage, record.first_token_at)
        if not lane.by_chance(usage) or lost or not lane.requests:
            lane.took(
                usage, at, record.first_token_at, lost=lost, reset=why is not None and bool(why.reset), expired=expired
            )
        else:
            lane.at = at
        lane.reset = None

    def _paid(self, session: Session, lane: Lane, usage: Usage, at: float | None) -> Rates | None:
        session.used(usage)
        rates = self._prices.rates(lane.model.ref, at, usage.prompt)
        if rates is None:
            session.unpriced += 1
            return None
        session.cost = plus(session.cost, request_cost(usage, rates))
        session.spent.add(usage, rates)
        return rates

    def _why(
        self,
        lane: Lane,
        record: Logged,
        usage: Usage,
        seen: Seen | None,
        rates: Rates | None,
        reset: str | None,
        passed: float | None,
    ) -> _Why:
        if (told := record.told) is not None:
            cure = None if told.cure is None else Cure(told.cure, told.advice or "", told.setting)
            cause = told.cause or (None if told.reset else "unknown")
            return _Why(cause, told.reset, cure, "log", Where(told.path, told.offset))
        by_bytes = None if seen is None else shown(seen, usage, lane.covered, rates, passed)
        if by_bytes is not None:
            return _Why(by_bytes.cause, by_bytes.reset, by_bytes.cure, "bytes", by_bytes.where)
        if reset is not None:
            return _Why(None, reset, advice.of_reset(reset), "usage")
        cause = cause_of(lane, usage, record.at, passed)
        return _Why(cause, None, advice.plain(cause, lane.model), "usage")

    def _broke(
        self,
        session: Session,
        lane: Lane,
        record: Logged,
        usage: Usage,
        why: _Why,
        rates: Rates | None,
        lost: int,
        gap: float | None,
    ) -> None:
        cost: Decimal | None = record.told.dollars if record.told is not None else None
        if rates is not None:
            cost = session.spent.shift(lost, usage, rates, reset=why.reset is not None)
        place = why.where.place
        found = BreakFound(
            request=session.numbered,
            at=record.at,
            cause=why.cause,
            reset=why.reset,
            gap_s=gap,
            tokens_lost=lost,
            cost_usd=cost,
            path=why.where.path,
            cure=None if why.cure is None else why.cure.name,
            advice=None if why.cure is None else why.cure.sentence or None,
            setting=None if why.cure is None else why.cure.setting,
            offset=why.where.offset,
            before=None if place is None else place.before,
            after=None if place is None else place.after,
            model=utf8(record.model),
            agent=utf8(record.agent),
            expected=usage.read + lost,
            read=usage.read,
            evidence=why.evidence,
            source=utf8(record.source),
        )
        if why.cause == "unknown" and why.evidence == "usage":
            lane.pending = found  # the next request may tell
        else:
            session.broke(found)


def _name(record: Logged) -> LaneName:
    return record.session, record.agent, record.model


def _settle(session: Session, lane: Lane, usage: Usage | None) -> None:
    """A break that waited for the lane's next request, which is here with its usage, or never came."""
    found, lane.pending = lane.pending, None
    if found is None:
        return
    if usage is not None and lost_by_provider(lane, usage, found.expected):
        cure = advice.plain("likely_server_side", lane.model)
        found = replace(found, cause="likely_server_side", cure=cure.name, advice=cure.sentence, setting=cure.setting)
    session.broke(found)
