"""What calls did to a tenant's pools, and the pools themselves, as they are stored."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from holdfast.prefix.pool import Effect
from holdfast.store import Call


class Pools(Struct, frozen=True):
    """A tenant's pools of one model, as they are kept."""

    sent: bytes
    alone: bytes


class Effects(Struct, frozen=True):
    """What a call did to the pool, and what it would have done without us."""

    sent: Effect
    alone: Effect


def effects_of(sent: Effect, alone: Effect) -> bytes:
    return msgspec.msgpack.encode(Effects(sent, alone))


def pools_of(data: bytes) -> Pools | None:
    try:
        return msgspec.msgpack.decode(data, type=Pools)
    except msgspec.DecodeError:
        return None


def stored_effects(call: Call, since: float) -> Effects | None:
    """What a call did that ended after this moment, or began to be answered after it and has no end."""
    over = call.ended_at or call.first_token_at
    if call.chain is None or over is None or over < round(since * 1_000_000):
        return None
    try:
        return msgspec.msgpack.decode(call.chain, type=Effects)
    except msgspec.DecodeError:
        return None
