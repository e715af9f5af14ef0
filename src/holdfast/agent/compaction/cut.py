"""Which entries are removed, as `entries[head:cut]`. Entries are never split: no call is separated from its results.

`choose` selects those that a summary replaces. The session's context and the first turns stay in front, so that the
break comes after them, and the newest entries stay at the end. If the window is too small for that, the front is
shortened first, then the end.

`trim` selects those beyond the limit of turns (`agent.history_turns`). A window that slides with every turn would lose
its prefix each time, so the older half is removed at once when one turn too many would begin: the next trim is due only
when the window is full again. If the prefix is lost anyway, because nothing is cached or because of another reset, a
nearly full window is trimmed at that time, so that it is not written twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from holdfast.records import Text, ToolResult
from holdfast.skills import POINTERS

from ..window.entries import (
    AssistantTurn,
    AttemptFeedback,
    Compacted,
    Entry,
    GoalInjection,
    SessionContext,
    Timeline,
    UserMessage,
)

SUMMARY_TOKENS = 2_048
"""What a summary is expected to take: one that replaces less than this gains nothing."""

_ROOM = 0.75
"""What stays takes no more than this part of the limit, if that can be had: or the next compaction is due at once."""

_HALVINGS = 6
"""How often the end may be halved to make room."""

_HEADING = re.compile(r"^# Skill: (\S+) \(source: \w+\)$", re.MULTILINE)


class Cut(Struct, frozen=True, kw_only=True):
    """What goes: the entries from `head` up to `cut`. Tokens of those that go, and of all that stays, without the
    summary; `behind` is the part of it that stands behind the summary."""

    head: int
    cut: int
    dropped: int
    kept: int
    behind: int


def turn_starts(entries: Sequence[Entry]) -> tuple[int, ...]:
    """Where the user's turns begin: with what he said, or with the goal and the remarks that were flushed with it."""
    starts = []
    for index, entry in enumerate(entries):
        if isinstance(entry, Timeline) and any(isinstance(item, UserMessage) for item in entry.items):
            while index and isinstance(entries[index - 1], GoalInjection | AttemptFeedback):
                index -= 1
            starts.append(index)
    return tuple(starts)


def first_of(entries: Sequence[Entry]) -> int:
    """The first entry that may ever go: what the session began with stays."""
    return 1 if entries and isinstance(entries[0], SessionContext) else 0


def head_of(entries: Sequence[Entry], anchor: int) -> int:
    """How many entries stay in front: the session's context, and the first `anchor` turns with all their answers. An
    earlier summary is where they end."""
    first, starts = first_of(entries), turn_starts(entries)
    if anchor <= 0:
        return first
    end = starts[anchor] if len(starts) > anchor else len(entries)
    summary = next((index for index, entry in enumerate(entries) if isinstance(entry, Compacted)), len(entries))
    return max(first, min(end, summary))


def cut_of(sizes: Sequence[int], head: int, keep: int) -> int:
    """Where the end begins that stays: as few entries as have `keep` tokens, or all behind `head`."""
    cut, tokens = len(sizes), 0
    while cut > head and tokens < keep:
        cut -= 1
        tokens += sizes[cut]
    return cut


def choose(
    entries: Sequence[Entry], sizes: Sequence[int], *, fixed: int, anchor: int, keep: int, limit: int
) -> Cut | None:
    """Choose what to replace in a window with entries of these sizes after `fixed` tokens; None if nothing is gained.

    Follows the settings if that leaves room below `limit`; otherwise keeps fewer turns in front and, if the window is
    full, fewer tokens at the end. The newest entry is replaced only if nothing else suffices.
    """
    best: Cut | None = None
    full = fixed + sum(sizes) > limit * _ROOM
    for candidate in _cuts(entries, sizes, fixed, anchor, _ends(keep) if full else (keep,)):
        if candidate.kept + SUMMARY_TOKENS <= limit * _ROOM:
            return candidate
        best = candidate if best is None or candidate.kept < best.kept else best
    if not full or (best is not None and best.kept + SUMMARY_TOKENS <= limit):
        return best
    everything = _cuts(entries, sizes, fixed, anchor, (0,))
    return min((*everything, *((best,) if best else ())), key=lambda each: each.kept, default=None)


