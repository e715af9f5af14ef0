"""`zones` (document C): a marker on system text or tools, one or more in the messages, one at the tail.

This places the markers; their lifetimes are chosen in `core.retention`. If there are more than a request may have, the
mid zone is dropped first, then the recent one.
"""

from __future__ import annotations

from bisect import bisect_right

from msgspec.structs import replace

from holdfast.caches import Mark

from .. import retention
from ..plan import Plan
from ..retention import TTLS
from ..situation import Situation
from .places import Wish, free, last_system, last_tool, marks_tail_itself, plan, tail, user_ends

NAME = "zones"

_MULTI_ZONE = ("bedrock", "vertex")


def zones(situation: Situation) -> Plan:
    settings, state = situation.settings, situation.ledger.retention
    lives = retention.lifetimes(state, settings, situation.model, subagent=situation.subagent)
    if lives.older == "none" or lives.recent == "none":
        return Plan(strategy=NAME, reasons=("retention is none: no markers of ours",))
    short = (retention.override(settings, situation.model) or settings.retention) == "short"
    if short or situation.subagent:  # it reads its parent's long entries and writes none of its own
        situation = replace(situation, pinned=tuple(Mark(mark.block, TTLS["short"]) for mark in situation.pinned))
    older, recent = TTLS[lives.older], TTLS[lives.recent]
    system = last_system(situation)
    wishes = [Wish(last_tool(situation) if system is None else system, older, f"tools and system text, {lives.older}")]
    ends = user_ends(situation)
    if len(ends) > 1:
        wishes.append(Wish(ends[-2], recent, f"recent zone, {lives.recent}"))
        if _placement(situation) == "multi-zone":
            places = _older_zones(situation, ends)
            wishes += [Wish(place, older, f"{name} zone, {lives.older}") for name, place in places]
    if not marks_tail_itself(situation):
        wishes.append(Wish(tail(situation), recent, f"tail, {lives.recent}"))
    return plan(situation, NAME, wishes)


def _placement(situation: Situation) -> str:
    if situation.settings.placement != "auto":
        return situation.settings.placement
    return "multi-zone" if situation.model.provider in _MULTI_ZONE else "single"


def _older_zones(situation: Situation, ends: list[int]) -> list[tuple[str, int]]:
    """Semi-stable: the summary of a compaction; where there is none, the last user message that begins within the first
    half of the messages' tokens. Mid: the last one within the first half of what lies between that and the recent zone.
    """
    prompt, recent = situation.prompt, ends[-2]
    first = next(i for i, block in enumerate(prompt.blocks) if block.section == "messages")
    begin = prompt.ends[first] - prompt.blocks[first].tokens
    semi = situation.summary
    if semi is None or not free(situation, semi):
        semi = _at_or_before(situation, ends, (begin + prompt.tokens) / 2)
    if semi is None or semi >= recent:
        return []
    mid = _at_or_before(situation, ends, (prompt.ends[semi] + prompt.ends[recent]) / 2)
    return [("semi-stable", semi), *([("mid", mid)] if mid is not None and semi < mid < recent else [])]


def _at_or_before(situation: Situation, ends: list[int], tokens: float) -> int | None:
    """The last of these places that ends within so many tokens."""
    within = bisect_right([situation.prompt.ends[end] for end in ends], tokens)
    return ends[within - 1] if within else None
