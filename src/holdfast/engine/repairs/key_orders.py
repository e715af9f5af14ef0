"""First orders of keys that outlive the process. First bytes live in memory only; where those are lost, they are made
again of what the client sends now, in the order that was kept.

Nothing is taken on trust: what was made has the digest of what was first sent, or it is not sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.core.repairs import BlockHistory
from holdfast.wire import DIALECTS, digest_of, in_order, is_border, order_of, rewrite

from .request import Work


def history(work: Work) -> BlockHistory | None:
    """The messages of the request before as they were first sent; None where that was not kept."""
    kept = work.state.key_orders.digests()
    return BlockHistory(kept, kept.copy()) if kept else None


def made_again(work: Work, index: int, parts: Sequence[bytes], order: bytes | None, first: bytes) -> list[bytes] | None:
    """The parts of a block of the body as they were first sent, with the digest `first`; None where that cannot be."""
    body, span = work.body, work.body.blocks[index]
    found = in_order(parts, order) if order else None
    if found is None:
        return None
    own: bytes | None = found[0]
    if span.form == "string":  # it stays a text, or it would not stand where it stands
        own = rewrite.text_alone(body, span, found[0])
    if own is None:
        return None
    made = [own, *found[1:]]
    digest = digest_of(body, DIALECTS[body.dialect], index, is_border(body.blocks, index), made)
    return found if digest == first else None


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
    """Keep the orders of tools whose keys were put back."""
    kept, first = work.state.key_orders.tools, work.state.first
    for name in names:
        raw = None if name in kept else work.memory.get(first[name])
        if raw is not None:
            kept[name] = order_of([raw]) or b""
            work.ordered = True
    for name in [name for name in kept if name not in first]:
        del kept[name]
