"""A coding session of our own making as a shape trace, with pauses, a compaction and a sub-agent if wanted."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.lab import Shape, ShapeBlock, Trace, TraceStep
from holdfast.records import Usage, usage
from holdfast.report.logs.traces import kind_of_shape, lane_name

MODEL = "claude-opus-4-6"
HEAD, OWN = 9_000, 3_000
PAUSES = {9: 400.0, 17: 2_000.0, 25: 4_000.0, 33: 700.0}


def coding_session(requests: int = 40, *, name: str = "own", compaction: int = 21, agent: bool = False) -> Trace:
    """So many requests in tool loops; before some of them the user is away. One is the first after a compaction."""
    steps: list[TraceStep] = []
    at, covered = 0.0, HEAD + OWN
    for number in range(1, requests + 1):
        added = _added(number, number == 1 or number in PAUSES)
        growth = sum(block.chars + 40 for block in added) // 4
        reset = "compaction" if number == compaction else None
        before = HEAD + OWN if reset or number == 1 else covered
        covered = before + growth
        billed = usage(input=3, read=HEAD if number == 1 else before, writes={"5m": covered - before}, output=200)
        if number == 1:
            billed = usage(input=3, read=HEAD, writes={"1h": OWN, "5m": growth}, output=200)
        at += PAUSES.get(number, 9.0) if number > 1 else 0.0
        steps.append(_step(number, at, added, billed, reset))
    if agent:
        steps = _with_agent(steps)
    return Trace(name, f"{name}.jsonl:1", tuple(steps))


def _added(number: int, user: bool) -> tuple[ShapeBlock, ...]:
    if number == 1:
        return (ShapeBlock("user", "text", 900),)
    calls = 1 + number % 3
    said = [ShapeBlock("assistant", "thinking", 300)] if number % 4 == 0 else []
    said += [ShapeBlock("assistant", "text", 120), *(ShapeBlock("assistant", "tool_use", 150, "Bash"),) * calls]
    results = [ShapeBlock("user", "tool_result", 900 * (1 + (number + each) % 5)) for each in range(calls)]
    return (*said, *results, *((ShapeBlock("user", "text", 200),) if user else ()))


def _step(
    number: int, at: float, added: tuple[ShapeBlock, ...], billed: Usage, reset: str | None, *, side: bool = False
) -> TraceStep:
    return TraceStep(
        number=number,
        at=round(at, 3),
        first_token_at=round(at + 3.0, 3),
        lane=lane_name(MODEL, side),
        model=MODEL,
        kind=kind_of_shape(added),
        content=Shape(added),
        reset=reset,
        usage=billed,
    )


def _with_agent(steps: list[TraceStep]) -> list[TraceStep]:
    """The same with a sub-agent beside requests 10 to 14."""
    found, number, covered = [], 0, 6_000
    for step in steps:
        number += 1
        found.append(replace(step, number=number))
        if 10 <= step.number < 15:
            number += 1
            before = covered
            covered += 500
            billed = usage(input=2, read=before if step.number > 10 else 0, writes={"5m": covered - before}, output=90)
            assert step.at is not None
            found.append(_step(number, step.at + 1.5, (ShapeBlock("user", "text", 900),), billed, None, side=True))
    return found
