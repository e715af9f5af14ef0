"""First texts and first orders of keys that a lane sends in the place of the client's.

A first text is named by its SHA-256 and stays in memory. Only its difference from the client's present text is stored,
so that it can be restored after a restart; if that would contain what looks like a credential, nothing is stored and
the lane begins anew. For blocks with repaired keys the order is stored: the first bytes are rebuilt from what the
client sends now, and are sent only if they have the digest of what was first sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from holdfast.core.repairs import BlockHistory, patches
from holdfast.wire import DIALECTS, digest_of, in_order, is_border, order_of, rewrite

from .request import Work


def recall(work: Work, name: bytes, patch: bytes, present: Iterable[bytes]) -> bytes | None:
    """The first text of this name, restored from one of these if need be; None where it is lost."""
    text = work.memory.get(name)
    if text is not None or not patch:
        return text
    known = _patch(work, patch)
    if known is None:
        return None
    for now in present:
        text = patches.restored(known, now, name)
        if text is not None:
            work.memory.put(name, text)
            return text
    return None


def keep(work: Work, first: bytes, now: bytes, patch: bytes) -> bytes:
    """See that a first text can be restored from the present one; returns what refers to what is stored for that."""
    made = patches.difference(first, now, _patch(work, patch))
    if made is None:
        return patch
    data = patches.encode(made)
    ref = work.memory.keep(data)
    if ref != patch:
        work.new[ref] = data
    return ref


def _patch(work: Work, ref: bytes) -> patches.Patch | None:
    data = work.memory.get(ref) if ref else None
    return None if data is None else patches.decode(data)


def history(work: Work) -> BlockHistory | None:
    """The messages of the request before as they were first sent; None where that was not kept."""
    kept = work.state.key_orders.digests()
    return BlockHistory(kept, kept.copy()) if kept else None


def made_again(work: Work, index: int, parts: Sequence[bytes], order: bytes | None, first: bytes) -> list[bytes] | None:
    """The parts of a block of the body as they were first sent, with the digest `first`; None where that cannot be."""
    body, span = work.body, work.body.blocks[index]
    parts_in_order = in_order(parts, order) if order else None
    if parts_in_order is None:
        return None
    own: bytes | None = parts_in_order[0]
    if span.form == "string":  # it stays a text, or it would not stand where it stands
        own = rewrite.text_alone(body, span, parts_in_order[0])
    if own is None:
        return None
    made = [own, *parts_in_order[1:]]
    digest = digest_of(body, DIALECTS[body.dialect], index, is_border(body.blocks, index), made)
    return parts_in_order if digest == first else None


def keep_blocks(work: Work, now: BlockHistory, parts: Callable[[bytes], list[bytes] | None]) -> None:
    """Keep the orders of a history in which keys were put back. `parts` gives a block's first bytes, where they are at
    hand."""
    known = work.orders
    blocks: list[tuple[bytes, bytes]] = []
    for digest in now.first:
        order = known.get(digest)
        if order is None:
            found = parts(digest)
            order = known[digest] = (None if found is None else order_of(found)) or b""
        blocks.append((digest, order))
    work.ordered |= work.state.key_orders.keep(blocks)


def keep_tools(work: Work, names: Sequence[bytes]) -> None:
    """Store the key orders of the tools that were repaired."""
    kept, first = work.state.key_orders.tools, work.state.first
    for name in names:
        raw = None if name in kept else work.memory.get(first[name])
        if raw is not None:
            kept[name] = order_of([raw]) or b""
            work.ordered = True
    for name in [name for name in kept if name not in first]:
        del kept[name]
