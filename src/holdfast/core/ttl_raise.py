"""Whether a long marker after a short-lived prefix extends the life of all of it: learned from verdicts, per route.

No source settles it (KNOB `ttl_raise`). An entry with a long marker after a short one is a test as soon as it is used
again after the short lifetime and before the long one: either it is read, or it is not.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from holdfast.caches import Outcome, Prompt, reach

from .experience import LONG, SHORT, RouteExperience
from .pool import Pool

_NEAR = 0.02
DOUBTS = 2
"""Pauses in a row after which a belief is given up."""


class Test(Struct, frozen=True):
    """What will be read if long markers raise, and if they do not."""

    raised: int
    plain: int


def test(prompt: Prompt, pool: Pool, now: float) -> Test | None:
    """What a request can prove, None where both ways give the same. What no marker reaches (A4) is not read whether it
    lives or not, and proves nothing."""
    model = pool.model
    if model.knobs.ttl_raise != "no":
        return None
    lives = {ttl.name: ttl.seconds for ttl in model.ttls}
    for entry in pool.known(prompt.keys):
        if entry.seconds < lives.get(entry.ttl, 0):
            break
    else:  # as almost always: only what lives shorter than it is marked can be raised
        return None
    places = {index for mark in prompt.marks for index in reach(prompt.blocks, mark.block, model)}
    plain, raised = 0, 0
    for index in sorted(places):
        current = pool.get(prompt.keys[index])
        if current is None or current.readable > now:
            continue
        used = current.expires - current.seconds
        marked = float(model.ttl_seconds(current.ttl) or 0)
        if current.expires >= now:
            plain = raised = current.tokens
        elif current.seconds < marked and now <= used + marked:
            raised = current.tokens
    return Test(raised, plain) if raised > plain else None


def proof(test: Test | None, read: int, route: RouteExperience) -> Literal["yes", "no"] | None:
    """What a read proves; None if it is neither the one nor the other."""
    if test is None or route.raises is not None:
        return None
    if abs(read - test.raised) <= _NEAR * test.raised:
        return "yes"
    return "no" if abs(read - test.plain) <= _NEAR * test.raised else None


def refuted(outcome: Outcome, gap: float | None, read: int, route: RouteExperience) -> Literal["no"] | None:
    """Takes a proof back: twice in a row what should have lived long because of it was not there after a pause."""
    if route.raises != "yes" or gap is None or not SHORT < gap <= LONG or not outcome.read:
        return None
    route.doubts = route.doubts + 1 if read < outcome.read * (1 - _NEAR) else 0
    return "no" if route.doubts >= DOUBTS else None
