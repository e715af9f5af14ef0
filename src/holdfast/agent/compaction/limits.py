"""When a compaction is due, and when it has paid for itself (CACHE-RULES 5.5). Pure: tokens, turns and prices in."""

from __future__ import annotations

import math
from decimal import Decimal

from msgspec import Struct

from holdfast.config.sections import Compaction as Settings
from holdfast.core import edit_cost
from holdfast.facts import rates
from holdfast.wire import TOO_LONG as TOO_LONG
from holdfast.wire import is_too_long as is_too_long

_SMALLEST = 4
"""No more than this part of a context window is reserved for a summary: small models have little to give."""


class CompactionDue(Struct, frozen=True, kw_only=True):
    """A compaction is due: so many tokens are in use, and from `limit` on it is time. `must` where the next request
    would not fit at all."""

    tokens: int
    limit: int
    must: bool


def reserve_of(settings: Settings, context_limit: int) -> int:
    """Tokens kept free for the summary."""
    return max(1, min(settings.reserve_tokens, context_limit // _SMALLEST))


def limit_of(settings: Settings, context_limit: int, output_limit: int = 0) -> int:
    """Tokens in use from which on compaction is due: the share of the window or the user's own limit, and never so late
    that the request for a summary, or one with an answer of `output_limit` tokens, would not fit."""
    share = int(context_limit * settings.trigger_at)
    wanted = share if settings.limit_tokens is None else min(share, settings.limit_tokens)
    return max(1, min(wanted, context_limit - _answer(settings, context_limit, output_limit)))


def _answer(settings: Settings, context_limit: int, output_limit: int) -> int:
    """Tokens to be kept free for whatever is answered next; what is more than half of the window never fits."""
    return max(reserve_of(settings, context_limit), min(output_limit, context_limit // 2))


def due(
    settings: Settings,
    *,
    context_limit: int,
    used: int,
    pending: int = 0,
    output_limit: int = 0,
    turns_since: int | None = None,
) -> CompactionDue | None:
    """Whether it is time. `used` are the tokens of the last answer with its prompt, `pending` those that the next
    request adds, `output_limit` what it may be answered with; `turns_since` counts turns after the last compaction
    (None: there was none). While that is fresh nothing is due, unless the next request would not fit at all."""
    limit = limit_of(settings, context_limit, output_limit)
    must = used + pending + _answer(settings, context_limit, output_limit) > context_limit
    if not must and used < limit:
        return None
    if not must and turns_since is not None and turns_since < settings.cooldown_turns:
        return None
    return CompactionDue(tokens=used + pending, limit=limit, must=must)


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
