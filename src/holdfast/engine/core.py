"""prepare, first_token, settle, abandon: the one path every request takes.

`prepare` reads the body, repairs it, replays its edits, plans and places markers and predicts what will be read; what
must not be sent without being durable is waited for. `settle` compares with the usage, finds breaks and tells. All
state is guarded by one lock. Times come in as seconds since 1970, or of any clock where no store is used. Our errors
are raised: who forwards requests sends the client's bytes instead (law 8).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping

from holdfast import facts
from holdfast.caches.values import Mark, Prompt
from holdfast.canonical import Usage
from holdfast.config.schema import Settings
from holdfast.errors import HoldfastError
from holdfast.events import Bus, Ulids
from holdfast.facts import rates
from holdfast.prefix import core
from holdfast.prefix.core import Verdict
from holdfast.prefix.edits import Proposal
from holdfast.prefix.fence import believed, fence_of
from holdfast.prefix.ledger import Ledger
from holdfast.prefix.odds import odds
from holdfast.prefix.pool import effect
from holdfast.prefix.preflight import Preflight, preflight, scaled
from holdfast.prefix.situation import Situation
from holdfast.prefix.values import kind_of
from holdfast.store import Store
from holdfast.store.rows import CallStatus
from holdfast.wire import DIALECTS, Body, Dialect, Unreadable, caching
from holdfast.wire.prompts import PromptReader, Reading

from . import editing, idle, objects, repairing
from .idle import DuePing
from .keeping import effects_of
from .marking import marked
from .reports import Reports
from .state import State, facts_of
from .telling import REASONS, Teller
from .values import Lane, Prepared, SideCall


class Engine:
    """The engine of one process. `settings` are those of an agent by its name; `strict` makes a bad plan an error."""

    def __init__(
        self,
        settings: Settings | Callable[[str], Settings] | None = None,
        *,
        store: Store | None = None,
        bus: Bus | None = None,
        reports: Reports | None = None,
        strict: bool = False,
    ) -> None:
        self._state = State(settings, store)
        self._ids = Ulids()
        self._teller = Teller(store, bus, reports, self._ids)
        self._strict = strict
        self._lock = threading.RLock()

    # A request

    def parse(self, dialect: Dialect, raw: bytes, *, model: str = "") -> Body | Unreadable:
        """The dialect's parse, leaning on earlier bodies."""
        with self._lock:
            return self._state.theirs.parse(dialect, raw, model=model)

    def prepare(
        self,
        body: Body,
        *,
        lane: Lane,
        now: float,
        reset: str | None = None,
        skip: frozenset[str] = frozenset(),
        edits: Mapping[bytes, bytes] | None = None,
        volatile: Collection[str] = (),
        pinned: Mapping[str, str] | None = None,
        summary: str | None = None,
        turn: str | None = None,
    ) -> Prepared:
        """Make a client's body ready to be sent, and register it as pending.

        `reset` announces why it may depart from the lane's last one; `skip` are repairs to go without; `edits` are
        replacements asked for, by the digest of the block; `volatile`, `pinned` and `summary` name blocks by path.
        """
        with self._lock:
            _check_reason(reset)
            state, settings, dialect = self._state, self._state.settings(lane), DIALECTS[body.dialect]
            model = facts_of(body)
            state.pools(lane.tenant, model, now)
            ledger = state.ledger(lane, now)
            alone = state.theirs.read(body, model)
            repaired = repairing.repair(
                body, dialect, alone, ledger.repairs, state.memory(lane.tenant), mode=settings.repair, skip=skip
            )
            if repaired.new:
                state.keeper.keep_bytes(lane, repaired.new, now)
            sent, reading = state.reread(body, alone, repaired.raw, dialect, model)
            sent, reading, proposal, because = self._edited(sent, reading, lane, ledger, edits or {}, now)
            because = reset or because or repaired.reset
            named = (*volatile, *repaired.volatile_paths)
            places = _places(reading.prompt, sent) if named or pinned or summary else {}
            asked = core.Asked(
                call=self._ids.new(),
                prompt=reading.prompt,
                alone=alone.prompt,
                model=model,
                settings=reading.settings,
                reset=because,
                volatile=frozenset(places[path] for path in named if path in places),
                pinned=tuple(Mark(places[path], ttl) for path, ttl in (pinned or {}).items() if path in places),
                summary=None if summary is None else places.get(summary),
                subagent=lane.subagent,
                strict=self._strict,
            )
            waited = idle.waited(state, lane, now)
            found = core.prepare(state.tenant(lane.tenant), ledger, asked, now, settings)
            prepared = Prepared(
                call=asked.call,
                lane=lane,
                raw=marked(sent, dialect, reading.prompt, found.plan, model),
                client=body,
                sent=sent,
                core=found,
                preflight=self._preflight(lane, found),
                repairs=repaired.repairs,
                edits=proposal,
                reset=because,
                turn=turn,
                earlier=state.remember(lane, sent),
                waited=waited,
            )
            if body.dialect == "openai_responses" and settings.openai.store_completions:
                prepared.raw = _stored(prepared.raw, dialect, body.model)
            if body.dialect == "gemini" and settings.gemini.enabled:
                objects.offer(state, prepared, ledger, now)
            if repaired.new or (proposal is not None and proposal.made):
                state.keeper.save_lane(lane, wait=True)
            self._put_call(prepared, "pending")
            self._teller.planned(prepared)
            return prepared

    def first_token(self, prepared: Prepared, *, now: float) -> None:
        """The answer begins: the entries it writes can be read."""
        with self._lock:
            core.first_token(self._state.tenant(prepared.lane.tenant), prepared.core, now)

    def settle(self, prepared: Prepared, usage: Usage, *, now: float) -> Verdict:
        """The answer is complete: what it read and wrote, against what was predicted."""
        with self._lock:
            state, lane = self._state, prepared.lane
            if prepared.core.done:
                raise HoldfastError(f"call {prepared.call} is over already; settle or abandon a call once.")
            tenant, ledger = state.tenant(lane.tenant), state.ledger(lane, now)
            state.pools(lane.tenant, prepared.core.asked.model, now)
            priced = facts.price(usage, prepared.core.asked.model.ref)
            verdict = core.settle(tenant, ledger, prepared.core, priced, now, state.settings(lane))
            verdict = objects.with_storage(state, prepared, verdict, now)
            idle.returned(ledger, prepared, verdict)
            self._put_call(prepared, "settled", now, verdict)
            state.keeper.save_lane(lane)
            state.keeper.save_tenant(lane.tenant, tenant)
            self._teller.settled(prepared, verdict, now)
            return verdict

    def abandon(self, prepared: Prepared, *, now: float, error: str = "") -> None:
        """It was cancelled, failed (`error` names how) or was cut."""
        with self._lock:
            state, lane = self._state, prepared.lane
            if not prepared.core.done:
                core.abandon(state.tenant(lane.tenant), state.ledger(lane, now), prepared.core, now)
                self._put_call(prepared, "failed" if error else "abandoned", now, error=error)
                state.keeper.save_lane(lane)
                self._teller.abandoned(prepared, now, error)

    # A lane

    def fence(self, lane: Lane, *, now: float) -> int:
        """How many blocks of the lane's last request are under a live entry."""
        with self._lock:
            state, last = self._state, self._state.ledger(lane, now).last
            if last is None:
                return 0
            model = facts.model(last.model)
            state.pools(lane.tenant, model, now)
            pool, body = state.tenant(lane.tenant).pool(model), state.body(lane)
            if not pool.by_entry and body is not None:
                return believed(state.ours.read(body, model).prompt, last, model, now)
            return fence_of(last, pool, now)

    def announce(self, lane: Lane, reason: str, *, now: float) -> None:
        """The lane's next request may depart from its last one, for this reason (law 5)."""
        with self._lock:
            _check_reason(reason)
            self._state.ledger(lane, now).reset = reason
            self._state.keeper.save_lane(lane)

    def end(self, lane: Lane, *, now: float) -> tuple[SideCall, ...]:
        """The lane is over: what was kept for its bytes goes. Gives calls that let go of its cached contents."""
        with self._lock:
            self._state.forget(lane)
            self._state.keeper.end_lane(lane, now)
            return objects.ended(self._state, lane, now)

    def ledger(self, lane: Lane, *, now: float) -> Ledger:
        """What the lane has sent, to look at."""
        with self._lock:
            return self._state.ledger(lane, now)

    @property
    def reader(self) -> PromptReader:
        """What reads the clients' bodies, to look at."""
        return self._state.theirs

    def close(self, *, now: float) -> None:
        """Leave behind what makes the next start quick; whatever happened is stored already. The store stays open."""
        with self._lock:
            self._state.close(now)

    # Beside the requests

    def answered(self, prepared: Prepared, call: SideCall, status: int, raw: bytes, *, now: float) -> None:
        """A call that had to be made first has been answered: the request may name what was created (Gemini)."""
        with self._lock:
            objects.answered(self._state, prepared, call, status, raw, now)

    def gone(self, prepared: Prepared, *, now: float) -> bytes:
        """The provider does not know the object that the request named: the bytes to send instead."""
        with self._lock:
            return objects.gone(self._state, prepared, now)

    def chores(self, lane: Lane, *, now: float) -> tuple[SideCall, ...]:
        """Calls to make between requests of a lane's agent: refresh objects in use, delete what nobody needs."""
        with self._lock:
            return objects.due(self._state, lane, now)

    def chore_done(self, lane: Lane, call: SideCall, status: int, raw: bytes, *, now: float) -> None:
        with self._lock:
            objects.chore_done(self._state, lane, call, status, raw, now)

    def pings(self, lanes: Collection[Lane], *, now: float) -> tuple[DuePing, ...]:
        """Keep-alive requests that are due on these idle lanes; none unless they are switched on."""
        with self._lock:
            found = [due for lane in lanes if (due := idle.due(self._state, lane, self._ids.new(), now)) is not None]
            for due in found:
                self._teller.pinged(due.lane, due.call, due.ping, now)
            return tuple(found)

    def _preflight(self, lane: Lane, found: core.Prepared) -> Preflight:
        """What this turn will cost, in the tokens the provider is known to count."""
        model, tokens = found.asked.model, self._state.tenant(lane.tenant).experience.calibration.tokens
        price = rates(model.ref, prompt_tokens=tokens(model.ref, found.prompt.tokens))
        return scaled(
            preflight(found.outcome, found.plan.marks, model, lambda _size: price),
            lambda count: tokens(model.ref, count),
        )

    def _edited(
        self, body: Body, reading: Reading, lane: Lane, ledger: Ledger, wanted: Mapping[bytes, bytes], now: float
    ) -> tuple[Body, Reading, Proposal | None, str | None]:
        """The body with the lane's edits replayed, and with those asked for that pay."""
        state, dialect, model = self._state, DIALECTS[body.dialect], facts_of(body)

        def load(name: bytes) -> bytes | None:
            return state.keeper.load(lane.tenant, name)

        played = editing.replay(body, dialect, reading.prompt, ledger.edits, load)
        edited = state.reread(body, reading, body.apply(played.splices), dialect, model)
        if not wanted:
            return *edited, None, played.reset
        tenant = state.tenant(lane.tenant)
        situation = Situation(
            prompt=edited[1].prompt,
            model=tenant.pool(model).model,
            now=now,
            pool=tenant.pool(model),
            ledger=ledger,
            settings=state.settings(lane),
            experience=tenant.experience,
        )
        ahead = odds(ledger, tenant.experience, kind_of(reading.prompt), reading.prompt.tokens)
        proposal, refs = editing.consider(
            body,
            dialect,
            situation,
            wanted,
            load,
            lambda each: state.ours.read(each, model).prompt,
            further=1 / ahead.ends,
            frozen=objects.frozen(state, lane, reading.prompt, now),
        )
        if not proposal.made:
            return *edited, proposal, played.reset
        state.keeper.keep_edits(lane, refs, wanted, now)
        ledger.edits.update({ref.block: ref for ref in refs})
        played = editing.replay(body, dialect, reading.prompt, ledger.edits, load)
        return *state.reread(body, reading, body.apply(played.splices), dialect, model), proposal, proposal.reset

    def _put_call(
        self,
        prepared: Prepared,
        status: CallStatus,
        now: float | None = None,
        verdict: Verdict | None = None,
        error: str = "",
    ) -> None:
        """The call as it stands, with what it did to the pools: it refreshed what it read even if it never answered."""
        found, began = prepared.core, prepared.core.first_token
        sent, alone = (found.outcome, found.alone) if verdict is None else (verdict.outcome, verdict.alone)
        chain = effects_of(effect(found.outcome, sent, began), effect(found.alone, alone, began))
        row = self._teller.row(prepared, status, now=now, verdict=verdict, error=error, chain=chain)
        self._state.keeper.put_call(row)


def _check_reason(reason: str | None) -> None:
    if reason is not None and reason not in REASONS:
        raise HoldfastError(f"{reason!r} is no reason for a reset; use one of {', '.join(sorted(REASONS))}.")


def _places(prompt: Prompt, body: Body) -> dict[str, int]:
    """Blocks of the prompt by their path in the body."""
    origin = prompt.origin or range(len(prompt.blocks))
    return {body.blocks[place].path: index for index, place in enumerate(origin)}


def _stored(raw: bytes, dialect: Dialect, model: str) -> bytes:
    body = dialect.parse(raw, model=model)
    return body.apply(caching.set_stored(body)) if isinstance(body, Body) else raw
