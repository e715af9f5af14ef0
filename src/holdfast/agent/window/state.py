"""Everything that follows from a session's events: its window, the queue, and what others ask for; and the entries that
the queue becomes, once, before a request: from then on they never change."""

from __future__ import annotations

from decimal import Decimal

from msgspec import Struct

from holdfast.records import ToolUse
from holdfast.records.events import SessionComposed, TurnAnswered

from .entries import (
    AssistantTurn,
    AttemptFeedback,
    Continue,
    Entry,
    GoalInjection,
    KnowledgeNews,
    MemoryChanged,
    Timeline,
    TimelineItem,
    UserMessage,
    Window,
)


class TaskState(Struct, frozen=True, kw_only=True):
    task: str
    status: str
    text: str = ""


class DelegateState(Struct, frozen=True, kw_only=True):
    """A sub-agent that was started and has not ended. `question` is what it has to know to go on."""

    delegate: str
    role: str
    task: str = ""
    awaited: bool = False
    question: str = ""


class SurfacedEntry(Struct, frozen=True, kw_only=True):
    """An entry of the knowledge store shown in the conversation: the hash of its content then (empty if it was
    withdrawn), and the place: stable, context, delta or recall."""

    entry: str
    hash: str
    place: str


class ProcessState(Struct, frozen=True, kw_only=True):
    """A background process that was started and has not ended, as far as the session was told."""

    process: str
    command: str


class Projection(Struct, frozen=True, kw_only=True):
    """A session after so many events. Two states of the same events are equal."""

    window: Window = Window()
    queue: tuple[TimelineItem, ...] = ()
    """What happened and is not in the window yet."""
    goal: str | None = None
    """A goal to add to the conversation; "" announces that it was removed."""
    feedback: tuple[str, ...] = ()
    """Feedback on the model's last attempts, to add to the conversation."""

    events: int = 0
    """How many events these are: the number of the next one."""
    composed: SessionComposed | None = None
    volatile: str = ""
    context: str = ""
    """The context memory block."""
    context_entries: tuple[tuple[str, str], ...] = ()
    stable_entries: tuple[tuple[str, str], ...] = ()
    """The entries of the stable memory block, which never change."""
    surfaced: tuple[SurfacedEntry, ...] = ()
    deltas: int = 0
    """The number of knowledge deltas since the last reset."""
    model: str = ""
    """Where the last turn went, or the first one is to go."""
    effort: str = ""
    """How much the model is to think; empty: as the provider has it."""
    chosen: str | None = None
    """The model that the session was switched to."""
    current_goal: str = ""
    told_goal: str = ""
    """The goal in the window."""
    known_surroundings: str = ""
    """The surroundings last added to the conversation; empty while entry 0 is up to date."""

    turns: int = 0
    spoken: bool = False
    """Something that the user said has come into the window."""
    turn: str | None = None
    """The turn that was begun and has not ended."""
    turns_since_compaction: int = 0
    compactions: int = 0
    calls: int = 0
    """All that were made for it, with their tokens below: turns, compactions, failed attempts, sub-agents."""
    input: int = 0
    read: int = 0
    written: int = 0
    output: int = 0
    cost: Decimal = Decimal(0)
    """Of requests and compactions, as far as their prices are known."""
    unpriced: int = 0
    """Requests without a known price."""
    delegated_cost: Decimal = Decimal(0)
    last: TurnAnswered | None = None

    box: str = ""
    skills: str = ""
    open_calls: tuple[ToolUse, ...] = ()
    tasks: tuple[TaskState, ...] = ()
    running_delegates: tuple[DelegateState, ...] = ()
    running_processes: tuple[ProcessState, ...] = ()
    files: tuple[str, ...] = ()
    """Files that tools read or wrote, the last one last."""

    title: str = ""
    """The beginning of the user's first message."""
    agent: str = ""
    forked_from: str | None = None
    started_at: int = 0
    last_at: int = 0
    ended: bool = False


SPENT = ("calls", "input", "read", "written", "output")
"""The counts in an event's `used`, in this order."""


def spent(state: Projection, used: tuple[int, ...], cost: Decimal | None) -> dict[str, int]:
    """Return a state's counts increased by what was used."""
    counts = {name: getattr(state, name) + count for name, count in zip(SPENT, used, strict=False)}
    unpriced = used[0] if used and cost is None else 0
    return {**counts, "unpriced": state.unpriced + unpriced}


def told_hashes(state: Projection) -> dict[str, str]:
    """Return the entries that the request contains (blocks, deltas, tool results) as id to hash; for several versions
    the last one wins."""
    pairs: list[tuple[str, str]] = []
    for entry in state.window.entries:
        if isinstance(entry, AssistantTurn):
            pairs += entry.told
        elif isinstance(entry, Timeline):
            pairs += _entry_hashes(entry.items)
    return dict((*state.stable_entries, *state.context_entries, *pairs, *_entry_hashes(state.queue)))


def _entry_hashes(items: tuple[TimelineItem, ...]) -> list[tuple[str, str]]:
    return [pair for item in items if isinstance(item, KnowledgeNews) for pair in item.entries]


def flush(state: Projection, at: int) -> tuple[Entry, ...]:
    """Return the entries of the next `window.appended` with the time `at`; none if nothing is queued.

    If the history would end with the model's answer, the model is asked to continue.
    """
    feedback = tuple(AttemptFeedback(at=at, text=text) for text in state.feedback)
    goal = () if state.goal is None else (GoalInjection(at=at, text=state.goal),)
    items = _timeline(state.queue)
    entries: tuple[Entry, ...] = (*feedback, *goal, *((Timeline(at=at, items=items),) if items else ()))
    if entries or not _ends_with_the_model(state):
        return entries
    return (Timeline(at=at, items=(Continue(at=at, seq=state.events),)),)


def _timeline(queue: tuple[TimelineItem, ...]) -> tuple[TimelineItem, ...]:
    """Sort the queue by time, but put memory in front of the user's messages, which shall be read last. Only the last
    version of each memory file is kept: earlier ones were never sent."""
    ordered = sorted((item for item in queue if not says_nothing(item)), key=lambda item: (item.at, item.seq))
    first_message = next((place for place, item in enumerate(ordered) if isinstance(item, UserMessage)), None)
    if first_message is not None:
        behind = sorted(ordered[first_message:], key=lambda item: not isinstance(item, KnowledgeNews | MemoryChanged))
        ordered = [*ordered[:first_message], *behind]
    last = {item.store: item for item in ordered if isinstance(item, MemoryChanged)}
    return tuple(item for item in ordered if not isinstance(item, MemoryChanged) or last[item.store] is item)


def says_nothing(item: TimelineItem) -> bool:
    """A message without words or anything else: it is not sent."""
    return isinstance(item, UserMessage) and not item.text.strip() and not item.attachments


def _ends_with_the_model(state: Projection) -> bool:
    last = state.window.entries[-1] if state.window.entries else None
    return isinstance(last, AssistantTurn) and not last.results and not state.open_calls
