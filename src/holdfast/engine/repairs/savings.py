"""What repairs would have saved: the requests of an unrepaired lane, replayed in parallel with repairs.

`cache.repair = "suggest"` sends the client's text unchanged. Once a repair is suggested for a lane, a shadow of it
begins: a repair state, a ledger and a pool of its own, in which the same requests are repaired, planned and priced by
the same engine, at the same times. The bill of a call less that of its shadow is what repairs would have saved; what
the provider lost for us, the shadow loses too. A shadow begins with the request before the first suggestion as it was
really sent, and knows nothing of other lanes, so that it rather reads too little than too much.

It is computed in a thread of its own after the answer, so that no request waits for it, and it changes nothing that is
sent. A lane with large bodies, or without room in the queue, loses its shadow and gets another one later. If it fails,
there is no figure (law 8).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from decimal import Decimal
from functools import partial

from msgspec import Struct

from holdfast import facts
from holdfast.caches import Mark, Outcome, Room
from holdfast.config.sections import CacheSettings
from holdfast.core import Experience, Ledger, Plan, Tenant, in_our_tokens, marked, planner
from holdfast.core import decode as decode_experience
from holdfast.core import encode as encode_experience
from holdfast.core.repairs import ByteMemory, Repair, RepairState
from holdfast.facts import ModelFacts
from holdfast.lru import LRU
from holdfast.records import Usage
from holdfast.records import usage as usage_of
from holdfast.store import is_subscription
from holdfast.wire import DIALECTS, Body, PromptReader, Reading, Unreadable

from ..lane import PreparedCall, Saving
from ..worker import Worker
from . import pipeline

log = logging.getLogger(__name__)

LARGEST = 2_000_000
"""Bytes of a body; a lane with a larger one has no shadow until its bodies are small again."""
MOST_WAITING = 32
"""Requests that wait to be played."""
MOST_SHADOWS = 64
"""Lanes with a shadow; the least recently used begin again."""
FIRST_BYTES = 8_000_000
"""First bytes of all shadows together."""
STREAMS = 1_000_000
"""Tokens, four bytes each, of their prompts in caches that match token by token."""
READER_BODIES, READER_BLOCKS = 4_000_000, 10_000

AS_SENT = CacheSettings(strategy="passthrough", client_markers="respect", repair="off")
"""A request with the markers it has and nothing else of ours."""


class RepairTotals(Struct):
    """What this process has seen: requests that could have been repaired and were not, their cost, and what repairs
    would have saved of it."""

    requests: int = 0
    cost: Decimal = Decimal(0)
    saves: Decimal = Decimal(0)
    exact: Decimal = Decimal(0)

    def add(self, cost: Decimal | None, saving: Saving) -> None:
        self.requests += 1
        self.cost += cost or 0
        self.saves += saving.dollars
        self.exact += saving.dollars if saving.exact else 0


class Billed(Struct, frozen=True, kw_only=True):
    """A request as sent and its bill. `tokens` are those of its prompt by our count, `foreseen` those predicted to be
    read, if predicted."""

    body: Body
    tokens: int
    usage: Usage
    at: float
    first_token: float
    ended: float
    reset: str | None = None
    subagent: bool = False
    foreseen: int = 0


class ShadowReaders:
    """What the shadows share: a reader of bodies, first bytes, room for streams."""

    def __init__(self) -> None:
        self.reader = PromptReader(kept_bodies=READER_BODIES, kept_blocks=READER_BLOCKS)
        self.memory = ByteMemory(FIRST_BYTES)
        self.room = Room(STREAMS)


class Shadow:
    """A lane as it would be with all repairs on. `exact` if unambiguous values are enough for its last request;
    `failed` if it cannot go on."""

    def __init__(self, shared: ShadowReaders, model: ModelFacts, experience: Experience, client: str = "") -> None:
        self.model = model
        self._shared = shared
        self._tenant = Tenant(experience)
        self._tenant.room = shared.room
        self._ledger = Ledger(client=client)
        self._suggesting = RepairState()
        self._calls = 0
        self.exact = self.failed = False

    def note(self, repairs: tuple[Repair, ...]) -> None:
        """Take in what is suggested for a request; one for which nothing is suggested is judged as the one before."""
        if is_suggested(repairs):
            self.exact = all(each.exact or each.applied for each in repairs)

    def suggest(self, body: Body) -> bool:
        """Work out what is suggested for a request of a log, which no engine has seen, and take it in. Whether it is
        anything."""
        prompt = self._shared.reader.read(body, self.model).prompt
        found = pipeline.repair(body, prompt, self._suggesting, self._shared.memory, mode="suggest").repairs
        self.note(found)
        return is_suggested(found)

    def sent(
        self, body: Body, at: float, first_token: float | None = None, marks: tuple[Mark, ...] | None = None
    ) -> None:
        """The request before the first suggestion, as it went out, with these markers or with its own: the same with
        repairs and without."""
        reading = self._shared.reader.read(body, self.model)
        pipeline.repair(body, reading.prompt, self._ledger.repairs, self._shared.memory, mode="on")
        prompt = reading.prompt
        if marks is not None:
            prompt = marked(prompt, Plan(strategy="passthrough", marks=marks))
        asked = planner.PlanRequest(
            call=self._call(), prompt=prompt, alone=prompt, model=self.model, settings=reading.settings
        )
        prepared = planner.prepare(self._tenant, self._ledger, asked, at, AS_SENT)
        began = at if first_token is None else first_token
        self._settle(prepared, prepared.outcome.usage(), began, began, AS_SENT)

    def would_cost(self, call: Billed, cache: CacheSettings) -> Usage:
        """Return what a request would have been billed with repairs."""
        body = call.body
        alone = self._shared.reader.read(body, self.model)
        done = pipeline.repair(body, alone.prompt, self._ledger.repairs, self._shared.memory, mode="on")
        sent, reading = (body, alone) if done.raw is body.raw else self._read(body, done.raw)
        places = {block.path: number for number, block in enumerate(sent.blocks)} if done.volatile_paths else {}
        origin = reading.prompt.origin or range(len(reading.prompt.blocks))
        named = {places[path] for path in done.volatile_paths if path in places}
        asked = planner.PlanRequest(
            call=self._call(),
            prompt=reading.prompt,
            alone=alone.prompt,
            model=self.model,
            settings=reading.settings,
            reset=done.reset or call.reset,
            volatile=frozenset(number for number, place in enumerate(origin) if place in named),
            subagent=call.subagent,
        )
        prepared = planner.prepare(self._tenant, self._ledger, asked, call.at, cache)
        usage = _as_billed(prepared.outcome, call)
        self._settle(prepared, usage, call.first_token, call.ended, cache)
        return usage

    def _settle(
        self, prepared: planner.PlannedRequest, usage: Usage, began: float, ended: float, cache: CacheSettings
    ) -> None:
        planner.first_token(self._tenant, prepared, began)
        planner.settle(self._tenant, self._ledger, prepared, usage, ended, cache)

    def _read(self, body: Body, raw: bytes) -> tuple[Body, Reading]:
        parsed = self._shared.reader.parse(DIALECTS[body.dialect], raw, model=body.model)
        if isinstance(parsed, Unreadable):
            raise RuntimeError(f"a repaired body cannot be read: {parsed.reason}")
        return parsed, self._shared.reader.read(parsed, self.model)

    def _call(self) -> str:
        self._calls += 1
        return str(self._calls)


def _as_billed(outcome: Outcome, call: Billed) -> Usage:
    """Convert a predicted outcome into the provider's tokens, less what the provider lost of the real request."""
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


