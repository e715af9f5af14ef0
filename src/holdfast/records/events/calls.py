"""Events of provider calls and of the cache: planned, compared, broken, reset, pinged."""

from __future__ import annotations

from decimal import Decimal

from ..causes import BreakCause, ResetReason
from .fields import Count, Digest, Event, Name, event


@event("llm.call_started", "pseudonymous")
class LlmCallStarted(Event, frozen=True, kw_only=True):
    call: Name
    lane: Name
    model: Name


@event("llm.call_completed", "pseudonymous")
class LlmCallCompleted(Event, frozen=True, kw_only=True):
    """Counts only; what the model said stands in events that are private."""

    call: Name
    model: Name
    input: Count
    read: Count
    writes: tuple[tuple[Name, Count], ...] = ()
    output: Count
    cost: Decimal | None = None
    price_version: Name | None = None
    stop_reason: Name | None = None


@event("llm.call_failed", "pseudonymous")
class LlmCallFailed(Event, frozen=True, kw_only=True):
    """A provider's error text may quote the prompt, so only its kind and status are kept. The counts are what was
    billed for it all the same, estimated, if its answer had begun."""

    call: Name
    model: Name
    error: Name
    status: int | None = None
    abandoned: bool = False
    input: Count = 0
    read: Count = 0
    writes: tuple[tuple[Name, Count], ...] = ()
    output: Count = 0
    cost: Decimal | None = None


@event("cache.planned", "pseudonymous")
class CachePlanned(Event, frozen=True, kw_only=True):
    """`repairs` are name, path, tokens that stay readable by it, and whether it was made or is a suggestion."""

    call: Name
    lane: Name
    strategy: Name
    markers: tuple[tuple[Name, Name], ...] = ()
    edits: Count = 0
    predicted_read: Count = 0
    predicted_written: Count = 0
    predicted_input: Count = 0
    reasons: tuple[Name, ...] = ()
    repairs: tuple[tuple[Name, Name, Count, bool], ...] = ()


@event("cache.verdict", "pseudonymous")
class CacheVerdict(Event, frozen=True, kw_only=True):
    call: Name
    predicted_read: Count
    actual_read: Count
    predicted_written: Count
    actual_written: Count
    explained: bool


@event("cache.break", "pseudonymous")
class CacheBreak(Event, frozen=True, kw_only=True):
    call: Name
    lane: Name
    cause: BreakCause
    tokens: Count
    dollars: Decimal
    path: Name | None = None
    offset: Count | None = None
    owner: Name | None = None
    before: Digest | None = None
    after: Digest | None = None
    cure: Name | None = None


@event("cache.reset", "pseudonymous")
class CacheReset(Event, frozen=True, kw_only=True):
    lane: Name
    reason: ResetReason
    call: Name | None = None
    tokens: Count = 0
    dollars: Decimal | None = None


@event("cache.ping", "pseudonymous")
class CachePing(Event, frozen=True, kw_only=True):
    lane: Name
    call: Name
    tokens: Count
    cost: Decimal


@event("cache.retention_changed", "pseudonymous")
class CacheRetentionChanged(Event, frozen=True, kw_only=True):
    lane: Name
    zone: Name
    before: Name
    after: Name
    why: Name
