"""Events of tools, guides, skills, memory and MCP servers."""

from __future__ import annotations

from typing import ClassVar, Literal

from .fields import Body, Count, Digest, Event, LoadReason, Name, Place, Sensitivity


class ToolCalled(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "tool.called"
    sensitivity: ClassVar[Sensitivity] = "private"
    tool: Name
    tool_use_id: Name
    input: Body


class ToolCompleted(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "tool.completed"
    sensitivity: ClassVar[Sensitivity] = "private"
    tool: Name
    tool_use_id: Name
    output: Body
    elapsed_us: Count | None = None
    metadata: Body = ""
    """What the tool said beside its result, as JSON."""
    files_modified: tuple[Place, ...] = ()
    command_executed: Body | None = None


class ToolFailed(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "tool.failed"
    sensitivity: ClassVar[Sensitivity] = "private"
    tool: Name
    tool_use_id: Name
    error_message: Body
    elapsed_us: Count | None = None
    metadata: Body = ""


class ToolInputInvalid(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "tool.input_invalid"
    sensitivity: ClassVar[Sensitivity] = "private"
    tool: Name
    tool_use_id: Name
    error_message: Body


class ToolOffloaded(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "tool.offloaded"
    sensitivity: ClassVar[Sensitivity] = "private"
    tool: Name
    tool_use_id: Name
    characters: Count
    path: Place


class ToolDeferred(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "tool.deferred"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    tools: tuple[Name, ...]


class ToolDiscovered(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "tool.discovered"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    tools: tuple[Name, ...]
    tool_use_id: Name | None = None


class ToolMasked(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "tool.masked"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    tool: Name
    tool_use_id: Name
    characters: Count


class ToolDemoted(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "tool.demoted"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    tool: Name
    idle_turns: Count


class ToolConfirmationRequested(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "tool.confirmation_requested"
    sensitivity: ClassVar[Sensitivity] = "private"
    tool: Name
    tool_use_id: Name
    question: Body


class ToolConfirmationResolved(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "tool.confirmation_resolved"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    tool: Name
    tool_use_id: Name
    allowed_to_run: bool
    scope: Literal["once", "session", "always"] = "once"


class GuideDelivered(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "guide.delivered"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    tool: Name
    tool_use_id: Name


class SkillLoaded(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "skill.loaded"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    skill_id: Name
    skill_version: Name
    load_reason: LoadReason
    load_size_tokens: Count
    source: Name
    triggered_by_tool_use_id: Name | None


class MemoryUpdated(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "memory.updated"
    sensitivity: ClassVar[Sensitivity] = "private"
    store: Name
    operation: Name
    entry: Name | None = None
    digest: Digest | None = None
    text: Body = ""


class MemorySurfaced(Event, frozen=True, kw_only=True):
    """Entries of the knowledge store were put into a prompt: their ids, and what each said by its hash. `place` is
    where (stable, context, delta, recall), `why` the reason; `text` what was put there, as it was sent. In the context
    block that is all it says from then on."""

    type: ClassVar[str] = "memory.surfaced"
    sensitivity: ClassVar[Sensitivity] = "private"
    entries: tuple[Name, ...]
    tokens: Count
    hashes: tuple[Name, ...] = ()
    place: Name = ""
    why: Name = ""
    text: Body = ""


class MemoryEvicted(Event, frozen=True, kw_only=True):
    """Entries that a conversation was told and that nothing in it says any more."""

    type: ClassVar[str] = "memory.evicted"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    entries: tuple[Name, ...]
    why: Name


class McpServerDisconnected(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "mcp.server_disconnected"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    server: Name
    tools: tuple[Name, ...] = ()
    error: Name | None = None


class McpToolsChanged(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "mcp.tools_changed"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    server: Name
    added: tuple[Name, ...] = ()
    removed: tuple[Name, ...] = ()
