"""What happens around a conversation: each event of these becomes an item that waits to be flushed."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from holdfast.records.events import Envelope, Event
from holdfast.records.events import agent as told
from holdfast.records.events import sessions as happened
from holdfast.records.events import tools as tool_events

from . import entries
from .entries import TimelineItem, attachments_from
from .operations import tell
from .state import DelegateState, ProcessState, Projection, SurfacedEntry, TaskState, spent
from .window_fold import Fold

_TITLE = 80


def _queued(state: Projection, item: TimelineItem) -> Projection:
    return replace(state, queue=(*state.queue, item))


def _turn_started(state: Projection, event: happened.TurnStarted, envelope: Envelope, seq: int) -> Projection:
    attachments = attachments_from(event.attachments)
    state = replace(
        state,
        turn=envelope.turn,
        turns=state.turns + 1,
        turns_since_compaction=state.turns_since_compaction + 1,
        title=state.title or " ".join(event.text.split())[:_TITLE],
    )
    return _queued(state, entries.UserMessage(at=envelope.at, seq=seq, text=event.text, attachments=attachments))


def _process_started(state: Projection, event: happened.ProcessStarted, envelope: Envelope, seq: int) -> Projection:
    running = ProcessState(process=event.process, command=event.command)
    others = tuple(each for each in state.running_processes if each.process != event.process)
    item = entries.ProcessStarted(at=envelope.at, seq=seq, process=event.process, command=event.command)
    return _queued(replace(state, running_processes=(*others, running)), item)


def _process_exited(state: Projection, event: happened.ProcessExited, envelope: Envelope, seq: int) -> Projection:
    left = tuple(each for each in state.running_processes if each.process != event.process)
    item = entries.ProcessExited(at=envelope.at, seq=seq, process=event.process, exit_code=event.exit_code)
    return _queued(replace(state, running_processes=left), item)


def _delegate_started(state: Projection, event: happened.DelegateStarted, envelope: Envelope, seq: int) -> Projection:
    running = DelegateState(delegate=event.delegate, role=event.role, task=event.task, awaited=event.awaited)
    others = tuple(each for each in state.running_delegates if each.delegate != event.delegate)
    state = replace(state, running_delegates=(*others, running))
    if event.awaited:
        return state
    return _queued(state, _status(envelope, seq, event.delegate, "started", event.role, event.task))


def _delegate_completed(
    state: Projection, event: happened.DelegateCompleted, envelope: Envelope, seq: int
) -> Projection:
    return _delegate_ended(state, event, "completed", event.result, envelope, seq)


def _delegate_failed(state: Projection, event: happened.DelegateFailed, envelope: Envelope, seq: int) -> Projection:
    return _delegate_ended(state, event, "failed", event.error_message, envelope, seq)


def _delegate_ended(
    state: Projection,
    event: happened.DelegateCompleted | happened.DelegateFailed,
    status: entries.Status,
    text: str,
    envelope: Envelope,
    seq: int,
) -> Projection:
    role = next((each.role for each in state.running_delegates if each.delegate == event.delegate), "")
    state = replace(
        state,
        running_delegates=tuple(each for each in state.running_delegates if each.delegate != event.delegate),
        delegated_cost=state.delegated_cost + (event.cost or 0),
        **spent(state, event.used, event.cost),
    )
    return state if event.awaited else _queued(state, _status(envelope, seq, event.delegate, status, role, text))


def _status(
    envelope: Envelope, seq: int, delegate: str, status: entries.Status, role: str, text: str
) -> entries.SubagentStatus:
    return entries.SubagentStatus(at=envelope.at, seq=seq, delegate=delegate, status=status, role=role, text=text)


def _delegate_asked(state: Projection, event: told.DelegateAsked, envelope: Envelope, seq: int) -> Projection:
    """A question of one that somebody waits for stands in the result of the call."""
    known = tuple(
        replace(each, question=event.question) if each.delegate == event.delegate else each
        for each in state.running_delegates
    )
    cost = state.delegated_cost + (event.cost or 0)
    state = replace(state, running_delegates=known, delegated_cost=cost, **spent(state, event.used, event.cost))
    if any(each.awaited for each in known if each.delegate == event.delegate):
        return state
    item = entries.Escalation(at=envelope.at, seq=seq, delegate=event.delegate, question=event.question)
    return _queued(state, item)


def _task_updated(state: Projection, event: told.TaskUpdated, envelope: Envelope, seq: int) -> Projection:
    tasks = {each.task: each for each in state.tasks}
    tasks[event.task] = TaskState(task=event.task, status=event.status, text=event.text)
    item = entries.TaskUpdate(at=envelope.at, seq=seq, task=event.task, status=event.status, text=event.text)
    return _queued(replace(state, tasks=tuple(tasks.values())), item)


def _memory_updated(state: Projection, event: tool_events.MemoryUpdated, envelope: Envelope, seq: int) -> Projection:
    """Only where it says what the memory holds now: elsewhere the model reads it by other means."""
    if not event.text:
        return state
    return _queued(state, entries.MemoryChanged(at=envelope.at, seq=seq, store=event.store, text=event.text))


def _memory_evicted(state: Projection, event: tool_events.MemoryEvicted, envelope: Envelope, seq: int) -> Projection:
    return replace(state, surfaced=tuple(each for each in state.surfaced if each.entry not in event.entries))


def _memory_surfaced(state: Projection, event: tool_events.MemorySurfaced, envelope: Envelope, seq: int) -> Projection:
    """What was told, and where. What stands in a block, or was told before the user spoke, is not forgotten for being
    asked about as well."""
    known = {each.entry: each for each in state.surfaced}
    for entry, said in zip(event.entries, event.hashes, strict=False):
        before = known.get(entry)
        place = before.place if before is not None and event.place == "recall" else event.place
        known[entry] = SurfacedEntry(entry=entry, hash=said, place=place)
    pairs = tuple(zip(event.entries, event.hashes, strict=False))
    if event.place == "context":  # it says all it says anew: what stood in it and does not any more nobody knows
        here = tuple(each for each in known.values() if each.place != "context" or each.entry in event.entries)
        return replace(state, context=event.text, context_entries=pairs, surfaced=here)
    state = replace(state, surfaced=tuple(known.values()))
    if event.place == "stable":
        return replace(state, stable_entries=pairs)
    if event.place == "recall":
        return replace(state, window=tell(state.window, pairs))
    if event.place != "delta":
        return state
    item = entries.KnowledgeNews(at=envelope.at, seq=seq, text=event.text, entries=pairs)
    return _queued(replace(state, deltas=state.deltas + 1), item)


def _server_gone(
    state: Projection, event: tool_events.McpServerDisconnected, envelope: Envelope, seq: int
) -> Projection:
    return _queued(state, entries.ToolServerGone(at=envelope.at, seq=seq, server=event.server, tools=event.tools))


def _setting_toggled(state: Projection, event: told.SettingToggled, envelope: Envelope, seq: int) -> Projection:
    item = entries.SettingToggled(at=envelope.at, seq=seq, setting=event.setting, value=event.value)
    return _queued(state, item)


def _surroundings_changed(
    state: Projection, event: told.SurroundingsChanged, envelope: Envelope, seq: int
) -> Projection:
    state = replace(state, known_surroundings=event.around or state.known_surroundings)
    return _queued(state, entries.SurroundingsChanged(at=envelope.at, seq=seq, text=event.text))


FOLDS: Mapping[type[Event], Fold] = {
    happened.TurnStarted: _turn_started,
    happened.ProcessStarted: _process_started,
    happened.ProcessExited: _process_exited,
    happened.DelegateStarted: _delegate_started,
    happened.DelegateCompleted: _delegate_completed,
    happened.DelegateFailed: _delegate_failed,
    told.DelegateAsked: _delegate_asked,
    told.TaskUpdated: _task_updated,
    told.SettingToggled: _setting_toggled,
    told.SurroundingsChanged: _surroundings_changed,
    tool_events.MemoryUpdated: _memory_updated,
    tool_events.MemorySurfaced: _memory_surfaced,
    tool_events.MemoryEvicted: _memory_evicted,
    tool_events.McpServerDisconnected: _server_gone,
}
