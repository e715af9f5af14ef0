"""Events of sessions, turns, compaction, sub-agents, background processes, the gateway and the bus."""

from __future__ import annotations

from decimal import Decimal

from .fields import Body, Count, Event, Name, Place, PreflightAction, Used, event


@event("session.started", "pseudonymous")
class SessionStarted(Event, frozen=True, kw_only=True):
    agent: Name | None = None
    client: Name | None = None
    model: Name | None = None
    forked_from: Name | None = None


@event("session.resumed", "pseudonymous")
class SessionResumed(Event, frozen=True, kw_only=True):
    agent: Name | None = None
    client: Name | None = None


@event("session.salvaged", "pseudonymous")
class SessionSalvaged(Event, frozen=True, kw_only=True):
    """The log of the session was damaged: what stood from there on is not part of it any more."""

    line: Count
    byte: Count
    events: Count
    """Lines that are lost; `turns` is how many of them began one."""
    turns: Count
    copy: Name = ""
    """The file beside the log that holds all of it; empty in a fork, whose original stays as it is."""


@event("session.ended", "pseudonymous")
class SessionEnded(Event, frozen=True, kw_only=True):
    turns: Count = 0
    cost: Decimal | None = None


@event("turn.started", "private")
class TurnStarted(Event, frozen=True, kw_only=True):
    text: Body = ""
    attachments: Body = ""
    """Images and documents that came with it, as JSON text of canonical blocks."""


@event("turn.completed", "private")
class TurnCompleted(Event, frozen=True, kw_only=True):
    text: Body = ""
    ended: Name = "completed"
    """Or `failed`: no answer came; `capped`: it took too many requests."""
    calls: Count = 0
    cost: Decimal | None = None


@event("turn.cancelled", "pseudonymous")
class TurnCancelled(Event, frozen=True, kw_only=True):
    open_tool_calls: Count = 0


@event("compaction.started", "pseudonymous")
class CompactionStarted(Event, frozen=True, kw_only=True):
    tokens: Count
    limit: Count
    why: Name = "limit"


@event("compaction.completed", "private")
class CompactionCompleted(Event, frozen=True, kw_only=True):
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


@event("compaction.failed", "pseudonymous")
class CompactionFailed(Event, frozen=True, kw_only=True):
    attempts: Count
    error: Name
    cost: Decimal | None = None
    used: Used = ()
    """What was paid for it, where nothing comes of it that says so."""


@event("delegate.started", "private")
class DelegateStarted(Event, frozen=True, kw_only=True):
    delegate: Name
    role: Name
    task: Body = ""
    awaited: bool = False
    """Whoever started it waits for its result, so nobody else has to be told."""


@event("delegate.completed", "private")
class DelegateCompleted(Event, frozen=True, kw_only=True):
    delegate: Name
    result: Body = ""
    cost: Decimal | None = None
    used: Used = ()
    awaited: bool = False


@event("delegate.failed", "private")
class DelegateFailed(Event, frozen=True, kw_only=True):
    delegate: Name
    error_message: Body = ""
    cost: Decimal | None = None
    used: Used = ()
    awaited: bool = False


@event("process.started", "private")
class ProcessStarted(Event, frozen=True, kw_only=True):
    process: Name
    command: Body
    directory: Place | None = None
    background: bool = False
    """Nobody waits for its end."""


@event("process.exited", "pseudonymous")
class ProcessExited(Event, frozen=True, kw_only=True):
    process: Name
    exit_code: int | None
    background: bool = False


@event("gateway.bypassed", "pseudonymous")
class GatewayBypassed(Event, frozen=True, kw_only=True):
    call: Name | None = None
    stage: Name
    error: Name | None = None
    elapsed_us: Count | None = None


@event("gateway.preflight", "pseudonymous")
class GatewayPreflight(Event, frozen=True, kw_only=True):
    """A turn that would cost more than the limit: it was sent with a warning, held back, or let through on request."""

    call: Name
    action: PreflightAction
    dollars: Decimal
    limit: Decimal


@event("gateway.auth_failed", "pseudonymous")
class GatewayAuthFailed(Event, frozen=True, kw_only=True):
    door: Name


@event("bus.gap", "aggregatable")
class BusGap(Event, frozen=True, kw_only=True):
    """Events that one subscriber missed because its queue was full, delivered in their place."""

    dropped: Count
    first: Name
    last: Name
