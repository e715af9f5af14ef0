"""What outlives a process: ledgers, what was learned, effects of calls on their pools, edits and inserted bytes.

With a store everything is written after the request; only what it must not be sent without is waited for (law 4).
Without one the same state ends with the process. A call's effect on its pool is stored with the call, and a pool is
rebuilt from these; a closed engine stores its pools, so that only later calls have to be read. If another process has
written a ledger meanwhile, it is read again before use; what was learned is added up.
"""

from __future__ import annotations

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
from holdfast.lru import LRU
from holdfast.store import Call, CallDraft, OnConflict, Owner, Store
from holdfast.store import Lane as LaneRow
from holdfast.store import Ledger as LedgerRow
from holdfast.store import Session as SessionRow
from holdfast.store import operations as op

from . import edits
from .fallible_store import FallibleStore, Version
from .lane import Lane
from .partial_usage import left_behind
from .pool_effects import Pools, pools_of, stored_effects
from .tenant_experience import StoredExperience, without_texts

REBUILT = 3_700.0
"""Seconds of calls from which a pool is rebuilt: what no call used for longer than an hour is dead."""

DURABLE_TIMEOUT_S = 10.0
"""Seconds to wait for what must be durable; beyond it the request goes out as the client sent it."""

BLOBS = 32_000_000
"""Bytes kept where there is no store; those of the least recently used lanes are forgotten first."""

MOST_LANES = 2_000
ENCODED = 128
"""Ledgers whose stored bytes are at hand: a lane's next request need not encode the same again."""
_MOST_CALLS = 100_000
_MOST_PENDING = 10_000


class LaneState(Struct):
    """A lane in memory."""

    ledger: Ledger
    version: Version
    """Which version of the ledger is stored."""
    born: list[Future[Any]] = field(default_factory=list)
    """Writes it was born with, which must be durable before its first request."""
    before: bytes | None = None
    """The ledger before the request that is being prepared."""
    recording: list[Future[Any]] = field(default_factory=list)
    """Edits under way: what a request did not wait for any longer may be recorded all the same."""
    others: int | None = None
    """The store's count of other processes at the last check of the version."""


