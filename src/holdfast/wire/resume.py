"""What a body has in common with an earlier one, so that a long conversation is not read from the start at every turn.

Two texts that are equal up to a place are read alike up to it. So the messages before the first change are taken over
from the earlier body, and only the rest is decoded and walked.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from msgspec import Struct

from . import scan
from .body import BlockSpan, Body, Section

_EMPTIED = {ord("["): b"[]", ord('"'): b'""'}
_NEXT = b"]},{"  # the end of a message that ends with its content, and the beginning of another


class Resumed(Struct, frozen=True):
    """The blocks of the messages taken over, the number of the first message that is not, and where it begins.

    `head` is how far the text equals the earlier one, `array` where the messages begin in both.
    """

    like: Body
    head: int
    blocks: tuple[BlockSpan, ...]
    message: int
    at: int
    array: int

    def section(self, name: Section, pos: int) -> tuple[list[BlockSpan], int] | None:
        """The blocks of another section that begins at `pos` and stands unchanged, and where it ends."""
        member = self.like.members.get(name)
        if member is None or member.start != pos or member.end > self.head:
            return None
        others = self.like.blocks[: self.like.messages_from]
        return [block for block in others if block.section == name], member.end

    def shortened(self, raw: bytes, sections: Sequence[Section] = ()) -> bytes:
        """The text without the messages taken over, and with nothing in those of the sections that stand unchanged: as
        valid as the whole, because they were."""
        known = [self.like.members[name] for name in sections if name in self.like.members]
        cuts = [(m.start, m.end, _EMPTIED.get(raw[m.start], b"")) for m in known if m.end <= self.head]
        parts: list[bytes] = []
        at = 0
        for start, end, left in sorted([*(cut for cut in cuts if cut[2]), (self.array, self.at, b"")]):
            parts += (raw[at:start], left)
            at = end
        return b"".join((*parts, raw[at:]))


def resume(raw: bytes, like: Body, member: str) -> Resumed | None:
    """How far the array of messages under `member` stands unchanged in `raw`; None if nothing can be taken over."""
    array = like.members.get(member)
    if array is None or not like.blocks:
        return None
    blocks, first = like.blocks, like.messages_from
    head = blocks[-1].start  # a conversation that grows has changed behind this, if only by the marker that moved on
    if not raw.startswith(like.raw[:head]):
        head = common_head(like.raw, raw)
    last = bisect_right(blocks, head - len(_NEXT), first, key=lambda block: block.end) - 1
    while last >= first:
        block = blocks[last]
        complete = last + 1 < len(blocks) and blocks[last + 1].message != block.message
        if complete and raw.startswith(_NEXT, block.end):
            start = scan.first_item(raw, array.start)
            return Resumed(like, head, blocks[first : last + 1], block.message + 1, block.end + 3, start)
        last -= 1
    return None


def common_head(a: bytes, b: bytes) -> int:
    """How many leading bytes are equal. Slices are compared at memory speed; halving finds the place."""
    low, high = 0, min(len(a), len(b))
    if a[:high] == b[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
