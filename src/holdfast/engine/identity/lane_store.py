"""What is stored of a lane that is known by its prefix chain: digests, in the lane's own row.

Written behind the requests and never waited for; a store that fails means memory only.
"""

from __future__ import annotations

import logging
import sqlite3

import msgspec
from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.notices import warn_once
from holdfast.store import Lane as LaneRow
from holdfast.store import Store
from holdfast.store import operations as op

from ..lane import Lane
from .continuation import SIZE
from .lane_index import LaneRecord

MOST = 200
"""Lanes and sessions that are looked at when a tenant comes for the first time."""

_PROBLEMS = (HoldfastError, sqlite3.Error, OSError, RuntimeError)
_log = logging.getLogger(__name__)


class _Stored(Struct, frozen=True, array_like=True):
    kind: str
    model: bytes
    used: float
    system: bytes
    whole: bytes
    end: bytes
    turns: bytes
    tails: bytes
    given: int
    count: int
    responses: tuple[str, ...]
    project: bytes = b""
    head: bytes = b""
    varied: bool = True
    shared: bool = False
    gone_on: bool = False


RECENT_S = 3_600.0
"""Seconds in which a cached prefix can live: a lane that was used within them is worth finding again."""

_KIND = "chain-1"
_decode = msgspec.msgpack.Decoder(_Stored).decode


def load(store: Store, tenant: str, now: float) -> list[LaneRecord]:
    """A tenant's lanes that have a chain, the one used last first: those of the sessions used within the hour, and of
    those that began last."""
    records: list[LaneRecord] = []
    try:
        active = store.active_sessions(tenant, start=round((now - RECENT_S) * 1e6), limit=MOST)
        sessions = dict.fromkeys(each.session for each in active)
        sessions |= dict.fromkeys(each.id for each in store.sessions(tenant, limit=MOST))
        for session in sessions:
            rows = store.lanes(tenant, session)
            records += [record for row in rows if (record := _record(row)) is not None]
            if len(records) >= MOST:
                break
    except _PROBLEMS as error:
        warn_once(_log, "lanes of earlier runs are not recognised: %s", error)
    return sorted(records, key=lambda record: record.used, reverse=True)[:MOST]


def save(store: Store, record: LaneRecord) -> None:
    """Store what changed since it was stored last."""
    lane = record.lane
    chain = (record.system, record.whole, record.end, b"".join(record.turns), b"".join(record.tails))
    flags = (record.varied, record.shared, record.gone_on)
    state = (*chain, record.given, record.count, record.responses, record.project, record.head, *flags)
    data = msgspec.msgpack.encode(_Stored(_KIND, _bytes(record.model), record.used, *state))
    same = msgspec.msgpack.encode(state)
    if same == record.saved:
        return
    row = LaneRow(
        tenant=lane.tenant,
        id=lane.id,
        session=lane.session,
        model=record.model.encode("utf-8", "backslashreplace").decode(),
        started_at=round(record.started * 1e6),
        agent=lane.agent or None,
        client=lane.client or None,
        parent=lane.parent,
        data=data,
    )
    try:
        store.write(op.PutLane(row))
    except _PROBLEMS as error:
        warn_once(_log, "the lane will not be recognised after a restart: %s", error)
    record.saved = same


def lanes_of(store: Store, tenant: str, session: str) -> list[LaneRow]:
    """The stored lanes of a session; none where the store fails."""
    try:
        return store.lanes(tenant, session)
    except _PROBLEMS:
        return []


def _record(row: LaneRow) -> LaneRecord | None:
    """A stored lane, None for one that is not known by its chain, has ended or was written by somebody else."""
    if row.data is None or row.ended_at is not None:
        return None
    try:
        stored = _decode(row.data)
        model = stored.model.decode("utf-8", "surrogatepass")
    except (msgspec.DecodeError, UnicodeError):
        return None
    if stored.kind != _KIND:
        return None
    lane = Lane(
        tenant=row.tenant,
        session=row.session,
        id=row.id,
        client=row.client or "",
        agent=row.agent or "",
        parent=row.parent,
    )
    return LaneRecord(
        lane=lane,
        model=model,
        started=row.started_at / 1e6,
        used=stored.used,
        given=stored.given,
        count=stored.count,
        system=stored.system,
        whole=stored.whole,
        end=stored.end,
        turns=_digests(stored.turns),
        tails=_digests(stored.tails),
        responses=stored.responses,
        project=stored.project,
        head=stored.head,
        varied=stored.varied,
        shared=stored.shared,
        gone_on=stored.gone_on,
    )


def _bytes(text: str) -> bytes:
    """A name a client chose: half of a surrogate pair is as good as any."""
    return text.encode("utf-8", "surrogatepass")


def _digests(joined: bytes) -> tuple[bytes, ...]:
    return tuple(joined[at : at + SIZE] for at in range(0, len(joined), SIZE))
