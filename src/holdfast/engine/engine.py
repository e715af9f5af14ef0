"""prepare, first_token, settle, abandon: the one path every request takes.

`prepare` reads the body, repairs it, replays its edits, plans and places markers and predicts what will be read; what
must not be sent without being durable is waited for. `settle` compares with the usage, finds breaks and tells. All
state is guarded by one lock, which is not held while the store is waited for. Times come in as seconds since 1970, or
of any clock where no store is used. Our errors are raised: who forwards requests sends the client's bytes then (law 8).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from holdfast import facts
from holdfast.config import Settings
from holdfast.core import Ledger, Verdict, believed, calibrated, fence_of, kind_of, odds, planner
from holdfast.errors import HoldfastError
from holdfast.records import RESET_REASONS, Usage
from holdfast.records.events import Bus
from holdfast.records.events import texts as ulids
from holdfast.store import CallDraft, CallStatus, Store, VersionConflictError
from holdfast.wire import DIALECTS, Body, Dialect, PromptReader, Reading, Unreadable, cache_parameters

from . import draft as drafting
from . import gemini_contents, keepalive
from .call_records import row_of
from .draft import Draft
from .lane import Arrival, Lane, PreparedCall, PrepareOptions, Saving, SideCall, check_engine, check_lane
from .marker_splices import marked
from .partial_usage import Partial, billed
from .persistence import DURABLE_TIMEOUT_S, wait
from .repairs.savings import RepairShadows, RepairTotals
from .side_calls import EngineBase
from .state import State, facts_of

if TYPE_CHECKING:
    from .reports import Reports

_NO_OPTIONS = PrepareOptions()

LOCKS = 256
"""Lanes share so many locks: of two with the same one, the second waits while the first waits for the store."""


class EngineCore(EngineBase):
    """The engine of one process. `settings` are those of an agent by its name; `strict` makes a bad plan an error;
    `timeout` is how many seconds a request waits for what must be durable before it is sent."""

    def __init__(
        self,
        settings: Settings | Callable[[str], Settings] | None = None,
        *,
        store: Store | None = None,
        bus: Bus | None = None,
        reports: Reports | None = None,
        strict: bool = False,
        timeout: float = DURABLE_TIMEOUT_S,
    ) -> None:
        check_engine(settings, store, bus)
        self.store = store
        self._strict, self._timeout_s = strict, timeout
        super().__init__(State(settings, store), bus, reports)
        self.repair_savings = RepairShadows()
        self._locks = tuple(threading.RLock() for _ in range(LOCKS))
        self.state.persistence.end_left_behind()

    # A request

    def parse(self, dialect: Dialect, raw: bytes, *, model: str = "") -> Body | Unreadable:
        """The dialect's parse, leaning on earlier bodies."""
        return self.state.theirs.parse(dialect, raw, model=model)

    def read(self, body: Body) -> Reading:
        """A client's body as a cache sees it: blocks with their digests. What is prepared next is not read again."""
        return self.state.theirs.read(body, facts_of(body))

    def prepare(
        self,
        body: Body,
        *,
        lane: Lane,
        now: float,
        options: PrepareOptions = _NO_OPTIONS,
        timeout: float | None = None,
        reading: Reading | None = None,
    ) -> PreparedCall:
        """Make a client's body ready to be sent, and register it as pending.

        `reading` is that of the body, where it was read already (`given`). `timeout` is how many seconds this request
        waits for what must be durable, if that is shorter than the engine's own timeout; after it the request goes with
        markers and with earlier repairs and edits, but without new ones.

        If it raises, the client's own bytes are taken to go out (law 8): nothing was planned, repaired or edited; only
        what was counted of the client stays.
        """
        check_lane("engine.prepare", lane)
        alone = self._read(body, lane, now, reading)
        with self.lane_lock(lane):
            try:
                _check_reason(options.reset)
                seconds = self._timeout_s if timeout is None else min(timeout, self._timeout_s)
                arrival = Arrival(body, alone, lane, options, now)
                draft = self._durable(arrival, seconds, droppable=timeout is not None)
                with self._lock:
                    call, *ids = ulids(self._ids.take(3), 3)  # and of the two events that are told of it
                    request = draft.plan_request(call, arrival, strict=self._strict)
                    prepared = self._planned(arrival, draft, request, ids)
                    self.state.persistence.begun(lane)
                    if draft.repaired.ordered:  # so that they are kept even if the process is killed with the answer
                        self.state.persistence.save_lane(lane)
                    return prepared
            except Exception:
                with self._lock:
                    self.state.persistence.undo(lane)
                    self._bypassed(body, alone, lane, now)
                raise

    def first_token(self, prepared: PreparedCall, *, now: float, usage: Usage | None = None) -> None:
        """The answer begins: the entries it writes can be read, and the provider bills for it. `usage` is what it has
        told of that by now; it is booked at once, so that it is known even if this process ends."""
        self._check_owner(prepared)
        with self._lock:
            if prepared.core.first_token is None and not prepared.core.done:
                tenant = self.state.tenant(prepared.lane.tenant)
                planner.first_token(tenant, prepared.core, now)
                if self.store is not None:
                    prepared.estimated = usage or prepared.core.predicted(tenant.experience)
                    row = self._row(prepared, "pending")
                    assert row is not None
                    self.state.persistence.record(row)

    def settle(self, prepared: PreparedCall, usage: Usage, *, now: float) -> Verdict:
        """The answer is complete: compare what it read and wrote with the prediction.

        A call ends once. Settled again it returns its first verdict; settled after it was abandoned, one that only
        compares: nothing is booked, emitted or learned.
        """
        self._check_owner(prepared)
        with self.lane_lock(prepared.lane), self._lock:
            if prepared.verdict is not None:
                return prepared.verdict
            state, lane, planned = self.state, prepared.lane, prepared.core
            priced = facts.price(usage, planned.request.model.ref)
            tenant = state.tenant(lane.tenant)
            if planned.done:
                predicted = planned.predicted(tenant.experience)
                agree = predicted.read == priced.read
                return Verdict(
                    usage=priced, predicted=predicted, explained=agree, outcome=planned.outcome, alone=planned.alone
                )
            verdict = prepared.verdict = self._judged(prepared, priced, now)
            prepared.estimated = None
            make_row = functools.partial(self._row, prepared, "settled", now, verdict)
            self.journal.settled(prepared, verdict, now, make_row())
            self._play_repaired(prepared, priced, make_row, now)
            state.persistence.save_lane(lane)
            state.persistence.save_tenant(lane.tenant, tenant)
            return verdict

    def _judged(self, prepared: PreparedCall, usage: Usage, now: float) -> Verdict:
        """Compare the billed usage with the prediction and return the verdict."""
        state, lane, planned = self.state, prepared.lane, prepared.core
        tenant, ledger = state.tenant(lane.tenant), state.fresh(lane, now)
        if planned.request.model.ref not in tenant.loaded:
            state.pools(lane.tenant, planned.request.model, now)
        verdict = planner.settle(tenant, ledger, planned, usage, now, state.settings(lane))
        prepared.repairs_save = self.repair_savings.judged(prepared, usage, state.settings(lane))
        if prepared.sent.dialect == "gemini":
            verdict = gemini_contents.with_storage(state, prepared, verdict, now)
        if prepared.waited is not None:
            keepalive.returned(ledger, prepared, verdict)
        return verdict

    def _play_repaired(
        self, prepared: PreparedCall, usage: Usage, make_row: Callable[[], CallDraft | None], now: float
    ) -> None:
        """Work out, on a thread that nobody waits for, what repairs would have saved; then the row is written again."""
        state, lane = self.state, prepared.lane

        def save(saving: Saving) -> None:
            with self._lock:
                prepared.repairs_save = saving
                if (row := make_row()) is not None:
                    state.persistence.record(row)

        experience = state.tenant(lane.tenant).experience
        self.repair_savings.play(prepared, usage, experience, state.settings(lane), now, save)

    def abandon(
        self, prepared: PreparedCall, *, now: float, error: str = "", partial: Partial | None = None
    ) -> Usage | None:
        """End a call that was cancelled, failed (`error`) or was cut off. `partial` is the part received of an answer
        that began: the provider has billed it, and what it did not report is estimated. Returns what was booked."""
        self._check_owner(prepared)
        with self.lane_lock(prepared.lane), self._lock:
            state, lane, planned = self.state, prepared.lane, prepared.core
            if planned.done:
                return prepared.estimated
            tenant, verdict = state.tenant(lane.tenant), None
            prepared.estimated = None
            if planned.first_token is not None and partial is not None:
                prepared.estimated = billed(partial, planned, tenant)
            if prepared.estimated is not None and partial is not None and partial.usage is not None:
                verdict = self._judged(prepared, prepared.estimated, now)  # the prompt was counted by the provider
                prepared.estimated = verdict.usage
            else:
                planner.abandon(tenant, state.fresh(lane, now), planned, now)
                gemini_contents.abandoned(state, prepared)
            status: CallStatus = "failed" if error else "abandoned"
            make_row = functools.partial(self._row, prepared, status, now, verdict, error)
            self.journal.abandoned(prepared, now, error, make_row(), verdict)
            state.persistence.save_lane(lane)
            if verdict is not None:
                self._play_repaired(prepared, verdict.usage, make_row, now)
                state.persistence.save_tenant(lane.tenant, tenant)
            return prepared.estimated

    def bypassed(self, lane: Lane, body: Body, *, now: float) -> None:
        """The client's own bytes went out, past us: the lane's next request is compared with them, and carries the
        reset `bypassed` if it parts from them for what is repaired or edited again. Its answer is taken to begin at
        once. A call that was prepared for the same request is to be abandoned first."""
        alone = self._read(body, lane, now)
        with self.lane_lock(lane), self._lock:
            self._bypassed(body, alone, lane, now)

    # A lane

    def fence(self, lane: Lane, *, now: float) -> int:
        """How many blocks of the lane's last request are under a live entry, or in an object that is paid for."""
        with self._lock:
            state, last = self.state, self.state.ledger(lane, now).last
            if last is None:
                return 0
            model = facts.model(last.model)
            state.pools(lane.tenant, model, now)
            pool, body = state.tenant(lane.tenant).pool(model), state.body(lane)
            if not pool.by_entry and body is not None:
                prompt = state.ours.read(body, model).prompt
                return max(believed(prompt, last, model, now), gemini_contents.frozen(state, lane, prompt, now))
            return fence_of(last, pool, now)

    def remaining(self, lane: Lane, body: Body, *, now: float) -> float:
        """How many more requests the lane is expected to make after this one: what an edit has to be paid back in."""
        prompt = self.read(body).prompt
        with self._lock:
            ledger, experience = self.state.ledger(lane, now), self.state.tenant(lane.tenant).experience
            return odds(ledger, experience, kind_of(prompt), prompt.tokens, subagent=lane.subagent).remaining

    def announce(self, lane: Lane, reason: str, *, now: float) -> None:
        """The lane's next request may depart from its last one, for this reason (law 5)."""
        _check_reason(reason)
        check_lane("engine.announce", lane)
        with self.lane_lock(lane), self._lock:
            self.state.fresh(lane, now).reset = reason
            self.state.persistence.save_lane(lane)

    def end(self, lane: Lane, *, now: float) -> tuple[SideCall, ...]:
        """End the lane and delete what is stored for its bytes. Returns calls that release its cached contents."""
        with self.lane_lock(lane), self._lock:
            self.state.forget(lane)
            self.state.persistence.end_lane(lane, now)
            return gemini_contents.ended(self.state, lane, now)

    def let_go(self, before: float) -> None:
        """Lanes that were last used before this may be removed from the store: they are read again when they are
        needed."""
        with self._lock:
            self.state.persistence.let_go(before)

    def ledger(self, lane: Lane, *, now: float) -> Ledger:
        """Return what the lane has sent, for reading."""
        with self._lock:
            return self.state.ledger(lane, now)

    def settings(self, agent: str = "") -> Settings:
        """The settings of an agent."""
        return self.state.settings_of(agent)

    @property
    def repairs_save(self) -> RepairTotals:
        """What repairs would have saved of the calls that this engine has settled, to look at."""
        return self.repair_savings.totals

    @property
    def reader(self) -> PromptReader:
        """What reads the clients' bodies, to look at."""
        return self.state.theirs

    def close(self, *, now: float) -> None:
        """Leave behind what makes the next start quick; whatever happened is stored already. The store stays open."""
        self.journal.flush()
        self.repair_savings.flush()
        with self._lock:
            self.state.close(now)

    def _check_owner(self, prepared: PreparedCall) -> None:
        if prepared.owner is not self and prepared.owner is not None:
            raise HoldfastError(f"the call {prepared.call} was prepared by another engine; end it with that one")

    def lane_lock(self, lane: Lane) -> AbstractContextManager[bool]:
        """Return the lock for a lane's requests, taken before the engine's: while one of them waits for the store,
        other lanes continue. A few lanes share one."""
        return self._locks[hash((lane.tenant, lane.id)) % len(self._locks)]

    def _read(self, body: Body, lane: Lane, now: float, known: Reading | None = None) -> Reading:
        """Read a body. Others go on meanwhile: a large one takes a while."""
        model = facts_of(body)
        reading = known or self.state.theirs.read(body, model)
        with self._lock:
            self.state.pools(lane.tenant, model, now)
        return reading

    def _durable(self, arrival: Arrival, timeout: float, *, droppable: bool, retry: bool = True) -> Draft:
        """The draft of a request, once what it needs is durable. There is one retry: where another process has written
        the lane's ledger meanwhile, on what that one sent; where the store fails, without new repairs and edits if
        those are `droppable`."""
        with self._lock:
            draft = drafting.draft(self.state, arrival)
        try:
            wait(draft.writes, timeout)
        except VersionConflictError:
            if not retry:
                raise
            return self._durable(arrival, timeout, droppable=droppable, retry=False)
        except HoldfastError as problem:
            if not retry or not droppable:
                raise
            with self._lock:
                self.state.persistence.undo(arrival.lane)
                self.state.persistence.late(problem)
            return self._durable(arrival, timeout, droppable=droppable, retry=False)
        return draft

    def _planned(self, arrival: Arrival, draft: Draft, request: planner.PlanRequest, ids: list[str]) -> PreparedCall:
        """Plan a draft and register the call; `ids` are those of its two events."""
        body, lane, now = arrival.body, arrival.lane, arrival.now
        state, settings, dialect = self.state, self.state.settings(lane), DIALECTS[body.dialect]
        tenant, ledger = state.tenant(lane.tenant), state.ledger(lane, now)
        waited = None if ledger.pings.uncovered is None else keepalive.waited(tenant, ledger, now)
        planned = planner.prepare(tenant, ledger, request, now, settings)
        try:
            prepared = PreparedCall(
                call=request.call,
                lane=lane,
                raw=marked(draft.sent, dialect, draft.reading.prompt, planned.plan, request.model),
                client=body,
                sent=draft.sent,
                core=planned,
                preflight=calibrated(planned.outcome, planned.plan.marks, request.model, tenant.experience.calibration),
                repairs=draft.repaired.repairs,
                edits=draft.edits,
                reset=request.reset,
                turn=arrival.options.turn,
                earlier=state.remember(lane, draft.sent),
                waited=waited,
                owner=self,
            )
            if body.dialect == "openai_responses" and settings.openai.store_completions:
                prepared.raw = _stored(prepared.raw, dialect, body.model)
            if body.dialect == "gemini" and settings.gemini.enabled:
                gemini_contents.offer(state, prepared, ledger, now)
            self.journal.planned(prepared, ids, self._row(prepared, "pending"))
        except Exception:
            planner.abandon(tenant, ledger, planned, now)
            raise
        return prepared

    def _bypassed(self, body: Body, alone: Reading, lane: Lane, now: float) -> None:
        state, model = self.state, facts_of(body)
        sent = planner.PlanRequest(
            call="", prompt=alone.prompt, alone=alone.prompt, model=model, settings=alone.settings
        )
        planner.bypassed(state.tenant(lane.tenant), state.fresh(lane, now), sent, now)
        state.remember(lane, body)
        state.persistence.save_lane(lane)

    def _row(
        self,
        prepared: PreparedCall,
        status: CallStatus,
        now: float | None = None,
        verdict: Verdict | None = None,
        error: str = "",
    ) -> CallDraft | None:
        """Return the call's current record. None without a store."""
        return None if self.store is None else row_of(prepared, status, now, verdict, error)


def _check_reason(reason: str | None) -> None:
    if reason is not None and reason not in RESET_REASONS:
        raise HoldfastError(f"{reason!r} is no reason for a reset; use one of {', '.join(sorted(RESET_REASONS))}.")


def _stored(raw: bytes, dialect: Dialect, model: str) -> bytes:
    body = dialect.parse(raw, model=model)
    return body.apply(cache_parameters.set_stored(body)) if isinstance(body, Body) else raw
