"""Where things are kept: one interface, SQLite behind it, and blobs as files.

`interface` and `operations` say what a store for any database does, `rows` what it keeps. Stores values it is given;
decides nothing about caches or prompts.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .blobs import PRIVATE_FILE as PRIVATE_FILE
    from .blobs import blobs_of as blobs_of
    from .blobs import make_private_directory as make_private_directory
    from .interface import Store as Store
    from .interface import VersionConflictError as VersionConflictError
    from .interface import Writes as Writes
    from .operations import Commit as Commit
    from .operations import OnConflict as OnConflict
    from .operations import Operation as Operation
    from .operations import PutCall as PutCall
    from .rows import SUBSCRIPTION as SUBSCRIPTION
    from .rows import BillExtent as BillExtent
    from .rows import BillPart as BillPart
    from .rows import BillQuestion as BillQuestion
    from .rows import BillSums as BillSums
    from .rows import Blob as Blob
    from .rows import Break as Break
    from .rows import CacheEffectiveness as CacheEffectiveness
    from .rows import Call as Call
    from .rows import CallDraft as CallDraft
    from .rows import CallHour as CallHour
    from .rows import CallStatus as CallStatus
    from .rows import Edit as Edit
    from .rows import EventHour as EventHour
    from .rows import EventRow as EventRow
    from .rows import Injection as Injection
    from .rows import KnowledgeEntry as KnowledgeEntry
    from .rows import KnowledgeFilter as KnowledgeFilter
    from .rows import KnowledgeRevision as KnowledgeRevision
    from .rows import KnowledgeVector as KnowledgeVector
    from .rows import Lane as Lane
    from .rows import Ledger as Ledger
    from .rows import ModelEffectiveness as ModelEffectiveness
    from .rows import Owner as Owner
    from .rows import Pin as Pin
    from .rows import Pool as Pool
    from .rows import Projects as Projects
    from .rows import Pruned as Pruned
    from .rows import Session as Session
    from .rows import SessionActivity as SessionActivity
    from .rows import ShownEntry as ShownEntry
    from .rows import StoredEvent as StoredEvent
    from .rows import is_subscription as is_subscription
    from .rows import pack_records as pack_records
    from .sqlite import tenant_removal as tenant_removal
    from .sqlite.backup import back_up as back_up
    from .sqlite.connections import connect as connect
    from .sqlite.integrity import check as check
    from .sqlite.problems import store_problem as store_problem
    from .sqlite.schema import APPLICATION_ID as APPLICATION_ID
    from .sqlite.schema import VERSIONS as VERSIONS
    from .sqlite.schema import check_ours as check_ours
    from .sqlite.schema import schema_version as schema_version
    from .sqlite.space import SMALL as SMALL
    from .sqlite.space import StoreInUseError as StoreInUseError
    from .sqlite.space import alone as alone
    from .sqlite.space import vacuum as vacuum
    from .sqlite.store import SqliteStore as SqliteStore
    from .sqlite.store import open_existing as open_existing
    from .sqlite.store import open_store as open_store
    from .sqlite.store import path_of as path_of
    from .sums import DAY as DAY
    from .sums import EXACT as EXACT
    from .sums import HOUR as HOUR
    from .sums import SIZES as SIZES
    from .sums import StoredVerdict as StoredVerdict
    from .sums import effectiveness as effectiveness
    from .sums import has_estimate as has_estimate
    from .sums import hour_of as hour_of
    from .sums import read_verdict as read_verdict
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".sqlite": "tenant_removal",
            ".blobs": "PRIVATE_FILE blobs_of make_private_directory",
            ".interface": "Store VersionConflictError Writes",
            ".operations": "Commit OnConflict Operation PutCall",
            ".rows": (
                "BillExtent BillPart BillQuestion BillSums Blob Break CacheEffectiveness Call CallDraft "
                "CallHour CallStatus Edit EventHour EventRow Injection KnowledgeEntry KnowledgeFilter "
                "KnowledgeRevision KnowledgeVector Lane Ledger ModelEffectiveness Owner Pin Pool Projects "
                "Pruned SUBSCRIPTION Session SessionActivity ShownEntry StoredEvent is_subscription "
                "pack_records"
            ),
            ".sqlite.backup": "back_up",
            ".sqlite.connections": "connect",
            ".sqlite.integrity": "check",
            ".sqlite.problems": "store_problem",
            ".sqlite.schema": "APPLICATION_ID VERSIONS check_ours schema_version",
            ".sqlite.space": "SMALL StoreInUseError alone vacuum",
            ".sqlite.store": "SqliteStore open_existing open_store path_of",
            ".sums": "DAY HOUR EXACT SIZES StoredVerdict effectiveness hour_of has_estimate read_verdict",
        },
    )
