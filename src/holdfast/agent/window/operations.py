"""What may be done to a window: append, mark as sent, answer calls, and the few changes that are resets.

`sent` counts entries of the prefix as it stands now: behind a summary or a cut nothing has been sent yet, because the
provider has never seen it there.
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.records import Message

from .entries import AssistantTurn, Entry, SessionContext, Window


def append(window: Window, entries: tuple[Entry, ...]) -> Window:
    """The entries at the end. The first of them begins a message of its own if all before it has been sent."""
    if not entries:
        return window
    borders = (_begins(window), *(False for _ in entries[1:]))
    return Window(window.entries + entries, window.borders + borders, window.sent, False)


def _begins(window: Window) -> bool:
    if not window.entries or window.sent < len(window.entries):
        return False
    last = window.entries[-1]
    # Results that came after their turn had been sent make a message that nobody has seen.
    return not (isinstance(last, AssistantTurn) and last.results) or window.results_sent


def mark_sent(window: Window, entries: int) -> Window:
    """A request leaves with the first `entries` entries."""
    sent = max(window.sent, min(entries, len(window.entries)))
    whole = sent == len(window.entries)
    last = window.entries[-1] if window.entries else None
    answered = whole and isinstance(last, AssistantTurn) and bool(last.results)
    return replace(window, sent=sent, results_sent=window.results_sent or answered)


def answer_calls(window: Window, messages: tuple[Message, ...]) -> Window:
    """Results for the calls of the last turn. What was sent before stays in front."""
    index, turn = _last_turn(window)
    if turn is None:
        return window
    answered = replace(turn, results=turn.results + messages)
    return replace(window, entries=_put(window.entries, index, answered), results_sent=False)


def tell(window: Window, pairs: tuple[tuple[str, str], ...]) -> Window:
    """The results for the calls of the last turn say this of entries of the knowledge store."""
    index, turn = _last_turn(window)
    if turn is None:
        return window
    return replace(window, entries=_put(window.entries, index, replace(turn, told=turn.told + pairs)))


def _last_turn(window: Window) -> tuple[int, AssistantTurn | None]:
    for index in range(len(window.entries) - 1, -1, -1):
        turn = window.entries[index]
        if isinstance(turn, AssistantTurn):
            return index, turn
    return -1, None


def compact(window: Window, head: int, cut: int, summary: Entry) -> Window:
    """One entry in the place of those from `head` up to `cut`."""
    head, cut = _within(window, head, cut)
    borders = (*window.borders[:head], _after(window, head))
    if cut < len(window.entries):
        borders = (*borders, False, *window.borders[cut + 1 :])
    entries = (*window.entries[:head], summary, *window.entries[cut:])
    return Window(entries, borders, min(window.sent, head), False)


def trim(window: Window, head: int, cut: int) -> Window:
    """Without the entries from `head` up to `cut`."""
    head, cut = _within(window, head, cut)
    if head == cut:
        return window
    borders = window.borders[:head]
    if cut < len(window.entries):
        borders = (*borders, _after(window, head), *window.borders[cut + 1 :])
    return Window(window.entries[:head] + window.entries[cut:], borders, min(window.sent, head), False)


def refresh(window: Window, first: Entry) -> Window:
    """Another entry 0: whatever stood behind the old one has not been sent behind this one."""
    if window.entries and isinstance(window.entries[0], SessionContext):
        return Window(_put(window.entries, 0, first), window.borders, 0, False)
    return Window((first, *window.entries), (False, *window.borders), 0, False)


def _within(window: Window, head: int, cut: int) -> tuple[int, int]:
    head = min(head, len(window.entries))
    return head, min(max(cut, head), len(window.entries))


def _after(window: Window, head: int) -> bool:
    """Return whether the entries after the first `head` must begin a new message."""
    return 0 < head <= window.sent


def _put(entries: tuple[Entry, ...], index: int, entry: Entry) -> tuple[Entry, ...]:
    return (*entries[:index], entry, *entries[index + 1 :])
