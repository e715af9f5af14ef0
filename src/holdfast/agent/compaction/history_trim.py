"""At most so many turns of the user's are sent (`agent.history_turns`); the others go many at a time.

A window that slides with every turn would lose its prefix each time. So when one turn too many is about to begin, the
older half goes at once: the next trim is due only when the window is full again. Where the prefix is lost anyway,
because nothing is cached or something else has reset it, a window that is nearly full is trimmed already then: what
would have to be written twice is written once.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ..window.entries import Entry
from .cut import dangling, first_of, turn_starts

_NEARLY_FULL = 4
"""A window is nearly full when no more than one turn in so many is missing."""


class Trim(Struct, frozen=True):
    """What goes: the entries from `head` up to `cut`."""

    head: int
    cut: int


def kept_turns(turns: int) -> int:
    """How many of at most `turns` turns stay when a window is trimmed, with the one that begins."""
    return (turns + 1) // 2


def trim(entries: Sequence[Entry], turns: int, *, lost: bool = False) -> Trim | None:
    """What to leave out before one more turn of the user's begins, so that no more than `turns` (0: all) are sent;
    None where nothing is due. `lost` says that the prefix cannot be read any more."""
    starts = turn_starts(entries)
    full = turns - turns // _NEARLY_FULL if lost else turns
    if not turns or len(starts) + 1 <= full:
        return None
    head = first_of(entries)
    cut = _cut(entries, head, starts, kept_turns(turns) - 1, turns - 1)
    return None if cut <= head else Trim(head, cut)


def _cut(entries: Sequence[Entry], head: int, starts: Sequence[int], kept: int, most: int) -> int:
    """Where the first turn that stays begins: the one that leaves `kept` turns. A skill's pointer never stays without
    its body: then fewer turns stay, or up to `most` if there would be none, or none."""
    wanted = len(starts) - kept
    fewer = starts[wanted:] or (len(entries),)
    more = reversed(starts[max(0, len(starts) - most) : wanted])
    places = (place for place in (*fewer, *more) if dangling(entries, head, place) is None)
    return next(places, len(entries))
