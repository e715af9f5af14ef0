"""Where things are kept: one interface, SQLite behind it, migrations, and blobs as files.

Stores values it is given; decides nothing about caches or prompts.
"""

from .base import Store, VersionConflictError, Writes
from .queries import Activity, EventTold
from .readonly import open_existing
from .rows import (
    Blob,
    Break,
    CacheEffectiveness,
    Call,
    CallHour,
    CallStatus,
    Edit,
    EventHour,
    Injection,
    KnowledgeEntry,
    KnowledgeFilter,
    KnowledgeRevision,
    KnowledgeVector,
    Lane,
    LateCall,
    Ledger,
    ModelEffectiveness,
    Owner,
    Pin,
    Pool,
    Pruned,
    Session,
    ShownEntry,
)
from .sqlite import SqliteStore, open_store, path_of

__all__ = [
    "Activity",
    "Blob",
    "Break",
    "CacheEffectiveness",
    "Call",
    "CallHour",
    "CallStatus",
    "Edit",
    "EventHour",
    "EventTold",
    "Injection",
    "KnowledgeEntry",
    "KnowledgeFilter",
    "KnowledgeRevision",
    "KnowledgeVector",
    "Lane",
    "LateCall",
    "Ledger",
    "ModelEffectiveness",
    "Owner",
    "Pin",
    "Pool",
    "Pruned",
    "Session",
    "ShownEntry",
    "SqliteStore",
    "Store",
    "VersionConflictError",
    "Writes",
    "open_existing",
    "open_store",
    "path_of",
]
