"""`rolling`: two-point and the last block of the prompt, which is what the providers' automatic caching gives."""

from __future__ import annotations

from ..plan import Plan
from ..situation import Situation
from .places import Wish, marks_tail_itself, overridden, tail
from .two_point import head

NAME = "rolling"


def rolling(situation: Situation, ttl: str = "5m", head_ttl: str | None = None) -> Plan:
    """`head_ttl` is the lifetime of tools and system text where it differs from the tail's."""
    wishes = head(situation, head_ttl or ttl)
    if not marks_tail_itself(situation):
        wishes.append(Wish(tail(situation), ttl, "the last block that can carry a marker"))
    return overridden(situation, NAME, wishes)
