"""What an item of a timeline says. Every text here has been sent in somebody's prompt: it is final for ever."""

from __future__ import annotations

from typing import assert_never

from holdfast.records import Block, Text

from .entries import (
    Continue,
    Escalation,
    KnowledgeNews,
    MemoryChanged,
    ProcessExited,
    ProcessStarted,
    SettingToggled,
    SubagentStatus,
    SurroundingsChanged,
    TaskUpdate,
    TimelineItem,
    ToolServerGone,
    UserMessage,
)
from .times import written

CONTINUE = "(continue)"
NO_TEXT = "(no text)"
GOAL = "The goal of this session is now:"
GOAL_GIVEN_UP = "The goal of this session was given up."

_LINE = 300
"""Characters of a command or a task that a line shows."""


def item_blocks(item: TimelineItem, zone: str) -> tuple[Block, ...]:
    """The blocks of one item: the user's words as they are, anything else as a line that begins with its time."""
    if isinstance(item, UserMessage):
        return (*((Text(item.text),) if item.text.strip() else ()), *item.attachments)
    if isinstance(item, Continue):
        return (Text(CONTINUE),)
    return (Text(f"[{written(item.at, zone)}] {_line(item)}"),)


def goal_text(goal: str) -> str:
    return f"{GOAL}\n{goal}" if goal.strip() else GOAL_GIVEN_UP


def _line(
    item: ProcessStarted
    | ProcessExited
    | SubagentStatus
    | TaskUpdate
    | Escalation
    | MemoryChanged
    | KnowledgeNews
    | ToolServerGone
    | SettingToggled
    | SurroundingsChanged,
) -> str:
    match item:
        case ProcessStarted():
            return f"Background process {item.process} started: {one_line(item.command)}"
        case ProcessExited(exit_code=None):
            return f"Background process {item.process} ended without an exit code."
        case ProcessExited():
            return f"Background process {item.process} exited with code {item.exit_code}."
        case SubagentStatus():
            return _status(item)
        case TaskUpdate():
            return f"Task {item.task}: {item.status}." + (f" {item.text}" if item.text.strip() else "")
        case Escalation():
            return f"Sub-agent {item.delegate} asks: {item.question}"
        case MemoryChanged():
            return f"Memory file {item.store} says:\n{item.text}"
        case KnowledgeNews():
            return item.text
        case ToolServerGone(tools=()):
            return f"Tool server {item.server} is gone. Its tools no longer work."
        case ToolServerGone():
            return f"Tool server {item.server} is gone. These tools no longer work: {', '.join(item.tools)}."
        case SettingToggled():
            return f"Setting {item.setting} is now {item.value}."
        case SurroundingsChanged():
            return f"The surroundings have changed:\n{item.text}"
        case _:
            assert_never(item)


def _status(item: SubagentStatus) -> str:
    who = f"Sub-agent {item.delegate}" + (f" ({item.role})" if item.role else "")
    if not item.text.strip():
        return f"{who} {item.status}."
    text = one_line(item.text) if item.status == "started" else item.text
    return f"{who} {item.status}: {text}"


def one_line(text: str, most: int = _LINE) -> str:
    """One line of a text that may have many: what it says in full stands in the call it came from."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most]}…"
