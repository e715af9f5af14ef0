"""Findings from the bytes of requests: where a prompt diverges from the lane's last one, and what it should have read.

The engine's own core examines a body as if it had passed through it, with the client's markers untouched: the same
comparison, the same causes and cures. If a log has usage, only a request that read less than it could is compared with
the one before it; otherwise every request is, because what each reads depends on all before it. Memory is bounded: the
last body of the lanes in use, the entries of the sessions in use.
"""

from __future__ import annotations

import re
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from holdfast import facts
from holdfast.caches import Room
from holdfast.config.sections import BreaksSettings, CacheSettings
from holdfast.core import DEFAULTS, Expectation, Finding, Ledger, Tenant, expect, judge, planner
from holdfast.core.cures import Cure, case, cure_for
from holdfast.engine import ByteDiff, locate
from holdfast.facts import ModelFacts, Rates
from holdfast.lru import LRU
from holdfast.records import BreakCause, Usage, common_head, expiry
from holdfast.wire import DIALECTS, Body, PromptReader

from ..logs.records import LoggedRequest

BODIES = 24_000_000
"""Bytes of lanes' last bodies that are kept."""
SESSIONS = 32
"""Sessions without usage whose entries are tracked."""
STREAMS = 4_000_000
"""Tokens, four bytes each, of prompts in caches that match token by token."""

ANY_LOSS = BreaksSettings(min_drop=0.0, min_tokens=0)
_AS_SENT = CacheSettings(strategy="passthrough", client_markers="respect", breaks=ANY_LOSS)

_BEDROCK = re.compile(r"(?:^|[/:])((?:[a-z-]+\.)?(?:anthropic|amazon)\.[^/]+)$").search

LaneName = tuple[str, str, str]
"""Session (its key), agent and model."""


class ComparedBody(Struct, frozen=True):
    """A body beside the lane's last one, and how that one went out where it was looked at for this."""

    body: Body
    earlier: Body | None
    tenant: Tenant
    ledger: Ledger
    prepared: planner.PlannedRequest
    first: planner.PlannedRequest | None = None

    @property
    def foreseen(self) -> Usage:
        """What it reads and writes by the cache rules."""
        return self.prepared.outcome.usage()

    @property
    def departs(self) -> bool:
        """Whether it changes what had been sent before."""
        comparison = self.prepared.comparison
        return comparison is not None and comparison.divergence is not None


class Pair(Struct, frozen=True):
    """A body and the one before it in its lane, which was sent at this time."""

    earlier: Body
    at: float
    now: Body


class _Before(Struct, frozen=True):
    """A lane's last request, as its log has it or as it was read."""

    raw: bytes
    record: LoggedRequest | None = None
    body: Body | None = None
    ledger: Ledger | None = None
    at: float | None = None

    @property
    def weight(self) -> int:
        return 1_000 + len(self.raw)


class BodyMemory:
    """The bodies and entries of earlier requests."""

    def __init__(self) -> None:
        self._reader = PromptReader()
        self._room = Room(STREAMS)
        self._tenants: LRU[str, Tenant] = LRU(SESSIONS)
        self._lanes: LRU[LaneName, _Before] = LRU(BODIES, size_of=attrgetter("weight"), keep_newest=True)

    # Where the log has usage

    def sent(self, record: LoggedRequest, lane: LaneName) -> None:
        """Remember a billed request for the comparison with the lane's next one."""
        if record.body is not None and record.dialect in DIALECTS:
            self._lanes[lane] = _Before(record.body, record)

    def beside(self, record: LoggedRequest, lane: LaneName, model: ModelFacts, covered: int) -> ComparedBody | None:
        """Compare a request with its lane's previous one, which had covered `covered` tokens; None if either cannot be
        read any more."""
        before = self._lanes.peek(lane)
        if before is None or before.record is None:
            return None
        earlier, now = self._parse(before.record), self._parse(record)
        if earlier is None or now is None:
            return None
        tenant, ledger = Tenant(), Ledger()
        then = 0.0 if before.record.at is None else before.record.at
        first = self._prepare(earlier, before.record, model, tenant, ledger, then)
        began = before.record.first_token_at
        planner.first_token(tenant, first, then if began is None else max(then, began))
        if ledger.last is not None:
            ledger.last = replace(ledger.last, first_token=first.first_token, covered=covered)
        at = then if record.at is None else record.at
        return ComparedBody(now, earlier, tenant, ledger, self._prepare(now, record, model, tenant, ledger, at), first)

    def same(self, record: LoggedRequest, lane: LaneName) -> float | None:
        """Which part of a body is the same as before; None where that is not at hand."""
        before = self._lanes.peek(lane)
        if before is None or not record.body:
            return None
        return common_head(before.raw, record.body) / len(record.body)

    def departing(self, record: LoggedRequest, lane: LaneName, *, alike: float) -> Pair | None:
        """A request that has no more than this part in common with the one before it in its lane, with that one; None
        for others."""
        before = self._lanes.peek(lane)
        if before is None or not record.body or common_head(before.raw, record.body) > alike * len(before.raw):
            return None
        if before.record is not None:
            earlier, at = self._parse(before.record), before.record.at
        else:
            earlier, at = before.body, before.at
        now = self._parse(record)
        return None if earlier is None or now is None or at is None else Pair(earlier, at, now)

    def knows(self, lane: LaneName) -> bool:
        """Return whether the lane continues a request that was seen."""
        return lane in self._lanes

    def parsed(self, record: LoggedRequest) -> Body | None:
        return self._parse(record)

    # Where it has none

    def next(self, record: LoggedRequest, lane: LaneName, model: ModelFacts, now: float) -> ComparedBody | None:
        """A request of a session without usage, as it goes out; None where it cannot be read."""
        body = self._parse(record)
        if body is None:
            return None
        before = self._lanes.peek(lane)
        ledger = before.ledger if before is not None and before.ledger is not None else Ledger()
        tenant = self._tenant(lane[0])
        prepared = self._prepare(body, record, model, tenant, ledger, now)
        return ComparedBody(body, None if before is None else before.body, tenant, ledger, prepared)

    def read(self, seen: ComparedBody, lane: LaneName, usage: Usage, first_token: float | None) -> None:
        """Settle a request that read and wrote what was predicted."""
        at = seen.prepared.outcome.at
        began = at if first_token is None else max(at, first_token)
        planner.first_token(seen.tenant, seen.prepared, began)
        planner.settle(seen.tenant, seen.ledger, seen.prepared, usage, began, _AS_SENT)
        self._lanes[lane] = _Before(seen.body.raw, None, seen.body, seen.ledger, at)

    def forget(self, session: str) -> None:
        """A session begins again."""
        self._tenants.pop(session, None)
        for lane in [lane for lane in self._lanes if lane[0] == session]:
            self.leave(lane)

    def leave(self, lane: LaneName) -> None:
        """A lane begins again: what comes next is not compared with what was sent before."""
        self._lanes.pop(lane, None)

    def _parse(self, record: LoggedRequest) -> Body | None:
        dialect = DIALECTS.get(record.dialect)
        if record.body is None or dialect is None:
            return None
        body = self._reader.parse(dialect, record.body, model=record.model)
        return body if isinstance(body, Body) else None

    def _prepare(
        self, body: Body, record: LoggedRequest, model: ModelFacts, tenant: Tenant, ledger: Ledger, now: float
    ) -> planner.PlannedRequest:
        model = _promising(model)
        reading = self._reader.read(body, model)
        plan_request = planner.PlanRequest(
            call="",
            prompt=reading.prompt,
            alone=reading.prompt,
            model=model,
            settings=reading.settings,
            reset=record.reset,
        )
        return planner.prepare(tenant, ledger, plan_request, now, _AS_SENT)

    def _tenant(self, session: str) -> Tenant:
        """Return the state shared by a session's lanes. Logs do not show which sessions share more."""
        tenant = self._tenants.get(session)
        if tenant is None:
            tenant = self._tenants[session] = Tenant()
            tenant.room = self._room
        return tenant


