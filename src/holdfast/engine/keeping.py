"""What outlives a process: ledgers, what was learned, what each call did to its pool, edits and inserted bytes.

With a store everything is written behind the request; only what a request must not be sent without is waited for (law
4). Without one the same lives in memory, and ends with it. What a call did to its pool is kept with the call, and a
pool is rebuilt from that; a closed engine leaves its pools behind, so that only later calls have to be read. Where
another process wrote a ledger in between, the later write wins: both saw the same client.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from hashlib import sha256

import msgspec
from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.prefix import experience, ledger
from holdfast.prefix.core import Tenant
from holdfast.prefix.edits import EditRef
from holdfast.prefix.experience import Experience
from holdfast.prefix.ledger import Ledger
from holdfast.prefix.pool import Effect, Pool
from holdfast.prefix.repairs import ByteMemory
from holdfast.store import Call, Owner, Store
from holdfast.store import Lane as LaneRow
from holdfast.store import Ledger as LedgerRow
from holdfast.store import Pool as PoolRow
from holdfast.store import Session as SessionRow
from holdfast.store.base import VersionConflictError

from . import editing
from .values import Lane

LEARNED = ""
"""The name, among a tenant's pools, of what was learned beyond them."""

REBUILT = 3_700.0
"""Seconds of calls from which a pool is rebuilt: what no call used for longer than an hour is dead."""

WAIT = 10.0
"""Seconds to wait for what must be durable; beyond it the request goes out as the client sent it."""

BLOBS = 64_000_000
"""Bytes kept where there is no store; those of the least recently used lanes are forgotten first."""

MOST_LANES = 2_000
_MOST_CALLS = 100_000


class _Pools(Struct, frozen=True):
    """A tenant's pools of one model, as they are kept."""

    sent: bytes
    alone: bytes


class Effects(Struct, frozen=True):
    """What a call did to the pool, and what it would have done without us."""

    sent: Effect
    alone: Effect


class _Version:
    """The version of a stored value, as far as we know; unknown after a conflict."""

    def __init__(self, known: int | None = None) -> None:
        self.known = known

    def put(self, ask: Callable[[], LedgerRow | PoolRow | None], write: Callable[[int], Future[int]]) -> Future[int]:
        """Replace the version we know, or the one there is."""
        expected = _stored_version(ask()) if self.known is None else self.known
        self.known = expected + 1
        future = write(expected)
        future.add_done_callback(self._written)
        return future

    def _written(self, future: Future[int]) -> None:
        if isinstance(future.exception(), VersionConflictError):
            self.known = None


class Kept(Struct):
    """A lane in memory: its ledger and the version of it that is stored."""

    ledger: Ledger
    version: _Version


