"""Gemini's cached contents around a request: what to do before it, what it names, what making and holding them costs.

The engine sends nothing: a `SideCall` is a call that whoever sends requests makes too, and brings back the answer.
Until then the request goes as the client made it. Making an object is paid for with the request it is made for;
storage with each request that names it, and the rest of it, once it is gone, with the agent's next request. All of it
is in the request's prediction, its cost and the client's account (law 7).
"""

from __future__ import annotations

from decimal import Decimal

from msgspec.structs import replace

from holdfast.caches import Outcome, Prompt
from holdfast.config.sections import GeminiSettings
from holdfast.core import (
    AgentContents,
    Charge,
    ContentsRequest,
    Create,
    Experience,
    Ledger,
    Odds,
    Refresh,
    Use,
    Verdict,
    account,
    calibrated,
    odds,
)
from holdfast.core import gemini_contents as contents
from holdfast.facts import rates

from . import gemini_content_calls as wire
from .lane import Lane, PreparedCall, SideCall
from .state import State

_HOUR = 3600.0
_LATER = (0, 408, 429)
"""Statuses, besides server errors, that do not concern the object; 0 is no answer."""


class _Held:
    """The cached contents of a tenant's agents."""

    def __init__(self, experience: Experience) -> None:
        self._experience = experience

    def of(self, agent: str) -> AgentContents:
        return self._experience.objects.get(agent, AgentContents())

    def decide(
        self, prepared: PreparedCall, ledger: Ledger, ahead: Odds, settings: GeminiSettings, now: float
    ) -> tuple[Use | None, tuple[SideCall, ...]]:
        """What the request names now, and the calls to make first. A creation is announced at once, so that no other
        request begins it too."""
        agent, lane, body = prepared.lane.agent, prepared.lane.id, prepared.sent
        model, prompt = prepared.core.request.model, prepared.core.request.prompt
        objects = self._swept(agent, now)
        hours = max(now - ledger.started, 60.0) / _HOUR
        request = ContentsRequest(
            lane=lane,
            offers=wire.offers(body, prompt, objects),
            per_hour=ledger.requests / hours if ledger.requests > 1 else 0.0,
            remaining=ahead.remaining,
        )
        price = rates(model.ref, prompt_tokens=prompt.tokens)
        decision = contents.decide(objects, request, model, price, settings, now)
        calls = tuple(SideCall(agent, command, wire.call(command, body)) for command in decision.commands)
        for command in decision.commands:
            if isinstance(command, Create):
                objects = objects.creating(command, now)
        self._experience.objects[agent] = objects
        return decision.use, calls

    def answered(self, call: SideCall, status: int, raw: bytes, now: float) -> Use | None:
        """Take in the answer to a call; what a creation lets the request name."""
        objects, command = self.of(call.agent), call.command
        found, use = wire.answered(status, raw), None
        if isinstance(command, Create) and found is not None:
            objects = objects.created(command, found.name, _end(found, command.ttl_s, now), found.tokens, now)
            use = Use(found.name, command.offer.contents, found.tokens)
        elif isinstance(command, Create):
            objects = objects.failed(command, now)
        elif isinstance(command, Refresh) and found is not None:
            objects = objects.refreshed(command.name, _end(found, command.ttl_s, now), now)
        elif isinstance(command, Refresh) and (status in _LATER or status >= 500):
            pass  # it lives on as long as it did, and is refreshed when it is due again
        else:
            objects, charge = objects.deleted(command.name, now)
            self._owe(call.agent, charge)
        self._experience.objects[call.agent] = objects
        return use

    def used(self, agent: str, lane: str, use: Use, now: float) -> None:
        self._experience.objects[agent] = self.of(agent).used(use.name, lane, now)

    def lost(self, agent: str, use: Use, now: float) -> None:
        self._experience.objects[agent], charge = self.of(agent).lost(use.name, now)
        self._owe(agent, charge)

    def owed(self, agent: str, use: Use | None, now: float) -> Decimal:
        """What would be charged if a request were settled now: storage of the object it names since that was last asked
        for, and what is left of those that are gone."""
        charge = None if use is None else self.of(agent).charged(use.name, now)[1]
        return self._experience.owed.get(agent, Decimal(0)) + _dollars(charge)

    def charge(self, agent: str, use: Use | None, now: float) -> Decimal:
        """The same, charged."""
        owed = self.owed(agent, use, now)
        if use is not None:
            self._experience.objects[agent], _ = self.of(agent).charged(use.name, now)
        self._experience.owed.pop(agent, None)
        return owed

    def ended(self, agent: str, lane: str, now: float) -> None:
        self._experience.objects[agent] = self.of(agent).ended(lane, now)

    def drop(self, agent: str, create: Create) -> None:
        self._experience.objects[agent] = self.of(agent).dropped(create)

    def due(self, settings: GeminiSettings, now: float, agent: str) -> tuple[SideCall, ...]:
        """Return the calls to make between requests."""
        objects = self._experience.objects[agent] = self._swept(agent, now)
        commands = contents.due(objects, settings, now)
        return tuple(SideCall(agent, command, wire.call(command)) for command in commands)

    def owe(self, agent: str, dollars: Decimal) -> None:
        """What no request has been charged for is accounted for with the agent's next one."""
        if dollars:
            self._experience.owed[agent] = self._experience.owed.get(agent, Decimal(0)) + dollars

    def _swept(self, agent: str, now: float) -> AgentContents:
        objects, charges = self.of(agent).swept(now)
        for charge in charges:
            self._owe(agent, charge)
        return objects

    def _owe(self, agent: str, charge: Charge | None) -> None:
        self.owe(agent, _dollars(charge))


