"""One request on its way through the repairs: its state, and the decisions so far."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256

from holdfast.caches import Prompt
from holdfast.core.repairs import MOVES, ByteMemory, ChangedLine, InsertedText, Mode, Name, Repair, RepairState
from holdfast.wire import Body, Splice, continued_id, rewrite

MOVING = frozenset({"volatile-value", "memory-to-tail"})
"""Repairs that move a value away from its place in the client's text: a request uses both or none, because what one of
them announced may contradict the text in its old place."""
UNKNOWN = b"=" + bytes(7)
"""Replaces an announced value that cannot be known; it equals no present value."""


class BeginAnewError(Exception):
    """The announcements in this request's history cannot be told apart from the client's own text, so none may stay.
    `reason` is the reason for the new prefix, None if the client itself has changed it."""

    def __init__(self, reason: str | None) -> None:
        super().__init__(reason)
        self.reason = reason


class Work:
    """`origin` maps blocks of the prompt to blocks of the body, `sent` first digests to names. `tools` and `texts` are
    the blocks of the prompt that are tools and system texts, `said` is the first one of a message.

    `restored` are the digests of blocks of the prompt after repairs, `widened` the texts of the body that become lists
    by that. `present` are the inserts this request has room for, by the block of the body they follow, `lines` and
    `sections` what to announce to the model, `untold` if there is no place for it. `moves` if values may be moved away
    from their place in the client's text. For a request that continues the provider's stored state (`continued` is its
    name), the last announcements are unknown. `ordered` if first orders of keys were added to the state. `narrow` if
    only unambiguous values may be moved.
    """

    def __init__(
        self, body: Body, prompt: Prompt, state: RepairState, memory: ByteMemory, mode: Mode, skip: frozenset[str]
    ) -> None:
        self.body, self.prompt, self.state, self.memory = body, prompt, state, memory
        self.mode, self.on, self.skip = mode, mode in MOVES, skip
        self.narrow = mode == "values"
        self.moves = self.on and not skip & MOVING
        self.continued = continued_id(body) if self.on else ""
        self.origin: Sequence[int] = prompt.origin or range(len(prompt.blocks))
        self.tools: list[int] = []
        self.texts: list[int] = []
        self.said = len(prompt.blocks)
        for number, block in enumerate(prompt.blocks):
            if block.section == "messages":
                self.said = number
                break
            (self.tools if block.section == "tools" else self.texts).append(number)
        self.splices: list[Splice] = []
        self.repairs: list[Repair] = []
        self.volatile: list[str] = []
        self.new: dict[bytes, bytes] = {}
        self.reset: str | None = None
        self.compared = 0
        self.ordered = False
        self.restored: dict[int, bytes] = {}
        self.widened: set[int] = set()
        self.present: list[tuple[int, InsertedText]] = []
        self.lines: dict[bytes, ChangedLine] = {}
        self.sections: list[tuple[str, bytes, bytes]] = []
        self.untold = False

    @cached_property
    def orders(self) -> dict[bytes, bytes]:
        """The first orders of keys of blocks that were sent before."""
        return self.state.key_orders.by_digest()

    @cached_property
    def sent(self) -> dict[bytes, bytes]:
        return {digest: name for name, digest in self.state.first.items()}

    def marked_inside(self, block: int) -> bool:
        """Whether a block of the prompt may have a marker inside. The reader has found all there are, but for hidden
        ones; where there is one and the block ends with it, none is inside."""
        prompt = self.prompt
        if prompt.hidden:
            return True
        count = 0
        for mark in prompt.marks:
            if mark.block == block:
                count += 1
        return count > 1 or (count > 0 and not rewrite.ends_with_marker(self.body, self.origin[block]))

    def because(self, reason: str) -> None:
        """A reset has one reason: the first that was found."""
        self.reset = self.reset or reason

    def saved(self, block: int) -> int:
        """The tokens from this block of the prompt on that the request before had sent as well."""
        last = min(self.state.length, len(self.prompt.ends)) - 1
        return max(self.prompt.ends[last] - (self.prompt.ends[block - 1] if block else 0), 0) if last >= 0 else 0

    def report(
        self, name: Name, block: int, why: str, *, applied: bool = True, saved: int | None = None, exact: bool = False
    ) -> None:
        path = self.body.blocks[self.origin[block]].path
        self.repairs.append(Repair(name, path, why, self.saved(block) if saved is None else saved, applied, exact))
        self.state.altered |= applied

    def slots(self) -> list[bytes]:
        """The values and sections that were told in this request's history, or may have been."""
        if self.continued:
            inserts = [insert for each in self.state.inserts.values() for insert in each]
        else:
            inserts = [insert for _, insert in self.present]
        return list(dict.fromkeys(slot for insert in inserts for slot in insert.told))

    def told(self, slot: bytes) -> list[bytes]:
        """Return the announcements of a value or section in this request's history, oldest first."""
        told = [insert.told[slot] for _, insert in self.present if slot in insert.told]
        return told or ([UNKNOWN] if self.continued and slot in self.slots() else [])

    def first_digest(self, number: int) -> bytes:
        """What a block of the prompt is known by: in another continued conversation it is another one."""
        digest = self.restored.get(number, self.prompt.blocks[number].digest)
        return sha256(digest + self.continued.encode()).digest()[:16] if self.continued else digest
