"""What outlives a process: ledgers, what was learned, what each call did to its pool, edits and inserted bytes.

With a store everything is written behind the request; only what a request must not be sent without is waited for (law
4). Without one the same lives in memory, and ends with it. What a call did to its pool is kept with the call, and a
pool is rebuilt from that; a closed engine leaves its pools behind, so that only later calls have to be read. Where
another process wrote a ledger in between, it is read again before it is used; what was learned is added up.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from hashlib import sha256
from time import monotonic
from typing import Any

import msgspec
from msgspec import Struct, field

from holdfast.core import EditRef, Ledger, Pool, Tenant, ledger
from holdfast.core.repairs import ByteMemory
from holdfast.errors import HoldfastError
from holdfast.store import Call, LateCall, Merge, Owner, Store
from holdfast.store import Lane as LaneRow
from holdfast.store import Session as SessionRow

from . import edits, succession
from .fallible_store import Shelf
from .lane import Lane
from .partial_usage import left_behind
from .pool_effects import Pools, pools_of, stored_effects
from .tenant_learning_store import Learning
from .versions import Theirs, Version

REBUILT = 3_700.0
"""Seconds of calls from which a pool is rebuilt: what no call used for longer than an hour is dead."""

DURABLE_TIMEOUT_S = 10.0
"""Seconds to wait for what must be durable; beyond it the request goes out as the client sent it."""

BLOBS = 32_000_000
"""Bytes kept where there is no store; those of the least recently used lanes are forgotten first."""

MOST_LANES = 2_000
_ENCODED = 128
"""Ledgers whose stored bytes are at hand: a lane's next request need not encode the same again."""
_MOST_CALLS = 100_000
_THEIRS = Theirs()


class Kept(Struct):
    """A lane in memory: its ledger, the version of it that is stored, writes it was born with that must be durable
    before its first request, and how the ledger was before the request that is being prepared. `recording` are edits
    under way: what a request did not wait for any longer may be recorded all the same. `others` is what the store said
    of other processes when the version was last asked for.
    """

    ledger: Ledger
    version: Version
    born: list[Future[Any]] = field(default_factory=list)
    before: bytes | None = None
    recording: list[Future[Any]] = field(default_factory=list)
    others: int | None = None


