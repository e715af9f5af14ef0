"""A request before markers: repaired, with the lane's edits and with requested ones that pay.

A draft changes nothing but its lane's ledger, so that it can be undone. It names the writes without which it must not
be sent (law 4); the sender waits for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.caches import Block, Mark, Prompt
from holdfast.core import Ledger, PlanRequest, Proposal, Sent, Situation, kind_of, odds
from holdfast.facts import ModelFacts
from holdfast.wire import DIALECTS, Body, Reading

from . import edits as editing
from . import gemini_contents
from .lane import Arrival
from .repairs import pipeline
from .repairs.pipeline import Repaired
from .state import State, facts_of

BYPASSED = "bypassed"
INSERTING = frozenset({"volatile-value", "memory-to-tail", "system-split"})
"""Repairs that may need something durable: not made while nothing can be."""


class Draft(Struct, frozen=True, kw_only=True):
    """A request before markers: `alone` is the reading of the client's body, `reading` that of `sent`.

    `reset` is why it departs from the lane's last one, `writes` are what must be durable before it is sent.
    """

    alone: Reading
    sent: Body
    reading: Reading
    model: ModelFacts
    repaired: Repaired
    edits: Proposal | None
    reset: str | None
    writes: list[Future[Any]]

    def plan_request(self, call: str, arrival: Arrival, *, strict: bool) -> PlanRequest:
        """The draft as the core takes it: blocks that the options name by path are given by number."""
        options = arrival.options
        named = (*options.volatile, *self.repaired.volatile_paths)
        any_named = bool(named or options.pinned) or options.summary is not None or options.common is not None
        places = _places(self.reading.prompt, self.sent) if any_named else {}
        return PlanRequest(
            call=call,
            prompt=self.reading.prompt,
            alone=self.alone.prompt,
            model=self.model,
            settings=self.reading.settings,
            reset=options.reset or self.reset,
            volatile=frozenset(places[path] for path in named if path in places),
            pinned=tuple(Mark(places[path], ttl) for path, ttl in options.pinned.items() if path in places),
            summary=None if options.summary is None else places.get(options.summary),
            common=None if options.common is None else places.get(options.common),
            subagent=arrival.lane.subagent,
            strict=strict,
        )


def draft(state: State, arrival: Arrival) -> Draft:
    """Begin a request of the lane: its content before markers."""
    body, alone, lane, now = arrival.body, arrival.reading, arrival.lane, arrival.now
    skip = arrival.options.skip
    ledger = state.fresh(lane, now)
    writes = [*state.persistence.begin(lane)]
    dialect, model = DIALECTS[body.dialect], facts_of(body)
    memory, mode = state.memory(lane.tenant), state.settings(lane).repair
    down = state.persistence.down
    before = msgspec.msgpack.encode(ledger.repairs) if down else b""
    repaired = pipeline.repair(body, alone.prompt, ledger.repairs, memory, mode=mode, skip=skip)
    if down and repaired.new:  # what was told before is told again; nothing new is
        ledger.repairs = msgspec.msgpack.decode(before, type=type(ledger.repairs))
        skip |= INSERTING
        repaired = pipeline.repair(body, alone.prompt, ledger.repairs, memory, mode=mode, skip=skip)
    sent, reading = body, alone
    if repaired.raw is not body.raw:
        sent, reading = state.reread(body, alone, repaired.raw, dialect, model)
    if repaired.new:
        writes += state.persistence.keep_bytes(lane, repaired.new, now)
    proposal, because = None, None
    if lane.observed:
        departs = ledger.last is not None and ledger.last.departs(reading.prompt)
        because = BYPASSED if ledger.edits and departs else None
    elif ledger.edits or arrival.options.edits:
        sent, reading, proposal, because = _edited(state, arrival, sent, reading, ledger, writes)
    if repaired.new or (proposal is not None and proposal.made):
        writes += state.persistence.write_lane(lane)
    because = because or repaired.reset
    last = ledger.last
    if because is None and last is not None and not last.call and _comes_back(last, alone.prompt, reading.prompt):
        because = BYPASSED
    return Draft(
        alone=alone,
        sent=sent,
        reading=reading,
        model=model,
        repaired=repaired,
        edits=proposal,
        reset=because,
        writes=writes,
    )


def _edited(
    state: State, arrival: Arrival, body: Body, reading: Reading, ledger: Ledger, writes: list[Future[Any]]
) -> tuple[Body, Reading, Proposal | None, str | None]:
    """The body with the lane's edits replayed, and with those asked for that pay."""
    lane, now, wanted = arrival.lane, arrival.now, arrival.options.edits
    dialect, model = DIALECTS[body.dialect], facts_of(body)

    def load(name: bytes) -> bytes | None:
        return state.persistence.load(lane.tenant, name)

    played = editing.replay(body, dialect, reading.prompt, ledger.edits, load)
    edited = state.reread(body, reading, body.apply(played.splices), dialect, model)
    if not wanted or state.persistence.down:
        refused = Proposal(made=False, why="the store is down and cannot keep an edit") if wanted else None
        return *edited, refused, played.reset
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
    proposal, refs = editing.consider(
        body,
        situation,
        wanted,
        load,
        lambda edited: state.ours.read(edited, model).prompt,
        further=odds(
            ledger, tenant.experience, kind_of(reading.prompt), reading.prompt.tokens, subagent=lane.subagent
        ).remaining,
        frozen=gemini_contents.frozen(state, lane, reading.prompt, now),
    )
    if not proposal.made:
        return *edited, proposal, played.reset
    writes += state.persistence.keep_edits(lane, refs, wanted, now)
    ledger.edits.update({ref.block: ref for ref in refs})
    new = {sha256(data).digest(): data for data in wanted.values()}
    played = editing.replay(body, dialect, reading.prompt, ledger.edits, lambda name: new.get(name) or load(name))
    return *state.reread(body, reading, body.apply(played.splices), dialect, model), proposal, proposal.reset


def _comes_back(last: Sent, theirs: Prompt, ours: Prompt) -> bool:
    """Return whether this request diverges from the lane's last one, which was the client's own and bypassed us, at a
    block that is not the client's: one that is repaired or edited again."""
    same = last.common_blocks(ours)
    here = slice(same, same + 1)
    return same < len(last) and _digests(ours.blocks[here]) != _digests(theirs.blocks[here])


def _digests(blocks: Sequence[Block]) -> list[bytes]:
    return [block.digest for block in blocks]


def _places(prompt: Prompt, body: Body) -> dict[str, int]:
    """Blocks of the prompt by their path in the body."""
    origin = prompt.origin or range(len(prompt.blocks))
    return {body.blocks[place].path: index for index, place in enumerate(origin)}
