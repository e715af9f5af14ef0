"""The closed catalogue: every event type there is, by name.

A type that is not listed here cannot be read back, so a new event is a change of this list. Budget rejections
of skills are `tool.failed`; skills are never created or unloaded by an event.
"""

from __future__ import annotations

from . import agent, calls, sessions, tools
from .fields import Event

EVENTS: tuple[type[Event], ...] = (
    sessions.SessionStarted,
    sessions.SessionResumed,
    sessions.SessionSalvaged,
    sessions.SessionEnded,
    sessions.TurnStarted,
    sessions.TurnCompleted,
    sessions.TurnCancelled,
    calls.LlmCallStarted,
    calls.LlmCallCompleted,
    calls.LlmCallFailed,
    calls.CachePlanned,
    calls.CacheVerdict,
    calls.CacheBreak,
    calls.CacheReset,
    calls.CachePing,
    calls.CacheRetentionChanged,
    tools.ToolCalled,
    tools.ToolCompleted,
    tools.ToolFailed,
    tools.ToolInputInvalid,
    tools.ToolOffloaded,
    tools.ToolDeferred,
    tools.ToolDiscovered,
    tools.ToolMasked,
    tools.ToolDemoted,
    tools.ToolConfirmationRequested,
    tools.ToolConfirmationResolved,
    tools.GuideDelivered,
    tools.SkillLoaded,
    tools.MemoryUpdated,
    tools.MemorySurfaced,
    tools.MemoryEvicted,
    sessions.CompactionStarted,
    sessions.CompactionCompleted,
    sessions.CompactionFailed,
    sessions.DelegateStarted,
    sessions.DelegateCompleted,
    sessions.DelegateFailed,
    sessions.GatewayBypassed,
    sessions.GatewayPreflight,
    sessions.GatewayAuthFailed,
    tools.McpServerDisconnected,
    tools.McpToolsChanged,
    sessions.ProcessStarted,
    sessions.ProcessExited,
    agent.SessionComposed,
    agent.SessionState,
    agent.SessionRefreshed,
    agent.SessionRedeclared,
    agent.VolatileChanged,
    agent.SurroundingsChanged,
    agent.WindowAppended,
    agent.WindowSent,
    agent.TurnAnswered,
    agent.TurnToolsAnswered,
    agent.HistoryTrimmed,
    agent.GoalSet,
    agent.AttemptFailed,
    agent.TaskUpdated,
    agent.SettingToggled,
    agent.DelegateAsked,
    agent.ModelRouted,
    agent.EffortSet,
    sessions.BusGap,
)

CATALOGUE: dict[str, type[Event]] = {event.type: event for event in EVENTS}
