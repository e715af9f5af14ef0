"""What repairs would have saved: the requests of a lane that is not repaired, played beside it as repaired ones.

`cache.repair = "suggest"` sends what the client says. Once something is suggested for a lane, a shadow of it begins:
a repair state, a ledger and a pool of its own, in which the same requests are repaired, planned and priced by the same
engine, at the same times. What a call was billed less what its shadow would have been billed is what repairs would have
saved; what the provider lost for us, the shadow loses too. A shadow begins with the request before the first
suggestion as it was really sent, and knows nothing of other lanes, so that it rather reads too little than too much.

It is worked out when the answer has come, so no request waits for it, and it changes nothing that is sent. If it fails,
there is no figure (law 8).
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from decimal import Decimal

from msgspec import Struct

from holdfast import facts
from holdfast.caches.streams import Room
from holdfast.caches.values import Mark, Outcome
from holdfast.canonical import Usage
from holdfast.canonical import usage as usage_of
from holdfast.config.sections.cache import Cache
from holdfast.facts import ModelFacts
from holdfast.prefix import core
from holdfast.prefix.account import in_our_tokens
from holdfast.prefix.experience import Experience
from holdfast.prefix.experience import decode as decode_experience
from holdfast.prefix.experience import encode as encode_experience
from holdfast.prefix.ledger import Ledger
from holdfast.prefix.plans import marked
from holdfast.prefix.repairs import ByteMemory, Repair
from holdfast.prefix.tenants import Tenant
from holdfast.prefix.values import Plan
from holdfast.wire import DIALECTS, Body, Unreadable
from holdfast.wire.prompts import PromptReader, Reading

from . import repairing
from .repair_saving import Saving
from .values import Prepared

log = logging.getLogger(__name__)

MOST_SHADOWS = 64
"""Lanes with a shadow; the least recently used begin again."""
FIRST_BYTES = 8_000_000
"""First bytes of all shadows together."""
STREAMS = 1_000_000
"""Tokens, four bytes each, of their prompts in caches that match token by token."""
READER_BODIES, READER_BLOCKS = 4_000_000, 10_000

AS_SENT = Cache(strategy="passthrough", client_markers="respect", repair="off")
"""A request with the markers it has and nothing else of ours."""


class Totals(Struct):
    """What this process has seen: answered requests, their cost, and what repairs would have saved of it."""

    requests: int = 0
    cost: Decimal = Decimal(0)
    saves: Decimal = Decimal(0)
    exact: Decimal = Decimal(0)

    def add(self, cost: Decimal | None, saving: Saving | None) -> None:
        self.requests += 1
        self.cost += cost or 0
        if saving is not None:
            self.saves += saving.dollars
            self.exact += saving.dollars if saving.exact else 0


class Billed(Struct, frozen=True, kw_only=True):
    """A request as it went out and what it was billed. `tokens` are those of its prompt as we count them, `foreseen`
    those of them that were to be read, where that was foreseen."""

    body: Body
    tokens: int
    usage: Usage
    at: float
    first_token: float
    ended: float
    reset: str | None = None
    subagent: bool = False
    foreseen: int = 0


class Readers:
    """What the shadows share: a reader of bodies, first bytes, room for streams."""

    def __init__(self) -> None:
        self.reader = PromptReader(kept_bodies=READER_BODIES, kept_blocks=READER_BLOCKS)
        self.memory = ByteMemory(FIRST_BYTES)
        self.room = Room(STREAMS)


class Shadow:
    """A lane as it would be with all repairs on."""

    def __init__(self, shared: Readers, model: ModelFacts, experience: Experience, client: str = "") -> None:
        self._shared, self._model = shared, model
        self._tenant = Tenant(experience)
        self._tenant.room = shared.room
        self._ledger = Ledger(client=client)
        self._calls = 0
        self.exact = True

    def sent(
        self, body: Body, at: float, first_token: float | None = None, marks: tuple[Mark, ...] | None = None
    ) -> None:
        """The request before the first suggestion, as it went out, with these markers or with its own: the same with
        repairs and without."""
        reading = self._shared.reader.read(body, self._model)
        repairing.repair(body, reading.prompt, self._ledger.repairs, self._shared.memory, mode="on")
        prompt = reading.prompt
        if marks is not None:
            prompt = marked(prompt, Plan(strategy="passthrough", marks=marks))
        asked = core.Asked(call=self._call(), prompt=prompt, alone=prompt, model=self._model, settings=reading.settings)
        prepared = core.prepare(self._tenant, self._ledger, asked, at, AS_SENT)
        began = at if first_token is None else first_token
        self._settle(prepared, prepared.outcome.usage(), began, began, AS_SENT)

    def would_cost(self, call: Billed, cache: Cache) -> Usage:
        """What a request would have been billed with repairs."""
        body = call.body
        alone = self._shared.reader.read(body, self._model)
        done = repairing.repair(body, alone.prompt, self._ledger.repairs, self._shared.memory, mode="on")
        sent, reading = (body, alone) if done.raw is body.raw else self._read(body, done.raw)
        places = {block.path: number for number, block in enumerate(sent.blocks)} if done.volatile_paths else {}
        origin = reading.prompt.origin or range(len(reading.prompt.blocks))
        named = {places[path] for path in done.volatile_paths if path in places}
        asked = core.Asked(
            call=self._call(),
            prompt=reading.prompt,
            alone=alone.prompt,
            model=self._model,
            settings=reading.settings,
            reset=done.reset or call.reset,
            volatile=frozenset(number for number, place in enumerate(origin) if place in named),
            subagent=call.subagent,
        )
        prepared = core.prepare(self._tenant, self._ledger, asked, call.at, cache)
        usage = _as_billed(prepared.outcome, call)
        self._settle(prepared, usage, call.first_token, call.ended, cache)
        return usage

    def _settle(self, prepared: core.Prepared, usage: Usage, began: float, ended: float, cache: Cache) -> None:
        core.first_token(self._tenant, prepared, began)
        core.settle(self._tenant, self._ledger, prepared, usage, ended, cache)

    def _read(self, body: Body, raw: bytes) -> tuple[Body, Reading]:
        parsed = self._shared.reader.parse(DIALECTS[body.dialect], raw, model=body.model)
        if isinstance(parsed, Unreadable):
            raise RuntimeError(f"a repaired body cannot be read: {parsed.reason}")
        return parsed, self._shared.reader.read(parsed, self._model)

    def _call(self) -> str:
        self._calls += 1
        return str(self._calls)


def _as_billed(outcome: Outcome, call: Billed) -> Usage:
    """A foreseen outcome in the provider's tokens, less what the provider had lost of the real request."""
    ours, theirs = call.tokens, call.usage.prompt
    scale = theirs / ours if ours else 1.0
    lost = max(0, call.foreseen - in_our_tokens(call.usage.read, ours, theirs))
    lost = min(lost, outcome.read)
    writes, plain = dict(outcome.writes), outcome.input
    if lost and outcome.writes:
        writes[outcome.writes[-1][0]] += lost
    else:
        plain += lost
    return usage_of(
        input=round(plain * scale),
        read=round((outcome.read - lost) * scale),
        output=call.usage.output,
        writes={ttl: round(tokens * scale) for ttl, tokens in writes.items()},
    )