class RepairShadows:
    """The shadows of one engine, which calls it under its lock. They are played on one thread."""

    def __init__(self) -> None:
        self.totals = RepairTotals()
        self._counting = threading.Lock()
        self._shared = ShadowReaders()
        self._shadows: LRU[tuple[str, str], Shadow] = LRU(MOST_SHADOWS)
        self._worker = Worker("holdfast-repairs", most=MOST_WAITING)

    def judged(self, prepared: PreparedCall, usage: Usage, cache: CacheSettings) -> Saving | None:
        """What repairs would have saved of a call, where that is known at once: 0 where nothing is suggested for its
        lane. None where it has to be played, and where nobody asks for it."""
        if not self._is_wanted(prepared, usage, cache) or self._shadow(prepared) is not None:
            return None
        return None if is_suggested(prepared.repairs) else self._counted(usage, Saving(Decimal(0), exact=False))

    def play(
        self,
        prepared: PreparedCall,
        usage: Usage,
        experience: Experience,
        cache: CacheSettings,
        now: float,
        save: Callable[[Saving], None],
    ) -> None:
        """Queue a call that was billed, if it has to be played; `save` is given what repairs would have saved of it."""
        if not self._is_wanted(prepared, usage, cache) or prepared.repairs_save is not None:
            return
        if _size(prepared) > LARGEST:
            self._forget(prepared)
            return
        shadow, first = self._shadow(prepared), None
        if shadow is None:
            shadow, first = self._begin(prepared, experience), _before(prepared)
        self._shadows[_name(prepared)] = shadow
        call = _billed(prepared, usage, now)
        if not self._worker.do(partial(self._play, shadow, first, call, prepared.repairs, cache, save)):
            self._forget(prepared)

    def flush(self) -> None:
        """Until everything is played that was queued."""
        self._worker.flush()

    def _is_wanted(self, prepared: PreparedCall, usage: Usage, cache: CacheSettings) -> bool:
        """Return whether the figure is wanted: only at the level "suggest", and not for a subscription."""
        observed = prepared.lane.observed or is_subscription(prepared.lane.tenant)
        wanted = cache.repair == "suggest" and not observed and usage.cost is not None
        if not wanted:
            self._forget(prepared)
        return wanted

    def _shadow(self, prepared: PreparedCall) -> Shadow | None:
        shadow = self._shadows.peek(_name(prepared))
        if shadow is not None and (shadow.failed or shadow.model != prepared.core.request.model):
            self._forget(prepared)
            return None
        return shadow

    def _forget(self, prepared: PreparedCall) -> None:
        self._shadows.pop(_name(prepared), None)

    def _begin(self, prepared: PreparedCall, experience: Experience) -> Shadow:
        known = decode_experience(encode_experience(experience))
        return Shadow(self._shared, prepared.core.request.model, known, prepared.lane.client)

    def _play(
        self,
        shadow: Shadow,
        first: _Sent | None,
        call: Billed,
        repairs: tuple[Repair, ...],
        cache: CacheSettings,
        save: Callable[[Saving], None],
    ) -> None:
        if shadow.failed:
            return
        try:
            if first is not None:
                shadow.sent(*first)
            shadow.note(repairs)
            would = facts.price(shadow.would_cost(call, cache), shadow.model.ref).cost
            if call.usage.cost is not None and would is not None:
                save(self._counted(call.usage, Saving(call.usage.cost - would, shadow.exact)))
        except Exception as problem:  # noqa: BLE001  a figure that is missing harms nobody (law 8)
            shadow.failed = True
            log.warning("what repairs would have saved is not known (%s: %s)", type(problem).__name__, problem)

    def _counted(self, usage: Usage, saving: Saving) -> Saving:
        with self._counting:
            self.totals.add(usage.cost, saving)
        return saving


_Sent = tuple[Body, float, float | None, tuple[Mark, ...]]
"""A request that was sent, when, when its answer began, and its markers."""


def _before(prepared: PreparedCall) -> _Sent | None:
    before = prepared.core.before
    if prepared.earlier is None or before is None:
        return None
    return prepared.earlier, before.at, before.first_token, before.marks


def _billed(prepared: PreparedCall, usage: Usage, now: float) -> Billed:
    planned = prepared.core
    return Billed(
        body=prepared.sent,
        tokens=planned.outcome.prompt.tokens,
        usage=usage,
        at=planned.outcome.at,
        first_token=now if planned.first_token is None else planned.first_token,
        ended=now,
        reset=planned.request.reset,
        subagent=prepared.lane.subagent,
        foreseen=planned.outcome.read,
    )


def _name(prepared: PreparedCall) -> tuple[str, str]:
    return prepared.lane.tenant, prepared.lane.id


def _size(prepared: PreparedCall) -> int:
    """Bytes of the larger of the two bodies that are compared."""
    earlier = prepared.earlier
    return max(len(prepared.sent.raw), 0 if earlier is None else len(earlier.raw))
