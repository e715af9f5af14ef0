"""What happened: a closed catalogue of typed events and a bus that never blocks who publishes.

Knows nothing of storage, wire formats or configuration.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import agent, sessions, tools
    from .agent import (
        AttemptFailed,
        DelegateAsked,
        EffortSet,
        GoalSet,
        HistoryTrimmed,
        ModelRouted,
        SessionComposed,
        SessionRedeclared,
        SessionRefreshed,
        SessionState,
        SettingToggled,
        SurroundingsChanged,
        TaskUpdated,
        TurnAnswered,
        TurnToolsAnswered,
        VolatileChanged,
        WindowAppended,
        WindowSent,
    )
    from .bus import Bus, Subscription
    from .calls import (
        CacheBreak,
        CachePing,
        CachePlanned,
        CacheReset,
        CacheRetentionChanged,
        CacheVerdict,
        LlmCallCompleted,
        LlmCallFailed,
        LlmCallStarted,
    )
    from .catalogue import CATALOGUE
    from .envelope import NO_SESSION, Envelope, decode, decode_payload, encode, encode_payload, utc_microseconds
    from .fields import Actor, Event, LoadReason
    from .sessions import (
        CompactionCompleted,
        CompactionFailed,
        CompactionStarted,
        DelegateCompleted,
        DelegateFailed,
        DelegateStarted,
        GatewayAuthFailed,
        GatewayBypassed,
        GatewayPreflight,
        ProcessExited,
        ProcessStarted,
        SessionEnded,
        SessionResumed,
        SessionSalvaged,
        SessionStarted,
        TurnCancelled,
        TurnCompleted,
        TurnStarted,
    )
    from .tools import (
        GuideDelivered,
        McpServerDisconnected,
        McpToolsChanged,
        MemoryEvicted,
        MemorySurfaced,
        MemoryUpdated,
        SkillLoaded,
        ToolCalled,
        ToolCompleted,
        ToolConfirmationRequested,
        ToolConfirmationResolved,
        ToolDeferred,
        ToolDemoted,
        ToolDiscovered,
        ToolFailed,
        ToolInputInvalid,
        ToolMasked,
        ToolOffloaded,
    )
    from .ulid import IDS, Ulids, is_ulid, milliseconds, texts
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "": "agent sessions tools",
            ".agent": (
                "AttemptFailed DelegateAsked EffortSet GoalSet HistoryTrimmed ModelRouted SessionComposed "
                "SessionRedeclared SessionRefreshed SessionState SettingToggled SurroundingsChanged "
                "TaskUpdated TurnAnswered TurnToolsAnswered VolatileChanged WindowAppended WindowSent"
            ),
            ".bus": "Bus Subscription",
            ".calls": (
                "CacheBreak CachePing CachePlanned CacheReset CacheRetentionChanged CacheVerdict "
                "LlmCallCompleted LlmCallFailed LlmCallStarted"
            ),
            ".catalogue": "CATALOGUE",
            ".envelope": "Envelope NO_SESSION decode decode_payload encode encode_payload utc_microseconds",
            ".fields": "Actor Event LoadReason",
            ".sessions": (
                "CompactionCompleted CompactionFailed CompactionStarted DelegateCompleted DelegateFailed "
                "DelegateStarted GatewayAuthFailed GatewayBypassed GatewayPreflight ProcessExited "
                "ProcessStarted SessionEnded SessionResumed SessionSalvaged SessionStarted TurnCancelled "
                "TurnCompleted TurnStarted"
            ),
            ".tools": (
                "GuideDelivered McpServerDisconnected McpToolsChanged MemoryEvicted MemorySurfaced "
                "MemoryUpdated SkillLoaded ToolCalled ToolCompleted ToolConfirmationRequested "
                "ToolConfirmationResolved ToolDeferred ToolDemoted ToolDiscovered ToolFailed "
                "ToolInputInvalid ToolMasked ToolOffloaded"
            ),
            ".ulid": "IDS Ulids is_ulid milliseconds texts",
        },
    )