def _promising(model: ModelFacts) -> ModelFacts:
    """The model with implicit hits that come whenever they can: what is worked out is not left to chance."""
    if model.knobs.implicit_hit_probability is None:
        return model
    return replace(model, knobs=replace(model.knobs, implicit_hit_probability=1.0))


def facts_of(name: str, dialect: str) -> ModelFacts:
    """Return the facts of a model as named by a log, in this dialect if the log names one. Bedrock's ids (also inside
    an ARN) have a colon before their version, which does not separate a provider."""
    if (match := _BEDROCK(name)) is not None:
        return facts.model(f"bedrock:{match[1]}")
    if ":" in name or not dialect:
        return facts.model(name)
    return DIALECTS.get(dialect, DIALECTS["openai_chat"]).facts(name)


class BreakEvidence(Struct, frozen=True):
    cause: str | None
    reset: str | None
    where: ByteDiff
    cure: Cure


def shown(
    seen: ComparedBody, usage: Usage, expected: int, rates: Rates | None, expired: float | None
) -> BreakEvidence | None:
    """Why a request read less than `expected`; None where there is nothing to compare it with. `expired` is a lifetime
    that had passed, as usage shows it."""
    model, expectation = seen.prepared.request.model, _expected(seen, expected)
    finding = None if expectation is None else judge(expectation, usage, rates, ANY_LOSS, tolerance=DEFAULTS)
    if finding is None:
        return None
    finding = _corrected(finding, expired)
    place = locate(seen.body, seen.prepared.prompt, seen.earlier, finding.divergence)
    marks = seen.prepared.plan.marks
    cure = cure_for(
        case(finding, model, path=place.path, before=place.content_before, after=place.content_after, marks=marks)
    )
    return BreakEvidence(finding.cause, finding.reason, place, cure)


def _expected(seen: ComparedBody, expected: int) -> Expectation | None:
    """Return the core's expectation with what was really covered. Where chance denied the previous request its hit, the
    core assumes nothing covered and has no reasons why it may not be read."""
    expectation, prepared = seen.prepared.expectation, seen.prepared
    if expectation.grounds is None:
        if prepared.before is None or prepared.comparison is None:
            return None
        before, outcome, model = replace(prepared.before, covered=expected), prepared.outcome, prepared.request.model
        pool, reset = seen.tenant.pool(model), prepared.request.reset
        expectation = expect(before, prepared.comparison, outcome, pool, model, reset=reset)
    return replace(expectation, expected=expected, counted=True)


def _corrected(finding: Finding, expired: float | None) -> Finding:
    """Return the finding with what the core cannot know here or does not count against a client.

    It compares with the previous request only: an earlier part with a shorter lifetime may have expired. And a request
    that returns to an earlier place and continues differently has left out what followed."""
    comparison = finding.comparison
    unexplained: tuple[BreakCause, ...] = ("likely_server_side", "unknown")
    if finding.cause not in unexplained or comparison is None:
        return finding
    if comparison.course == "fork":
        return replace(finding, cause="messages_rewritten", divergence=comparison.divergence)
    return finding if expired is None else replace(finding, cause=expiry(expired))
