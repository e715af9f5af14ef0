"""Repairs applied to a body: the client's bytes in, the lane's first bytes out, and what changed told at the end.

`order` and `texts` apply what `core.repairs` decides, as splices of `wire.rewrite`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import Prompt
from holdfast.core.repairs import MOVES, ByteMemory, Mode, Repair, RepairState
from holdfast.wire import Body, rewrite

from . import order, texts
from .request import MOVING, BeginAnewError, Work


class Repaired(Struct, frozen=True):
    """A body as it is to be sent; `raw` is the client's own where nothing was done.

    `volatile_paths` are blocks, of the new body, that change from request to request. `reset` is why the prefix departs
    from the one before. `new` are bytes by their SHA-256 that must be durable before the body is sent (law 4).
    `ordered` if the lane knows first orders of keys that it did not know before.
    """

    raw: bytes
    repairs: tuple[Repair, ...] = ()
    volatile_paths: tuple[str, ...] = ()
    reset: str | None = None
    new: Mapping[bytes, bytes] = {}
    ordered: bool = False


def repair(
    body: Body,
    prompt: Prompt,
    state: RepairState,
    memory: ByteMemory,
    *,
    mode: Mode,
    skip: frozenset[str] = frozenset(),
) -> Repaired:
    """Repair a request of the lane whose state this is. `prompt` is the body as a cache sees it.

    `skip` are repairs that this one request goes without; the lane keeps what it knows for the next.
    """
    if mode == "off":
        return _retired(body, state)
    undone = False
    skip |= MOVING if skip & MOVING else frozenset()
    if skip or (mode in MOVES and not _can_insert(body, prompt)):
        trial = msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=RepairState)
        whole, untold = _run(Work(body, prompt, trial, memory, mode, frozenset()))
        skip |= MOVING if untold else frozenset()  # what cannot be told stays where the client says it
        undone = any(item.applied and item.name in skip for item in whole.repairs)
    done, _ = _run(Work(body, prompt, state, memory, mode, skip))
    if undone or state.bypassed:  # this request departs, or the one before did and this one comes back
        done = replace(done, reset="bypassed")
    state.bypassed = undone
    return done


def _can_insert(body: Body, prompt: Prompt) -> bool:
    """Return whether a text can be inserted after the newest turn: not if the answer has begun."""
    newest = rewrite.newest(body)
    return newest is not None and (not prompt.origin or newest in prompt.origin)


def _run(work: Work) -> tuple[Repaired, bool]:
    """The request repaired; and whether there was something to tell and no place for it."""
    try:
        _repair(work)
    except BeginAnewError as found:
        texts.forget(work)
        again = Work(work.body, work.prompt, work.state, work.memory, work.mode, work.skip)
        again.reset, again.ordered = work.reset or found.reason, work.ordered
        _repair(again)
        work = again
    work.state.length = len(work.prompt.blocks)
    raw = work.body.apply(work.splices) if work.splices else work.body.raw
    done = Repaired(raw, tuple(work.repairs), tuple(work.volatile), work.reset, work.new, work.ordered)
    return done, work.untold


def _repair(work: Work) -> None:
    if not work.on or (work.narrow and not work.state.narrow):  # what `on` has moved is put back first
        texts.retire(work)
    work.state.narrow = work.narrow
    order.keys(work)
    if work.state.inserts and work.moves:
        texts.find_inserts(work)
    order.tools(work)
    texts.system(work)
    if work.moves and (work.lines or work.sections):
        texts.tell(work)
    if work.present:
        texts.replay(work)


def _retired(body: Body, state: RepairState) -> Repaired:
    """Without repairs a lane forgets what it knew; if anything was ever repaired, its bytes change now."""
    altered = state.altered
    fresh = RepairState()
    for name in state.__struct_fields__:
        setattr(state, name, getattr(fresh, name))
    return Repaired(body.raw, reset="bypassed" if altered else None)