def offer(state: State, prepared: PreparedCall, ledger: Ledger, now: float) -> None:
    """Let a request use an existing object, or request its creation first if that pays."""
    request, lane = prepared.core.request, prepared.lane
    experience = state.tenant(lane.tenant).experience
    held = _Held(experience)
    ahead = odds(ledger, experience, prepared.core.kind, request.prompt.tokens, subagent=request.subagent)
    use, prepared.before = held.decide(prepared, ledger, ahead, state.settings(lane).gemini, now)
    if use is not None:
        _name(prepared, use, held, now)
    made = (call.command for call in prepared.before if isinstance(call.command, Create))
    _reckon(state, prepared, now, sum((_creation(prepared, each.offer.tokens) for each in made), Decimal(0)))


def answered(state: State, prepared: PreparedCall, call: SideCall, status: int, raw: bytes, now: float) -> None:
    held = _held(state, prepared.lane)
    use = held.answered(call, status, raw, now)
    if use is not None:
        prepared.created += _creation(prepared, use.tokens)
        _name(prepared, use, held, now)
    if isinstance(call.command, Create):
        _reckon(state, prepared, now)
    _save(state, prepared.lane)


def gone(state: State, prepared: PreparedCall, status: int, raw: bytes, now: float) -> bytes | None:
    if prepared.use is None or prepared.plain is None or not wire.is_lost(status, raw):
        return None
    _held(state, prepared.lane).lost(prepared.lane.agent, prepared.use, now)
    prepared.use, prepared.raw = None, prepared.sent.raw
    _foresee(prepared, prepared.plain)
    _reckon(state, prepared, now)
    _save(state, prepared.lane)
    return prepared.raw


def with_storage(state: State, prepared: PreparedCall, verdict: Verdict, now: float) -> Verdict:
    """The verdict and the client's account with what cached contents have cost and nobody was charged for yet."""
    held, lane = _held(state, prepared.lane), prepared.lane
    storage, prepared.created = prepared.created + held.charge(lane.agent, prepared.use, now), Decimal(0)
    if not storage:
        return verdict
    client = state.tenant(lane.tenant).experience.client(state.ledger(lane, now).client)
    account.book(client, 0.0, float(storage))
    cost = None if verdict.usage.cost is None else verdict.usage.cost + storage
    saved = verdict.saved - float(storage)
    return replace(verdict, usage=replace(verdict.usage, cost=cost), storage=storage, saved=saved)