class Keeper:
    """Loads and keeps the state of lanes and tenants."""

    def __init__(self, store: Store | None) -> None:
        self.shelf = self._store = None if store is None else Shelf(store)
        self._lanes: OrderedDict[tuple[str, str], Kept] = OrderedDict()
        self._encoded: OrderedDict[tuple[str, str], bytes] = (
            OrderedDict()
        )  # as the ledger is, if nothing changed it since
        self._met: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._learning = None if self._store is None else Learning(self._store)
        self._blobs = ByteMemory(BLOBS)
        self._replacements = None if self._store is None else edits.Replacements(self._store)

    @property
    def down(self) -> bool:
        """Whether nothing can be made durable just now. Without a store nothing has to be."""
        return self._store is not None and self._store.down

    def end_left_behind(self) -> None:
        """Calls that were on their way when their process ended are not pending for ever."""
        if self._store is not None:
            self._store.end_pending(left_behind)

    # Lanes

    def lane(self, lane: Lane, now: float) -> Ledger:
        """The lane's ledger: from memory, from the store, or a new one."""
        name = (lane.tenant, lane.id)
        kept = self._lanes.get(name)
        if kept is None:
            kept = self._lanes[name] = self._load(lane, now)
            if len(self._lanes) > MOST_LANES:
                self._lanes.popitem(last=False)
        else:
            self._lanes.move_to_end(name)
        return kept.ledger

    def _load(self, lane: Lane, now: float) -> Kept:
        if self._store is None:
            return Kept(self._of_account(lane) or Ledger(client=lane.client), Version())
        row = self._store.ledger(lane.tenant, lane.id)
        found = None if row is None else ledger.decode(row.data)
        if row is None and (self._store.down or self._store.ledger_version(lane.tenant, lane.id) != 0):
            # It may be there all the same: it is looked for again when the store is back.
            return Kept(Ledger(client=lane.client), Version(unread=True))
        if found is None:
            self._enter(lane, now)
            found = self._of_account(lane)
        state = Kept(found or Ledger(client=lane.client), Version(0 if row is None else row.version))
        state.ledger.edits.update(edits.recorded(self._store, lane.tenant, lane.id))
        return state

    def _of_account(self, lane: Lane) -> Ledger | None:
        """What the lane of this id sent under the account's token before; None where there was none."""
        theirs = self.ledger_of(lane.before, lane.id) if lane.before else None
        return None if theirs is None else succession.without_texts(theirs)

    def ledger_of(self, tenant: str, lane: str) -> Ledger | None:
        """A lane's ledger, to look at."""
        if (kept := self._lanes.get((tenant, lane))) is not None:
            return kept.ledger
        row = None if self._store is None else self._store.ledger(tenant, lane)
        return None if row is None else ledger.decode(row.data)

    def recent(self, now: float, most: int) -> Iterator[Lane]:
        """Lanes with a ledger whose sessions were used within the hour, those used last first."""
        if self._store is None:
            return
        for tenant, session in self._store.recent(_micro(now - REBUILT), most):
            for row in self._store.lanes(tenant, session):
                if row.ended_at is None and self._store.ledger_version(tenant, row.id):
                    client, agent = row.client or "", row.agent or ""
                    yield Lane(tenant=tenant, session=session, id=row.id, client=client, agent=agent, parent=row.parent)

    def _enter(self, lane: Lane, now: float) -> None:
        """Store that there is such a lane."""
        self.meet(lane, now)
        if self._store is not None:
            self._store.put_lane(
                LaneRow(
                    tenant=lane.tenant,
                    id=lane.id,
                    session=lane.session,
                    model="",
                    started_at=_micro(now),
                    agent=lane.agent or None,
                    client=lane.client or None,
                    parent=lane.parent,
                )
            )

    def late(self, problem: Exception) -> None:
        """What was to be durable was waited for in vain."""
        if self._store is not None:
            self._store.late(problem)

    def meet(self, lane: Lane, now: float) -> None:
        """See that the lane's session is stored."""
        name = (lane.tenant, lane.session)
        if self._store is None or name in self._met:
            return
        if not self._store.has_session(*name):
            row = SessionRow(tenant=lane.tenant, id=lane.session, started_at=_micro(now), client=lane.client or None)
            self._store.put_session(row)
        self._met[name] = None
        if len(self._met) > MOST_LANES:
            self._met.popitem(last=False)

    def refresh(self, lane: Lane, now: float) -> Ledger | None:
        """The ledger as it is in memory. One that another process has written since is let go of, to be read again.
        What could not be recorded when the lane was born is recorded once more."""
        name, store = (lane.tenant, lane.id), self._store
        kept = self._lanes.get(name)
        if store is None or kept is None:
            return None
        others = store.others()
        if kept.version.unread:
            stored = store.ledger_version(lane.tenant, lane.id)
            stale = bool(stored)
            if stored == 0 and not store.down:  # there was none: ours is the first
                kept.version.unread = False
                self._enter(lane, now)
        elif others is not None and others == kept.others:
            stale = kept.version.is_stale()
        else:
            stale = kept.version.is_stale(lambda: store.ledger_version(lane.tenant, lane.id))
        kept.others = others
        if stale:
            del self._lanes[name]
            self._encoded.pop(name, None)
            return None
        if kept.born and any(future.done() and future.exception() is not None for future in kept.born):
            known = ((ref.block, self.load(lane.tenant, ref.replacement)) for ref in kept.ledger.edits.values())
            found = [(block, data) for block, data in known if data is not None]
            kept.born = [edits.record(store, lane.tenant, lane.id, block, data, now) for block, data in found]
        if kept.recording:
            kept.recording = [future for future in kept.recording if not future.done()]
            self._encoded.pop(name, None)
            edits.take_in(store, lane.tenant, lane.id, kept.ledger)
        self._lanes.move_to_end(name)
        return kept.ledger

    def begin(self, lane: Lane) -> list[Future[Any]]:
        """A request of the lane begins: remember how its ledger is. Gives writes that it has to wait for."""
        name = (lane.tenant, lane.id)
        kept = self._lanes[name]
        kept.before = self._encoded.pop(name, None) or ledger.encode(kept.ledger)
        return kept.born

    def begun(self, lane: Lane) -> None:
        """The request that began goes out."""
        kept = self._lanes.get((lane.tenant, lane.id))
        if kept is not None:
            kept.before = None
            self._encoded.pop((lane.tenant, lane.id), None)

    def undo(self, lane: Lane) -> None:
        """The request that began does not go out: the ledger is as it was before."""
        kept = self._lanes.get((lane.tenant, lane.id))
        if kept is None or kept.before is None:
            return
        found, kept.before = ledger.decode(kept.before), None
        self._encoded.pop((lane.tenant, lane.id), None)
        for name in kept.ledger.__struct_fields__:
            setattr(kept.ledger, name, getattr(found, name))

    def save_lane(self, lane: Lane) -> None:
        """Write the lane's ledger behind the request. What another process wrote in between stays instead, and so does
        what could not be read."""
        self._put_lane(lane, _THEIRS)

    def write_lane(self, lane: Lane) -> list[Future[Any]]:
        """Write the lane's ledger to wait for it; a conflict if another process wrote in between."""
        written = self._put_lane(lane, None)
        return [] if written is None else [written]

    def _put_lane(self, lane: Lane, merge: Merge | None) -> Future[int] | None:
        name = (lane.tenant, lane.id)
        kept = self._lanes.get(name)
        if self._store is None or kept is None:
            return None
        data, version = ledger.encode(kept.ledger), kept.version
        if version.unread:  # what is stored must stay
            return None if merge else self._store.put_ledger(lane.tenant, lane.id, data, expected=0, merge=None)
        self._encoded[name] = data
        if len(self._encoded) > _ENCODED:
            self._encoded.popitem(last=False)
        return version.writing(self._store.put_ledger(lane.tenant, lane.id, data, expected=version.known, merge=merge))

    def known(self, lane: Lane) -> bool:
        return (lane.tenant, lane.id) in self._lanes

    def remembers(self, lane: Lane) -> bool:
        """Whether something is known of a lane, here or in the store."""
        return self.known(lane) or (self._store is not None and bool(self._store.ledger_version(lane.tenant, lane.id)))

    def end_lane(self, lane: Lane, now: float) -> None:
        self._lanes.pop((lane.tenant, lane.id), None)
        self._encoded.pop((lane.tenant, lane.id), None)
        if self._store is not None:
            self._store.end_lane(lane.tenant, lane.id, _micro(now))

    def let_go(self, before: float) -> None:
        """Forget, in memory, lanes that were last used before this, and which sessions are stored."""
        for name, kept in list(self._lanes.items()):
            if kept.before is None and kept.ledger.last is not None and kept.ledger.last.at < before:
                del self._lanes[name]
                self._encoded.pop(name, None)
        self._met.clear()

    # Tenants

    def tenant(self, name: str) -> Tenant:
        """What a tenant's lanes share, without its pools: those are rebuilt one by one."""
        return Tenant() if self._learning is None else Tenant(self._learning.load(name))

    def save_tenant(self, name: str, tenant: Tenant) -> None:
        """Write what was learned behind the request."""
        if self._learning is not None:
            self._learning.save(name, tenant.experience)

    def load_pool(self, name: str, pool: Pool, alone: Pool, now: float) -> int:
        """Fill a tenant's empty pools: from what was kept when an engine closed, and from the calls since; from the
        calls alone where nothing was. Gives the number of calls."""
        store = self._store
        if store is None or not pool.by_entry:
            return 0
        row = store.pool(name, pool.model.ref)
        saved = None if row is None else pools_of(row.data)
        since = now - REBUILT
        if saved is not None:
            times = pool.restore(saved.sent), alone.restore(saved.alone)
            if None not in times:
                since = max(since, times[0] or since)
        calls = store.calls(name, model=pool.model.ref, start=_micro(now - REBUILT), limit=_MOST_CALLS)
        effects = [found for call in calls if (found := stored_effects(call, since)) is not None]
        pool.rebuild(each.sent for each in effects)
        alone.rebuild(each.alone for each in effects)
        return len(effects)

    def save_pools(self, name: str, tenant: Tenant, now: float) -> None:
        """Keep a tenant's pools, so that the next engine need not read an hour of calls."""
        for ref, pool in tenant.pools.items():
            if self._store is not None and pool.by_entry:
                kept = Pools(pool.encode(now), tenant.pool_alone(pool.model).encode(now))
                data = msgspec.msgpack.encode(kept)
                self._store.put_pool(name, ref, data, expected=0, merge=_instead(data))

    def put_call(self, call: Call) -> None:
        if self._store is not None:
            self._store.put_call(call)

    def leave_call(self, call: LateCall) -> None:
        if self._store is not None:
            self._store.leave_call(call)

    # Bytes

    def load(self, tenant: str, name: bytes) -> bytes | None:
        """Bytes by their SHA-256, None where they are lost."""
        if self._replacements is not None:
            return self._replacements.of(tenant)(name)
        return self._blobs.get(tenant.encode() + name)

    def keep_bytes(self, lane: Lane, new: Mapping[bytes, bytes], now: float) -> list[Future[Any]]:
        """Write bytes that are about to be sent; wait for them first (law 4)."""
        if self._store is None:
            for name, data in new.items():
                self._blobs.put(lane.tenant.encode() + name, data)
            return []
        owner = Owner("lane", lane.id)
        return [self._store.put_blob(lane.tenant, owner, data, at=_micro(now)) for data in new.values()]

    def keep_edits(
        self, lane: Lane, refs: tuple[EditRef, ...], data: Mapping[bytes, bytes], now: float
    ) -> list[Future[Any]]:
        """Record edits that are about to be sent; wait for them first (law 4)."""
        if self._store is None:
            for each in data.values():
                self._blobs.put(lane.tenant.encode() + sha256(each).digest(), each)
            return []
        made = [edits.record(self._store, lane.tenant, lane.id, ref.block, data[ref.block], now) for ref in refs]
        self._lanes[lane.tenant, lane.id].recording += made
        return [*made]

    def inherit(self, lane: Lane, now: float) -> None:
        """A lane that was forked from another begins with its edits and repairs: it sends the same originals. What the
        other does later is not this lane's: its own originals have been sent."""
        if lane.parent is None or (self._store is not None and self._store.ledger(lane.tenant, lane.id) is not None):
            return
        mine, parent = self.lane(lane, now), self._lanes.get((lane.tenant, lane.parent))
        row = None if self._store is None or parent is not None else self._store.ledger(lane.tenant, lane.parent)
        theirs = parent.ledger if parent is not None else None if row is None else ledger.decode(row.data)
        if theirs is not None and not lane.subagent:
            mine.repairs = msgspec.msgpack.decode(msgspec.msgpack.encode(theirs.repairs), type=type(theirs.repairs))
        if self._store is None or self._replacements is None:
            mine.edits.update({} if theirs is None else theirs.edits)
            return
        load = self._replacements.of(lane.tenant)
        born = edits.inherit(self._store, lane.tenant, lane.parent, lane.id, load, now)
        known = edits.recorded(self._store, lane.tenant, lane.parent)
        mine.edits.update({block: EditRef(block, known[block].replacement, now) for block in born})
        self._lanes[lane.tenant, lane.id].born += born.values()


def _instead(data: bytes) -> Merge:
    return lambda _stored: data


def wait(futures: Iterable[Future[Any]], timeout: float = DURABLE_TIMEOUT_S) -> None:
    """Until these writes are durable; an error if that takes too long altogether or is not possible."""
    until = monotonic() + timeout
    for future in futures:
        try:
            future.result(timeout=max(0.0, until - monotonic()))
        except TimeoutError as error:
            raise HoldfastError(f"the store did not keep an edit within {timeout:g} s; check its disk.") from error


def _micro(now: float) -> int:
    return round(now * 1_000_000)
