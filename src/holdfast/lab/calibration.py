"""The rules against the provider's own figures: what they say a real session read, and what it really read.

Each lane is rebuilt from its shape and run through the cache rules on the session's own clock. A request agrees when
its read is within a tolerance of the billed one. What disagrees is listed with what can be said about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast import facts
from holdfast.caches import AnthropicCache, CacheControls, Entries, Outcome, decide, marked_prompt
from holdfast.errors import HoldfastError
from holdfast.facts import ModelFacts
from holdfast.report.logs import Shape, Trace, TraceStep, lanes

from .rebuild import Head, Rebuilt, head_of, rebuild

TOLERANCE = 0.01
NEEDED = 0.95

Rule = Literal["ttl", "resets"]
RULES: tuple[Rule, ...] = ("ttl", "resets")

_FOR_EVER = 10**12


class Disagreement(Struct, frozen=True):
    """A request whose read was not predicted. `unknowable` if a trace without bytes cannot show the reason."""

    number: int
    predicted: int
    billed: int
    unknowable: bool
    why: str


class TraceCalibration(Struct, frozen=True):
    """The comparison of one trace. The first request of a lane, from which it starts, and the one that shows where its
    head ends are not counted: what is taken from a bill cannot confirm it."""

    trace: str
    lanes: int
    compared: int
    agreed: int
    disagreements: tuple[Disagreement, ...]
    heads: tuple[tuple[str, Head], ...]
    given: tuple[int, ...] = ()

    @property
    def share(self) -> float | None:
        return self.agreed / self.compared if self.compared else None

    @property
    def enough(self) -> bool:
        return self.share is not None and self.share >= NEEDED


def calibrate(trace: Trace, *, without: Sequence[Rule] = ()) -> TraceCalibration:
    """Compare a shape trace with the rules, all of them or without some: then it must disagree."""
    disagreements: list[Disagreement] = []
    numbers: list[int] = []
    compared = 0
    every = {}
    for name, steps in lanes(trace).items():
        _check(trace, name, steps)
        every[name] = billed = tuple(step for step in steps if step.usage is not None and step.usage.prompt)
        starts = _starts(billed, without)
        compared += len(billed) - len(starts)
        numbers += starts
        disagreements += _lane(billed, starts, without)
    disagreements.sort(key=lambda one: one.number)
    every = {name: steps for name, steps in every.items() if steps}
    heads = tuple((name, head_of(steps)) for name, steps in every.items())
    return TraceCalibration(
        trace.name,
        len(every),
        compared,
        compared - len(disagreements),
        tuple(disagreements),
        heads,
        tuple(sorted(numbers)),
    )


def _check(trace: Trace, lane: str, steps: Sequence[TraceStep]) -> None:
    for step in steps:
        if not isinstance(step.content, Shape) or step.usage is None or step.at is None:
            raise HoldfastError(
                f"{trace.source}: request {step.number} has no shape, time or billed usage; only shape traces with all "
                "three can be calibrated."
            )
    if facts.model(steps[0].model).marker != "cache_control":
        raise HoldfastError(
            f"{trace.source}: '{lane}' is not a model of a provider with markers; only Anthropic sessions can be "
            "calibrated."
        )


def _starts(steps: Sequence[TraceStep], without: Sequence[Rule]) -> set[int]:
    """The requests whose reads went into the rebuilt lane: they would agree with themselves."""
    if not steps:
        return set()
    told_by = head_of(steps).told_by
    return {steps[0].number} if told_by is None or "resets" in without else {steps[0].number, told_by}


def _lane(steps: Sequence[TraceStep], starts: set[int], without: Sequence[Rule]) -> list[Disagreement]:
    """`steps` are those that were billed: one that was not, because it failed, took no part."""
    if not steps:
        return []
    model = _model(steps[0].model, "ttl" in without)
    entries = Entries()
    cache = AnthropicCache(model, entries)
    waiting: list[tuple[float, Outcome]] = []
    disagreements: list[Disagreement] = []
    before = 0.0
    for request in rebuild(steps, resets="resets" not in without):
        step = request.step
        assert step.at is not None
        assert step.usage is not None
        for at, begun in [pair for pair in waiting if pair[0] <= step.at]:
            cache.first_token(begun, at)
        waiting = [pair for pair in waiting if pair[0] > step.at]
        foreseen = decide(
            marked_prompt(model, request.blocks, CacheControls(marks=request.marks)), entries, step.at, model
        ).read
        if step.number not in starts and abs(foreseen - step.usage.read) > TOLERANCE * max(step.usage.read, 1):
            disagreements.append(_explained(request, foreseen, step.at - before))
        outcome = cache.begin(marked_prompt(model, request.billed, CacheControls(marks=request.billed_marks)), step.at)
        waiting.append((step.at if step.first_token_at is None else step.first_token_at, outcome))
        before = step.at
    return disagreements


def _model(name: str, immortal: bool) -> ModelFacts:
    model = facts.model(name)
    if not immortal:
        return model
    return replace(model, ttls=tuple(replace(ttl, seconds=_FOR_EVER) for ttl in model.ttls))


def _explained(request: Rebuilt, foreseen: int, gap: float) -> Disagreement:
    """Explain a disagreement from the trace. It is unknowable only if the trace has no explanation."""
    step = request.step
    assert step.usage is not None
    billed, ttl = step.usage.read, request.marks[-1].ttl if request.marks else "5m"
    unknowable = False
    if request.shrank:
        why = "the prompt became shorter, and no reset was reckoned with"
    elif gap > (facts.model(step.model).ttl_seconds(ttl) or 0):
        why = f"the lane had been idle for {gap:.0f} s, longer than {ttl}"
    elif billed < foreseen:
        unknowable = True
        why = "what had been sent was changed or lost within its lifetime, without a reset: only the bytes could tell"
    else:
        why = "more was read than any live entry holds"
    return Disagreement(step.number, foreseen, billed, unknowable, why)
