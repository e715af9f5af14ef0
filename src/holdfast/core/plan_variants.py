"""What a plan makes of a prompt, and cheaper versions of one for an account that cannot pay for the whole of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import Mark, Outcome, Prompt

from .economics import Costs
from .plan import Plan
from .pool import Pool
from .situation import Situation
from .strategies.clients import combined
from .strategies.places import body_order, free, ordered

NOTHING = 1e-12
"""Dollars below which sums of the same prices may differ."""


class Budget(Struct, frozen=True):
    """What a plan may cost, in dollars (law 7)."""

    alone: float
    """The cost for the client alone."""
    limit: float
    """How much more the plan may cost."""
    covered: int = 0
    """The tokens that the client alone would have under an entry."""
    risk: float | None = None
    """What it may cost more if what it leaves uncovered is sent again at once; None: no more than the limit."""

    def allows(self, excess: float, owed: float) -> bool:
        risk = self.limit if self.risk is None else self.risk
        return excess <= self.limit + NOTHING and excess + owed <= risk + NOTHING


def affordable(plan: Plan, situation: Situation, pool: Pool, price: Costs, budget: Budget) -> tuple[Plan, float]:
    """The first of a plan's versions that the budget allows, and what it costs beyond the client alone."""
    if not pool.by_entry:
        return plan, 0.0
    dearer = price.write(situation.model.default_ttl or "") - price.read
    for version in _versions(plan, situation):
        outcome = _outcome(version, situation, pool)
        excess = price.of(outcome) - budget.alone
        if budget.allows(excess, max(0, budget.covered - covered_by(outcome)) * dearer):
            return version, max(0.0, excess)
    least = _client(plan, situation)
    return least, max(0.0, price.of(_outcome(least, situation, pool)) - budget.alone)


def _outcome(plan: Plan, situation: Situation, pool: Pool) -> Outcome:
    outcome = pool.decide(marked(situation.prompt, plan), situation.now)
    assert outcome is not None
    return outcome


def marked(prompt: Prompt, plan: Plan) -> Prompt:
    """The prompt as the plan sends it; itself where the plan leaves it as the client made it."""
    mode = plan.mode or prompt.mode
    if plan.marks == prompt.marks and mode == prompt.mode:
        return prompt
    return replace(prompt, marks=plan.marks, mode=mode)


def covered_by(outcome: Outcome) -> int:
    """Tokens that are under an entry once a request is answered."""
    covered = outcome.read
    for _, tokens in outcome.writes:
        covered += tokens
    return covered


def _versions(plan: Plan, situation: Situation) -> Iterator[Plan]:
    """The plan, with short lifetimes only, with its markers dropped from the end, with one marker further and further
    to the front; pinned markers and the client's stay. None shorter where that would be in the way of a client."""
    yield plan
    fixed = {*situation.pinned, *situation.prompt.marks}
    theirs = tuple(mark for mark in plan.marks if mark in fixed)
    ours = [mark.block for mark in plan.marks if mark not in fixed]
    if not ours or situation.in_the_way:
        return
    yield _poorer(plan, situation, theirs, ours, "short lifetimes only")
    for number in range(len(ours) - 1, 0, -1):
        yield _poorer(plan, situation, theirs, ours[:number], "fewer markers")
    for block in _fronts(situation, ours[-1]):
        if all(mark.block != block for mark in theirs):
            yield _poorer(plan, situation, theirs, [block], "a shorter prefix")


def _fronts(situation: Situation, last: int) -> Iterator[int]:
    """Blocks that may carry a marker at three quarters, half, a quarter and an eighth of the way to the last one."""
    prompt, seen = situation.prompt, set[int]()
    for share in (0.75, 0.5, 0.25, 0.125):
        limit = prompt.block_at(int(prompt.ends[last] * share))
        for index in range(limit, -1, -1):
            if free(situation, index) and prompt.ends[index] >= situation.model.floor:
                if index not in seen:
                    seen.add(index)
                    yield index
                break


def _poorer(plan: Plan, situation: Situation, theirs: tuple[Mark, ...], ours: Sequence[int], how: str) -> Plan:
    """Give our markers the shortest lifetime allowed: none may precede a longer-lived one."""
    prompt, short = situation.prompt, Mark(0, situation.model.default_ttl or "")
    marks = list(theirs)
    for block in ours:
        at = body_order(prompt, Mark(block, ""))
        behind = [mark for mark in theirs if body_order(prompt, mark) > at]
        longest = max((short, *behind), key=lambda mark: situation.model.ttl_seconds(mark.ttl) or 0)
        marks.append(Mark(block, longest.ttl))
    why = f"{how}: savings do not pay for more yet (law 7)"
    marks.sort(key=lambda mark: mark.block)
    return replace(plan, marks=tuple(marks), probe=0.0, dropped=(*plan.dropped, why))


def _client(plan: Plan, situation: Situation) -> Plan:
    """Return the client's own markers and those pinned markers that fit."""
    pinned = replace(plan, marks=ordered(situation.prompt, situation.pinned, situation.model), mode="", probe=0.0)
    keeping = replace(situation, settings=replace(situation.settings, client_markers="respect"))
    least = combined(replace(pinned, strategy="economic"), keeping)
    return replace(least, dropped=(*least.dropped, "all of ours: savings do not pay for them (law 7)"))
