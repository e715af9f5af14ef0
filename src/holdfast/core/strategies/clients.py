"""How a plan lives with the client's own markers: kept, kept while they pay, or replaced (`cache.client_markers`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import attrgetter

from msgspec.structs import replace

from holdfast.caches import Mark

from ..plan import Plan
from ..situation import Situation
from .places import body_order, place_of, preferred, slots

_block = attrgetter("block")
PASSTHROUGH = "passthrough"


def combined(plan: Plan, situation: Situation, *, losses: Collection[str] = ()) -> Plan:
    """The plan with the client's markers in it, ours only in the slots they leave and never at the price of theirs.

    `losses` are places (`places.place_of`) where a marker has proved a loss: under `improve` neither side marks them.
    """
    how = situation.settings.client_markers
    if plan.strategy == PASSTHROUGH or how == "manage":
        return plan
    prompt = situation.prompt
    if not losses and {mark.block for mark in plan.marks}.issubset([mark.block for mark in prompt.marks]):
        return replace(plan, marks=tuple(sorted(prompt.marks, key=_block)))
    lost: set[int] = set()
    if losses and how == "improve":
        marked = {mark.block for mark in (*prompt.marks, *plan.marks)}
        lost = {block for block in marked if place_of(prompt, block) in losses}
    kept = [mark for mark in prompt.marks if mark.block not in lost] if lost else prompt.marks
    dropped = [f"block {mark.block}: a marker there has proved a loss" for mark in prompt.marks if mark not in kept]
    if situation.pinned and how == "improve":
        kept, given_way = _given_way(plan, situation, kept)
        dropped += given_way
    taken = lost | {mark.block for mark in kept}
    ours = [mark for mark in plan.marks if mark.block not in taken]
    if not ours and not dropped:
        return replace(plan, marks=tuple(sorted(kept, key=_block)))
    room = max(0, slots(situation.model, plan.mode or prompt.mode) - len(kept))
    best = preferred(prompt, ours, situation.pinned)
    dropped += [f"block {mark.block}: the client's markers leave no room" for mark in best[room:]]
    marks = list(kept)
    for mark in best[:room]:
        fitted = _fitted(situation, mark, kept)
        if fitted is None:
            dropped.append(f"block {mark.block}: no lifetime fits between the client's markers")
        else:
            marks.append(fitted)
    marks.sort(key=_block)
    return replace(plan, marks=tuple(marks), dropped=(*plan.dropped, *dropped))


def _given_way(plan: Plan, situation: Situation, kept: Sequence[Mark]) -> tuple[list[Mark], list[str]]:
    """The client's markers beside one that is pinned behind its system text, and why those that are missing went.

    One directly in front of it is covered by it. The others live as long, as the provider demands; that costs nothing,
    since what they cover is written with it. Where there is no room the nearest goes.
    """
    prompt, model = situation.prompt, situation.model
    pins = {mark.block for mark in situation.pinned}
    pin = max((mark for mark in plan.marks if mark.block in pins), key=_block, default=None)
    if pin is None:
        return list(kept), []
    at, lives = body_order(prompt, pin), model.ttl_seconds(pin.ttl) or 0
    left, dropped = list[Mark](), list[str]()
    for mark in kept:
        if body_order(prompt, mark) > at:
            left.append(mark)
        elif mark.block == pin.block - 1:
            dropped.append(f"block {mark.block}: the pinned marker behind it covers it")
        else:
            left.append(mark if (model.ttl_seconds(mark.ttl) or 0) >= lives else Mark(mark.block, pin.ttl))
    before = sorted((mark for mark in left if body_order(prompt, mark) < at), key=_block)
    while before and len(left) >= slots(model, plan.mode or prompt.mode):
        nearest = before.pop()
        left.remove(nearest)
        dropped.append(f"block {nearest.block}: the pinned marker behind it takes its place")
    return left, dropped


def _fitted(situation: Situation, mark: Mark, kept: Collection[Mark]) -> Mark | None:
    """Our marker with a lifetime between those of the client's markers before and after it.

    Both bounds fall from the first block to the last, so markers of ours that were in order stay in order.
    """
    prompt, model = situation.prompt, situation.model
    at = body_order(prompt, mark)

    def seconds(other: Mark) -> int:
        return model.ttl_seconds(other.ttl) or 0

    before = min((other for other in kept if body_order(prompt, other) < at), key=seconds, default=None)
    after = max((other for other in kept if body_order(prompt, other) > at), key=seconds, default=None)
    if before is not None and after is not None and seconds(before) < seconds(after):
        return None
    if before is not None and seconds(mark) > seconds(before):
        return Mark(mark.block, before.ttl)
    if after is not None and seconds(mark) < seconds(after):
        return Mark(mark.block, after.ttl)
    return mark
