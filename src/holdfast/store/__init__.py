"""Where things are kept: one interface, SQLite behind it, migrations, and blobs as files.

Stores values it is given; decides nothing about caches or prompts.
"""

from .base import Store, VersionConflictError, Writes
from .rows import (
    Blob,
    Break,
    CacheEffectiveness,
    Call,
    CallHour,
    CallStatus,
    Edit,
    EventHour,
    Lane,
    Ledger,
    ModelEffectiveness,
    Owner,
    Pool,
    Pruned,
    Session,
)
from .sqlite import SqliteStore, open_store

__all__ = [
    "Blob",
    "Break",
    "CacheEffectiveness",
    "Call",
    "CallHour",
    "CallStatus",
    "Edit",
    "EventHour",
    "Lane",
    "Ledger",
    "ModelEffectiveness",
    "Owner",
    "Pool",
    "Pruned",
    "Session",
    "SqliteStore",
    "Store",
    "VersionConflictError",
    "Writes",
    "open_store",
]
