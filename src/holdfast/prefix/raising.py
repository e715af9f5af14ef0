"""Whether a long marker behind a short-lived prefix makes all of it live long: learned from verdicts, per route.

No source settles it (KNOB `ttl_raise`). An entry with a long marker behind a short one is a test as soon as it is used
again after the short lifetime and before the long one: either it is read, or it is not.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from holdfast.caches.values import Prompt

from .experience import Route
from .pool import Pool

_NEAR = 0.02


class Test(Struct, frozen=True):
    """What will be read if long markers raise, and if they do not."""

    raised: int
    plain: int


def test(prompt: Prompt, pool: Pool, now: float) -> Test | None:
    """What a request can prove, None where both ways give the same."""
    knob = pool.model.knobs.ttl_raise
    if knob is None or not prompt.marks:
        return None
    last = max(mark.block for mark in prompt.marks)
    plain, raised = 0, 0
    for key in prompt.keys[: last + 1]:
        entry = pool.get(key)
        if entry is None or entry.readable > now:
            continue
        used = entry.expires - entry.seconds
        marked = float(pool.model.ttl_seconds(entry.ttl) or 0)
        if entry.expires >= now and knob == "no":
            plain = raised = max(raised, entry.tokens)
        elif knob == "no" and entry.seconds < marked and now <= used + marked:
            raised = entry.tokens
    return Test(raised, plain) if raised > plain else None


def proof(test: Test | None, read: int, route: Route) -> Literal["yes", "no"] | None:
    """What a read proves; None if it is neither the one nor the other."""
    if test is None or route.raises is not None:
        return None
    if abs(read - test.raised) <= _NEAR * test.raised:
        return "yes"
    return "no" if abs(read - test.plain) <= _NEAR * test.raised else None
