"""The final check of every plan: a marker of ours in a wrong place would cost the client its request.

Knows no strategy. The client's own markers are its request and are left alone, legal or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from holdfast.caches import Mark

from .plan import Plan
from .situation import Situation
from .strategies.places import body_order, preferred, slots, takes_markers


class IllegalPlanError(AssertionError):
    """A plan of ours that the provider would refuse: a bug in a strategy."""


def checked(plan: Plan, situation: Situation, *, strict: bool) -> Plan:
    """The plan without what the provider would refuse or ignore, and why in `dropped`; never the request.

    `strict` raises instead for all that is a bug of ours. A marker below the floor is only a wasted slot: it is dropped
    either way.
    """
    if plan.marks == situation.prompt.marks:
        return plan  # all of them are the client's
    clients, ours, faults = _sorted_out(plan, situation)
    if faults and strict:
        raise IllegalPlanError(f"plan of {plan.strategy}: {'; '.join(faults)}; the strategy must not plan this.")
    small = [mark for mark in ours if situation.prompt.ends[mark.block] < situation.model.floor]
    ours = [mark for mark in ours if mark not in small]
    dropped = [*faults, *(_below(mark, situation) for mark in small)]
    kept = list(clients)
    for mark in preferred(situation.prompt, ours, situation.pinned):
        fault = _against(mark, kept, plan, situation)
        if fault is None:
            kept.append(mark)
        elif strict:
            raise IllegalPlanError(f"plan of {plan.strategy}: {fault}; the strategy must not plan this.")
        else:
            dropped.append(fault)
    if not dropped:
        return plan
    kept.sort(key=lambda mark: mark.block)
    return replace(plan, marks=tuple(kept), dropped=tuple(dict.fromkeys((*plan.dropped, *dropped))))


def _sorted_out(plan: Plan, situation: Situation) -> tuple[list[Mark], list[Mark], list[str]]:
    """The client's markers, ours that may stand where they are, and what is wrong with the rest."""
    unmatched = list(situation.prompt.marks)
    clients, ours, faults = [], [], []
    for mark in plan.marks:
        if mark in unmatched:
            unmatched.remove(mark)
            clients.append(mark)
        elif (fault := next(_alone(mark, situation), None)) is None:
            ours.append(mark)
        else:
            faults.append(fault)
    return clients, ours, faults


def _alone(mark: Mark, situation: Situation) -> Iterator[str]:
    """What is wrong with a marker by itself."""
    model, blocks = situation.model, situation.prompt.blocks
    if not takes_markers(model):
        yield f"block {mark.block}: {model.ref} takes no markers"
    if not 0 <= mark.block < len(blocks):
        yield f"block {mark.block}: the prompt has {len(blocks)} blocks"
    elif not blocks[mark.block].markable:
        yield f"block {mark.block}: a {blocks[mark.block].kind} block cannot carry a marker"
    elif mark.block in situation.volatile:
        yield f"block {mark.block}: it is volatile"
    if model.ttl_seconds(mark.ttl) is None:
        yield f"block {mark.block}: {model.ref} has no TTL {mark.ttl!r}"


def _below(mark: Mark, situation: Situation) -> str:
    tokens, floor = situation.prompt.ends[mark.block], situation.model.floor
    return f"block {mark.block}: {tokens} tokens, below the floor of {floor}"


def _against(mark: Mark, kept: Sequence[Mark], plan: Plan, situation: Situation) -> str | None:
    """What is wrong with a marker beside those that are kept already."""
    model, prompt = situation.model, situation.prompt
    if any(other.block == mark.block for other in kept):
        return f"block {mark.block}: it has a marker already"
    if len(kept) >= (most := slots(model, plan.mode or prompt.mode)):
        return f"block {mark.block}: {most} markers are all a request may have"
    at, seconds = body_order(prompt, mark), model.ttl_seconds(mark.ttl) or 0
    for other in kept:
        lives, place = model.ttl_seconds(other.ttl) or 0, body_order(prompt, other)
        if (place < at and lives < seconds) or (place > at and lives > seconds):
            first, second = (other, mark) if place < at else (mark, other)
            return f"block {mark.block}: {second.ttl} at block {second.block} after {first.ttl} at block {first.block}"
    return None
