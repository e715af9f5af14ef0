"""The sessions that the benchmarks replay: recordings where they are on this machine, else our own small ones."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from holdfast.caches import chain
from holdfast.facts import ModelFacts
from holdfast.lab import SEEDS, TimedCall, Trace, lanes, read, with_gaps
from holdfast.lab.rebuild import rebuild
from holdfast.lab.sessions import calls_of
from holdfast.records import Request

ROOT = Path(__file__).parents[1]
_NAMED = os.environ.get("HOLDFAST_TRACES", "")
RECORDED = Path(_NAMED) if _NAMED else ROOT.parent / "shared" / "traces"
OWN = ROOT / "tests" / "fixtures" / "traces"
FOLDER = RECORDED if RECORDED.is_dir() else OWN
JUDGED = FOLDER is RECORDED
"""The limits speak of recorded sessions; our own few are too small for them, and their figures are only shown."""
SOURCE = "recorded sessions" if FOLDER is RECORDED else "our own small sessions; set HOLDFAST_TRACES for recorded ones"


PUBLIC = RECORDED / "sessions"
"""Shape traces of public sessions, which are not part of the repository; `public_sessions.py` has their figures."""


@cache
def traces() -> tuple[Trace, ...]:
    return tuple(read(FOLDER))


def shaped() -> list[Trace]:
    """Sessions of which sizes and times were recorded."""
    return [trace for trace in traces() if all(step.usage is not None for step in trace.steps)]


@cache
def many() -> tuple[Trace, ...]:
    """Many sessions of which sizes and times were recorded, where they are on this machine."""
    folder = FOLDER / "sessions"
    return tuple(read(folder)) if folder.is_dir() else tuple(shaped())


def dialogues() -> list[Trace]:
    """Short conversations with texts."""
    return [trace for trace in traces() if _spoken(trace) and ":" in trace.source]


def session() -> Trace:
    """A session with texts."""
    return next(trace for trace in traces() if _spoken(trace) and ":" not in trace.source)


def _spoken(trace: Trace) -> bool:
    return isinstance(trace.steps[0].content, Request)


def shaped_calls(pattern: str, seed: int, model: ModelFacts) -> list[list[TimedCall]]:
    """The prompts of every lane of the shaped sessions, as if they had gone to this model."""
    found = []
    for trace in shaped():
        for steps in lanes(with_gaps(trace, pattern, seed)).values():
            calls: list[TimedCall] = []
            like = None
            for step in rebuild(steps):
                # What followed the last marker was not part of the conversation: a few tokens that came once.
                blocks = [block for block in (step.billed if step.shrank else step.blocks) if block.markable]
                like = chain.build(model.ref, blocks, like=like)
                assert step.step.at is not None
                assert step.step.first_token_at is not None
                calls.append(TimedCall(step.step.at, step.step.first_token_at, like))
            found.append(calls)
    return found


def dialogue_calls(pattern: str, seed: int, model: ModelFacts) -> list[list[TimedCall]]:
    return [calls_of(with_gaps(trace, pattern, seed), model) for trace in dialogues()]


def seeds(pattern: str, *, quick: bool) -> tuple[int, ...]:
    """Patterns without chance need no seeds."""
    if pattern in ("real", "none"):
        return SEEDS[:1]
    return SEEDS[:2] if quick else SEEDS
