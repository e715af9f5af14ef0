"""Where things are kept: one interface, SQLite behind it, and blobs as files.

`interface` and `operations` say what a store for any database does, `rows` what it keeps. Stores values it is given;
decides nothing about caches or prompts.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import operations
    from .blobs import PRIVATE_FILE, blobs_of, make_private_directory
    from .interface import Store, VersionConflictError, Writes
    from .operations import OnConflict, Operation
    from .rows import (
        SUBSCRIPTION,
        BillExtent,
        BillPart,
        BillQuestion,
        BillSums,
        Blob,
        Break,
        CacheEffectiveness,
        Call,
        CallDraft,
        CallHour,
        CallStatus,
        Edit,
        EventRow,
        Injection,
        KnowledgeEntry,
        KnowledgeFilter,
        KnowledgeRevision,
        KnowledgeVector,
        Lane,
        Ledger,
        ModelEffectiveness,
        Owner,
        Pin,
        Pool,
        Projects,
        Pruned,
        Session,
        SessionActivity,
        ShownEntry,
        StoredEvent,
        is_subscription,
        pack_records,
    )
    from .sqlite import tenant_removal
    from .sqlite.backup import back_up
    from .sqlite.connections import connect
    from .sqlite.integrity import check
    from .sqlite.problems import store_problem
    from .sqlite.schema import APPLICATION_ID, VERSIONS, check_ours, schema_version
    from .sqlite.space import SMALL, StoreInUseError, alone, vacuum
    from .sqlite.store import SqliteStore, open_existing, open_store, path_of
    from .sums import DAY, EXACT, HOUR, SIZES, StoredVerdict, effectiveness, has_estimate, hour_of, read_verdict
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "": "operations",
            ".blobs": "PRIVATE_FILE blobs_of make_private_directory",
            ".interface": "Store VersionConflictError Writes",
            ".operations": "OnConflict Operation",
            ".rows": (
                "BillExtent BillPart BillQuestion BillSums Blob Break CacheEffectiveness Call CallDraft "
                "CallHour CallStatus Edit EventRow Injection KnowledgeEntry KnowledgeFilter "
                "KnowledgeRevision KnowledgeVector Lane Ledger ModelEffectiveness Owner Pin Pool Projects "
                "Pruned SUBSCRIPTION Session SessionActivity ShownEntry StoredEvent is_subscription "
                "pack_records"
            ),
            ".sqlite": "tenant_removal",
            ".sqlite.backup": "back_up",
            ".sqlite.connections": "connect",
            ".sqlite.integrity": "check",
            ".sqlite.problems": "store_problem",
            ".sqlite.schema": "APPLICATION_ID VERSIONS check_ours schema_version",
            ".sqlite.space": "SMALL StoreInUseError alone vacuum",
            ".sqlite.store": "SqliteStore open_existing open_store path_of",
            ".sums": "DAY EXACT HOUR SIZES StoredVerdict effectiveness has_estimate hour_of read_verdict",
        },
    )