def _cuts(
    entries: Sequence[Entry], sizes: Sequence[int], fixed: int, anchor: int, ends: Iterable[int]
) -> Iterator[Cut]:
    """Yield every cut that saves tokens, the requested one first."""
    for end in ends:
        for head in _heads(entries, anchor):
            cut = cut_of(sizes, head, end)
            for moved in dict.fromkeys((with_bodies(entries, head, cut), _cut_after_pointers(entries, head, cut))):
                if moved is not None and sum(sizes[head:moved]) > SUMMARY_TOKENS:
                    yield _cut(sizes, fixed, head, moved)


def _cut(sizes: Sequence[int], fixed: int, head: int, cut: int) -> Cut:
    front, behind = sum(sizes[:head]), sum(sizes[cut:])
    return Cut(head=head, cut=cut, dropped=sum(sizes[head:cut]), kept=fixed + front + behind, behind=behind)


def _heads(entries: Sequence[Entry], anchor: int) -> Iterator[int]:
    """Ends of the front, the one asked for first: fewer turns, then the first message alone, then not even that."""
    heads = [head_of(entries, turns) for turns in range(anchor, 0, -1)]
    first = first_of(entries)
    first_message = next((i + 1 for i, entry in enumerate(entries) if isinstance(entry, Timeline)), first)
    heads += [min(first_message, *heads), first] if heads else [first]
    yield from dict.fromkeys(heads)


def _ends(keep: int) -> Iterator[int]:
    yield keep
    for halved in range(1, _HALVINGS):
        if keep >> halved:
            yield keep >> halved


def with_bodies(entries: Sequence[Entry], head: int, cut: int) -> int | None:
    """The cut, moved to the front so that every skill's body stays that something behind it points to; None where one
    of them is nowhere."""
    while (pointer := dangling(entries, head, cut)) is not None:
        body = next((i for i in range(cut - 1, head - 1, -1) if (pointer[1], False) in _skills(entries[i])), None)
        if body is None:
            return None
        cut = body
    return cut


def _cut_after_pointers(entries: Sequence[Entry], head: int, cut: int) -> int:
    """Move the cut towards the end until no kept pointer refers to a removed body."""
    while (pointer := dangling(entries, head, cut)) is not None:
        cut = pointer[0] + 1
    return cut


def dangling(entries: Sequence[Entry], head: int, cut: int) -> tuple[int, str] | None:
    """The first entry behind the cut that points to a skill's body which would go, and the skill's name."""
    bodies = {name for entry in entries[:head] for name, pointer in _skills(entry) if not pointer}
    for index in range(cut, len(entries)):
        for name, pointer in _skills(entries[index]):
            if pointer and name not in bodies:
                return index, name
            bodies.add(name)
    return None


def _skills(entry: Entry) -> list[tuple[str, bool]]:
    """The skills that an entry's results name by their heading, and whether they only point to the body."""
    if not isinstance(entry, AssistantTurn):
        return []
    texts = [
        block.text
        for message in entry.results
        for result in message.content
        if isinstance(result, ToolResult)
        for block in result.content
        if isinstance(block, Text)
    ]
    pointer = POINTERS["already_loaded"]
    return [(name, pointer in text) for text in texts for name in _HEADING.findall(text)]


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
    """Return what to leave out before another turn of the user, so that at most `turns` (0: all) are sent; None if
    nothing is due. `lost` if the prefix cannot be read any more."""
    starts = turn_starts(entries)
    full = turns - turns // _NEARLY_FULL if lost else turns
    if not turns or len(starts) + 1 <= full:
        return None
    head = first_of(entries)
    cut = _trim_cut(entries, head, starts, kept_turns(turns) - 1, turns - 1)
    return None if cut <= head else Trim(head, cut)


def _trim_cut(entries: Sequence[Entry], head: int, starts: Sequence[int], turns: int, most: int) -> int:
    """Where the first turn that stays begins: the one that leaves `kept` turns. A skill's pointer never stays without
    its body: then fewer turns stay, or up to `most` if there would be none, or none."""
    first = len(starts) - turns
    fewer = starts[first:] or (len(entries),)
    more = reversed(starts[max(0, len(starts) - most) : first])
    places = (place for place in (*fewer, *more) if dangling(entries, head, place) is None)
    return next(places, len(entries))
