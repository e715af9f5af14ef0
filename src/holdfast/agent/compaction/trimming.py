"""Only the newest turns of a history are sent (`agent.history_turns`): the others go rarely, many at a time.

A window that slides with every turn would lose the whole prefix each time. So turns go when twice as many stand there
as are wanted, when the prefix is lost anyway, or when reading what is too much has cost what writing the rest again
costs: while a conversation grows evenly, the two together are least then (CACHE-RULES 5.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from msgspec import Struct

from holdfast.facts import ModelFacts
from holdfast.prefix.economics import edit_cost

from ..window.entries import AssistantTurn, Entry
from .cutting import dangling, first_of, turn_starts, with_bodies


class Trim(Struct, frozen=True):
    """What goes: the entries from `head` up to `cut`."""

    head: int
    cut: int


def trim(
    entries: Sequence[Entry],
    turns: int,
    *,
    coming: bool = False,
    lost: bool = False,
    sizes: Sequence[int] = (),
    model: ModelFacts | None = None,
) -> Trim | None:
    """What to leave out so that the last `turns` turns of the user's stay (0: all); None where nothing is due.

    `coming` says that one more turn is about to begin, which counts as one of them, `lost` that the prefix cannot be
    read any more. `sizes` are the tokens of the entries: without them and the `model` nothing is reckoned.
    """
    starts = turn_starts(entries)
    if not turns or len(starts) + coming <= turns:
        return None
    head, stay = first_of(entries), turns - coming
    cut = _start(entries, starts, len(starts) - stay) if stay else len(entries)
    if cut <= head:
        return None
    due = lost or len(starts) + coming > 2 * turns
    if due or (model is not None and sizes and stay and _paid(entries, sizes, starts, stay, model)):
        return Trim(head, cut)
    return None


def _start(entries: Sequence[Entry], starts: Sequence[int], turn: int) -> int:
    """Where the first turn that stays begins: a later one where a skill's pointer would stay without its body, and
    where that would leave none, the one with the body."""
    head = first_of(entries)
    for start in starts[turn:]:
        if dangling(entries, head, start) is None:
            return start
    body = with_bodies(entries, head, starts[turn])
    return starts[turn] if body is None else max([head, *(start for start in starts if start <= body)])


def _paid(entries: Sequence[Entry], sizes: Sequence[int], starts: Sequence[int], turns: int, model: ModelFacts) -> bool:
    """Whether reading what is too much has cost as much by now as it costs to write again what stays."""
    read, first = Decimal(0), first_of(entries)
    ends = [*starts[1:], len(entries)]
    for number in range(turns, len(starts)):
        extra = sum(sizes[first : starts[number - turns + 1]])
        requests = sum(isinstance(entry, AssistantTurn) for entry in entries[starts[number] : ends[number]])
        read += requests * extra * model.read
    stays = sum(sizes[starts[len(starts) - turns] :])
    return read > 0 and read >= edit_cost(Decimal(stays), model.read, model.write())
