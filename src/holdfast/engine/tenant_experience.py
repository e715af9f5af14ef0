"""What tenants have learned: loaded once, written after requests, shared by several processes and by a renewed login.

A write is a compare-and-set. If another process has written meanwhile, its row stays, and what was learned since is
added to it and written again; so is what a failed write was to add. Unreadable data is never replaced.

A renewed login takes over statistics and digests from the token before it, never a text. If only this machine's user
has access, the account simply continues under its first token's name, and nothing is taken over. Elsewhere somebody
might impersonate a colleague: recorded edits and repairs, which are texts, stay where they are, and the lane diverges
from them with the reason `repair_forgotten`.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.core import Experience, Ledger, Pings, Spending, Tenant, experience, merged
from holdfast.core import ledger as ledgers
from holdfast.core import merged as merge_experience
from holdfast.core.repairs import RepairState
from holdfast.store import operations as op

from .fallible_store import FallibleStore

LEARNED = ""
"""The name, among a tenant's pools, of what was learned beyond them."""

_NOTHING = experience.encode(Experience())
_ATTEMPTS = 8
"""Writes at the end, each against another process that wrote in between."""
_WAIT = 2.0
"""Seconds to wait for one of them."""


class _Write(Struct, frozen=True):
    """One that is under way: what it makes of `before`, and which version that was."""

    future: Future[int]
    version: int
    before: bytes
    data: bytes


class _Row(Struct):
    """A tenant's row as far as we know."""

    version: int | None
    """None where it could not be read."""
    base: bytes
    """What of ours is in it once the writes under way are done."""
    under_way: deque[_Write] = field(default_factory=deque)
    behind: bool = False
    """It has to be read again before it is written."""
    saved: bool = False
    """Whether this process has written it."""
    others: int | None = None
    """The store's count of other processes at the last save."""


class StoredExperience:
    """The experience of tenants in a store."""

    def __init__(self, store: FallibleStore) -> None:
        self._store = store
        self._rows: dict[str, _Row] = {}

    def load(self, tenant: str) -> Experience:
        version, base = self._stored(tenant)
        self._rows[tenant] = _Row(version, base, behind=version is None)
        return experience.decode(base)

    def save(self, tenant: str, mine: Experience) -> None:
        """Write it behind the request; what others have learned meanwhile is taken in."""
        row, others = self._rows[tenant], self._store.others()
        _collect(row)
        if row.saved and not row.under_way and (others is None or others != row.others):
            row.behind = True  # what was written between loading and the first write, that write finds out
        row.saved, row.others = True, others
        if row.behind:
            self._catch_up(tenant, mine)
        if row.behind or row.version is None:  # ours must not replace what could not be read
            return
        before, data, version = row.base, experience.encode(mine), row.version
        future = self._store.write(op.PutPool(tenant, LEARNED, data, expected=version, on_conflict="keep"))
        row.under_way.append(_Write(future, version, before, data))
        row.version, row.base = version + 1, data

    def finish(self, tenant: str, mine: Experience) -> None:
        """Write what could not be written yet, because other processes wrote or the store was down."""
        row = self._rows.get(tenant)
        if row is not None and row.behind:
            self._store.store.flush(_WAIT)  # it may be back: writes that are queued tell
        for _ in range(_ATTEMPTS):
            if row is None or not (row.behind or row.under_way):
                return
            for write in row.under_way:
                if not write.future.done() and self._store.down:
                    return
                try:
                    write.future.exception(timeout=_WAIT)
                except TimeoutError:
                    return
            self._catch_up(tenant, mine)
            if row.behind:  # it cannot be read
                return
            if experience.encode(mine) == row.base:
                return
            self.save(tenant, mine)

    def _catch_up(self, tenant: str, mine: Experience) -> None:
        """Take in what other processes have learned, once our own writes are done: only then is it known what of the
        stored is ours."""
        row = self._rows[tenant]
        _collect(row)
        if not row.behind or row.under_way:
            return
        version, stored = self._stored(tenant)
        if version is None:
            return
        if (version, stored) == (row.version, row.base):
            row.behind = False
            return
        theirs = merge_experience(experience.decode(stored), mine, experience.decode(row.base))
        for part in theirs.__struct_fields__:
            setattr(mine, part, getattr(theirs, part))
        row.version, row.base, row.behind = version, stored, False

    def _stored(self, tenant: str) -> tuple[int | None, bytes]:
        """Version and bytes of the row; no version where it cannot be read."""
        row = self._store.read(None, self._store.store.pool, tenant, LEARNED)
        if row is not None:
            return row.version, row.data
        return None if self._store.down else 0, _NOTHING


def _collect(row: _Row) -> None:
    """Look at the writes that are done."""
    while row.under_way and row.under_way[0].future.done():
        write = row.under_way.popleft()
        if write.future.exception() is not None or write.future.result() != write.version + 1:
            # Not written: what it was to add is no longer in what the later ones began with.
            row.base, row.behind = _merged(row.base, write.before, write.data), True


def _merged(stored: bytes, mine: bytes, base: bytes) -> bytes:
    """Return what is stored plus the difference between `base` and `mine`."""
    return experience.encode(merge_experience(*(experience.decode(each) for each in (stored, mine, base))))


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
    learned = msgspec.msgpack.decode(msgspec.msgpack.encode(statistics), type=Experience)
    combined = merged(learned, mine.experience, Experience())
    for name in combined.__struct_fields__:
        setattr(mine.experience, name, getattr(combined, name))
    for pool in tuple(theirs.pools.values()):
        if pool.by_entry:
            mine.pool(pool.model).restore(pool.encode(now))
            mine.pool_alone(pool.model).restore(theirs.pool_alone(pool.model).encode(now))
