"""Turns that law 7 left without markers: what they cost more than they would have with them.

A client whose savings do not pay for writes is stood down, and its requests go out as it made them. Whether that was
right shows when its conversation goes on: then a marker would have been read.
"""

from __future__ import annotations

from holdfast.canonical import Usage
from holdfast.facts import rates

from .calls import Missed, Prepared
from .plans import LAW_7

_GOES_ON = ("extension", "resend")


def missed(prepared: Prepared, usage: Usage, *, second: bool) -> Missed | None:
    """What a turn without markers missed; None for one that had some, or whose client left them out of itself.

    `second` says that it is the second of its lane: its markers would have read what the first would have had to write,
    beside what itself would have to.
    """
    plan, before, model = prepared.plan, prepared.before, prepared.asked.model
    if plan.marks or not any(why.endswith(LAW_7) for why in plan.dropped):
        return None
    if before is None or prepared.comparison is None or prepared.comparison.course not in _GOES_ON:
        return None
    lives = model.ttl_seconds(model.default_ttl or "") or 0
    ours, price = prepared.prompt.tokens, rates(model.ref, prompt_tokens=usage.prompt)
    if price is None or not ours or (prepared.gap or 0.0) > lives:
        return None
    known = min(usage.prompt, round(sum(before.counts()) * usage.prompt / ours))
    tokens = known - usage.read
    written = usage.prompt - known + (known if second else 0)
    dollars = tokens * (price.input - price.read) - written * (price.write(model.default_ttl) - price.input)
    return Missed(tokens, dollars) if known >= model.floor and dollars > 0 else None
