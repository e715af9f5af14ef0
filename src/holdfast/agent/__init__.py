"""An agent whose prompt cannot break its own cache: sessions, their window, the loop, compaction, sub-agents.

What happened is appended to a session's log; everything else follows from it. May import everything below it; what
renders a window imports nothing but canonical values and errors.
"""

from .contract import (
    Compaction,
    Delegated,
    Line,
    Outgoing,
    Provider,
    Shown,
    SideRequest,
    Task,
    Turn,
    Unreachable,
    Watch,
)
from .program import open_agent
from .providers import HttpProvider
from .session import Session
from .sessions import Sessions

__all__ = [
    "Compaction",
    "Delegated",
    "HttpProvider",
    "Line",
    "Outgoing",
    "Provider",
    "Session",
    "Sessions",
    "Shown",
    "SideRequest",
    "Task",
    "Turn",
    "Unreachable",
    "Watch",
    "open_agent",
]
