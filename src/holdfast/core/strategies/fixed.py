"""Strategies with fixed places: `passthrough`, `two-point` (document A), `rolling` and `three-block` (document E)."""

from __future__ import annotations

from ..plan import Plan
from ..retention import TTLS, is_slow
from ..situation import Situation
from .places import Wish, last_system, last_tool, marks_tail_itself, overridden, tail


def passthrough(situation: Situation) -> Plan:
    """As the client sent it."""
    return Plan(strategy="passthrough", marks=situation.prompt.marks, reasons=("as the client sent it",))


def two_point(situation: Situation, ttl: str = "5m") -> Plan:
    """The last tool and the last stable system block."""
    return overridden(situation, "two-point", head(situation, ttl))


def head(situation: Situation, ttl: str) -> list[Wish]:
    """The two points. Where tools cannot be marked (OpenAI) only the end of the system text is left, and other sessions
    share it."""
    return [
        Wish(last_tool(situation), ttl, "the last tool"),
        Wish(last_system(situation), ttl, "the last stable system block"),
    ]


def rolling(situation: Situation, ttl: str = "5m", head_ttl: str | None = None) -> Plan:
    """Two-point and the last block of the prompt, which is what the providers' automatic caching gives. `head_ttl` is
    the lifetime of tools and system text where it differs from the tail's."""
    wishes = head(situation, head_ttl or ttl)
    if not marks_tail_itself(situation):
        wishes.append(Wish(tail(situation), ttl, "the last block that can carry a marker"))
    return overridden(situation, "rolling", wishes)


def three_block(situation: Situation) -> Plan:
    """Tools and preferences for an hour, the conversation for five minutes, or for an hour in a slow lane.

    The host's block is covered by the preferences' marker; it carries a marker itself only without preferences."""
    wishes = [Wish(last_tool(situation), TTLS["long"], "tools")]
    if not situation.pinned:
        wishes.append(Wish(last_system(situation), TTLS["long"], "preferences, or else the host's system text"))
    if not marks_tail_itself(situation):
        slow = is_slow(situation.ledger.retention)
        why = "tail of a slow lane" if slow else "tail"
        wishes.append(Wish(tail(situation), TTLS["long" if slow else "short"], why))
    return overridden(situation, "three-block", wishes)
