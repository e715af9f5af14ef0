"""The optimum of a session: conversations that share no prefix cannot help each other and are solved by themselves."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.caches import AnthropicCache, Mark, rules
from holdfast.errors import HoldfastError
from holdfast.facts import ModelFacts
from holdfast.records import Usage

from .marker_plans import TimedCall, outcomes
from .optimum.search import optimal
from .sessions import TimedRequest

MAX_STEPS, MAX_STEPS_RAISING = 50_000, 500_000
"""Steps of the search for one session, and where long markers raise short ones: a coding session of 150 requests takes
4,000 and up to 280,000, half a second and some ten; a client that breaks its prefix in a new place with every request
may need any number."""


def why_not(model: ModelFacts) -> str | None:
    """Why a model has no optimum, in a sentence; None where it has one."""
    if rules(model).make is AnthropicCache and model.lookback and {ttl for ttl, _ in model.writes} == {"5m", "1h"}:
        return None
    return f"{model.ref} has no optimum to compare with: it is defined for Anthropic's rules only."


def best_marks(turns: Sequence[TimedRequest], model: ModelFacts) -> list[tuple[Mark, ...]] | HoldfastError:
    """The markers of each request of a session on one model that cost least together, or why they cannot be found."""
    best: list[tuple[Mark, ...]] = [()] * len(turns)
    max_steps = MAX_STEPS_RAISING if model.knobs.ttl_raise == "yes" else MAX_STEPS
    for numbers in _conversations(turns):
        calls = [_call(turns[n], model) for n in numbers]
        try:
            plan = optimal(calls, model, max_steps=max_steps).plan
        except HoldfastError as problem:
            return problem
        for number, marks in zip(numbers, plan, strict=True):
            best[number] = marks
    return best


def billed(turns: Sequence[TimedRequest], marks: Sequence[tuple[Mark, ...]], model: ModelFacts) -> list[Usage]:
    """Return the usage billed for requests with these markers."""
    priced = outcomes([_call(turn, model) for turn in turns], tuple(marks), model)
    return [outcome.usage(turn.output) for turn, outcome in zip(turns, priced, strict=True)]


def _call(turn: TimedRequest, model: ModelFacts) -> TimedCall:
    warm = None if turn.warm is None else turn.warm.entry(turn.prompt, turn.at, model)
    return TimedCall(turn.at, turn.first_token_at, turn.prompt, warm)


def _conversations(turns: Sequence[TimedRequest]) -> list[list[int]]:
    """Requests that begin alike, together."""
    by_opening: dict[bytes, list[int]] = {}
    for number, turn in enumerate(turns):
        by_opening.setdefault(turn.prompt.keys[0] if turn.prompt.keys else b"", []).append(number)
    return list(by_opening.values())
