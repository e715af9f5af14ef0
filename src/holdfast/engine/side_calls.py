"""What the engine does besides requests: unplanned calls, events of others, cached contents, pings.

The state and its lock are those of the engine, which is a subclass.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast import facts
from holdfast.records import Usage
from holdfast.records.events import IDS, Bus, Event
from holdfast.wire import Body, Dialect, Reading

from . import gemini_contents, keepalive, tenant_experience
from .call_records import UnplannedCall
from .journal import CallJournal
from .keepalive import DuePing
from .lane import Lane, PreparedCall, SideCall
from .state import State, facts_of

if TYPE_CHECKING:
    from .reports import Reports

WANTED = "off"
"""The reason of a bypass that the client requested."""


class EngineBase:
    def __init__(self, state: State, bus: Bus | None, reports: Reports | None) -> None:
        self.state, self._ids, self._lock = state, IDS, threading.RLock()
        self.journal = CallJournal(state.persistence.store, bus, reports, self._ids)

    def report_to(self, reports: Reports) -> None:
        """Write break reports there from now on, unless the engine was made with a place for them."""
        with self._lock:
            self.journal.report_to(reports)

    def load(self, lane: Lane, body: Body, *, now: float) -> None:
        """Have at hand what is stored of a lane and of its tenant's caches: what comes next need not wait for it."""
        with self._lock:
            self.state.pools(lane.tenant, facts_of(body), now)
            self.state.ledger(lane, now)

    def load_recent(self, *, now: float) -> list[str]:
        """The same for the lanes of the last hour, before there is a request. Gives their tenants."""
        with self._lock:
            return self.state.load_recent(now)

    def given(self, dialect: Dialect, raw: bytes, *, model: str = "") -> tuple[Body, Reading] | None:
        """Parse and read a client's body with something of ours in it; None if that fails. It reuses earlier ones of
        its kind: mixed with those that clients send, both would be read from the start every time."""
        body = self.state.given.parse(dialect, raw, model=model)
        return (body, self.state.given.read(body, facts_of(body))) if isinstance(body, Body) else None

    def note(self, call: UnplannedCall) -> None:
        """Store an unplanned call and emit its events; the lane's state does not change. What the lane loses by a
        bypassed call is a reset: note the call before `bypassed`. A call in progress is noted again when it is over."""
        if call.usage is not None:
            call = replace(call, usage=facts.price(call.usage, call.model))
        with self._lock:
            self.state.persistence.meet(call.lane, call.started)
            self.state.persistence.put_call(call.row())
            if call.ended is not None:
                self.journal.unplanned(call, call.ended, self._lost_tokens(call) if call.kind == "bypassed" else None)

    def succeed(self, lane: Lane, model: str, *, now: float) -> None:
        """Record that the login of this lane's tenant is a renewed one: what was learned, and what is believed to be
        cached, under the previous token (`lane.before`) counts for it too. `model` is the lane's."""
        with self._lock:
            state = self.state
            state.pools(lane.before, facts.model(model), now)
            mine = state.tenant(lane.tenant)
            tenant_experience.share(mine, state.tenant(lane.before), now)
            state.persistence.save_tenant(lane.tenant, mine)
            theirs = state.persistence.ledger_of(lane.before, lane.id)
            if theirs is not None and state.persistence.known(lane):
                tenant_experience.take_over(state.ledger(lane, now), theirs)
                state.persistence.save_lane(lane)

    def call_id(self) -> str:
        """A new id, for an `UnplannedCall`."""
        return self._ids.new()

    def _lost_tokens(self, call: UnplannedCall) -> int | None:
        """Tokens that a call past us was billed for although the lane had them cached, as far as is known. None where
        there is nothing to list: it was not answered, or the client wanted it so and lost nothing."""
        state, lane, usage = self.state, call.lane, call.usage
        if usage is None:
            return None
        unlisted = None if call.why in ("", WANTED) else 0
        if not state.persistence.remembers(lane):
            return unlisted
        last = state.ledger(lane, call.started).last
        if last is None or not last.call or last.model != call.model:
            return unlisted
        model = facts.model(last.model)
        state.pools(lane.tenant, model, call.started)
        pool, limits = state.tenant(lane.tenant).pool(model), state.settings(lane).breaks
        if pool.by_entry and keepalive.longest(last, pool, call.started) is None:
            return unlisted
        lost = min(last.covered, usage.prompt) - usage.read
        return lost if lost > max(limits.min_tokens, limits.min_drop * last.covered) else unlisted

    def tell(self, lane: Lane, *payloads: Event, now: float) -> None:
        """Events of a lane's session, for the store and the bus."""
        with self._lock:
            self.journal.emit(lane, None, now, *payloads)

    def cold(self, tenant: str) -> None:
        """The provider's caches are known to be empty for this tenant; what was learned stays."""
        with self._lock:
            self.state.tenant(tenant).cold()

    # Cached contents (Gemini) and keep-alive

    def answered(self, prepared: PreparedCall, call: SideCall, status: int, raw: bytes, *, now: float) -> None:
        """A call that had to be made first has been answered: the request may name what was created (Gemini)."""
        with self._lock:
            gemini_contents.answered(self.state, prepared, call, status, raw, now)

    def gone(self, prepared: PreparedCall, status: int, raw: bytes, *, now: float) -> bytes | None:
        """The request was refused: the bytes to send instead if the provider does not know the object that it named;
        None where the error is something else."""
        with self._lock:
            return gemini_contents.gone(self.state, prepared, status, raw, now)

    def chores(self, lane: Lane, *, now: float) -> tuple[SideCall, ...]:
        """Calls to make between requests of a lane's agent: refresh objects in use, delete what nobody needs."""
        with self._lock:
            return gemini_contents.due(self.state, lane, now)

    def chore_done(self, lane: Lane, call: SideCall, status: int, raw: bytes, *, now: float) -> None:
        """A call beside the requests has been answered. An object that was created can be named from now on, and what
        it cost is charged to the agent's next request."""
        with self._lock:
            gemini_contents.chore_done(self.state, lane, call, status, raw, now)

    def chore_dropped(self, lane: Lane, call: SideCall) -> None:
        """A call beside the requests was not made: what it was for may be asked for again."""
        with self._lock:
            gemini_contents.dropped(self.state, lane, call)

    def release_contents(self, lane: Lane, *, now: float) -> tuple[SideCall, ...]:
        """The lane is left and may go on later: calls that delete the cached contents which no other one needs."""
        with self._lock:
            return gemini_contents.ended(self.state, lane, now)

    def pings(self, lanes: Collection[Lane], *, now: float) -> tuple[DuePing, ...]:
        """Keep-alive requests that are due on these idle lanes; none unless they are switched on. Each is given out
        once, and brought back with `pinged` or `ping_failed`."""
        with self._lock:
            pings = (keepalive.due(self.state, lane, self._ids.new(), now) for lane in lanes)
            return tuple(due for due in pings if due is not None)

    def pinged(self, due: DuePing, usage: Usage, *, now: float) -> None:
        """Settle an answered ping, which refreshed the entries it read and costs what was billed."""
        with self._lock:
            billed = keepalive.answered(self.state, due, usage, now)
            self.journal.pinged(due.lane, due.call, billed, now)

    def ping_failed(self, due: DuePing, *, now: float, error: str = "") -> None:
        """A ping was not sent or not answered (`error` names how): it kept nothing."""
        with self._lock:
            keepalive.failed(self.state, due, now, error)
