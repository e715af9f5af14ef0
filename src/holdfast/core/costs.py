"""What a predicted request costs, in dollars as floating point: for decisions, not for bills."""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct

from holdfast.caches import Outcome
from holdfast.facts import ModelFacts, rates
from holdfast.records import UNSPLIT, Usage

UNKNOWN = 1e-6
"""Dollars a token where no price is known: decisions weigh shares of it, so any figure does."""


class Costs(Struct, frozen=True):
    """Dollars per token of one model, below or above its price cliff."""

    input: float
    read: float
    writes: tuple[tuple[str, float], ...]

    def write(self, ttl: str) -> float:
        name = "5m" if ttl == UNSPLIT else ttl
        for known, price in self.writes:
            if known == name:
                return price
        return max([price for _, price in self.writes], default=self.input)

    def of(self, usage: Usage | Outcome) -> float:
        """The prompt's cost; what is answered costs the same under every plan."""
        written = 0.0
        for ttl, tokens in usage.writes:
            written += tokens * self.write(ttl)
        return usage.input * self.input + usage.read * self.read + written


def costs(model: ModelFacts, tokens: int) -> Costs:
    """The prices of a request with so many prompt tokens."""
    above = model.cliff.above if model.cliff is not None and tokens > model.cliff.above else 0
    return _costs(model, above)


@lru_cache(maxsize=256)
def _costs(model: ModelFacts, above: int) -> Costs:
    known = rates(model.ref, prompt_tokens=above + 1 if above else 0)
    if known is not None:
        return Costs(float(known.input), float(known.read), tuple((ttl, float(price)) for ttl, price in known.writes))
    writes = tuple((ttl, UNKNOWN * float(share)) for ttl, share in model.writes)
    return Costs(UNKNOWN, UNKNOWN * float(model.read), writes)
