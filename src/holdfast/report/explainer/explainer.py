"""Reads the records of logs one by one and finds the breaks.

A break is a request billed for reading less than its lane's previous request had covered. Its reason and place come
from the bytes if the log has them, from the log's own findings, or else from the usage alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.config import Settings
from holdfast.core.cures import Cure, reset_cure
from holdfast.engine import ByteDiff
from holdfast.facts import Rates
from holdfast.records import Usage

from ..logs.records import BrokenSource, LoggedRequest, Record
from ..logs.traces import Kind, kind_of_shape
from ..tips import applicable
from . import advice
from .bodies import BodyMemory, ComparedBody, facts_of, shown
from .heads import Heads
from .lanes import LaneUsage, cause_of, reads
from .prices import DatedPrices, TokenBill, is_unmarked
from .repairs import RepairCandidate, RepairEstimates
from .results import BreakFinding, Evidence, ExplainReport, FileRead, utf8
from .sessions import RequestWindow, SessionIndex, SessionTally
from .signs import Signs
from .totals import ReadLogs, explained

NAMED = 20
"""Broken lines that are named; the others are counted."""
STEP = 10.0
"""Seconds between the requests of a log that has no times."""


class _Why(Struct, frozen=True):
    cause: str | None
    reset: str | None
    cure: Cure | None
    evidence: Evidence
    where: ByteDiff = ByteDiff()


class _Request(Struct):
    """A request as it is counted: `inside` the window or not, and its prices once they are known."""

    session: SessionTally
    lane: LaneUsage
    record: LoggedRequest
    usage: Usage
    inside: bool
    rates: Rates | None = None


class Explainer:
    """`add` each record, then get the `result`. A break needs more lost tokens than `min_tokens`; tips are those that
    the `settings` do not follow yet. `model` and `tier` (the service tier) are those of requests without one in their
    log."""

    def __init__(
        self,
        *,
        min_tokens: int = 0,
        model: str = "",
        tier: str = "",
        window: RequestWindow = RequestWindow(),  # noqa: B008
        settings: Settings = Settings(),  # noqa: B008
    ) -> None:
        self._least, self._model, self._window = min_tokens, model, window
        self.sessions = SessionIndex(window.session)
        self._prices = DatedPrices(tier)
        self._bodies = BodyMemory()
        self._heads = Heads(self._bodies)
        self._settings, self._signs = settings, Signs(settings)
        self._repairs = RepairEstimates(self._bodies)
        self._broken: list[BrokenSource] = []
        self.broken = 0

    def add(self, record: Record, origin: str = "", file: str = "") -> None:
        """One more record, of a kind of log (`origin`) and of a file of it: see ``sessions.py``."""
        if isinstance(record, BrokenSource):
            self.broken += 1
            if len(self._broken) < NAMED:
                self._broken.append(BrokenSource(source=utf8(record.source), why=utf8(record.why)))
            return
        if not record.model and self._model:
            record = replace(record, model=self._model)
        session = self.sessions.of(record, origin, file)
        if session is not None:
            self._request(session, record)

    def result(self, read: Sequence[FileRead] = ()) -> ExplainReport:
        """Return the findings. No more records may be added afterwards."""
        sessions = self.sessions.all()
        for session in sessions:
            session.end()
        sessions = [session for session in sessions if session.requests]
        return explained(
            sessions,
            ReadLogs(tuple(read), self.broken, tuple(self._broken)),
            self._prices,
            heads_left_out=self._heads.left_out,
            repairs=self._repairs.result(self._settings.cache.repair),
            tips=applicable(self._signs.evidence(sessions), self._settings),
        )

    def _request(self, session: SessionTally, record: LoggedRequest) -> None:
        session.numbered += 1
        session.subscription = session.subscription or record.subscription
        usage, at = record.usage, record.at
        prompt = 0 if usage is None else usage.prompt
        if prompt and not session.billed:
            session.billed = True
            if session.estimated:  # those before it were failures, not a log without usage
                session.begin_again()
                self._bodies.forget(session.key)
        if at is not None and (session.latest_at is None or at > session.latest_at):
            session.latest_at = at
        key = (record.agent, record.model)
        lane = session.lane(key)
        if lane is None or (lane.file != session.file and self._departs(session, lane, usage)):
            session.begin(key, lane := LaneUsage(facts_of(record.model, record.dialect), session.file))
            self._bodies.leave((session.key, *key))
        inside = self._window.holds(at)
        if inside:
            session.counted(record.model, at)
            session.cut += record.cut
            self._signs.took(session, lane, record)
        seen = None
        if record.body is not None and not session.billed:
            session.clock = session.clock + STEP if at is None else at
            seen = self._bodies.next(record, (session.key, *key), lane.model, session.clock)
        if seen is not None:
            usage, session.estimated = seen.foreseen, True
            prompt = usage.prompt
        if usage is None or not prompt:
            lane.reset = lane.reset or record.reset
            if usage is not None and inside:
                self._paid(_Request(session, lane, record, usage, inside))
            return
        self._billed(_Request(session, lane, record, lane.as_written(usage), inside), seen)

    def _departs(self, session: SessionTally, lane: LaneUsage, usage: Usage | None) -> bool:
        """Return whether a lane of an earlier file may differ from the one of this name here: only a billed read of all
        that it had covered proves that it is the same."""
        return not session.billed or (usage is not None and bool(usage.prompt and lane.lost(usage, self._least)))

    def _billed(self, request: _Request, seen: ComparedBody | None) -> None:
        session, lane, record, usage = request.session, request.lane, request.record, request.usage
        at, logged_break, name = record.at, record.told, (session.key, record.agent, record.model)
        reset, gap = record.reset or lane.reset, lane.gap(at)
        lane.file = session.file
        session.settle(lane, usage)
        lost = lane.lost(usage, self._least)
        if lost and seen is None and logged_break is None and not record.judged:
            seen = self._bodies.beside(record, name, lane.model, lane.covered)
        if lost and lane.by_chance(usage) and not (seen is not None and seen.departs):
            lost = 0
        if logged_break is not None or record.judged:
            lost = 0 if logged_break is None else logged_break.tokens
        bill = self._paid(request) if request.inside else None
        rates = request.rates
        passed = lane.expired(usage, gap)
        why = None
        if lost or logged_break is not None:
            why = self._why(request, seen, reset, passed)
        expired = why is not None and why.cause is not None and why.cause.startswith("ttl_expired")
        if bill is not None and bill.sells:
            short, long = reads(lane, usage, gap, lost=lost, expired=expired)
            bill.short_read += short
            bill.long_read += long
        if rates is not None and why is None and is_unmarked(usage, lane.model, record.body):
            unmarked = session.unmarked_of((record.agent, record.model))
            unmarked.add(usage, lane.model, rates, gap, self._bodies.same(record, name))
        if request.inside and why is not None:
            self._broke(request, why, lost)
        moment = session.clock if at is None and not session.billed else at
        self._repairs.add(
            RepairCandidate(
                record=record, lane=name, model=lane.model, usage=usage, rates=rates, at=moment, inside=request.inside
            )
        )
        if session.billed:
            if record.body is not None:
                self._share(request)
            self._bodies.sent(record, name)
        elif seen is not None:
            self._bodies.read(seen, name, usage, record.first_token_at)
        if not lane.by_chance(usage) or lost or not lane.requests:
            was_reset = why is not None and why.reset is not None
            lane.asked += bool(lane.requests) and _kind(record) == "user"
            lane.took(usage, at, record.first_token_at, gap, lost=lost, reset=was_reset, expired=expired)
            lane.settle_lifetimes()
        else:
            lane.at = at
        lane.reset = None

    def _share(self, request: _Request) -> None:
        """Note what a lane that begins could not share with the session before, and remember it for the next."""
        session, lane, record = request.session, request.lane, request.record
        if not lane.requests and request.inside:
            note = self._heads.first(session, lane, record, request.usage, request.rates)
            if note is not None:
                session.noted(note)
        self._heads.sent(session, lane, record)

    def _paid(self, request: _Request) -> TokenBill:
        lane, record, prompt = request.lane, request.record, request.usage.prompt
        request.rates = self._prices.rates(lane.model.ref, record.at, prompt, record.tier)
        bill = request.session.bill(request.rates, lane.sells and prompt > 0)
        bill.add(request.usage)
        lane.billed(bill, request.usage)
        return bill

    def _why(self, request: _Request, seen: ComparedBody | None, reset: str | None, passed: float | None) -> _Why:
        lane, record, usage = request.lane, request.record, request.usage
        if (logged_break := record.told) is not None:
            cure = (
                None
                if logged_break.cure is None
                else Cure(logged_break.cure, logged_break.advice or "", logged_break.setting)
            )
            cause = logged_break.cause or (None if logged_break.reset else "unknown")
            return _Why(cause, logged_break.reset, cure, "log", ByteDiff(logged_break.path, logged_break.offset))
        by_bytes = None if seen is None else shown(seen, usage, lane.covered, request.rates, passed)
        if by_bytes is not None:
            return _Why(by_bytes.cause, by_bytes.reset, by_bytes.cure, "bytes", by_bytes.where)
        if reset is not None:
            return _Why(None, reset, reset_cure(reset), "usage")
        cause = cause_of(lane, usage, record.at, passed)
        return _Why(cause, None, advice.plain(cause, lane.model), "usage")

    def _broke(self, request: _Request, why: _Why, lost: int) -> None:
        session, lane, record, usage = request.session, request.lane, request.record, request.usage
        self._signs.broke(lane, why.cause)
        cost: Decimal | None = record.told.dollars if record.told is not None else None
        if request.rates is not None:
            cost = session.paid_again(lost, usage, request.rates, reset=why.reset is not None)
        place = why.where.place
        break_ = BreakFinding(
            request=session.numbered,
            at=record.at,
            cause=why.cause,
            reset=why.reset,
            gap_s=lane.gap(record.at),
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
            kind=_kind(record),
        )
        if why.cause == "unknown" and why.evidence == "usage":
            lane.pending = break_  # the next request may tell
        else:
            session.broke(break_)


def _kind(record: LoggedRequest) -> Kind | None:
    """Return whether a request follows a user's message or tool results, if its log shows it."""
    return record.kind or (kind_of_shape(record.added) if record.added else None)
