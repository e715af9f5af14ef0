"""Gemini's cached contents around a request: what to do before it, what it names, what holding them has cost.

The engine sends nothing: a `SideCall` is a call that whoever sends requests makes too, and brings back the answer.
Until then the request goes as the client made it.
"""

from __future__ import annotations

from decimal import Decimal

from msgspec.structs import replace

from holdfast.caches.values import Outcome, Prompt
from holdfast.config.sections.cache import Gemini
from holdfast.facts import ModelFacts, Rates, rates
from holdfast.prefix import contents
from holdfast.prefix.contents import Charge, Create, Objects, Refresh, Use, Wanted
from holdfast.prefix.core import Verdict
from holdfast.prefix.experience import Experience
from holdfast.prefix.ledger import Ledger
from holdfast.prefix.odds import Odds, odds
from holdfast.prefix.preflight import preflight
from holdfast.wire import Body

from . import contents as wire
from .state import State
from .values import Lane, Prepared, SideCall

_HOUR = 3600.0


class _Held:
    """The cached contents of a tenant's agents."""

    def __init__(self, experience: Experience) -> None:
        self._experience = experience

    def of(self, agent: str) -> Objects:
        return self._experience.objects.get(agent, Objects())

    def decide(
        self,
        agent: str,
        lane: str,
        body: Body,
        prompt: Prompt,
        ledger: Ledger,
        ahead: Odds,
        model: ModelFacts,
        rates: Rates | None,
        settings: Gemini,
        now: float,
    ) -> tuple[Use | None, tuple[SideCall, ...]]:
        """What the request names as things are, and what is to be done first. A creation is announced at once, so that
        no other request begins it too."""
        objects, _ = self.of(agent).swept(now)
        hours = max(now - ledger.started, 60.0) / _HOUR
        wanted = Wanted(
            lane=lane,
            offers=wire.offers(body, prompt, objects),
            per_hour=ledger.requests / hours if ledger.requests > 1 else 0.0,
            remaining=1 / ahead.ends,
        )
        decision = contents.decide(objects, wanted, model, rates, settings, now)
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
            objects = objects.created(command, found.name, found.expires, found.tokens, now)
            use = Use(found.name, command.offer.contents, found.tokens)
        elif isinstance(command, Create):
            objects = objects.failed(command, now)
        elif isinstance(command, Refresh) and found is not None:
            objects = objects.refreshed(command.name, found.expires, now)
        else:
            objects, charge = objects.deleted(command.name, now)
            self._owe(charge)
        self._experience.objects[call.agent] = objects
        return use

    def used(self, agent: str, lane: str, use: Use, now: float) -> None:
        self._experience.objects[agent] = self.of(agent).used(use.name, lane, now)

    def lost(self, agent: str, use: Use, now: float) -> None:
        self._experience.objects[agent], charge = self.of(agent).lost(use.name, now)
        self._owe(charge)

    def owed(self, agent: str, use: Use, price: Rates, now: float) -> Decimal:
        """What storage would be charged if the request were settled now."""
        _, charge = self.of(agent).charged(use.name, now)
        return Decimal(0) if charge is None else charge.cost(price)

    def charge(self, agent: str, use: Use, rates: Rates | None, now: float) -> Decimal:
        """What an object's storage has cost since it was last asked for, and what was still owed."""
        self._experience.objects[agent], charge = self.of(agent).charged(use.name, now)
        self._owe(charge)
        owed, self._experience.token_hours = self._experience.token_hours, Decimal(0)
        return Decimal(0) if rates is None else Charge("", owed).cost(rates)

    def ended(self, agent: str, lane: str) -> None:
        self._experience.objects[agent] = self.of(agent).ended(lane)

    def due(self, settings: Gemini, now: float, agent: str) -> tuple[SideCall, ...]:
        """What is to be done between requests."""
        objects, charges = self.of(agent).swept(now)
        for charge in charges:
            self._owe(charge)
        self._experience.objects[agent] = objects
        commands = contents.due(objects, settings, now)
        return tuple(SideCall(agent, command, wire.call(command)) for command in commands)

    def _owe(self, charge: Charge | None) -> None:
        """Storage of what is gone is accounted for with the next request that uses an object."""
        if charge is not None:
            self._experience.token_hours += charge.token_hours


