"""Which events a session's log takes from its tools, and which of the log's go to the store: those without words of a
prompt."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated, get_args, get_origin, get_type_hints

from msgspec import Meta
from msgspec.structs import replace

from holdfast.records.events import (
    Bus,
    Envelope,
    Event,
    McpServerDisconnected,
    MemoryUpdated,
    ProcessExited,
    ProcessStarted,
    SessionComposed,
    SessionRedeclared,
    SessionRefreshed,
    SessionState,
    ToolCompleted,
    TurnAnswered,
    TurnToolsAnswered,
    VolatileChanged,
    WindowAppended,
)
from holdfast.store import Store
from holdfast.store import operations as op

_TIMELINE: tuple[type[Event], ...] = (ProcessStarted, ProcessExited, MemoryUpdated, McpServerDisconnected)
"""Events of tools that are added to the conversation."""

_LOG_ONLY: tuple[type[Event], ...] = (
    SessionComposed,
    SessionState,
    SessionRefreshed,
    SessionRedeclared,
    VolatileChanged,
    WindowAppended,
    TurnAnswered,
    TurnToolsAnswered,
)
"""Events with only the text of a conversation, which stay in its log."""


def from_tools(envelope: Envelope) -> Envelope | None:
    """A tool's event as the log takes it. Of calls only the files are kept that they changed."""
    payload = envelope.payload
    if isinstance(payload, ProcessStarted | ProcessExited) and not payload.background:
        return None  # the result of the call says how it ended
    if isinstance(payload, _TIMELINE):
        return envelope
    if isinstance(payload, ToolCompleted) and payload.files_modified:
        return replace(envelope, payload=replace(payload, output="", metadata="", command_executed=None))
    return None


def for_store(envelope: Envelope, *, bodies: bool) -> Envelope | None:
    """An event of the log as the store takes it: without words of a prompt, unless those are to be kept."""
    payload = envelope.payload
    if isinstance(payload, _LOG_ONLY):
        return None
    if bodies:
        return envelope
    words = {name: "" for name in _bodies(type(payload)) if getattr(payload, name)}
    return replace(envelope, payload=replace(payload, **words)) if words else envelope


def publish(envelopes: Sequence[Envelope], *, bus: Bus | None, store: Store | None, tenant: str, bodies: bool) -> None:
    """Events of a log for whoever listens, and for the store as it takes them."""
    if bus is not None:
        for envelope in envelopes:
            bus.publish(envelope)
    if store is not None:
        stored = [each for envelope in envelopes if (each := for_store(envelope, bodies=bodies)) is not None]
        if stored:
            store.write(op.AppendEvents.of(tenant, stored))


@cache
def _bodies(event: type[Event]) -> tuple[str, ...]:
    hints = get_type_hints(event, include_extras=True)
    return tuple(name for name, hint in hints.items() if _is_body(hint))


def _is_body(hint: object) -> bool:
    if get_origin(hint) is Annotated:
        return any(isinstance(each, Meta) and (each.extra or {}).get("kind") == "body" for each in get_args(hint)[1:])
    return any(_is_body(each) for each in get_args(hint))
