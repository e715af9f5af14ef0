"""Turns that pay in full for what their conversation had sent before, because that was left without markers.

Where most conversations of a client end with their first request, the next one's is not written. Whether that was right
shows when it goes on: then a marker would have been read.
"""

from __future__ import annotations

from holdfast.facts import rates
from holdfast.records import Usage

from .call import Missed, Prepared


def missed(prepared: Prepared, usage: Usage) -> Missed | None:
    """What a turn missed whose conversation was left without markers until then; None for any other."""
    plan, before, model = prepared.plan, prepared.before, prepared.asked.model
    if before is None or before.marks or before.covered or not plan.marks or prepared.asked.alone.marks:
        return None
    if plan.strategy != "economic" or prepared.comparison is None or prepared.comparison.course != "extension":
        return None
    lives = model.ttl_seconds(model.default_ttl or "") or 0
    ours, price = prepared.prompt.tokens, rates(model.ref, prompt_tokens=usage.prompt)
    if price is None or not ours or (prepared.gap or 0.0) > lives:
        return None
    known = min(usage.prompt, round(sum(before.counts()) * usage.prompt / ours))
    tokens = known - usage.read
    write = price.write(model.default_ttl)
    dollars = tokens * (write - price.read) - known * (write - price.input)
    return Missed(tokens, dollars) if known >= model.floor and dollars > 0 else None
