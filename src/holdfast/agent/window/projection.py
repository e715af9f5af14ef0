"""From events to a state: `project(events)` is the fold of `advance`, a pure function of both.

Events that say nothing about a session's state are passed over. A log that ends anywhere gives the state of that
moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.records import ToolResult, ToolUse
from holdfast.records.events import (
    AttemptFailed,
    CompactionCompleted,
    CompactionFailed,
    DelegateAsked,
    DelegateCompleted,
    DelegateFailed,
    DelegateStarted,
    EffortSet,
    Envelope,
    Event,
    GoalSet,
    HistoryTrimmed,
    McpServerDisconnected,
    MemoryEvicted,
    MemorySurfaced,
    MemoryUpdated,
    ModelRouted,
    ProcessExited,
    ProcessStarted,
    SessionComposed,
    SessionEnded,
    SessionRefreshed,
    SessionResumed,
    SessionStarted,
    SessionState,
    SettingToggled,
    SurroundingsChanged,
    TaskUpdated,
    ToolCompleted,
    TurnAnswered,
    TurnCancelled,
    TurnCompleted,
    TurnStarted,
    TurnToolsAnswered,
    VolatileChanged,
    WindowAppended,
    WindowSent,
)

from . import entries
from .entries import (
    AssistantTurn,
    AttemptFeedback,
    Entry,
    GoalInjection,
    Timeline,
    TimelineItem,
    UserMessage,
    attachments_from,
    entry_from,
    from_json,
    message_from,
    messages_from,
)
from .operations import answer_calls, append, compact, mark_sent, refresh, tell, trim
from .state import DelegateState, ProcessState, Projection, SurfacedEntry, TaskState, spent, told_hashes

_Fold = Callable[[Projection, Any, Envelope], Projection]
"""The state before an event, its payload and its envelope: the state after it."""

_MOST_FILES = 500
_FILE_TOOLS = frozenset({"read_file", "write_file", "patch_file"})


def _session_started(state: Projection, event: SessionStarted, envelope: Envelope) -> Projection:
    return replace(state, agent=event.agent or "", forked_from=event.forked_from, started_at=envelope.at, ended=False)


def _session_composed(state: Projection, event: SessionComposed, envelope: Envelope) -> Projection:
    return replace(state, composed=event, model=event.model, effort=event.effort)


def _session_state(state: Projection, event: SessionState, envelope: Envelope) -> Projection:
    return replace(state, box=event.tools or state.box, skills=event.skills or state.skills)


def _session_refreshed(state: Projection, event: SessionRefreshed, envelope: Envelope) -> Projection:
    return replace(state, window=refresh(state.window, entry_from(event.entry)), known_surroundings="")


def _session_resumed(state: Projection, event: SessionResumed, envelope: Envelope) -> Projection:
    return replace(state, ended=False)


def _session_ended(state: Projection, event: SessionEnded, envelope: Envelope) -> Projection:
    return replace(state, ended=True)


def _volatile_changed(state: Projection, event: VolatileChanged, envelope: Envelope) -> Projection:
    return replace(state, volatile=event.text)


def _model_routed(state: Projection, event: ModelRouted, envelope: Envelope) -> Projection:
    return replace(state, model=event.model, chosen=event.model if event.source == "session" else state.chosen)


def _effort_set(state: Projection, event: EffortSet, envelope: Envelope) -> Projection:
    return replace(state, effort=event.effort)


def _turn_ended(state: Projection, event: TurnCompleted | TurnCancelled, envelope: Envelope) -> Projection:
    return replace(state, turn=None)


def _window_appended(state: Projection, event: WindowAppended, envelope: Envelope) -> Projection:
    """Append the entries and empty the queue that they flush; an entry 0 flushes nothing."""
    added = from_json(event.entries)
    goals = [entry.text for entry in added if isinstance(entry, GoalInjection)]
    return replace(
        state,
        window=append(state.window, added),
        queue=() if any(isinstance(entry, Timeline) for entry in added) else state.queue,
        feedback=() if any(isinstance(entry, AttemptFeedback) for entry in added) else state.feedback,
        goal=None if goals else state.goal,
        told_goal=goals[-1] if goals else state.told_goal,
        spoken=state.spoken or any(_spoken(entry) for entry in added),
    )


def _spoken(entry: Entry) -> bool:
    return isinstance(entry, Timeline) and any(isinstance(item, UserMessage) for item in entry.items)


def _window_sent(state: Projection, event: WindowSent, envelope: Envelope) -> Projection:
    return replace(state, window=mark_sent(state.window, event.entries))


def _turn_answered(state: Projection, event: TurnAnswered, envelope: Envelope) -> Projection:
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


def _tools_answered(state: Projection, event: TurnToolsAnswered, envelope: Envelope) -> Projection:
    messages = messages_from(event.messages)
    blocks = (block for message in messages for block in message.content)
    answered = {block.tool_use_id for block in blocks if isinstance(block, ToolResult)}
    unanswered = tuple(call for call in state.open_calls if call.id not in answered)
    return replace(state, window=answer_calls(state.window, messages), open_calls=unanswered)


def _compaction_completed(state: Projection, event: CompactionCompleted, envelope: Envelope) -> Projection:
    if event.entry:
        window = compact(state.window, event.head, event.cut, entry_from(event.entry))
        state = _refresh_surfaced(_requeue_goal(replace(state, window=window)))
    return replace(
        state,
        compactions=state.compactions + 1,
        turns_since_compaction=0,
        cost=state.cost + (event.cost or 0),
        **spent(state, event.used, event.cost),
    )


def _compaction_failed(state: Projection, event: CompactionFailed, envelope: Envelope) -> Projection:
    return replace(state, cost=state.cost + (event.cost or 0), **spent(state, event.used, event.cost))


def _history_trimmed(state: Projection, event: HistoryTrimmed, envelope: Envelope) -> Projection:
    return _refresh_surfaced(_requeue_goal(replace(state, window=trim(state.window, event.head, event.cut))))


def _refresh_surfaced(state: Projection) -> Projection:
    """At a reset set each shown entry's hash to the version that the request still contains. Entries that only a tool
    returned are dropped if the request no longer contains them. The count of deltas starts again at 0."""
    says = told_hashes(state)
    surfaced = (each for each in state.surfaced if each.place != "recall" or each.entry in says)
    return replace(
        state, deltas=0, surfaced=tuple(replace(each, hash=says.get(each.entry, each.hash)) for each in surfaced)
    )


def _requeue_goal(state: Projection) -> Projection:
    """Queue the current goal again if its entry is no longer in the window."""
    goals = [entry.text for entry in state.window.entries if isinstance(entry, GoalInjection)]
    said_goal = goals[-1] if goals else ""
    pending = state.goal
    if pending is None and state.current_goal != said_goal:
        pending = state.current_goal
    return replace(state, told_goal=said_goal, goal=pending)


def _goal_set(state: Projection, event: GoalSet, envelope: Envelope) -> Projection:
    goal = event.goal if event.goal.strip() else ""
    return replace(state, current_goal=goal, goal=None if goal == state.told_goal else goal)


def _attempt_failed(state: Projection, event: AttemptFailed, envelope: Envelope) -> Projection:
    feedback, cost = (*state.feedback, event.feedback), state.cost + (event.cost or 0)
    return replace(state, feedback=feedback, cost=cost, **spent(state, event.used, event.cost))


def _tool_completed(state: Projection, event: ToolCompleted, envelope: Envelope) -> Projection:
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


_TITLE = 80


def _queued(state: Projection, item: TimelineItem) -> Projection:
    return replace(state, queue=(*state.queue, item))


def _turn_started(state: Projection, event: TurnStarted, envelope: Envelope) -> Projection:
    attachments = attachments_from(event.attachments)
    state = replace(
        state,
        turn=envelope.turn,
        turns=state.turns + 1,
        turns_since_compaction=state.turns_since_compaction + 1,
        title=state.title or " ".join(event.text.split())[:_TITLE],
    )
    return _queued(
        state, entries.UserMessage(at=envelope.at, seq=state.events, text=event.text, attachments=attachments)
    )


def _process_started(state: Projection, event: ProcessStarted, envelope: Envelope) -> Projection:
    running = ProcessState(process=event.process, command=event.command)
    others = tuple(each for each in state.running_processes if each.process != event.process)
    item = entries.DetachedProcessStarted(
        at=envelope.at, seq=state.events, process=event.process, command=event.command
    )
    return _queued(replace(state, running_processes=(*others, running)), item)


def _process_exited(state: Projection, event: ProcessExited, envelope: Envelope) -> Projection:
    running = tuple(each for each in state.running_processes if each.process != event.process)
    item = entries.DetachedProcessExited(
        at=envelope.at, seq=state.events, process=event.process, exit_code=event.exit_code
    )
    return _queued(replace(state, running_processes=running), item)


def _delegate_started(state: Projection, event: DelegateStarted, envelope: Envelope) -> Projection:
    running = DelegateState(delegate=event.delegate, role=event.role, task=event.task, awaited=event.awaited)
    others = tuple(each for each in state.running_delegates if each.delegate != event.delegate)
    state = replace(state, running_delegates=(*others, running))
    return (
        state if event.awaited else _delegate_status(state, event.delegate, envelope, "started", event.role, event.task)
    )


def _delegate_ended(state: Projection, event: DelegateCompleted | DelegateFailed, envelope: Envelope) -> Projection:
    role = next((each.role for each in state.running_delegates if each.delegate == event.delegate), "")
    state = replace(
        state,
        running_delegates=tuple(each for each in state.running_delegates if each.delegate != event.delegate),
        delegated_cost=state.delegated_cost + (event.cost or 0),
        **spent(state, event.used, event.cost),
    )
    if event.awaited:
        return state
    if isinstance(event, DelegateCompleted):
        return _delegate_status(state, event.delegate, envelope, "completed", role, event.result)
    return _delegate_status(state, event.delegate, envelope, "failed", role, event.error_message)


def _delegate_status(
    state: Projection, delegate: str, envelope: Envelope, status: entries.Status, role: str, text: str
) -> Projection:
    at, seq = envelope.at, state.events
    item = entries.SubagentStatus(at=at, seq=seq, delegate=delegate, status=status, role=role, text=text)
    return _queued(state, item)


def _delegate_asked(state: Projection, event: DelegateAsked, envelope: Envelope) -> Projection:
    """Record a sub-agent's question. It is queued unless a waiting call's result contains it."""
    delegates = tuple(
        replace(each, question=event.question) if each.delegate == event.delegate else each
        for each in state.running_delegates
    )
    cost = state.delegated_cost + (event.cost or 0)
    state = replace(state, running_delegates=delegates, delegated_cost=cost, **spent(state, event.used, event.cost))
    if any(each.awaited for each in delegates if each.delegate == event.delegate):
        return state
    item = entries.Escalation(at=envelope.at, seq=state.events, delegate=event.delegate, question=event.question)
    return _queued(state, item)


def _task_updated(state: Projection, event: TaskUpdated, envelope: Envelope) -> Projection:
    tasks = {each.task: each for each in state.tasks}
    tasks[event.task] = TaskState(task=event.task, status=event.status, text=event.text)
    item = entries.TaskUpdate(at=envelope.at, seq=state.events, task=event.task, status=event.status, text=event.text)
    return _queued(replace(state, tasks=tuple(tasks.values())), item)


def _memory_updated(state: Projection, event: MemoryUpdated, envelope: Envelope) -> Projection:
    """Only with the text of the file: without it the model reads the file by other means."""
    if not event.text:
        return state
    return _queued(state, entries.MemoryChanged(at=envelope.at, seq=state.events, store=event.store, text=event.text))


def _memory_evicted(state: Projection, event: MemoryEvicted, envelope: Envelope) -> Projection:
    return replace(state, surfaced=tuple(each for each in state.surfaced if each.entry not in event.entries))


def _memory_surfaced(state: Projection, event: MemorySurfaced, envelope: Envelope) -> Projection:
    """Record the entries shown and their place. An entry from a block, or shown before the user's message, keeps that
    place if a tool returns it as well."""
    surfaced = {each.entry: each for each in state.surfaced}
    for entry, hash_ in zip(event.entries, event.hashes, strict=False):
        before = surfaced.get(entry)
        place = before.place if before is not None and event.place == "recall" else event.place
        surfaced[entry] = SurfacedEntry(entry=entry, hash=hash_, place=place)
    pairs = tuple(zip(event.entries, event.hashes, strict=False))
    if event.place == "context":  # it says all it says anew: what stood in it and does not any more nobody knows
        here = tuple(each for each in surfaced.values() if each.place != "context" or each.entry in event.entries)
        return replace(state, context=event.text, context_entries=pairs, surfaced=here)
    state = replace(state, surfaced=tuple(surfaced.values()))
    if event.place == "stable":
        return replace(state, stable_entries=pairs)
    if event.place == "recall":
        return replace(state, window=tell(state.window, pairs))
    if event.place != "delta":
        return state
    item = entries.KnowledgeNews(at=envelope.at, seq=state.events, text=event.text, entries=pairs)
    return _queued(replace(state, deltas=state.deltas + 1), item)


def _server_gone(state: Projection, event: McpServerDisconnected, envelope: Envelope) -> Projection:
    return _queued(
        state, entries.ToolServerGone(at=envelope.at, seq=state.events, server=event.server, tools=event.tools)
    )


def _setting_toggled(state: Projection, event: SettingToggled, envelope: Envelope) -> Projection:
    item = entries.SettingToggledItem(at=envelope.at, seq=state.events, setting=event.setting, value=event.value)
    return _queued(state, item)


def _surroundings_changed(state: Projection, event: SurroundingsChanged, envelope: Envelope) -> Projection:
    state = replace(state, known_surroundings=event.around or state.known_surroundings)
    return _queued(state, entries.SurroundingsChangedItem(at=envelope.at, seq=state.events, text=event.text))


FOLDS: Mapping[type[Event], _Fold] = {
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
    TurnStarted: _turn_started,
    ProcessStarted: _process_started,
    ProcessExited: _process_exited,
    DelegateStarted: _delegate_started,
    DelegateCompleted: _delegate_ended,
    DelegateFailed: _delegate_ended,
    DelegateAsked: _delegate_asked,
    TaskUpdated: _task_updated,
    SettingToggled: _setting_toggled,
    SurroundingsChanged: _surroundings_changed,
    MemoryUpdated: _memory_updated,
    MemorySurfaced: _memory_surfaced,
    MemoryEvicted: _memory_evicted,
    McpServerDisconnected: _server_gone,
}


def advance(state: Projection, envelope: Envelope) -> Projection:
    """The state after one more event."""
    fold = FOLDS.get(type(envelope.payload))
    try:
        after = state if fold is None else fold(state, envelope.payload, envelope)
    except (msgspec.MsgspecError, ValueError) as error:
        raise HoldfastError(
            f"event {state.events + 1} of session {envelope.session} ({envelope.type}) cannot be read: {error}; "
            "use the version of Holdfast that wrote it"
        ) from error
    return replace(after, events=state.events + 1, last_at=max(state.last_at, envelope.at))


def project(envelopes: Iterable[Envelope]) -> Projection:
    return reduce(advance, envelopes, Projection())
