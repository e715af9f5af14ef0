"""What a renewed login takes over from the token before it: statistics and digests, never a text.

Where nobody but this machine's user can come, the account simply goes on under its first token's name, and nothing is
taken over. Elsewhere somebody might pass for a colleague: recorded edits and repairs, which are texts, stay where they
are, and the lane departs from them with the reason `repair_forgotten`.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from holdfast.core import Experience, Ledger, Pings, Spending, Tenant, merged
from holdfast.core import ledger as ledgers
from holdfast.core.repairs import RepairState

FORGOTTEN = "repair_forgotten"
_COUNTS = ("requests", "settled", "asked", "compared", "grown", "growths")
_LEARNED = ("started", "gaps", "positions", "retention")


def without_texts(theirs: Ledger) -> Ledger:
    """A copy of what a lane has sent, in digests. Edits and repairs are left; where there were any, the next request
    departs from the last."""
    copy = ledgers.decode(ledgers.encode(theirs))
    assert copy is not None
    altered = bool(theirs.edits) or theirs.repairs.altered
    copy.edits, copy.repairs, copy.pings = {}, RepairState(), Pings()
    copy.reset = FORGOTTEN if altered else copy.reset
    return copy


def take_over(mine: Ledger, theirs: Ledger) -> None:
    """Add what another token's lane has learned to one that has sent a request already."""
    theirs = without_texts(theirs)
    for name in _COUNTS:
        setattr(mine, name, getattr(mine, name) + getattr(theirs, name))
    for name in _LEARNED:
        setattr(mine, name, getattr(theirs, name))
    mine.reset = mine.reset or theirs.reset


def share(mine: Tenant, theirs: Tenant, now: float) -> None:
    """Add what another token's tenant has learned, and what is believed to be cached for their organisation."""
    statistics = replace(theirs.experience, objects={}, owed={}, spending=Spending())
    known = msgspec.msgpack.decode(msgspec.msgpack.encode(statistics), type=Experience)
    found = merged(known, mine.experience, Experience())
    for name in found.__struct_fields__:
        setattr(mine.experience, name, getattr(found, name))
    for pool in tuple(theirs.pools.values()):
        if pool.by_entry:
            mine.pool(pool.model).restore(pool.encode(now))
            mine.pool_alone(pool.model).restore(theirs.pool_alone(pool.model).encode(now))
