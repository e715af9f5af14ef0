"""The parts of a window: frozen entries, and the frozen items of a timeline.

An entry holds everything that its text is made of; its time is that of the event it was made from, in UTC microseconds.
Entries know neither their origin nor their later history nor the current time.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from holdfast.records import Document, Image, Message, Opaque, ToolDefinition

Status = Literal["started", "completed", "failed", "cancelled"]


class Item(Struct, frozen=True, kw_only=True):
    """One thing that happened. `seq` is the number of its event in the session: it orders what has the same time."""

    at: int
    seq: int


class UserMessage(Item, frozen=True, kw_only=True, tag="user_message"):
    text: str
    attachments: tuple[Image | Document, ...] = ()


class DetachedProcessStarted(Item, frozen=True, kw_only=True, tag="detached_process_started"):
    process: str
    command: str


class DetachedProcessExited(Item, frozen=True, kw_only=True, tag="detached_process_exited"):
    process: str
    exit_code: int | None


class SubagentStatus(Item, frozen=True, kw_only=True, tag="subagent_status"):
    delegate: str
    status: Status
    role: str = ""
    text: str = ""


class TaskUpdate(Item, frozen=True, kw_only=True, tag="task_update"):
    task: str
    status: str
    text: str = ""


class Escalation(Item, frozen=True, kw_only=True, tag="escalation"):
    delegate: str
    question: str


class MemoryChanged(Item, frozen=True, kw_only=True, tag="memory_changed"):
    """A memory file has changed. `text` is its whole new text."""

    store: str
    text: str


class KnowledgeNews(Item, frozen=True, kw_only=True, tag="knowledge_told"):
    """Entries of the knowledge store shown to the model, with pairs of entry id and content hash."""

    text: str
    entries: tuple[tuple[str, str], ...] = ()


class ToolServerGone(Item, frozen=True, kw_only=True, tag="tool_server_gone"):
    server: str
    tools: tuple[str, ...] = ()


class SettingToggledItem(Item, frozen=True, kw_only=True, tag="setting_toggled"):
    setting: str
    value: str


class SurroundingsChangedItem(Item, frozen=True, kw_only=True, tag="surroundings_changed"):
    text: str


class Continue(Item, frozen=True, kw_only=True, tag="continue"):
    """Nothing new was added, and the model shall continue."""


TimelineItem = (
    UserMessage
    | DetachedProcessStarted
    | DetachedProcessExited
    | SubagentStatus
    | TaskUpdate
    | Escalation
    | MemoryChanged
    | KnowledgeNews
    | ToolServerGone
    | SettingToggledItem
    | SurroundingsChangedItem
    | Continue
)


class SessionContext(Struct, frozen=True, kw_only=True, tag="session_context"):
    """Where the session takes place, read once: position 0."""

    at: int
    text: str


class AssistantTurn(Struct, frozen=True, kw_only=True, tag="assistant_turn"):
    """An answer of the model and the messages with the results of its calls, empty while they run. `told` has the id
    and content hash of each knowledge entry in those results."""

    at: int
    message: Message
    results: tuple[Message, ...] = ()
    model: str = ""
    dialect: str = ""
    told: tuple[tuple[str, str], ...] = ()


class Timeline(Struct, frozen=True, kw_only=True, tag="context"):
    """A timeline: what happened since the entry before it."""

    at: int
    items: tuple[TimelineItem, ...]


class Compacted(Struct, frozen=True, kw_only=True, tag="compacted"):
    """The summary that replaces entries which are no longer sent."""

    at: int
    text: str
    replaced: int = 0


class GoalInjection(Struct, frozen=True, kw_only=True, tag="goal_injection"):
    """What the session is to reach; empty where that was given up."""

    at: int
    text: str


class AttemptFeedback(Struct, frozen=True, kw_only=True, tag="attempt_feedback"):
    """The problem of the previous answer."""

    at: int
    text: str


Entry = SessionContext | AssistantTurn | Timeline | Compacted | GoalInjection | AttemptFeedback


class Window(Struct, frozen=True):
    """The entries in order. `borders` has for each entry whether it must begin a new message, because the one before
    was sent; `results_sent` if the last entry's results were."""

    entries: tuple[Entry, ...] = ()
    borders: tuple[bool, ...] = ()
    sent: int = 0
    """The number of entries already sent."""
    results_sent: bool = False


class Static(Struct, frozen=True, kw_only=True):
    """What rendering may know beside the entries: fixed for a session and a model."""

    timezone: str = "UTC"
    model: str = ""
    """What only the model that said it can read (thoughts, sealed parts) goes to no other one."""
    dialect: str = ""


def to_json(
    value: Entry | tuple[Entry, ...] | Message | tuple[Message | ToolDefinition | Opaque | Image | Document, ...],
) -> str:
    """Return JSON text. A lone surrogate, half of a character that was cut, cannot be stored and is replaced by a mark;
    what is sent has the mark too, because it is made from what was stored."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(_whole(msgspec.to_builtins(value))).decode()


def from_json(text: str) -> tuple[Entry, ...]:
    return msgspec.json.decode(text, type=tuple[Entry, ...])


def entry_from(text: str) -> Entry:
    return msgspec.json.decode(text, type=Entry)  # type: ignore[no-any-return]


def messages_from(text: str) -> tuple[Message, ...]:
    return msgspec.json.decode(text, type=tuple[Message, ...])


def message_from(text: str) -> Message:
    return msgspec.json.decode(text, type=Message)


def attachments_from(text: str) -> tuple[Image | Document, ...]:
    return msgspec.json.decode(text, type=tuple[Image | Document, ...]) if text else ()


def _whole(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {key: _whole(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(inner) for inner in value]
    return value