class Keeper:
    """Loads and keeps the state of lanes and tenants."""

    def __init__(self, store: Store | None) -> None:
        self._store = store
        self._lanes: OrderedDict[tuple[str, str], Kept] = OrderedDict()
        self._versions: dict[tuple[str, str], _Version] = {}
        self._blobs = ByteMemory(BLOBS)
        self._replacements = None if store is None else editing.Replacements(store)

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
            return Kept(Ledger(client=lane.client), _Version())
        row = self._store.ledger(lane.tenant, lane.id)
        found = None if row is None else ledger.decode(row.data)
        if found is None:
            at = _micro(now)
            if self._store.session(lane.tenant, lane.session) is None:
                self._store.put_session(
                    SessionRow(tenant=lane.tenant, id=lane.session, started_at=at, client=lane.client or None)
                )
            self._store.put_lane(
                LaneRow(
                    tenant=lane.tenant,
                    id=lane.id,
                    session=lane.session,
                    model="",
                    started_at=at,
                    agent=lane.agent or None,
                    client=lane.client or None,
                    parent=lane.parent,
                )
            )
        state = Kept(found or Ledger(client=lane.client), _Version(_stored_version(row)))
        state.ledger.edits.update(editing.recorded(self._store, lane.tenant, lane.id))
        return state

    def save_lane(self, lane: Lane, *, wait: bool = False) -> None:
        """Write the lane's ledger; `wait` until it is durable."""
        kept = self._lanes.get((lane.tenant, lane.id))
        if self._store is None or kept is None:
            return
        store, tenant, name, data = self._store, lane.tenant, lane.id, ledger.encode(kept.ledger)
        written = kept.version.put(
            lambda: store.ledger(tenant, name),
            lambda expected: store.put_ledger(tenant, name, data, expected=expected),
        )
        if wait:
            _wait([written])

    def known(self, lane: Lane) -> bool:
        return (lane.tenant, lane.id) in self._lanes

    def end_lane(self, lane: Lane, now: float) -> None:
        self._lanes.pop((lane.tenant, lane.id), None)
        if self._store is not None:
            self._store.end_lane(lane.tenant, lane.id, _micro(now))

    # Tenants

    def tenant(self, name: str) -> Tenant:
        """What a tenant's lanes share, without its pools: those are rebuilt one by one."""
        if self._store is None:
            return Tenant()
        row = self._store.pool(name, LEARNED)
        self._versions[name, LEARNED] = _Version(_stored_version(row))
        return Tenant(Experience() if row is None else experience.decode(row.data))

    def save_tenant(self, name: str, tenant: Tenant) -> None:
        self._put_pool(name, LEARNED, experience.encode(tenant.experience))

    def load_pool(self, name: str, pool: Pool, alone: Pool, now: float) -> int:
        """Fill a tenant's empty pools: from what was kept when an engine closed, and from the calls since; from the
        calls alone where nothing was. Gives the number of calls."""
        store = self._store
        if store is None or not pool.by_entry:
            return 0
        row = store.pool(name, pool.model.ref)
        kept = self._versions[name, pool.model.ref] = _Version(_stored_version(row))
        saved = None if row is None else _pools(row.data)
        since = now - REBUILT
        if saved is not None:
            times = pool.restore(saved.sent), alone.restore(saved.alone)
            if None in times:
                kept.known = None
            else:
                since = max(since, times[0] or since)
        calls = store.calls(name, model=pool.model.ref, start=_micro(now - REBUILT), limit=_MOST_CALLS)
        effects = [found for call in calls if (found := _effects(call, since)) is not None]
        pool.rebuild(each.sent for each in effects)
        alone.rebuild(each.alone for each in effects)
        return len(effects)

    def save_pools(self, name: str, tenant: Tenant, now: float) -> None:
        """Keep a tenant's pools, so that the next engine need not read an hour of calls."""
        for ref, pool in tenant.pools.items():
            if pool.by_entry:
                kept = _Pools(pool.encode(now), tenant.pool_alone(pool.model).encode(now))
                self._put_pool(name, ref, msgspec.msgpack.encode(kept))

    def _put_pool(self, name: str, ref: str, data: bytes) -> None:
        store = self._store
        if store is not None:
            self._versions.setdefault((name, ref), _Version()).put(
                lambda: store.pool(name, ref), lambda expected: store.put_pool(name, ref, data, expected=expected)
            )

    def put_call(self, call: Call) -> None:
        if self._store is not None:
            self._store.put_call(call)

    # Bytes

    def load(self, tenant: str, name: bytes) -> bytes | None:
        """Bytes by their SHA-256, None where they are lost."""
        if self._replacements is not None:
            return self._replacements.of(tenant)(name)
        return self._blobs.get(tenant.encode() + name)

    def keep_bytes(self, lane: Lane, new: Mapping[bytes, bytes], now: float) -> None:
        """Make bytes durable that are about to be sent; an error if that is not possible."""
        if self._store is None:
            for name, data in new.items():
                self._blobs.put(lane.tenant.encode() + name, data)
            return
        owner = Owner("lane", lane.id)
        _wait([self._store.put_blob(lane.tenant, owner, data, at=_micro(now)) for data in new.values()])

    def keep_edits(self, lane: Lane, refs: tuple[EditRef, ...], data: Mapping[bytes, bytes], now: float) -> None:
        """Record edits before they are first sent (law 4)."""
        if self._store is None:
            for each in data.values():
                self._blobs.put(lane.tenant.encode() + sha256(each).digest(), each)
            return
        _wait([editing.record(self._store, lane.tenant, lane.id, ref.block, data[ref.block], now) for ref in refs])

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
        _wait(list(editing.inherit(self._store, lane.tenant, lane.parent, lane.id, load, now).values()))
        mine.edits.update(editing.recorded(self._store, lane.tenant, lane.id))


def _stored_version(row: LedgerRow | PoolRow | None) -> int:
    return 0 if row is None else row.version


def effects_of(sent: Effect, alone: Effect) -> bytes:
    return msgspec.msgpack.encode(Effects(sent, alone))


def _pools(data: bytes) -> _Pools | None:
    try:
        return msgspec.msgpack.decode(data, type=_Pools)
    except msgspec.DecodeError:
        return None


def _effects(call: Call, since: float) -> Effects | None:
    """What a call did that ended after this moment."""
    if call.chain is None or call.ended_at is None or call.ended_at < _micro(since):
        return None
    try:
        return msgspec.msgpack.decode(call.chain, type=Effects)
    except msgspec.DecodeError:
        return None


def _wait(futures: list[Future]) -> None:  # type: ignore[type-arg]
    for future in futures:
        try:
            future.result(timeout=WAIT)
        except TimeoutError as error:
            raise HoldfastError(
                f"the store did not keep an edit within {WAIT:g} s; check its disk. The request goes as it came."
            ) from error


def _micro(now: float) -> int:
    return round(now * 1_000_000)
