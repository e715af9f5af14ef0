"""What a prompt reader remembers: blocks by the digest of their bytes, and the last body of each conversation.

Counting the tokens of a block takes fifty times as long as hashing it, so a reader remembers a great many blocks; most
are plain and fit into sixty bytes. The least recently used half goes when there are too many.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from operator import itemgetter
from struct import Struct as Packing
from threading import Lock
from typing import Generic, TypeVar

from holdfast.caches import Block, Mark, Prompt, Section
from holdfast.lru import LRU

from .block_reader import ReadBlock
from .body import BlockSpan, Body, is_border
from .cache_control import ENDINGS
from .cache_parameters import Caching
from .tool_references import expanded

T = TypeVar("T")

_PACKED = Packing("<16sIiH")  # digest, tokens, message, shape
_MOST_SHAPES = 65_535
LONGEST_NAME = 200
"""Characters of names that clients choose (roles, kinds, models) where they are kept by number and not by weight."""


class BlockCache(Generic[T]):
    """Two generations of packed blocks, and apart from them the blocks that cannot be packed, limited by their weight.

    Safe for threads.
    """

    def __init__(self, most: int, *, heavy: int) -> None:
        self._half = max(1, most // 2)
        self._young: dict[bytes, bytes] = {}
        self._old: dict[bytes, bytes] = {}
        self._shapes: dict[tuple[Section, str, str, bool], int] = {}
        self._by_number: list[tuple[Section, str, str, bool]] = []
        self._others: LRU[bytes, tuple[T, int]] = LRU(heavy, size_of=itemgetter(1), keep_newest=True)
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._young) + len(self._old) + len(self._others)

    def plain(self, key: bytes) -> Block | None:
        packed = self._young.get(key)
        if packed is None:
            packed = self._old.get(key)
            if packed is None:
                return None
            with self._lock:
                self._add(key, packed)
        digest, tokens, message, shape = _PACKED.unpack(packed)
        section, kind, role, markable = self._by_number[shape]
        return Block(section, kind, role, message, digest, tokens, markable)

    def other(self, key: bytes) -> T | None:
        if self._others.peek(key) is None:
            return None
        with self._lock:
            entry = self._others.get(key)
            return None if entry is None else entry[0]

    def keep(self, key: bytes, block: Block) -> bool:
        """Remember a plain block; False if it cannot be packed."""
        kind, role, digest, tokens = block.kind, block.role, block.digest, block.tokens
        if block.ids or len(digest) != 16 or not 0 <= tokens < 2**32 or len(kind) + len(role) > LONGEST_NAME:
            return False
        shape = block.section, kind, role, block.markable
        with self._lock:
            number = self._shapes.get(shape)
            if number is None:
                if len(self._by_number) >= _MOST_SHAPES:  # made-up kinds and roles without end
                    return False
                number = len(self._by_number)
                self._by_number.append(shape)
                self._shapes[shape] = number
            self._add(key, _PACKED.pack(digest, tokens, block.message, number))
        return True

    def keep_other(self, key: bytes, value: T, weight: int) -> None:
        with self._lock:
            self._others[key] = value, weight

    def _add(self, key: bytes, packed: bytes) -> None:
        if len(self._young) >= self._half:
            self._old, self._young = self._young, {}
        self._old.pop(key, None)
        self._young[key] = packed


WINDOWS = (16_384, 2_048, 256)
"""Bytes of a body's messages by which its conversation is recognised."""

_PER_BLOCK = 400  # bytes that are known of each
_SHORTER = {ttl: len(ending) - 1 for ending, ttl in ENDINGS}
"""Bytes by which a block gets shorter when it ends with a marker of this lifetime and loses it."""


