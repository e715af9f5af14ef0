"""Requests to providers that cache only at markers, without one: nothing broke, and everything is paid in full.

What a marker at the end of each would have saved: within five minutes of the request before it reads what it shares
with that one (all of it, unless the bytes show less), and writes the rest.
"""

from __future__ import annotations

from decimal import Decimal

from holdfast.facts import ModelFacts, Rates
from holdfast.records import Usage

from .lanes import SHORT
from .prices import EXACT, ZERO


def is_unmarked(usage: Usage, model: ModelFacts, body: bytes | None) -> bool:
    """Whether a request neither read nor wrote although it was long enough (A6, A9), and its body, if it is known, has
    no marker either."""
    if model.caching != "explicit" or usage.input < model.floor or usage.read or usage.writes:
        return False
    return body is None or (model.marker or "").encode() not in body


class UnmarkedRequests:
    """The requests of a lane without markers."""

    __slots__ = ("prompt", "requests", "saves")

    def __init__(self) -> None:
        self.requests = 0
        self.prompt = 0
        self.saves: Decimal = ZERO

    def add(self, usage: Usage, model: ModelFacts, rates: Rates, gap: float | None, shared: float | None) -> None:
        """One more. `shared` is the part of the prompt that is the same as before, where the bytes tell."""
        alive = gap is None or gap <= (model.ttl_seconds(SHORT) or 0)
        before = self.prompt if shared is None else min(self.prompt, round(usage.prompt * shared))
        read = min(before, usage.prompt) if alive else 0
        cheaper = EXACT.multiply(read, EXACT.subtract(rates.input, rates.read))
        dearer = EXACT.multiply(usage.prompt - read, EXACT.subtract(rates.write(SHORT), rates.input))
        self.saves = EXACT.add(self.saves, EXACT.subtract(cheaper, dearer))
        self.requests += 1
        self.prompt = usage.prompt

    def plus(self, other: UnmarkedRequests) -> UnmarkedRequests:
        """Those of two lanes."""
        self.requests += other.requests
        self.saves = EXACT.add(self.saves, other.saves)
        return self