def is_suggested(repairs: tuple[Repair, ...]) -> bool:
    """Whether something is not repaired that could be."""
    return any(not each.applied for each in repairs)


class RepairSavings:
    """The shadows of one engine. Not safe for threads: the engine holds a lock."""

    def __init__(self) -> None:
        self.totals = Totals()
        self._shared = Readers()
        self._shadows: OrderedDict[tuple[str, str], Shadow] = OrderedDict()

    def judged(
        self, prepared: Prepared, usage: Usage, experience: Experience, cache: Cache, now: float
    ) -> Saving | None:
        """What repairs would have saved of a call that was billed; None where nothing is suggested for its lane."""
        saving = None
        try:
            saving = self._saving(prepared, usage, experience, cache, now)
        except Exception as problem:  # noqa: BLE001  a figure that is missing harms nobody (law 8)
            self._shadows.pop((prepared.lane.tenant, prepared.lane.id), None)
            log.warning("what repairs would have saved is not known (%s: %s)", type(problem).__name__, problem)
        self.totals.add(usage.cost, saving)
        return saving

    def _saving(
        self, prepared: Prepared, usage: Usage, experience: Experience, cache: Cache, now: float
    ) -> Saving | None:
        lane, found = prepared.lane, prepared.core
        name = (lane.tenant, lane.id)
        if cache.repair != "suggest" or lane.observed or usage.cost is None:
            self._shadows.pop(name, None)
            return None
        shadow = self._shadows.get(name)
        if shadow is None:
            if not is_suggested(prepared.repairs):
                return None
            shadow = self._begin(prepared, experience)
        self._shadows.move_to_end(name)
        shadow.exact &= all(each.exact or each.applied for each in prepared.repairs)
        at = found.outcome.at
        began = now if found.first_token is None else found.first_token
        call = Billed(
            body=prepared.sent,
            tokens=found.outcome.prompt.tokens,
            usage=usage,
            at=at,
            first_token=began,
            ended=now,
            reset=found.asked.reset,
            subagent=lane.subagent,
            foreseen=found.outcome.read,
        )
        would = facts.price(shadow.would_cost(call, cache), found.asked.model.ref).cost
        return None if would is None else Saving(usage.cost - would, shadow.exact)

    def _begin(self, prepared: Prepared, experience: Experience) -> Shadow:
        lane, before = prepared.lane, prepared.core.before
        known = decode_experience(encode_experience(experience))
        shadow = Shadow(self._shared, prepared.core.asked.model, known, lane.client)
        if prepared.earlier is not None and before is not None:
            shadow.sent(prepared.earlier, before.at, before.first_token, before.marks)
        self._shadows[lane.tenant, lane.id] = shadow
        if len(self._shadows) > MOST_SHADOWS:
            self._shadows.popitem(last=False)
        return shadow
