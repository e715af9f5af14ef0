"""Edits of sent bytes: recorded once, by the block's identity, replayed for ever (law 4).

An edit is a decision with a price (rule 5.5), taken once. Making the bytes, keeping them and putting them in place are
the engine's; nothing here sees a byte of them. A decision not to edit any more never undoes an edit: an undo is a
second rewrite of the same prefix, so what is recorded is replayed whatever the settings say now.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.caches import Prompt, chain, entry_key, rules

from .economics import edit_cost, requests_to_edit
from .fence import believed, fence_entry

if TYPE_CHECKING:
    from .situation import Situation

RESET = "priced_edit"

FINAL = frozenset({"thinking", "redacted_thinking", "reasoning"})
"""Kinds of blocks whose bytes the provider checks when they come back: never edited, whatever they cost."""


class EditRef(Struct, frozen=True):
    """A recorded edit by reference: the bytes are kept elsewhere."""

    block: bytes
    """The digest of the block as the client sends it."""
    replacement: bytes
    """SHA-256 of the replacement bytes."""
    at: float


class Proposal(Struct, frozen=True, kw_only=True):
    """Whether edits are made, all of them or none, and what was reckoned.

    `behind` are the tokens that must be written again (E), `removed` those that go away (C). `cost` is paid once and
    `saving` comes back with each further request, both in tokens at the base input price. `payback` is how many further
    requests it takes, None where it never pays. `reset` is the reason that the request carries if sent bytes change.
    """

    made: bool
    why: str
    behind: int = 0
    removed: int = 0
    cost: Decimal = Decimal(0)
    saving: Decimal = Decimal(0)
    payback: Decimal | None = None
    reset: str | None = None


def propose(
    situation: Situation,
    after: Prompt,
    wanted: Sequence[EditRef],
    *,
    further: float | Decimal,
    signed: Collection[bytes] = (),
    frozen: int = 0,
) -> Proposal:
    """Decide on new edits of the lane: together, because one rewrite pays for all of them.

    `situation` is the request without them, the lane's recorded edits made; `after` the same request with them. The
    rewrite begins at the first block whose key differs, whatever moved it there: the last picture removed loses all
    messages. `further` is how many more requests the lane is expected to make, `signed` are the blocks that carry a
    signature, `frozen` counts the blocks that an explicit cache object holds.
    """
    refusal = next((why for ref in wanted if (why := _refusal(situation, ref, ref.block in signed))), None)
    if refusal is not None:
        return Proposal(made=False, why=refusal)
    if situation.settings.edits == "never":
        return Proposal(made=False, why='cache.edits is "never": sent bytes stay as they are')
    parted = chain.parting(situation.prompt, after)
    if parted is None:
        return Proposal(made=False, why="the request is the same with and without it: there is nothing to edit")
    live, write = _live(situation, frozen)
    kept = _readable_blocks(situation, parted)
    start = after.ends[kept - 1] if kept else 0
    behind = after.ends[min(live, len(after.ends)) - 1] - start if live > parted else 0
    removed = situation.prompt.tokens - after.tokens
    # Rule 5.5: E(w-r) once, rC back with each further request. E counts the replacement, which is written too.
    read, saving = situation.model.read, removed * situation.model.read
    cost = edit_cost(Decimal(behind), read, write)
    payback = requests_to_edit(Decimal(behind), Decimal(removed), read, write)
    if live <= parted:
        made, why = True, f"nothing live stands there: {removed} tokens go away and nothing is written again"
    else:
        made = payback is not None and further > payback
        why = _reckoned(behind, removed, cost, payback, further)
    return Proposal(
        made=made,
        why=why,
        behind=behind,
        removed=removed,
        cost=cost,
        saving=saving,
        payback=payback,
        reset=RESET if made and _were_sent(situation, wanted) else None,
    )


def _reckoned(behind: int, removed: int, cost: Decimal, payback: Decimal | None, further: float | Decimal) -> str:
    terms = f"{behind} tokens would be written again at a cost of {cost:.0f} tokens of input, {removed} go away"
    if payback is None:
        return f"{terms}: it never pays back (rule 5.5)"
    return f"{terms}: it pays after {payback:.1f} further requests and {further:.1f} are expected (rule 5.5)"


def _refusal(situation: Situation, ref: EditRef, signed: bool) -> str | None:
    """Why this block is not edited at any price."""
    recorded = situation.ledger.edits.get(ref.block)
    if recorded is not None:
        if recorded.replacement == ref.replacement:
            return "the edit is recorded already and is replayed on every request"
        return "the block has a recorded edit with other bytes, and that one is replayed for ever (law 4)"
    block = next((block for block in situation.prompt.blocks if block.digest == ref.block), None)
    if block is None:
        return "the request has no block with this digest"
    if block.section != "messages":
        return f"the block belongs to the {block.section}, and those stay as they are for the session (law 3)"
    if signed or block.kind in FINAL:
        return f"this {block.kind} block is signed or checked by the provider and must come back as it was"
    return None


def _live(situation: Situation, frozen: int) -> tuple[int, Decimal]:
    """How many blocks are under a live entry, and what writing them again costs: at the lifetime they have now."""
    prompt, model = situation.prompt, situation.model
    blocks, entry = fence_entry(prompt, situation.pool, situation.now)
    blocks = max(blocks, frozen, believed(prompt, situation.ledger.last, model, situation.now))
    return blocks, model.write(None if entry is None else entry.ttl)


def _readable_blocks(situation: Situation, parted: int) -> int:
    """How many of the blocks before the rewrite can be read again: to the end of an entry, unless the cache matches
    token by token. What stands between that end and the rewrite is written again with it."""
    if rules(situation.model).by_token:
        return parted
    prompt, pool, now = situation.prompt, situation.pool, situation.now
    for index in range(parted - 1, -1, -1):
        entry = pool.get(entry_key(prompt, index))
        if entry is not None and entry.expires >= now:
            return index + 1
    return 0


def _were_sent(situation: Situation, wanted: Sequence[EditRef]) -> bool:
    last = situation.ledger.last
    sent = set() if last is None else {last.digest(index) for index in range(len(last))}
    return any(ref.block in sent for ref in wanted)
