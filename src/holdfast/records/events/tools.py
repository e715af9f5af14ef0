"""Events of tools, guides, skills, memory and MCP servers."""

from __future__ import annotations

from typing import Literal

from .fields import Body, Count, Digest, Event, LoadReason, Name, Place, event


@event("tool.called", "private")
class ToolCalled(Event, frozen=True, kw_only=True):
    tool: Name
    tool_use_id: Name
    input: Body


@event("tool.completed", "private")
class ToolCompleted(Event, frozen=True, kw_only=True):
    tool: Name
    tool_use_id: Name
    output: Body
    elapsed_us: Count | None = None
    metadata: Body = ""
    """What the tool said beside its result, as JSON."""
    files_modified: tuple[Place, ...] = ()
    command_executed: Body | None = None


@event("tool.failed", "private")
class ToolFailed(Event, frozen=True, kw_only=True):
    tool: Name
    tool_use_id: Name
    error_message: Body
    elapsed_us: Count | None = None
    metadata: Body = ""


@event("tool.input_invalid", "private")
class ToolInputInvalid(Event, frozen=True, kw_only=True):
    tool: Name
    tool_use_id: Name
    error_message: Body


@event("tool.offloaded", "private")
class ToolOffloaded(Event, frozen=True, kw_only=True):
    tool: Name
    tool_use_id: Name
    characters: Count
    path: Place


@event("tool.deferred", "pseudonymous")
class ToolDeferred(Event, frozen=True, kw_only=True):
    tools: tuple[Name, ...]


@event("tool.discovered", "pseudonymous")
class ToolDiscovered(Event, frozen=True, kw_only=True):
    tools: tuple[Name, ...]
    tool_use_id: Name | None = None


@event("tool.masked", "pseudonymous")
class ToolMasked(Event, frozen=True, kw_only=True):
    tool: Name
    tool_use_id: Name
    characters: Count


@event("tool.demoted", "pseudonymous")
class ToolDemoted(Event, frozen=True, kw_only=True):
    tool: Name
    idle_turns: Count


@event("tool.confirmation_requested", "private")
class ToolConfirmationRequested(Event, frozen=True, kw_only=True):
    tool: Name
    tool_use_id: Name
    question: Body


@event("tool.confirmation_resolved", "pseudonymous")
class ToolConfirmationResolved(Event, frozen=True, kw_only=True):
    tool: Name
    tool_use_id: Name
    allowed_to_run: bool
    scope: Literal["once", "session", "always"] = "once"


@event("guide.delivered", "pseudonymous")
class GuideDelivered(Event, frozen=True, kw_only=True):
    tool: Name
    tool_use_id: Name


@event("skill.loaded", "pseudonymous")
class SkillLoaded(Event, frozen=True, kw_only=True):
    skill_id: Name
    skill_version: Name
    load_reason: LoadReason
    load_size_tokens: Count
    source: Name
    triggered_by_tool_use_id: Name | None


@event("memory.updated", "private")
class MemoryUpdated(Event, frozen=True, kw_only=True):
    store: Name
    operation: Name
    entry: Name | None = None
    digest: Digest | None = None
    text: Body = ""


@event("memory.surfaced", "private")
class MemorySurfaced(Event, frozen=True, kw_only=True):
    """Entries of the knowledge store were put into a prompt: their ids, and what each said by its hash. `place` is
    where (stable, context, delta, recall), `why` the reason; `text` what was put there, as it was sent. In the context
    block that is all it says from then on."""

    entries: tuple[Name, ...]
    tokens: Count
    hashes: tuple[Name, ...] = ()
    place: Name = ""
    why: Name = ""
    text: Body = ""


@event("memory.evicted", "pseudonymous")
class MemoryEvicted(Event, frozen=True, kw_only=True):
    """Entries that a conversation was told and that nothing in it says any more."""

    entries: tuple[Name, ...]
    why: Name


@event("mcp.server_disconnected", "pseudonymous")
class McpServerDisconnected(Event, frozen=True, kw_only=True):
    server: Name
    tools: tuple[Name, ...] = ()
    error: Name | None = None


@event("mcp.tools_changed", "pseudonymous")
class McpToolsChanged(Event, frozen=True, kw_only=True):
    server: Name
    added: tuple[Name, ...] = ()
    removed: tuple[Name, ...] = ()
