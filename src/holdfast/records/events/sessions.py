"""Events of sessions, turns, compaction, sub-agents, background processes, the gateway and the bus."""

from __future__ import annotations

from decimal import Decimal
from typing import ClassVar

from .fields import Body, Count, Event, Name, Place, PreflightAction, Sensitivity, Used


class SessionStarted(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "session.started"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    agent: Name | None = None
    client: Name | None = None
    model: Name | None = None
    forked_from: Name | None = None


class SessionResumed(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "session.resumed"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    agent: Name | None = None
    client: Name | None = None


class SessionSalvaged(Event, frozen=True, kw_only=True):
    """The log of the session was damaged: what stood from there on is not part of it any more."""

    type: ClassVar[str] = "session.salvaged"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    line: Count
    byte: Count
    events: Count
    """Lines that are lost; `turns` is how many of them began one."""
    turns: Count
    copy: Name = ""
    """The file beside the log that holds all of it; empty in a fork, whose original stays as it is."""


class SessionEnded(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "session.ended"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    turns: Count = 0
    cost: Decimal | None = None


class TurnStarted(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "turn.started"
    sensitivity: ClassVar[Sensitivity] = "private"
    text: Body = ""
    attachments: Body = ""
    """Images and documents that came with it, as JSON text of canonical blocks."""


class TurnCompleted(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "turn.completed"
    sensitivity: ClassVar[Sensitivity] = "private"
    text: Body = ""
    ended: Name = "completed"
    """Or `failed`: no answer came; `capped`: it took too many requests."""
    calls: Count = 0
    cost: Decimal | None = None


class TurnCancelled(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "turn.cancelled"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    open_tool_calls: Count = 0


class CompactionStarted(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "compaction.started"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    tokens: Count
    limit: Count
    why: Name = "limit"


class CompactionCompleted(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "compaction.completed"
    sensitivity: ClassVar[Sensitivity] = "private"
    tokens_before: Count
    tokens_after: Count
    summary: Body = ""
    elided: bool = False
    cost: Decimal | None = None
    used: Used = ()
    head: Count = 0
    """Entries of the window that stay in front of the summary."""
    cut: Count = 0
    """The first entry that stays behind it."""
    entry: Body = ""
    """The summary as the entry that stands in their place."""
    payback: Count | None = None
    """Requests after which it has paid for itself."""


class CompactionFailed(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "compaction.failed"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    attempts: Count
    error: Name
    cost: Decimal | None = None
    used: Used = ()
    """What was paid for it, where nothing comes of it that says so."""


class DelegateStarted(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "delegate.started"
    sensitivity: ClassVar[Sensitivity] = "private"
    delegate: Name
    role: Name
    task: Body = ""
    awaited: bool = False
    """Whoever started it waits for its result, so nobody else has to be told."""


class DelegateCompleted(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "delegate.completed"
    sensitivity: ClassVar[Sensitivity] = "private"
    delegate: Name
    result: Body = ""
    cost: Decimal | None = None
    used: Used = ()
    awaited: bool = False


class DelegateFailed(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "delegate.failed"
    sensitivity: ClassVar[Sensitivity] = "private"
    delegate: Name
    error_message: Body = ""
    cost: Decimal | None = None
    used: Used = ()
    awaited: bool = False


class ProcessStarted(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "process.started"
    sensitivity: ClassVar[Sensitivity] = "private"
    process: Name
    command: Body
    directory: Place | None = None
    background: bool = False
    """Nobody waits for its end."""


class ProcessExited(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "process.exited"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    process: Name
    exit_code: int | None
    background: bool = False


class GatewayBypassed(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "gateway.bypassed"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    call: Name | None = None
    stage: Name
    error: Name | None = None
    elapsed_us: Count | None = None


class GatewayPreflight(Event, frozen=True, kw_only=True):
    """A turn that would cost more than the limit: it was sent with a warning, held back, or let through on request."""

    type: ClassVar[str] = "gateway.preflight"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    call: Name
    action: PreflightAction
    dollars: Decimal
    limit: Decimal


class GatewayAuthFailed(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "gateway.auth_failed"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    door: Name


class BusGap(Event, frozen=True, kw_only=True):
    """Events that one subscriber missed because its queue was full, delivered in their place."""

    type: ClassVar[str] = "bus.gap"
    sensitivity: ClassVar[Sensitivity] = "aggregatable"
    dropped: Count
    first: Name
    last: Name
