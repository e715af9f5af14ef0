"""What waits becomes entries, once, before a request: from then on it is never touched again."""

from __future__ import annotations

from .entries import (
    AssistantTurn,
    AttemptFeedback,
    Context,
    Continue,
    Entry,
    GoalInjection,
    KnowledgeNews,
    MemoryChanged,
    TimelineItem,
    UserMessage,
)
from .state import Projection


def flush(state: Projection, at: int) -> tuple[Entry, ...]:
    """The entries of the next `window.appended`, whose time is `at`; none where nothing waits.

    Where the history would end with what the model said, the model is asked to go on.
    """
    feedback = tuple(AttemptFeedback(at=at, text=text) for text in state.feedback)
    goal = () if state.goal is None else (GoalInjection(at=at, text=state.goal),)
    items = _timeline(state.queue)
    entries: tuple[Entry, ...] = (*feedback, *goal, *((Context(at=at, items=items),) if items else ()))
    if entries or not _ends_with_the_model(state):
        return entries
    return (Context(at=at, items=(Continue(at=at, seq=state.events),)),)


def _timeline(queue: tuple[TimelineItem, ...]) -> tuple[TimelineItem, ...]:
    """In the order in which it happened; but what there is of memory stands in front of what the user said, which is to
    be read last. What a memory said in between was never sent and is of no use."""
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
