"""Gap patterns: when the requests of a session come, imposed on its user turns.

A gap lies between the starts of two requests. Only gaps before user turns of the main lane (the one with the most
requests) are imposed; inside tool loops and in other lanes the recorded gap stays, or `TOOL_GAP` where there is none.

| pattern | before a user turn |
|---|---|
| real | as recorded |
| none | 10 s |
| minutes | log-normal, median 4 min, sigma 1.0 |
| office | 10 s within a burst of 5 to 15 requests; before the first user turn after it is full, 10 to 50 min |

A burst counts all requests of the trace, also those of tool loops, and a pause falls only on a user turn: nobody leaves
in the middle of a tool loop, so a burst may run over its size until the next user turn.

Random numbers depend on the seed, the pattern and the trace's name, so sessions differ under one seed. They come from
`random.Random.random`, the one method whose sequence Python promises to keep, and are rounded to milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import exp
from random import Random
from statistics import NormalDist
from typing import Literal, get_args

from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.report.logs import Trace, TraceStep, lanes

Pattern = Literal["real", "none", "minutes", "office"]
PATTERNS: tuple[Pattern, ...] = get_args(Pattern)

SEEDS = (11, 23, 37, 53, 71)
"""The published ones: every figure we give is over these five."""

NO_GAP = 10.0
MEDIAN, SIGMA = 240.0, 1.0
BURST = (5, 15)
PAUSE = (600.0, 3000.0)
TOOL_GAP = 8.0
"""Near the median inside the tool loops of recorded coding sessions (7 to 10 s)."""
FIRST_TOKEN = 4.0
"""Seconds to the first token where none is recorded; recorded medians are 3.5 to 4.7 s."""


def with_gaps(trace: Trace, pattern: str, seed: int = SEEDS[0]) -> Trace:
    """The trace with its requests at the times of a pattern; the first one stays where it is, or starts at 0."""
    if pattern not in PATTERNS:
        raise HoldfastError(f"there is no gap pattern {pattern!r}; use one of {', '.join(PATTERNS)}.")
    if pattern == "real":
        if not trace.timed:
            raise HoldfastError(f"{trace.name} has no recorded times; use a gap pattern other than real.")
        return trace
    pause = _PAUSES[pattern](Random(f"{seed} {pattern} {trace.name}"))
    main = max(lanes(trace).items(), key=lambda item: len(item[1]))[0] if trace.steps else ""
    steps: list[TraceStep] = []
    for step in trace.steps:
        at = (step.at or 0.0) if not steps else _after(steps[-1]) + _recorded(trace, len(steps))
        imposed = pause(step.lane == main and step.kind == "user")
        if steps and imposed is not None:
            at = _after(steps[-1]) + imposed
        wait = FIRST_TOKEN if step.at is None or step.first_token_at is None else step.first_token_at - step.at
        steps.append(replace(step, at=round(at, 3), first_token_at=round(at + wait, 3)))
    return replace(trace, steps=tuple(_answered(steps)))


def _after(step: TraceStep) -> float:
    assert step.at is not None
    return step.at


def _recorded(trace: Trace, number: int) -> float:
    before, step = trace.steps[number - 1].at, trace.steps[number].at
    return TOOL_GAP if before is None or step is None else step - before


def _answered(steps: list[TraceStep]) -> Iterator[TraceStep]:
    """A lane's next request follows its last answer, so that one must have begun."""
    following: dict[str, float] = {}
    steps_answered: list[TraceStep] = []
    for step in reversed(steps):
        assert step.first_token_at is not None
        begun = min(step.first_token_at, following.get(step.lane, step.first_token_at))
        steps_answered.append(replace(step, first_token_at=begun))
        following[step.lane] = _after(step)
    return reversed(steps_answered)


Pause = Callable[[bool], float | None]
"""Told for each request whether it is a user turn of the main lane; the imposed gap before it, if any."""


def _none(rng: Random) -> Pause:
    return lambda user: NO_GAP if user else None


def _minutes(rng: Random) -> Pause:
    normal = NormalDist(0.0, SIGMA)

    def pause(user: bool) -> float | None:
        if not user:
            return None
        share = min(max(rng.random(), 1e-12), 1 - 1e-12)  # the ends have no quantile
        return MEDIAN * exp(normal.inv_cdf(share))

    return pause


def _office(rng: Random) -> Pause:
    served, size = 0, _between(rng, *BURST)

    def pause(user: bool) -> float | None:
        nonlocal served, size
        gap = None
        if user:
            gap = NO_GAP
            if served >= size:
                gap = PAUSE[0] + rng.random() * (PAUSE[1] - PAUSE[0])
                served, size = 0, _between(rng, *BURST)
        served += 1
        return gap

    return pause


def _between(rng: Random, least: int, most: int) -> int:
    return least + int(rng.random() * (most - least + 1))


_PAUSES: dict[str, Callable[[Random], Pause]] = {"none": _none, "minutes": _minutes, "office": _office}
