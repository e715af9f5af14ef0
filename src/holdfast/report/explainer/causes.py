"""Why a read fell short, from billed usage alone: what the figures prove and no more.

In this order: a request in flight, a lifetime that had passed, a request without markers or below the floor, then by
how much was still read: down to the shared head (messages), below it (tools or system text), nothing (unknown).
"""

from __future__ import annotations

from holdfast.records import BreakCause, Usage, expiry

from .lanes import LaneUsage


def cause_of(lane: LaneUsage, usage: Usage, at: float | None, expired: float | None) -> BreakCause:
    """The cause of a fall; `lane` is as it was before the request."""
    if lane.raced(usage, at):
        return "parallel_race"
    if expired is not None:
        return expiry(expired)
    if not usage.read and not usage.writes and lane.tail is not None and lane.model.caching == "explicit":
        # A marker above the floor reads or writes (A6, A9), and this log tells of writes: there was none above it.
        return "below_minimum" if usage.prompt < lane.model.floor else "lookback_exceeded"
    if not usage.read:
        return "unknown"
    if lane.head is None or usage.read >= lane.head - lane.slack:
        return "messages_rewritten"
    return "system_prompt_changed"


def lost_by_provider(before: LaneUsage, usage: Usage, found_expected: int) -> bool:
    """Whether a request proves that what the one before it could not read was still there: it reads more than that one
    left behind, and all that had been expected."""
    return before.exact and usage.read > before.covered and usage.read >= found_expected
