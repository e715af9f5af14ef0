"""What calls did to a tenant's pools, and the pools themselves, as they are stored.

A call refreshes an entry for each turn before it, and all of that is kept with it: so entries are written without the
names of their fields, and what we did only once where the client alone would have done the same.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from holdfast.caches import Entry, Outcome
from holdfast.core import Effect, effect
from holdfast.store import Call, pack_records


class Pools(Struct, frozen=True):
    """A tenant's pools of one model, as they are kept."""

    sent: bytes
    alone: bytes


class Effects(Struct, frozen=True):
    """What a call did to the pool, and what it would have done without us."""

    sent: Effect
    alone: Effect


_Entry = tuple[bytes, int, str, float, float, float, float]
"""The fields of an entry, in their order."""
_Written = tuple[float, float | None, list[_Entry], list[_Entry], tuple[bytes, ...]]
_decoder = msgspec.msgpack.Decoder(tuple[_Written, _Written | None])


def effect_of(predicted: Outcome, outcome: Outcome, first_token: float | None) -> Effect:
    """Return the effect of a call, which mostly is the predicted one."""
    if outcome is predicted:
        return Effect(outcome.at, first_token, outcome.new, outcome.refreshed)
    return effect(predicted, outcome, first_token)


def effects_of(sent: Effect, alone: Effect) -> bytes:
    return pack_records((sent, alone))


def effects_from(data: bytes) -> Effects | None:
    """Decode stored effects; None if they cannot be read."""
    try:
        sent, alone = _decoder.decode(data)
    except msgspec.DecodeError:
        return None
    done = _read(sent)
    return Effects(done, done if alone is None else _read(alone))


def _read(written: _Written) -> Effect:
    at, first_token, new, refreshed, gone = written
    return Effect(at, first_token, tuple([Entry(*each) for each in new]), tuple([Entry(*e) for e in refreshed]), gone)


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
    return effects_from(call.chain)
