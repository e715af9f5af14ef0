"""What a compaction costs and when it has paid for itself (CACHE-RULES 5.5), in dollars; None where prices are not
known."""

from __future__ import annotations

import math
from decimal import Decimal

from msgspec import Struct

from holdfast.core import edit_cost
from holdfast.facts import rates


class Payback(Struct, frozen=True, kw_only=True):
    """`rewrite` is what the next request pays more, `saved` what every request from then on pays less; after `payback`
    of them it is even, None for never."""

    rewrite: Decimal | None = None
    saved: Decimal | None = None
    payback: int | None = None


def estimate_payback(model: str, *, before: int, after: int, behind: int, cost: Decimal | None) -> Payback:
    """`before` and `after` are tokens of a whole request, `behind` those that stand behind the break and are written
    again, the summary included; `cost` is what was paid for the summary."""
    long, short = rates(model, prompt_tokens=before), rates(model, prompt_tokens=after)
    if long is None or short is None:
        return Payback()
    rewrite = edit_cost(Decimal(behind), short.read, short.write())
    saved = before * long.read - after * short.read
    if cost is None or saved <= 0:
        return Payback(rewrite=rewrite, saved=saved)
    return Payback(rewrite=rewrite, saved=saved, payback=math.floor((cost + rewrite) / saved) + 1)
