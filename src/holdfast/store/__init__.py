"""Where things are kept: one interface, SQLite behind it, migrations, and blobs as files.

Stores values it is given; decides nothing about caches or prompts.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import bill_sums as bill_sums
    from . import tenant_removal as tenant_removal
    from .backup import back_up as back_up
    from .backup import blobs_of as blobs_of
    from .base import Merge as Merge
    from .base import Store as Store
    from .base import VersionConflictError as VersionConflictError
    from .base import Writes as Writes
    from .bill_sums import DAY as DAY
    from .bill_sums import SIZES as SIZES
    from .bill_sums import Judged as Judged
    from .bill_sums import is_estimated as is_estimated
    from .bill_sums import judged as judged
    from .connections import PRIVATE_FILE as PRIVATE_FILE
    from .connections import connect as connect
    from .connections import make_private_directory as make_private_directory
    from .exclusive import StoreInUseError as StoreInUseError
    from .exclusive import alone as alone
    from .integrity import check as check
    from .migrations import check_ours as check_ours
    from .migrations import schema_version as schema_version
    from .problems import store_problem as store_problem
    from .queries import Activity as Activity
    from .queries import EventTold as EventTold
    from .readonly import open_existing as open_existing
    from .rollups import HOUR as HOUR
    from .rollups import effectiveness as effectiveness
    from .rollups import hour_of as hour_of
    from .rows import BillExtent as BillExtent
    from .rows import BillPart as BillPart
    from .rows import BillQuestion as BillQuestion
    from .rows import BillSumsFound as BillSumsFound
    from .rows import Blob as Blob
    from .rows import Break as Break
    from .rows import CacheEffectiveness as CacheEffectiveness
    from .rows import Call as Call
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
    from .rows import LateCall as LateCall
    from .rows import Ledger as Ledger
    from .rows import ModelEffectiveness as ModelEffectiveness
    from .rows import Owner as Owner
    from .rows import Pin as Pin
    from .rows import Pool as Pool
    from .rows import Projects as Projects
    from .rows import Pruned as Pruned
    from .rows import Session as Session
    from .rows import ShownEntry as ShownEntry
    from .schema import APPLICATION_ID as APPLICATION_ID
    from .schema import VERSIONS as VERSIONS
    from .space import SMALL as SMALL
    from .space import vacuum as vacuum
    from .sqlite import SqliteStore as SqliteStore
    from .sqlite import open_store as open_store
    from .sqlite import path_of as path_of
    from .tenants import SUBSCRIPTION as SUBSCRIPTION
    from .tenants import is_subscription as is_subscription
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "": "bill_sums tenant_removal",
            ".backup": "back_up blobs_of",
            ".base": "Merge Store VersionConflictError Writes",
            ".bill_sums": "DAY Judged SIZES is_estimated judged",
            ".connections": "PRIVATE_FILE connect make_private_directory",
            ".exclusive": "StoreInUseError alone",
            ".integrity": "check",
            ".migrations": "check_ours schema_version",
            ".problems": "store_problem",
            ".queries": "Activity EventTold",
            ".readonly": "open_existing",
            ".rollups": "HOUR effectiveness hour_of",
            ".rows": (
                "BillExtent BillPart BillQuestion BillSumsFound Blob Break CacheEffectiveness Call CallHour "
                "CallStatus Edit EventHour EventRow Injection KnowledgeEntry KnowledgeFilter "
                "KnowledgeRevision KnowledgeVector Lane LateCall Ledger ModelEffectiveness Owner Pin Pool "
                "Projects Pruned Session ShownEntry"
            ),
            ".schema": "APPLICATION_ID VERSIONS",
            ".space": "SMALL vacuum",
            ".sqlite": "SqliteStore open_store path_of",
            ".tenants": "SUBSCRIPTION is_subscription",
        },
    )
