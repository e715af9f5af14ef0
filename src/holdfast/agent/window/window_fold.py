"""What the events of a conversation do to its state: sessions, answers, the window, compaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.records import Message, ToolResult, ToolUse
from holdfast.records.events import (
    AttemptFailed,
    CompactionCompleted,
    CompactionFailed,
    EffortSet,
    Envelope,
    Event,
    GoalSet,
    HistoryTrimmed,
    ModelRouted,
    SessionComposed,
    SessionEnded,
    SessionRefreshed,
    SessionResumed,
    SessionStarted,
    SessionState,
    ToolCompleted,
    TurnAnswered,
    TurnCancelled,
    TurnCompleted,
    TurnToolsAnswered,
    VolatileChanged,
    WindowAppended,
    WindowSent,
)

from .entries import (
    AssistantTurn,
    AttemptFeedback,
    Context,
    Entry,
    GoalInjection,
    UserMessage,
    entry_from,
    from_json,
    message_from,
    messages_from,
)
from .operations import answer_calls, append, compact, mark_sent, refresh, trim
from .state import Projection, spent, standing

Fold = Callable[[Projection, Any, Envelope, int], Projection]
"""State, payload, its envelope and its number: the state after it."""

_MOST_FILES = 500
_FILE_TOOLS = frozenset({"read_file", "write_file", "patch_file"})


def _session_started(state: Projection, event: SessionStarted, envelope: Envelope, seq: int) -> Projection:
    return replace(
        state,
        agent=event.agent or "",
        forked_from=event.forked_from,
        started_at=envelope.at,
        ended=False,
    )


def _session_composed(state: Projection, event: SessionComposed, envelope: Envelope, seq: int) -> Projection:
    return replace(state, composed=event, model=event.model, effort=event.effort)


def _session_state(state: Projection, event: SessionState, envelope: Envelope, seq: int) -> Projection:
    return replace(state, box=event.tools or state.box, skills=event.skills or state.skills)


def _session_refreshed(state: Projection, event: SessionRefreshed, envelope: Envelope, seq: int) -> Projection:
    return replace(state, window=refresh(state.window, entry_from(event.entry)), known_surroundings="")


def _session_resumed(state: Projection, event: SessionResumed, envelope: Envelope, seq: int) -> Projection:
    return replace(state, ended=False)


def _session_ended(state: Projection, event: SessionEnded, envelope: Envelope, seq: int) -> Projection:
    return replace(state, ended=True)


def _volatile_changed(state: Projection, event: VolatileChanged, envelope: Envelope, seq: int) -> Projection:
    return replace(state, volatile=event.text)


def _model_routed(state: Projection, event: ModelRouted, envelope: Envelope, seq: int) -> Projection:
    return replace(state, model=event.model, chosen=event.model if event.source == "session" else state.chosen)


def _effort_set(state: Projection, event: EffortSet, envelope: Envelope, seq: int) -> Projection:
    return replace(state, effort=event.effort)


def _turn_ended(state: Projection, event: TurnCompleted | TurnCancelled, envelope: Envelope, seq: int) -> Projection:
    return replace(state, turn=None)


def _window_appended(state: Projection, event: WindowAppended, envelope: Envelope, seq: int) -> Projection:
    """What was flushed waits no longer; an entry 0 flushes nothing."""
    entries = from_json(event.entries)
    goals = [entry.text for entry in entries if isinstance(entry, GoalInjection)]
    return replace(
        state,
        window=append(state.window, entries),
        queue=() if any(isinstance(entry, Context) for entry in entries) else state.queue,
        feedback=() if any(isinstance(entry, AttemptFeedback) for entry in entries) else state.feedback,
        goal=None if goals else state.goal,
        told_goal=goals[-1] if goals else state.told_goal,
        spoken=state.spoken or any(_spoken(entry) for entry in entries),
    )


def _spoken(entry: Entry) -> bool:
    return isinstance(entry, Context) and any(isinstance(item, UserMessage) for item in entry.items)


def _window_sent(state: Projection, event: WindowSent, envelope: Envelope, seq: int) -> Projection:
    return replace(state, window=mark_sent(state.window, event.entries))


def _turn_answered(state: Projection, event: TurnAnswered, envelope: Envelope, seq: int) -> Projection:
    message = message_from(event.message)
    turn = AssistantTurn(at=envelope.at, message=message, model=event.model, dialect=event.dialect)
    calls = tuple(block for block in message.content if isinstance(block, ToolUse))
    used = (1, event.input, event.read, event.written, event.output)
    return replace(
        state,
        window=append(state.window, (turn,)),
        open_calls=calls,
        files=_touched(state.files, _paths(calls)),
        last=event,
        cost=state.cost + (event.cost or 0),
        **spent(state, () if event.elsewhere else used, event.cost),
    )


def _tools_answered(state: Projection, event: TurnToolsAnswered, envelope: Envelope, seq: int) -> Projection:
    messages = messages_from(event.messages)
    answered = _answered(messages)
    left = tuple(call for call in state.open_calls if call.id not in answered)
    return replace(state, window=answer_calls(state.window, messages), open_calls=left)


def _answered(messages: tuple[Message, ...]) -> frozenset[str]:
    blocks = (block for message in messages for block in message.content)
    return frozenset(block.tool_use_id for block in blocks if isinstance(block, ToolResult))


def _compaction_completed(state: Projection, event: CompactionCompleted, envelope: Envelope, seq: int) -> Projection:
    if event.entry:
        window = compact(state.window, event.head, event.cut, entry_from(event.entry))
        state = _told_again(_goal_again(replace(state, window=window)))
    return replace(
        state,
        compactions=state.compactions + 1,
        turns_since_compaction=0,
        cost=state.cost + (event.cost or 0),
        **spent(state, event.used, event.cost),
    )


def _compaction_failed(state: Projection, event: CompactionFailed, envelope: Envelope, seq: int) -> Projection:
    return replace(state, cost=state.cost + (event.cost or 0), **spent(state, event.used, event.cost))


def _history_trimmed(state: Projection, event: HistoryTrimmed, envelope: Envelope, seq: int) -> Projection:
    return _told_again(_goal_again(replace(state, window=trim(state.window, event.head, event.cut))))


def _told_again(state: Projection) -> Projection:
    """At a reset what was told last of an entry may be gone: from then on it is known as the request says it, and one
    that it does not speak of any more as it was told, or not at all where only a tool spoke of it. What is told again
    begins to count anew."""
    says = standing(state)
    kept = (each for each in state.surfaced if each.place != "recall" or each.entry in says)
    return replace(
        state, deltas=0, surfaced=tuple(replace(each, hash=says.get(each.entry, each.hash)) for each in kept)
    )


def _goal_again(state: Projection) -> Projection:
    """A goal whose entry is gone from the window has to be said again."""
    goals = [entry.text for entry in state.window.entries if isinstance(entry, GoalInjection)]
    told = goals[-1] if goals else ""
    pending = state.goal
    if pending is None and state.current_goal != told:
        pending = state.current_goal
    return replace(state, told_goal=told, goal=pending)


def _goal_set(state: Projection, event: GoalSet, envelope: Envelope, seq: int) -> Projection:
    goal = event.goal if event.goal.strip() else ""
    return replace(state, current_goal=goal, goal=None if goal == state.told_goal else goal)


def _attempt_failed(state: Projection, event: AttemptFailed, envelope: Envelope, seq: int) -> Projection:
    feedback, cost = (*state.feedback, event.feedback), state.cost + (event.cost or 0)
    return replace(state, feedback=feedback, cost=cost, **spent(state, event.used, event.cost))


def _tool_completed(state: Projection, event: ToolCompleted, envelope: Envelope, seq: int) -> Projection:
    return replace(state, files=_touched(state.files, event.files_modified))


def _paths(calls: tuple[ToolUse, ...]) -> Iterable[str]:
    for call in calls:
        if call.name in _FILE_TOOLS:
            try:
                yield msgspec.json.decode(call.input, type=_WithPath).path
            except msgspec.MsgspecError:
                continue  # the tool says what is wrong with it


class _WithPath(msgspec.Struct):
    path: str


def _touched(files: tuple[str, ...], more: Iterable[str]) -> tuple[str, ...]:
    fresh = tuple(dict.fromkeys(more))
    return (*(file for file in files if file not in fresh), *fresh)[-_MOST_FILES:] if fresh else files


FOLDS: Mapping[type[Event], Fold] = {
    SessionStarted: _session_started,
    SessionComposed: _session_composed,
    SessionState: _session_state,
    SessionRefreshed: _session_refreshed,
    SessionResumed: _session_resumed,
    SessionEnded: _session_ended,
    VolatileChanged: _volatile_changed,
    ModelRouted: _model_routed,
    EffortSet: _effort_set,
    TurnCompleted: _turn_ended,
    TurnCancelled: _turn_ended,
    WindowAppended: _window_appended,
    WindowSent: _window_sent,
    TurnAnswered: _turn_answered,
    TurnToolsAnswered: _tools_answered,
    CompactionCompleted: _compaction_completed,
    CompactionFailed: _compaction_failed,
    HistoryTrimmed: _history_trimmed,
    GoalSet: _goal_set,
    AttemptFailed: _attempt_failed,
    ToolCompleted: _tool_completed,
}
