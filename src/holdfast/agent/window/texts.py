"""The texts and times of a timeline's items. Every text here has been sent in a prompt: it is final.

A time is made of an event's time and the name of a zone, and of nothing else.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import assert_never
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from holdfast.errors import HoldfastError
from holdfast.records import Block, Text

from .entries import (
    Continue,
    DetachedProcessExited,
    DetachedProcessStarted,
    Escalation,
    KnowledgeNews,
    MemoryChanged,
    SettingToggledItem,
    SubagentStatus,
    SurroundingsChangedItem,
    TaskUpdate,
    TimelineItem,
    ToolServerGone,
    UserMessage,
)

CONTINUE = "(continue)"
NO_TEXT = "(no text)"
GOAL = "The goal of this session is now:"
GOAL_GIVEN_UP = "The goal of this session was given up."

_LINE = 300
"""Characters of a command or a task that a line shows."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = timedelta(days=-719_000), timedelta(days=2_932_000)
"""What can be shown, for about ten thousand years: a clock that was wrong once must not make a session unreadable."""


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
    item: DetachedProcessStarted
    | DetachedProcessExited
    | SubagentStatus
    | TaskUpdate
    | Escalation
    | MemoryChanged
    | KnowledgeNews
    | ToolServerGone
    | SettingToggledItem
    | SurroundingsChangedItem,
) -> str:
    match item:
        case DetachedProcessStarted():
            return f"Background process {item.process} started: {one_line(item.command)}"
        case DetachedProcessExited(exit_code=None):
            return f"Background process {item.process} ended without an exit code."
        case DetachedProcessExited():
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
        case SettingToggledItem():
            return f"Setting {item.setting} is now {item.value}."
        case SurroundingsChangedItem():
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
    """Return a text on one line, cut to `most` characters. The full text is in the call that it is from."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most]}…"


def zone(name: str) -> tzinfo:
    """The zone of this name; HoldfastError for an unknown one."""
    known_zone = zone_of(name)
    if known_zone is None:
        raise HoldfastError(
            f"agent.timezone is {name[:80]!r}, which is no time zone here; use UTC or a name such as Europe/Berlin"
        )
    return known_zone


def zone_of(name: str) -> tzinfo | None:
    """The zone of this name; None for an unknown one."""
    if name == "UTC":  # the default needs no data of the machine
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # no such zone, a path, a directory
        return None


def written(at: int, name: str) -> str:
    """A time in UTC microseconds, such as `2026-11-16 10:42:05 UTC` or `2026-11-16 11:42:05 UTC+01:00`.

    A zone that this machine does not know counts as UTC: a session from elsewhere has to stay readable. Offsets are
    shown and not abbreviations, which are ambiguous and change from one edition of the zone data to the next.
    """
    here = zone_of(name) or UTC
    moment = (_EPOCH + _shown(at)).astimezone(here)
    day = f"{moment.year:04d}-{moment.month:02d}-{moment.day:02d}"
    return f"{day} {moment.hour:02d}:{moment.minute:02d}:{moment.second:02d} UTC{_offset(moment, here)}"


def _shown(at: int) -> timedelta:
    try:
        return max(_FIRST, min(timedelta(microseconds=at), _LAST))
    except OverflowError:
        return _LAST if at > 0 else _FIRST


def _offset(moment: datetime, here: tzinfo) -> str:
    if here is UTC:
        return ""
    minutes = round((moment.utcoffset() or timedelta()).total_seconds() / 60)
    hours, rest = divmod(abs(minutes), 60)
    return f"{'-' if minutes < 0 else '+'}{hours:02d}:{rest:02d}"