class ReadBody:
    """A body, and each of its blocks as it was read."""

    caching: Caching
    settings: Mapping[str, bytes]
    prompt: Prompt

    def __init__(self, body: Body, first: int) -> None:
        self.body = body
        self.first = first
        """The first block of its messages."""
        self.read_blocks: list[ReadBlock] = []
        self.blocks: list[Block | None] = []
        self.special: list[int] = []
        """The places of blocks that bring something with them."""
        self.referring: list[int] = []
        self.images = self.citations = False
        self.windows = 0
        """The longest beginning of its messages by which it is known."""
        self.fresh = 0
        """Bytes of blocks that did not stand in the earlier body."""
        self.weight = len(body.raw) + _PER_BLOCK * len(body.blocks)

    @property
    def at_length(self) -> bool:
        return self.windows == WINDOWS[0]

    def add(self, item: ReadBlock) -> None:
        if item.special:
            self.special.append(len(self.read_blocks))
        self.read_blocks.append(item)
        self.blocks.append(item.block)

    def take_over(self, other: ReadBody, end: int) -> None:
        """The blocks of an earlier body from here to `end`."""
        start = len(self.read_blocks)
        if not start:
            self.read_blocks, self.blocks = other.read_blocks[:end], other.blocks[:end]
            self.special = other.special[: bisect_left(other.special, end)]
            return
        self.read_blocks += other.read_blocks[start:end]
        self.blocks += other.blocks[start:end]
        first, last = bisect_left(other.special, start), bisect_left(other.special, end)
        self.special += other.special[first:last]

    def special_parts(self) -> tuple[list[Mark], list[int], int]:
        """The markers, as places among the blocks of the prefix; the blocks that are no part of it; the number of
        markers."""
        marks: list[Mark] = []
        left_out: list[int] = []
        count = 0
        for index in self.special:
            item = self.read_blocks[index]
            if item.images:
                self.images = True
            if item.citations:
                self.citations = True
            if item.refers:
                self.referring.append(index)
            count += len(item.marks)
            if item.block is None:
                left_out.append(index)
                continue
            for ttl in item.marks:
                marks.append(Mark(index - len(left_out), ttl))
        return marks, left_out, count

    def expanded(self) -> list[Block | None]:
        """The blocks, those that name deferred tools with their definitions."""
        late_tools = (self.read_blocks[index].late for index in self.special)
        tools = {late.name: late for late in late_tools if late is not None}
        blocks = self.blocks.copy()
        for index in self.referring:
            block, named = blocks[index], [tools[name] for name in self.read_blocks[index].refers if name in tools]
            if block is not None and named:
                blocks[index] = expanded(block, named)
        return blocks


def same_until(blocks: Sequence[BlockSpan], before: Sequence[BlockSpan], index: int) -> int:
    """Where the run of spans ends that the parse took over from the earlier body: they are the same objects there."""
    low, high = index, min(len(blocks), len(before)) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if blocks[middle] is before[middle]:
            low = middle
        else:
            high = middle - 1
    return low + 1


def unchanged(earlier: ReadBody, body: Body, index: int) -> ReadBlock | None:
    """The block at this place as it was read in the earlier body, if it is the same in both apart from a marker at its
    end; None otherwise."""
    before, read = earlier.body, earlier.read_blocks[index]
    old, new = before.blocks[index], body.blocks[index]
    shorter = (old.end - old.start) - (new.end - new.start)
    if old.context or new.context or old.message != new.message:
        return None
    if old.role != new.role or old.section != new.section or old.form != new.form:
        return None
    last, following = before.blocks[index - 1], body.blocks[index - 1]  # with the same neighbour it has the same border
    moved = last.message != following.message or last.section != following.section
    if moved and is_border(before.blocks, index) != is_border(body.blocks, index):
        return None
    text = body.raw[new.start : new.end]
    if not shorter:
        return read if before.raw.startswith(text, old.start) else None
    if not read.at_end or shorter != _SHORTER[read.marks[0]] or text[-1:] != b"}":
        return None
    if not before.raw.startswith(memoryview(text)[:-1], old.start):
        return None
    special = read.images or read.citations or read.block is None or bool(read.refers)
    return ReadBlock(read.block, read.images, read.citations, (), special, False, read.refers, read.late)
