"""Cheaper versions of a plan, for an account that cannot pay for the whole of it."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from holdfast.caches.values import Mark

from .costs import Costs
from .pool import Pool
from .situation import Situation
from .values import Plan


def affordable(
    plan: Plan, situation: Situation, pool: Pool, price: Costs, alone: float, limit: float
) -> tuple[Plan, float]:
    """The first of a plan's versions whose cost beyond `alone` is within the limit, and that cost."""
    if pool.decide(situation.prompt, situation.now) is None:
        return plan, 0.0
    for version in _versions(plan, situation):
        prompt = replace(situation.prompt, marks=version.marks, mode=version.mode or situation.prompt.mode)
        outcome = pool.decide(prompt, situation.now)
        assert outcome is not None
        excess = price.of(outcome) - alone
        if excess <= limit:
            return version, max(0.0, excess)
    return _client(plan, situation), 0.0


def _versions(plan: Plan, situation: Situation) -> Iterator[Plan]:
    """The plan, with short lifetimes only, with its markers dropped from the end, with one marker further and further
    to the front; pinned markers and the client's stay."""
    yield plan
    short = situation.model.default_ttl or ""
    kept = {mark.block for mark in (*situation.pinned, *situation.prompt.marks)}
    ours = [mark for mark in plan.marks if mark.block not in kept]
    if not ours:
        return
    cheap = tuple(mark if mark.block in kept else Mark(mark.block, short) for mark in plan.marks)
    yield _poorer(plan, cheap, "short lifetimes only")
    theirs = tuple(mark for mark in plan.marks if mark.block in kept)
    for number in range(len(ours) - 1, 0, -1):
        some = tuple(Mark(mark.block, short) for mark in ours[:number])
        yield _poorer(plan, tuple(sorted((*theirs, *some), key=lambda mark: mark.block)), "fewer markers")
    for block in _fronts(situation, ours[-1].block):
        marks = (*theirs, Mark(block, short))
        yield _poorer(plan, tuple(sorted(marks, key=lambda mark: mark.block)), "a shorter prefix")


def _fronts(situation: Situation, last: int) -> Iterator[int]:
    """Blocks that may carry a marker at three quarters, half, a quarter and an eighth of the way to the last one."""
    prompt, seen = situation.prompt, set[int]()
    for share in (0.75, 0.5, 0.25, 0.125):
        limit = prompt.block_at(int(prompt.ends[last] * share))
        for index in range(limit, -1, -1):
            block = prompt.blocks[index]
            if block.markable and index not in situation.volatile and prompt.ends[index] >= situation.model.floor:
                if index not in seen:
                    seen.add(index)
                    yield index
                break


def _poorer(plan: Plan, marks: tuple[Mark, ...], how: str) -> Plan:
    return replace(
        plan, marks=marks, probe=0.0, dropped=(*plan.dropped, f"{how}: savings do not pay for more yet (law 7)")
    )


def _client(plan: Plan, situation: Situation) -> Plan:
    """What the client asks for, and nothing else."""
    marks = tuple(sorted({*situation.prompt.marks, *situation.pinned}, key=lambda mark: mark.block))
    return replace(
        plan,
        marks=marks,
        mode="",
        probe=0.0,
        dropped=(*plan.dropped, "all of ours: savings do not pay for them (law 7)"),
    )
