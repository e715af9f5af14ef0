"""Events of an agent's conversation: from these alone its window is built again.

What a field holds as JSON text (`entries`, `message`, `tools`…) is written and read by the agent; the catalogue only
says that it is somebody's words.
"""

from __future__ import annotations

from decimal import Decimal
from typing import ClassVar

from ..causes import ResetReason
from .fields import Body, Count, Event, Name, Place, Sensitivity, Used


class SessionComposed(Event, frozen=True, kw_only=True):
    """What stays for the whole session: system text, tools array, who answers, how times are written."""

    type: ClassVar[str] = "session.composed"
    sensitivity: ClassVar[Sensitivity] = "private"
    system: Body
    tools: Body
    """The tools array, as JSON text of canonical definitions."""
    model: Name
    dialect: Name
    timezone: Name = "UTC"
    agent: Name = ""
    parent: Name | None = None
    """The session that this one works for."""
    workspace: Place = ""
    preloaded: tuple[Name, ...] = ()
    padding: Body = ""
    """Why the stable text was padded, or was not."""
    preferences: Body = ""
    """The stable memory block, behind the stable text."""
    project: Place = ""
    """Whose entries of the knowledge store count here."""
    amnesia: bool = False
    """Memory is read and not written."""
    effort: Name = ""
    """How much the model is to think; empty: as the provider has it."""
    joined: bool = False
    """The parts of the system text are one, because nothing was to be cached when the session began."""
    cache_key: Name = ""
    """What requests to OpenAI name the cache's entries by; empty: they do not."""


class SessionState(Event, frozen=True, kw_only=True):
    """What tools and skills have to know after a restart, in base64."""

    type: ClassVar[str] = "session.state"
    sensitivity: ClassVar[Sensitivity] = "private"
    tools: Body = ""
    skills: Body = ""


class SessionRefreshed(Event, frozen=True, kw_only=True):
    """The surroundings were read again when the session was resumed: another entry 0."""

    type: ClassVar[str] = "session.refreshed"
    sensitivity: ClassVar[Sensitivity] = "private"
    entry: Body


class SessionRedeclared(Event, frozen=True, kw_only=True):
    """Another tools array, at a reset. Each model has its own; `model` is whose it is."""

    type: ClassVar[str] = "session.redeclared"
    sensitivity: ClassVar[Sensitivity] = "private"
    tools: Body
    model: Name = ""


class VolatileChanged(Event, frozen=True, kw_only=True):
    """The text of the volatile system segment from now on (`agent.volatile = "system"`)."""

    type: ClassVar[str] = "volatile.changed"
    sensitivity: ClassVar[Sensitivity] = "private"
    text: Body


class SurroundingsChanged(Event, frozen=True, kw_only=True):
    """What is different since the surroundings were read, while the conversation goes on."""

    type: ClassVar[str] = "surroundings.changed"
    sensitivity: ClassVar[Sensitivity] = "private"
    text: Body
    around: Body = ""
    """The surroundings as they are now, in full, for the next comparison."""


class WindowAppended(Event, frozen=True, kw_only=True):
    """Entries that were flushed: they stand at the end of the window for ever, in this order."""

    type: ClassVar[str] = "window.appended"
    sensitivity: ClassVar[Sensitivity] = "private"
    entries: Body


class WindowSent(Event, frozen=True, kw_only=True):
    """A request is about to leave with the first `entries` entries of the window."""

    type: ClassVar[str] = "window.sent"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    call: Name
    model: Name
    entries: Count
    reset: ResetReason | None = None


class TurnAnswered(Event, frozen=True, kw_only=True):
    """What the model said to one request, as JSON text of a canonical message."""

    type: ClassVar[str] = "turn.answered"
    sensitivity: ClassVar[Sensitivity] = "private"
    call: Name
    model: Name
    dialect: Name
    message: Body
    stop: Name = "end"
    input: Count = 0
    read: Count = 0
    written: Count = 0
    output: Count = 0
    cost: Decimal | None = None
    elsewhere: bool = False
    """It was answered, and paid for, in the session that this one was forked from."""


class TurnToolsAnswered(Event, frozen=True, kw_only=True):
    """The messages that answer the calls of the last answer."""

    type: ClassVar[str] = "turn.tools_answered"
    sensitivity: ClassVar[Sensitivity] = "private"
    messages: Body


class HistoryTrimmed(Event, frozen=True, kw_only=True):
    """Entries from `head` up to `cut` are no longer sent. They stay on disk."""

    type: ClassVar[str] = "history.trimmed"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    head: Count
    cut: Count


class GoalSet(Event, frozen=True, kw_only=True):
    """What the session is to reach; empty where it is given up."""

    type: ClassVar[str] = "goal.set"
    sensitivity: ClassVar[Sensitivity] = "private"
    goal: Body


class AttemptFailed(Event, frozen=True, kw_only=True):
    """An answer that could not be used or was cut; the model is told of it before the next one."""

    type: ClassVar[str] = "attempt.failed"
    sensitivity: ClassVar[Sensitivity] = "private"
    feedback: Body
    cost: Decimal | None = None
    """What was paid for an answer that is kept nowhere else."""
    used: Used = ()


class TaskUpdated(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "task.updated"
    sensitivity: ClassVar[Sensitivity] = "private"
    task: Name
    status: Name
    text: Body = ""


class SettingToggled(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "setting.toggled"
    sensitivity: ClassVar[Sensitivity] = "private"
    setting: Name
    value: Body


class DelegateAsked(Event, frozen=True, kw_only=True):
    """A sub-agent cannot go on without an answer."""

    type: ClassVar[str] = "delegate.asked"
    sensitivity: ClassVar[Sensitivity] = "private"
    delegate: Name
    question: Body
    cost: Decimal | None = None
    """What it has cost since it was started, or went on."""
    used: Used = ()


class EffortSet(Event, frozen=True, kw_only=True):
    """How much the model is to think from the next request on (empty: as the provider has it), and what the change
    loses of what is cached."""

    type: ClassVar[str] = "effort.set"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    effort: Name
    before: Name = ""
    cold_tokens: Count = 0
    cold_cost: Decimal | None = None


class ModelRouted(Event, frozen=True, kw_only=True):
    """Which model a turn goes to, who asked for it, and what a change costs; `passed_over` are models and why not."""

    type: ClassVar[str] = "model.routed"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    model: Name
    source: Name
    before: Name | None = None
    cold_tokens: Count = 0
    cold_cost: Decimal | None = None
    caching: bool = True
    passed_over: tuple[tuple[Name, Name], ...] = ()
