"""Events of an agent's conversation: from these alone its window is built again.

What a field holds as JSON text (`entries`, `message`, `tools`…) is written and read by the agent; the catalogue only
says that it is somebody's words.
"""

from __future__ import annotations

from decimal import Decimal

from ..causes import ResetReason
from .fields import Body, Count, Event, Name, Place, Used, event


@event("session.composed", "private")
class SessionComposed(Event, frozen=True, kw_only=True):
    """What stays for the whole session: system text, tools array, who answers, how times are written."""

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


@event("session.state", "private")
class SessionState(Event, frozen=True, kw_only=True):
    """What tools and skills have to know after a restart, in base64."""

    tools: Body = ""
    skills: Body = ""


@event("session.refreshed", "private")
class SessionRefreshed(Event, frozen=True, kw_only=True):
    """The surroundings were read again when the session was resumed: another entry 0."""

    entry: Body


@event("session.redeclared", "private")
class SessionRedeclared(Event, frozen=True, kw_only=True):
    """Another tools array, at a reset. Each model has its own; `model` is whose it is."""

    tools: Body
    model: Name = ""


@event("volatile.changed", "private")
class VolatileChanged(Event, frozen=True, kw_only=True):
    """The text of the volatile system segment from now on (`agent.volatile = "system"`)."""

    text: Body


@event("surroundings.changed", "private")
class SurroundingsChanged(Event, frozen=True, kw_only=True):
    """What is different since the surroundings were read, while the conversation goes on."""

    text: Body
    around: Body = ""
    """The surroundings as they are now, in full, for the next comparison."""


@event("window.appended", "private")
class WindowAppended(Event, frozen=True, kw_only=True):
    """Entries that were flushed: they stand at the end of the window for ever, in this order."""

    entries: Body


@event("window.sent", "pseudonymous")
class WindowSent(Event, frozen=True, kw_only=True):
    """A request is about to leave with the first `entries` entries of the window."""

    call: Name
    model: Name
    entries: Count
    reset: ResetReason | None = None


@event("turn.answered", "private")
class TurnAnswered(Event, frozen=True, kw_only=True):
    """What the model said to one request, as JSON text of a canonical message."""

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


@event("turn.tools_answered", "private")
class TurnToolsAnswered(Event, frozen=True, kw_only=True):
    """The messages that answer the calls of the last answer."""

    messages: Body


@event("history.trimmed", "pseudonymous")
class HistoryTrimmed(Event, frozen=True, kw_only=True):
    """Entries from `head` up to `cut` are no longer sent. They stay on disk."""

    head: Count
    cut: Count


@event("goal.set", "private")
class GoalSet(Event, frozen=True, kw_only=True):
    """What the session is to reach; empty where it is given up."""

    goal: Body


@event("attempt.failed", "private")
class AttemptFailed(Event, frozen=True, kw_only=True):
    """An answer that could not be used or was cut; the model is told of it before the next one."""

    feedback: Body
    cost: Decimal | None = None
    """What was paid for an answer that is kept nowhere else."""
    used: Used = ()


@event("task.updated", "private")
class TaskUpdated(Event, frozen=True, kw_only=True):
    task: Name
    status: Name
    text: Body = ""


@event("setting.toggled", "private")
class SettingToggled(Event, frozen=True, kw_only=True):
    setting: Name
    value: Body


@event("delegate.asked", "private")
class DelegateAsked(Event, frozen=True, kw_only=True):
    """A sub-agent cannot go on without an answer."""

    delegate: Name
    question: Body
    cost: Decimal | None = None
    """What it has cost since it was started, or went on."""
    used: Used = ()


@event("effort.set", "pseudonymous")
class EffortSet(Event, frozen=True, kw_only=True):
    """How much the model is to think from the next request on (empty: as the provider has it), and what the change
    loses of what is cached."""

    effort: Name
    before: Name = ""
    cold_tokens: Count = 0
    cold_cost: Decimal | None = None


@event("model.routed", "pseudonymous")
class ModelRouted(Event, frozen=True, kw_only=True):
    """Which model a turn goes to, who asked for it, and what a change costs; `passed_over` are models and why not."""

    model: Name
    source: Name
    before: Name | None = None
    cold_tokens: Count = 0
    cold_cost: Decimal | None = None
    caching: bool = True
    passed_over: tuple[tuple[Name, Name], ...] = ()
