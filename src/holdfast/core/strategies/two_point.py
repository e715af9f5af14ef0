"""`two-point` (document A): the last tool and the last stable system block."""

from __future__ import annotations

from ..plan import Plan
from ..situation import Situation
from .places import Wish, last_system, last_tool, overridden

NAME = "two-point"


def two_point(situation: Situation, ttl: str = "5m") -> Plan:
    return overridden(situation, NAME, head(situation, ttl))


def head(situation: Situation, ttl: str) -> list[Wish]:
    """The two points. Where tools cannot be marked (OpenAI) only the end of the system text is left, and other sessions
    share it."""
    return [
        Wish(last_tool(situation), ttl, "the last tool"),
        Wish(last_system(situation), ttl, "the last stable system block"),
    ]
