"""What a body has in common with an earlier one, so that a long conversation is not read from the start at every turn.

Two texts that are equal up to a place are read alike up to it. So the messages before the first change are taken over
from the earlier body, and only the rest is decoded and walked.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import Section
from holdfast.records import common_head

from . import scan
from .body import BlockSpan, Body
from .scan import Member

_EMPTIED = {ord("["): b"[]", ord('"'): b'""'}
_NEXT = b"]},{"  # the end of a message that ends with its content, and the beginning of another


class Resumed(Struct, frozen=True):
    """What is taken over: the messages' blocks from `first` up to `last`, those of the earlier body's member `name`.

    `message` is the number of the first message that is not, and `at` where it begins; `head` is how far the text
    equals the earlier one.
    """

    like: Body
    name: str
    head: int
    first: int
    last: int
    message: int
    at: int

    @property
    def blocks(self) -> tuple[BlockSpan, ...]:
        return self.like.blocks[self.first : self.last]

    def unchanged_from(self, raw: bytes) -> int | None:
        """Where the messages end, if all that follows on them follows on the earlier ones."""
        tail = memoryview(self.like.raw)[self.like.members[self.name].end :]
        end = len(raw) - len(tail)
        return end if end > self.at and raw.endswith(tail) else None

    def body(self, raw: bytes, news: list[BlockSpan], end: int) -> Body:
        """The body with these blocks behind those taken over and nothing else changed; its messages end at `end`."""
        like, first = self.like, self.first
        before = like.members[self.name]
        moved = end - before.end
        members, blocks = like.members.copy(), like.blocks[: self.last]
        members[self.name] = Member(before.key, before.key_start, before.start, end)
        if moved and next(reversed(members)) != self.name:
            for key, start, at, until in like.members.values():
                if start > before.start:
                    members[key] = Member(key, start + moved, at + moved, until + moved)
            blocks = (*(_moved(b, moved) if b.start > before.start else b for b in blocks[:first]), *blocks[first:])
        return Body(raw, like.dialect, like.model, blocks + tuple(news), members, like.end + moved)

    def section(self, name: Section, pos: int) -> tuple[list[BlockSpan], int] | None:
        """The blocks of another section that begins at `pos` and stands unchanged, and where it ends."""
        member = self.like.members.get(name)
        if member is None or member.start != pos or member.end > self.head:
            return None
        others = self.like.blocks[: self.first]
        return [block for block in others if block.section == name], member.end

    def shortened(self, raw: bytes, sections: Sequence[Section] = ()) -> bytes:
        """The text without the messages taken over and with unchanged sections emptied. It is valid JSON if the whole
        is, because what is left out was."""
        members = [self.like.members[name] for name in sections if name in self.like.members]
        cuts = [(m.start, m.end, _EMPTIED.get(raw[m.start], b"")) for m in members if m.end <= self.head]
        parts: list[bytes] = []
        at = 0
        array = scan.first_item(raw, self.like.members[self.name].start)
        for start, end, left in sorted([*(cut for cut in cuts if cut[2]), (array, self.at, b"")]):
            parts += (raw[at:start], left)
            at = end
        return b"".join((*parts, raw[at:]))


def resume(raw: bytes, like: Body, member: str) -> Resumed | None:
    """What can be taken over from an earlier body: its messages, the array under `member`, as far as they are unchanged
    in `raw`. None if nothing can."""
    array = like.members.get(member)
    if array is None or not like.blocks:
        return None
    blocks, first = like.blocks, like.messages_from
    head = blocks[-1].start  # a conversation that grows has changed behind this, if only by the marker that moved on
    last = len(blocks) - 2
    if not raw.startswith(memoryview(like.raw)[:head]):
        head = common_head(like.raw, raw)
        last = bisect_right(blocks, head - len(_NEXT), first, key=lambda block: block.end) - 1
    while last >= first:
        block = blocks[last]
        complete = last + 1 < len(blocks) and blocks[last + 1].message != block.message
        if complete and raw.startswith(_NEXT, block.end):
            return Resumed(like, member, head, first, last + 1, block.message + 1, block.end + 3)
        last -= 1
    return None


def continues_body(before: Body, body: Body, first: int) -> bool:
    """Whether a body was resumed from an earlier one, whose messages begin with the block `first`: then that block
    is one object in both, and both texts are the same up to it."""
    old, new = before.blocks, body.blocks
    return first < len(old) and first < len(new) and new[first] is old[first]


def has_same_end(before: Body, body: Body, name: str = "messages") -> bool:
    """Whether all that follows the messages is the same in a body that was parsed by resuming an earlier one."""
    tail = memoryview(before.raw)[before.members[name].end :]
    return len(body.raw) - body.members[name].end == len(tail) and body.raw.endswith(tail)


def _moved(span: BlockSpan, by: int) -> BlockSpan:
    context = tuple((start + by, end + by) for start, end in span.context)
    return replace(span, start=span.start + by, end=span.end + by, context=context)
