"""Break-even arithmetic of prompt caches: rules 5.2, 5.4, 5.5, 5.6 and 5.8 as functions of multipliers.

`r` is what reading a token costs and `w` what writing it costs, as shares of the base input price; both come from
`facts`, as floats or Decimals but not mixed. A rule says where the break-even lies; strictly beyond it something pays,
on it nothing is won. Knows no provider, no clock and no dollars.

`Costs` are what a predicted request costs, in dollars as floating point: for decisions, not for bills.
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from math import ceil
from typing import NamedTuple, TypeVar

from msgspec import Struct

from holdfast.caches import Outcome
from holdfast.facts import ModelFacts, rates
from holdfast.records import UNSPLIT, Usage

N = TypeVar("N", float, Decimal)


def chance_to_cache(r: N, w: N) -> N:
    """Rule 5.2: a write at every request pays if each later request hits with more than this probability."""
    return (w - 1) / (w - r)


def chance_to_ping(r: N, w: N, ping: N | None = None) -> N | None:
    """Rule 5.4: a ping pays if the lane returns within the next interval with more than this probability; None if it
    never does.

    `ping` is what one costs where the provider makes it say something: as written, the rule has a read and no more.
    """
    return (r if ping is None else ping) / (w - r) if w > r else None


def pings_before_long(r: N, short: N, long: N) -> N:
    """Rule 5.4: with this many pings a session the long lifetime costs the same; with more it is cheaper."""
    return (long - short) / r


def edit_cost(behind: N, r: N, w: N) -> N:
    """Rule 5.5: the cost of an edit, once, with `behind` cached tokens after it."""
    return behind * (w - r)


def requests_to_edit(behind: N, removed: N, r: N, w: N) -> N | None:
    """Rule 5.5: an edit that removes tokens pays after more further requests than this; None if it removes nothing."""
    return behind * (w - r) / (r * removed) if removed > 0 and r > 0 else None


class Multipliers(NamedTuple):
    """What tokens of one model cost, as shares of the base input price."""

    read: float
    write: float
    head: float
    """Writing tools and system text."""


def session_cost(
    prefix: float, floor: float, price: Multipliers, *, calls: float, growth: float, opening: float = 0.0
) -> float:
    """Rule 5.6 for a conversation that grows: the expected cost of a session's prompts.

    `prefix` are tools and system text, written at the head's price if they reach the floor; `opening` is the rest of
    the first message, `growth` what each request adds, the first one included. Below the floor the provider caches
    nothing until the conversation has passed it. The number of requests is geometric, with the mean `calls`: costs of
    the first ones count for more sessions than those of later ones. Without growth and opening, and with equal prices
    of writing, two of these are equal after as many calls as the rule says.
    """
    r, w, head = price
    stays, start = 1 - 1 / calls, prefix + opening

    def requests(first: int) -> float:
        """Return the expected number of requests from this one on."""
        return stays ** (first - 1) * calls

    def added(first: int) -> float:
        """Return the same, each weighted with its number."""
        return requests(first) * (first + calls - 1)

    if prefix >= floor:
        number, written = 1, head * prefix + w * (opening + growth)
    elif growth <= 0 and start < floor:
        return start * calls
    else:
        number = max(1, ceil((floor - start) / growth)) if growth > 0 else 1
        written = w * (start + growth * number)
    plain = start * (calls - requests(number)) + growth * (added(1) - added(number))
    later = number + 1
    cached = (r * (start - growth) + w * growth) * requests(later) + r * growth * added(later)
    return plain + stays ** (number - 1) * written + cached


def uses_to_hold(price: N, read: N, storage: N, *, covered: N, tokens: N, implicit: N) -> N | None:
    """Rule 5.8: holding tokens in a rented cache pays above so many uses; None if it never does.

    Prices per token: `price` to put it there, `read` to use it, `storage` for the whole time it is held. `covered` of
    the `tokens` are held already, so that only the others gain by a larger object, though all of them are paid for
    again. `implicit` is how often they would be read without it: the rule as written has neither (0).
    """
    fresh = tokens - covered
    gain = (price - read) * fresh * (1 - implicit)
    return (price * tokens + storage * fresh) / gain if gain > 0 else None


UNKNOWN = 1e-6
"""Dollars a token where no price is known: decisions weigh shares of it, so any figure does."""


class Costs(Struct, frozen=True):
    """Dollars per token of one model, below or above its price cliff."""

    input: float
    read: float
    writes: tuple[tuple[str, float], ...]

    def write(self, ttl: str) -> float:
        name = "5m" if ttl == UNSPLIT else ttl
        for named, price in self.writes:
            if named == name:
                return price
        return max([price for _, price in self.writes], default=self.input)

    def of(self, usage: Usage | Outcome) -> float:
        """Return the cost of the prompt; the output costs the same under every plan."""
        written = 0.0
        for ttl, tokens in usage.writes:
            written += tokens * self.write(ttl)
        return usage.input * self.input + usage.read * self.read + written


def costs(model: ModelFacts, tokens: int) -> Costs:
    """Return the prices of a request with `tokens` prompt tokens."""
    above = model.cliff.above if model.cliff is not None and tokens > model.cliff.above else 0
    return _costs(model, above)


@lru_cache(maxsize=256)
def _costs(model: ModelFacts, above: int) -> Costs:
    listed = rates(model.ref, prompt_tokens=above + 1 if above else 0)
    if listed is not None:
        writes = tuple((ttl, float(price)) for ttl, price in listed.writes)
        return Costs(float(listed.input), float(listed.read), writes)
    writes = tuple((ttl, UNKNOWN * float(share)) for ttl, share in model.writes)
    return Costs(UNKNOWN, UNKNOWN * float(model.read), writes)
