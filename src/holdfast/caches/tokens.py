"""Prompts as sequences of tokens, for the caches that match token by token.

Knows how far two sequences agree and how to name their prefixes in fixed steps. What a provider makes of that is its
own file's matter.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from hashlib import sha256, shake_128
from itertools import zip_longest

from msgspec import Struct

from holdfast.lru import LRU
from holdfast.records import common_head

from .prompts import Block, Prompt

WIDTH = 4  # bytes of a token id
_REMEMBERED = 64  # sequences whose names are kept, so that a longer one is named from where it goes on
_MOST = 1_000_000  # tokens of all of them


class TokenSequence(Struct, frozen=True):
    """A sequence of tokens. `borders` are the places where a setting is mixed in: sequences that differ in one agree
    only up to there, however equal the tokens."""

    ids: bytes
    borders: tuple[tuple[int, bytes], ...] = ()

    def __len__(self) -> int:
        return len(self.ids) // WIDTH

    def first(self, count: int) -> TokenSequence:
        return TokenSequence(self.ids[: count * WIDTH], tuple(border for border in self.borders if border[0] < count))

    def settings(self, start: int, end: int) -> bytes:
        """Return the seeds mixed in between two positions, with their offsets."""
        inside = [(at - start, seed) for at, seed in self.borders if start <= at < end]
        return b"".join([at.to_bytes(4, "big") + seed for at, seed in inside]) if inside else b""

    def followed_by(self, output: Sequence[Block]) -> TokenSequence:
        return TokenSequence(self.ids + b"".join([block_ids(block) for block in output]), self.borders)


def read(prompt: Prompt) -> TokenSequence:
    """The tokens of a prompt, with the seeds of its sections where these begin."""
    ids = b"".join([block.ids for block in prompt.blocks])
    if len(ids) != prompt.tokens * WIDTH:
        ids = b"".join([block_ids(block) for block in prompt.blocks])
    if not prompt.seeds:
        return TokenSequence(ids, ((0, f"{prompt.scope}\0{prompt.model}".encode("utf-8", "surrogatepass")),))
    return TokenSequence(ids, _borders(prompt))


def _borders(prompt: Prompt) -> tuple[tuple[int, bytes], ...]:
    """Sections are contiguous, so the end of each is found by halving."""
    blocks, seeds = prompt.blocks, dict(prompt.seeds)
    borders, start = [], 0
    while start < len(blocks):
        section = blocks[start].section
        borders.append((prompt.ends[start - 1] if start else 0, seeds.get(section, b"")))
        start = bisect_left(blocks, True, lo=start, key=lambda block: block.section != section)
    return tuple(borders)


def block_ids(block: Block) -> bytes:
    """A block's token ids; where they are not known, as many made from its digest, equal for equal content."""
    size = block.tokens * WIDTH
    if len(block.ids) >= size:
        return block.ids[:size]
    return block.ids + shake_128(block.digest).digest(size - len(block.ids))


def shared_tokens(one: TokenSequence, other: TokenSequence, known: int = 0) -> int:
    """How many leading tokens two sequences share; `known` of them need not be compared again."""
    if one is other:
        return len(one)
    shared = common_head(one.ids, other.ids, start=known * WIDTH) // WIDTH
    if one.borders == other.borders:
        return shared
    parted = next(pair for pair in zip_longest(one.borders, other.borders) if pair[0] != pair[1])
    return min(shared, *(border[0] for border in parted if border is not None))


class Names:
    """Names every whole step of a sequence by everything up to its end, as block-hashing caches do.

    A name is made of the previous one and the step's tokens, so that only the new part of a continued sequence is
    named.
    """

    def __init__(self, step: int) -> None:
        self._step = step
        self._memory: LRU[bytes, tuple[TokenSequence, tuple[bytes, ...]]] = LRU(
            _MOST, size_of=lambda named: len(named[0]), most_entries=_REMEMBERED, keep_newest=True
        )

    def __len__(self) -> int:
        """How many sequences are remembered."""
        return len(self._memory)

    def of(self, tokens: TokenSequence, head: bytes = b"") -> tuple[bytes, ...]:
        steps = len(tokens) // self._step
        if not steps:
            return ()
        first = self._name(head, tokens, 0)
        names = [first]
        remembered = self._memory.peek(first)
        if remembered is not None:
            shared = min(shared_tokens(tokens, remembered[0]) // self._step, len(remembered[1]))
            names = list(remembered[1][:shared]) or names
        for index in range(len(names), steps):
            names.append(self._name(names[-1], tokens, index))
        self._memory[first] = (tokens, tuple(names))
        return tuple(names)

    def _name(self, before: bytes, tokens: TokenSequence, index: int) -> bytes:
        start, end = index * self._step, (index + 1) * self._step
        ids = tokens.ids[start * WIDTH : end * WIDTH]
        return sha256(before + ids + tokens.settings(start, end)).digest()[:16]