class Persistence:
    """Loads and stores the state of lanes and tenants."""

    def __init__(self, store: Store | None) -> None:
        self.store = self._store = None if store is None else FallibleStore(store)
        self._lanes: LRU[tuple[str, str], LaneState] = LRU(MOST_LANES)
        self.encoded: LRU[tuple[str, str], bytes] = LRU(ENCODED)  # as the ledger is, if nothing changed it since
        self.sessions: LRU[tuple[str, str], None] = LRU(MOST_LANES)
        self._experience = None if self._store is None else StoredExperience(self._store)
        self._blobs = ByteMemory(BLOBS)
        self._replacements = None if self._store is None else edits.Replacements(self._store)

    @property
    def down(self) -> bool:
        """Whether writes cannot be made durable at the moment. False without a store."""
        return self._store is not None and self._store.down

    def end_left_behind(self) -> None:
        """Calls that were on their way when their process ended are not pending for ever."""
        if self._store is not None:
            store = self._store.store
            pending = self._store.read([], store.calls_by_status, "pending", limit=_MOST_PENDING)
            if pending:
                self._store.write(op.EndCalls([*map(left_behind, pending)]))

    # Lanes

    def lane(self, lane: Lane, now: float) -> Ledger:
        """The lane's ledger: from memory, from the store, or a new one."""
        name = (lane.tenant, lane.id)
        state = self._lanes.get(name)
        if state is None:
            state = self._lanes[name] = self._load(lane, now)
        return state.ledger

    def _load(self, lane: Lane, now: float) -> LaneState:
        store = self._store
        if store is None:
            return LaneState(self._of_account(lane) or Ledger(client=lane.client), Version())
        row = self._stored_ledger(lane.tenant, lane.id)
        stored = None if row is None else ledger.decode(row.data)
        if row is None and (store.down or self._stored_version(lane.tenant, lane.id) != 0):
            # It may be there all the same: it is looked for again when the store is back.
            return LaneState(Ledger(client=lane.client), Version(unread=True))
        if stored is None:
            self._enter(lane, now)
            stored = self._of_account(lane)
        state = LaneState(stored or Ledger(client=lane.client), Version(0 if row is None else row.version))
        state.ledger.edits.update(edits.recorded(store, lane.tenant, lane.id))
        return state

    def _stored_ledger(self, tenant: str, lane: str) -> LedgerRow | None:
        return None if self._store is None else self._store.read(None, self._store.store.ledger, tenant, lane)

    def _stored_version(self, tenant: str, lane: str) -> int | None:
        """The version of the stored ledger; None where it cannot be told, 0 without a store."""
        return 0 if self._store is None else self._store.read(None, self._store.store.ledger_version, tenant, lane)

    def _of_account(self, lane: Lane) -> Ledger | None:
        """What the lane of this id sent under the account's token before; None where there was none."""
        theirs = self.ledger_of(lane.before, lane.id) if lane.before else None
        return None if theirs is None else without_texts(theirs)

    def ledger_of(self, tenant: str, lane: str) -> Ledger | None:
        """A lane's ledger, to look at."""
        if (state := self._lanes.peek((tenant, lane))) is not None:
            return state.ledger
        row = self._stored_ledger(tenant, lane)
        return None if row is None else ledger.decode(row.data)

    def recent(self, now: float, most: int) -> Iterator[Lane]:
        """Lanes with a ledger whose sessions were used within the hour, those used last first."""
        if self._store is None:
            return
        read, store = self._store.read, self._store.store
        for active in read([], store.active_sessions, start=_micro(now - REBUILT), limit=most):
            tenant, session = active.tenant, active.session
            for row in read([], store.lanes, tenant, session):
                if row.ended_at is None and self._stored_version(tenant, row.id):
                    client, agent = row.client or "", row.agent or ""
                    yield Lane(tenant=tenant, session=session, id=row.id, client=client, agent=agent, parent=row.parent)

    def _enter(self, lane: Lane, now: float) -> None:
        """Store that there is such a lane."""
        self.meet(lane, now)
        if self._store is not None:
            self._store.write(
                op.PutLane(
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
            )

    def late(self, problem: Exception) -> None:
        """Record that waiting for a durable write timed out."""
        if self._store is not None:
            self._store.late(problem)

    def meet(self, lane: Lane, now: float) -> None:
        """See that the lane's session is stored."""
        name = (lane.tenant, lane.session)
        if self._store is None or name in self.sessions:
            return
        unknown = self._store.read(True, self._store.store.session, *name) is None
        if unknown:
            row = SessionRow(tenant=lane.tenant, id=lane.session, started_at=_micro(now), client=lane.client or None)
            self._store.write(op.PutSession(row))
        self.sessions[name] = None

    def refresh(self, lane: Lane, now: float) -> Ledger | None:
        """Return the ledger in memory. One that another process has written since is dropped, to be read again. What
        could not be recorded when the lane began is recorded again."""
        name, store = (lane.tenant, lane.id), self._store
        state = self._lanes.peek(name)
        if store is None or state is None:
            return None
        others = store.others()
        if state.version.unread:
            stored = self._stored_version(lane.tenant, lane.id)
            stale = bool(stored)
            if stored == 0 and not store.down:  # there was none: ours is the first
                state.version.unread = False
                self._enter(lane, now)
        elif others is not None and others == state.others:
            stale = state.version.is_stale()
        else:
            stale = state.version.is_stale(lambda: self._stored_version(lane.tenant, lane.id))
        state.others = others
        if stale:
            del self._lanes[name]
            self.encoded.pop(name, None)
            return None
        if state.born and any(future.done() and future.exception() is not None for future in state.born):
            inherited = ((ref.block, self.load(lane.tenant, ref.replacement)) for ref in state.ledger.edits.values())
            blocks = [(block, data) for block, data in inherited if data is not None]
            state.born = [edits.record(store, lane.tenant, lane.id, block, data, now) for block, data in blocks]
        if state.recording:
            state.recording = [future for future in state.recording if not future.done()]
            self.encoded.pop(name, None)
            edits.take_in(store, lane.tenant, lane.id, state.ledger)
        return self._lanes[name].ledger

    def begin(self, lane: Lane) -> list[Future[Any]]:
        """A request of the lane begins: remember how its ledger is. Gives writes that it has to wait for."""
        name = (lane.tenant, lane.id)
        state = self._lanes[name]
        state.before = self.encoded.pop(name, None) or ledger.encode(state.ledger)
        return state.born

    def begun(self, lane: Lane) -> None:
        """The request that began goes out."""
        state = self._lanes.peek((lane.tenant, lane.id))
        if state is not None:
            state.before = None
            self.encoded.pop((lane.tenant, lane.id), None)

    def undo(self, lane: Lane) -> None:
        """The request that began does not go out: the ledger is as it was before."""
        state = self._lanes.peek((lane.tenant, lane.id))
        if state is None or state.before is None:
            return
        before, state.before = ledger.decode(state.before), None
        self.encoded.pop((lane.tenant, lane.id), None)
        for name in state.ledger.__struct_fields__:
            setattr(state.ledger, name, getattr(before, name))

    def save_lane(self, lane: Lane) -> None:
        """Write the lane's ledger behind the request. What another process wrote in between stays instead, and so does
        what could not be read."""
        self._put_lane(lane, "keep")

    def write_lane(self, lane: Lane) -> list[Future[Any]]:
        """Write the lane's ledger to wait for it; a conflict if another process wrote in between."""
        written = self._put_lane(lane, "refuse")
        return [] if written is None else [written]

    def _put_lane(self, lane: Lane, on_conflict: OnConflict) -> Future[int] | None:
        name, store = (lane.tenant, lane.id), self._store
        state = self._lanes.peek(name)
        if store is None or state is None:
            return None
        data, version = ledger.encode(state.ledger), state.version
        if version.unread:  # what is stored must stay
            return None if on_conflict == "keep" else store.write(op.PutLedger(*name, data, expected=0))
        self.encoded[name] = data
        return version.writing(store.write(op.PutLedger(*name, data, expected=version.known, on_conflict=on_conflict)))

    def known(self, lane: Lane) -> bool:
        return (lane.tenant, lane.id) in self._lanes

    def remembers(self, lane: Lane) -> bool:
        """Return whether a lane is known, in memory or in the store."""
        return self.known(lane) or bool(self._stored_version(lane.tenant, lane.id))

    def end_lane(self, lane: Lane, now: float) -> None:
        self._lanes.pop((lane.tenant, lane.id), None)
        self.encoded.pop((lane.tenant, lane.id), None)
        if self._store is not None:
            self._store.write(op.EndLane(lane.tenant, lane.id, _micro(now)))

    def let_go(self, before: float) -> None:
        """Forget, in memory, lanes that were last used before this, and which sessions are stored."""
        for name, state in list(self._lanes.items()):
            if state.before is None and state.ledger.last is not None and state.ledger.last.at < before:
                del self._lanes[name]
                self.encoded.pop(name, None)
        self.sessions.clear()

    # Tenants

    def tenant(self, name: str) -> Tenant:
        """What a tenant's lanes share, without its pools: those are rebuilt one by one."""
        return Tenant() if self._experience is None else Tenant(self._experience.load(name))

    def save_tenant(self, name: str, tenant: Tenant) -> None:
        """Save what was learned, without delaying the request."""
        if self._experience is not None:
            self._experience.save(name, tenant.experience)

    def load_pool(self, name: str, pool: Pool, alone: Pool, now: float) -> int:
        """Fill a tenant's empty pools: from what was kept when an engine closed, and from the calls since; from the
        calls alone where nothing was. Gives the number of calls."""
        store = self._store
        if store is None or not pool.by_entry:
            return 0
        row = store.read(None, store.store.pool, name, pool.model.ref)
        saved = None if row is None else pools_of(row.data)
        since = now - REBUILT
        if saved is not None:
            times = pool.restore(saved.sent), alone.restore(saved.alone)
            if None not in times:
                since = max(since, times[0] or since)
        start, ref = _micro(now - REBUILT), pool.model.ref
        calls = store.read([], store.store.calls, name, model=ref, start=start, limit=_MOST_CALLS)
        effects = [each for call in calls if (each := stored_effects(call, since)) is not None]
        pool.rebuild(each.sent for each in effects)
        alone.rebuild(each.alone for each in effects)
        return len(effects)

    def finish_tenant(self, name: str, tenant: Tenant, now: float) -> None:
        """Write what was learned, and the pools, so that the next engine need not read an hour of calls."""
        if self._experience is not None:
            self._experience.finish(name, tenant.experience)
        for ref, pool in tenant.pools.items():
            if self._store is not None and pool.by_entry:
                pools = Pools(pool.encode(now), tenant.pool_alone(pool.model).encode(now))
                data = msgspec.msgpack.encode(pools)
                self._store.write(op.PutPool(name, ref, data, expected=0, on_conflict="replace"))

    def put_call(self, call: Call) -> None:
        if self._store is not None:
            self._store.write(op.PutCall(call))

    def record(self, call: CallDraft) -> None:
        """Write the current state of a planned call."""
        if self._store is not None:
            self._store.post(op.PutCall(call))

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
        return [self._store.write(op.PutBlob(lane.tenant, owner, data, at=_micro(now))) for data in new.values()]

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
        if lane.parent is None or self._stored_ledger(lane.tenant, lane.id) is not None:
            return
        mine, parent = self.lane(lane, now), self._lanes.peek((lane.tenant, lane.parent))
        row = None if parent is not None else self._stored_ledger(lane.tenant, lane.parent)
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
