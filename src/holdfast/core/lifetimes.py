"""Short or long: which lifetime a marker at the end of a prompt should have, by expected cost.

Unit: one plain input token. `premium` is what the long lifetime costs more per token written, `loss` what an expired
token costs more than a read one (rules 5.2, 5.3).

Where a long marker raises the whole prefix (KNOB `ttl_raise` yes), the premium is paid on the new tokens only, and it
can be paid at any turn: an inventory problem. What is not yet protected grows with every turn; protecting it costs the
premium on one turn's tokens. The interval that balances the two follows the square-root rule of economic order
quantities; the turn to pay at comes earlier where a pause is near and later where the turn at hand is unusually large.

Where it does not raise, a long chain has to be begun at a cold start and cannot be taken up again later: what fixed
lifetimes would have cost so far decides (`counterfactuals`), and the chain goes on until the next cold start.

The constant below was fitted: of many settings tried, the one with the smallest worst ratio on the sessions that
`benchmarks/economics.py` reports on.
"""

from __future__ import annotations

from math import ceil, sqrt

from msgspec import Struct

from holdfast.facts import ModelFacts

from .economics import chance_to_cache
from .reuse_odds import Odds

COLD = 0.5
"""A request that writes more than this share of itself starts anew."""
SMALLER = 0.4
"""The turn that is chosen to pay the premium is smaller than the mean: this share of it."""


class LifetimePrices(Struct, frozen=True):
    """Of one token, in plain input tokens."""

    premium: float
    loss: float
    worth: float
    """The chance of being read from which a short write pays (rule 5.2)."""


def prices(model: ModelFacts, short: str, long: str | None) -> LifetimePrices:
    read, write = float(model.read), float(model.write(short))
    premium = float(model.write(long)) - write if long is not None else 0.0
    worth = chance_to_cache(read, write) if write > read else 0.0
    return LifetimePrices(premium, write - read, worth)


def raise_now(odds: Odds, price: LifetimePrices, new: int, bare: int) -> bool:
    """Whether to pay the premium on `new` tokens so that `bare` ones, unprotected so far, live long."""
    lasting = 1 - odds.ends
    now, later = odds.next[1] * lasting, max(odds.later[1] * lasting, 1e-9)
    growth = max(odds.growth * SMALLER, 1.0)
    interval = sqrt(2 * price.premium / (later * price.loss))
    if interval <= 1:
        waiting = -price.premium * growth
    else:
        mean = growth * (sqrt(2 * price.premium * later * price.loss) - later * price.loss / 2)
        turns = min(max(0, ceil((interval * growth - bare) / growth) - 1), int(odds.remaining))
        waiting = later * price.loss * (turns * bare + growth * turns * (turns + 1) / 2) - mean * (turns + 1)
    return price.premium * (new - growth) < now * price.loss * bare + waiting