def abandoned(state: State, prepared: PreparedCall) -> None:
    """What was made for a request that never was is paid for all the same."""
    if prepared.created:
        _held(state, prepared.lane).owe(prepared.lane.agent, prepared.created)
        prepared.created = Decimal(0)
        _save(state, prepared.lane)


def ended(state: State, lane: Lane, now: float) -> tuple[SideCall, ...]:
    _held(state, lane).ended(lane.agent, lane.id, now)
    _save(state, lane)
    return due(state, lane, now)


def due(state: State, lane: Lane, now: float) -> tuple[SideCall, ...]:
    return _held(state, lane).due(state.settings(lane).gemini, now, lane.agent)


def chore_done(state: State, lane: Lane, call: SideCall, status: int, raw: bytes, now: float) -> None:
    held, command = _held(state, lane), call.command
    use = held.answered(call, status, raw, now)
    if use is not None and isinstance(command, Create):
        held.owe(call.agent, _made(command.model, use.tokens))
    _save(state, lane)


def dropped(state: State, lane: Lane, call: SideCall) -> None:
    if isinstance(call.command, Create):
        _held(state, lane).drop(call.agent, call.command)
        _save(state, lane)


def frozen(state: State, lane: Lane, prompt: Prompt, now: float) -> int:
    """How many blocks stand in a live object of the lane's: tools, system text and its first contents."""
    count = _held(state, lane).of(lane.agent).fence(lane.id, now)
    return _blocks(prompt, count) if count else 0


def _end(found: wire.Answered, ttl_s: int, now: float) -> float:
    """When an object ends, by our clock. The provider's may be another: what it says counts where it is possible."""
    expires = now + ttl_s
    return found.expires if now < found.expires < expires else expires


def _held(state: State, lane: Lane) -> _Held:
    return _Held(state.tenant(lane.tenant).experience)


def _save(state: State, lane: Lane) -> None:
    state.persistence.save_tenant(lane.tenant, state.tenant(lane.tenant))


def _name(prepared: PreparedCall, use: Use, held: _Held, now: float) -> None:
    """The request names the object, and is predicted to read it."""
    held.used(prepared.lane.agent, prepared.lane.id, use, now)
    prepared.use, prepared.raw = use, wire.rewrite(prepared.sent, use)
    planned = prepared.core
    prepared.plain = prepared.plain or planned.outcome
    prompt, blocks = planned.request.prompt, _blocks(planned.request.prompt, use.contents)
    read = prompt.ends[blocks - 1] if blocks else 0
    why = (f"`{use.name}` holds {use.tokens} tokens",)
    _foresee(prepared, Outcome(prompt, planned.outcome.at, read, prompt.tokens - read, why=why))


def _foresee(prepared: PreparedCall, outcome: Outcome) -> None:
    prepared.core.outcome = outcome
    prepared.core.expectation = replace(prepared.core.expectation, outcome=outcome)


def _reckon(state: State, prepared: PreparedCall, now: float, making: Decimal = Decimal(0)) -> None:
    """The pre-flight as things are; `making` is what the calls before the request will cost."""
    found, lane = prepared.core, prepared.lane
    calibration = state.tenant(lane.tenant).experience.calibration
    flight = calibrated(found.outcome, found.plan.marks, found.request.model, calibration)
    if flight.this is not None:
        owed = _held(state, lane).owed(lane.agent, prepared.use, now)
        flight = replace(flight, this=flight.this + prepared.created + making + owed)
    prepared.preflight = flight


def _blocks(prompt: Prompt, contents: int) -> int:
    """How many blocks an object with so many contents holds."""
    beyond = (i for i, block in enumerate(prompt.blocks) if block.section == "messages" and block.message >= contents)
    return next(beyond, len(prompt.blocks))


def _creation(prepared: PreparedCall, tokens: int) -> Decimal:
    return _made(prepared.core.request.model.ref, tokens)


def _made(model: str, tokens: int) -> Decimal:
    price = rates(model, prompt_tokens=tokens)
    return Decimal(0) if price is None else contents.creation_cost(tokens, price)


def _dollars(charge: Charge | None) -> Decimal:
    price = None if charge is None else rates(charge.model)
    return Decimal(0) if charge is None or price is None else charge.cost(price)