def offer(state: State, prepared: Prepared, ledger: Ledger, now: float) -> None:
    """Let a request name an object where there is one, and say what is to be done first where one would pay."""
    asked, lane = prepared.core.asked, prepared.lane
    experience = state.tenant(lane.tenant).experience
    held = _Held(experience)
    use, prepared.before = held.decide(
        lane.agent,
        lane.id,
        prepared.sent,
        asked.prompt,
        ledger,
        odds(ledger, experience, prepared.core.kind, asked.prompt.tokens),
        asked.model,
        rates(asked.model.ref),
        state.settings(lane).gemini,
        now,
    )
    if use is not None:
        _name(prepared, use, held, now)


def answered(state: State, prepared: Prepared, call: SideCall, status: int, raw: bytes, now: float) -> None:
    held = _held(state, prepared.lane)
    use = held.answered(call, status, raw, now)
    if use is not None:
        _name(prepared, use, held, now)


def gone(state: State, prepared: Prepared, now: float) -> bytes:
    if prepared.use is not None:
        _held(state, prepared.lane).lost(prepared.lane.agent, prepared.use, now)
        prepared.use, prepared.raw = None, prepared.sent.raw
    return prepared.raw


def with_storage(state: State, prepared: Prepared, verdict: Verdict, now: float) -> Verdict:
    """The verdict with what holding the object has cost since it was last asked for."""
    if prepared.use is None:
        return verdict
    price = rates(prepared.core.asked.model.ref)
    storage = _held(state, prepared.lane).charge(prepared.lane.agent, prepared.use, price, now)
    cost = None if verdict.usage.cost is None else verdict.usage.cost + storage
    return replace(verdict, usage=replace(verdict.usage, cost=cost), storage=storage)


def ended(state: State, lane: Lane, now: float) -> tuple[SideCall, ...]:
    _held(state, lane).ended(lane.agent, lane.id)
    return due(state, lane, now)


def due(state: State, lane: Lane, now: float) -> tuple[SideCall, ...]:
    return _held(state, lane).due(state.settings(lane).gemini, now, lane.agent)


def chore_done(state: State, lane: Lane, call: SideCall, status: int, raw: bytes, now: float) -> None:
    _held(state, lane).answered(call, status, raw, now)


def frozen(state: State, lane: Lane, prompt: Prompt, now: float) -> int:
    """How many blocks stand in a live object of the lane's: tools, system text and its first contents."""
    count = _held(state, lane).of(lane.agent).fence(lane.id, now)
    if not count:
        return 0
    beyond = (i for i, block in enumerate(prompt.blocks) if block.section == "messages" and block.message >= count)
    return next(beyond, len(prompt.blocks))


def _held(state: State, lane: Lane) -> _Held:
    return _Held(state.tenant(lane.tenant).experience)


def _name(prepared: Prepared, use: Use, held: _Held, now: float) -> None:
    """The request names the object, and is predicted to read it."""
    held.used(prepared.lane.agent, prepared.lane.id, use, now)
    prompt, found = prepared.core.asked.prompt, prepared.core
    prepared.use, prepared.raw = use, wire.rewrite(prepared.sent, use)
    why = (f"`{use.name}` holds {use.tokens} tokens",)
    found.outcome = Outcome(prompt, found.outcome.at, use.tokens, max(0, prompt.tokens - use.tokens), why=why)
    found.expectation = replace(found.expectation, outcome=found.outcome)
    price, model = rates(found.asked.model.ref, prompt_tokens=prompt.tokens), found.asked.model
    prepared.preflight = preflight(found.outcome, (), model, lambda _size: price)
    if price is not None and prepared.preflight.this is not None:
        storage = held.owed(prepared.lane.agent, use, price, now)
        prepared.preflight = replace(prepared.preflight, this=prepared.preflight.this + storage)
