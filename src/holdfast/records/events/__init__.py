"""What happened: a closed catalogue of typed events and a bus that never blocks who publishes.

Knows nothing of storage, wire formats or configuration.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import agent as agent
    from . import sessions as sessions
    from . import tools as tools
    from .agent import AttemptFailed as AttemptFailed
    from .agent import DelegateAsked as DelegateAsked
    from .agent import EffortSet as EffortSet
    from .agent import GoalSet as GoalSet
    from .agent import HistoryTrimmed as HistoryTrimmed
    from .agent import ModelRouted as ModelRouted
    from .agent import SessionComposed as SessionComposed
    from .agent import SessionRedeclared as SessionRedeclared
    from .agent import SessionRefreshed as SessionRefreshed
    from .agent import SessionState as SessionState
    from .agent import SettingToggled as SettingToggled
    from .agent import SurroundingsChanged as SurroundingsChanged
    from .agent import TaskUpdated as TaskUpdated
    from .agent import TurnAnswered as TurnAnswered
    from .agent import TurnToolsAnswered as TurnToolsAnswered
    from .agent import VolatileChanged as VolatileChanged
    from .agent import WindowAppended as WindowAppended
    from .agent import WindowSent as WindowSent
    from .base import Event as Event
    from .bus import Bus as Bus
    from .bus import Subscription as Subscription
    from .calls import CacheBreak as CacheBreak
    from .calls import CachePing as CachePing
    from .calls import CachePlanned as CachePlanned
    from .calls import CacheReset as CacheReset
    from .calls import CacheRetentionChanged as CacheRetentionChanged
    from .calls import CacheVerdict as CacheVerdict
    from .calls import LlmCallCompleted as LlmCallCompleted
    from .calls import LlmCallFailed as LlmCallFailed
    from .calls import LlmCallStarted as LlmCallStarted
    from .catalogue import CATALOGUE as CATALOGUE
    from .envelope import NO_SESSION as NO_SESSION
    from .envelope import Envelope as Envelope
    from .envelope import decode as decode
    from .envelope import decode_payload as decode_payload
    from .envelope import encode as encode
    from .envelope import encode_payload as encode_payload
    from .envelope import utc_microseconds as utc_microseconds
    from .fields import Actor as Actor
    from .fields import LoadReason as LoadReason
    from .fields import Sensitivity as Sensitivity
    from .sessions import CompactionCompleted as CompactionCompleted
    from .sessions import CompactionFailed as CompactionFailed
    from .sessions import CompactionStarted as CompactionStarted
    from .sessions import DelegateCompleted as DelegateCompleted
    from .sessions import DelegateFailed as DelegateFailed
    from .sessions import DelegateStarted as DelegateStarted
    from .sessions import GatewayAuthFailed as GatewayAuthFailed
    from .sessions import GatewayBypassed as GatewayBypassed
    from .sessions import GatewayPreflight as GatewayPreflight
    from .sessions import ProcessExited as ProcessExited
    from .sessions import ProcessStarted as ProcessStarted
    from .sessions import SessionEnded as SessionEnded
    from .sessions import SessionResumed as SessionResumed
    from .sessions import SessionSalvaged as SessionSalvaged
    from .sessions import SessionStarted as SessionStarted
    from .sessions import TurnCancelled as TurnCancelled
    from .sessions import TurnCompleted as TurnCompleted
    from .sessions import TurnStarted as TurnStarted
    from .tools import GuideDelivered as GuideDelivered
    from .tools import McpServerDisconnected as McpServerDisconnected
    from .tools import McpToolsChanged as McpToolsChanged
    from .tools import MemoryEvicted as MemoryEvicted
    from .tools import MemorySurfaced as MemorySurfaced
    from .tools import MemoryUpdated as MemoryUpdated
    from .tools import SkillLoaded as SkillLoaded
    from .tools import ToolCalled as ToolCalled
    from .tools import ToolCompleted as ToolCompleted
    from .tools import ToolConfirmationRequested as ToolConfirmationRequested
    from .tools import ToolConfirmationResolved as ToolConfirmationResolved
    from .tools import ToolDeferred as ToolDeferred
    from .tools import ToolDemoted as ToolDemoted
    from .tools import ToolDiscovered as ToolDiscovered
    from .tools import ToolFailed as ToolFailed
    from .tools import ToolInputInvalid as ToolInputInvalid
    from .tools import ToolMasked as ToolMasked
    from .tools import ToolOffloaded as ToolOffloaded
    from .ulid import IDS as IDS
    from .ulid import Ulids as Ulids
    from .ulid import is_ulid as is_ulid
    from .ulid import milliseconds as milliseconds
    from .ulid import texts as texts
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
            ".base": "Event",
            ".bus": "Bus Subscription",
            ".calls": (
                "CacheBreak CachePing CachePlanned CacheReset CacheRetentionChanged CacheVerdict "
                "LlmCallCompleted LlmCallFailed LlmCallStarted"
            ),
            ".catalogue": "CATALOGUE",
            ".envelope": "Envelope NO_SESSION decode decode_payload encode encode_payload utc_microseconds",
            ".fields": "Actor LoadReason Sensitivity",
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
