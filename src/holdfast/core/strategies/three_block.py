"""`three-block` (document E): tools and preferences for an hour, the conversation for five minutes,
or for an hour where the lane has proved slow.

The host's block is covered by the preferences' marker and has none of its own; without preferences it carries it.
"""

from __future__ import annotations

from ..plan import Plan
from ..retention import TTLS, is_slow
from ..situation import Situation
from .places import Wish, last_system, last_tool, marks_tail_itself, overridden, tail

NAME = "three-block"


def three_block(situation: Situation) -> Plan:
    wishes = [Wish(last_tool(situation), TTLS["long"], "tools")]
    if not situation.pinned:
        wishes.append(Wish(last_system(situation), TTLS["long"], "preferences, or else the host's system text"))
    if not marks_tail_itself(situation):
        slow = is_slow(situation.ledger.retention)
        why = "tail of a slow lane" if slow else "tail"
        wishes.append(Wish(tail(situation), TTLS["long" if slow else "short"], why))
    return overridden(situation, NAME, wishes)
