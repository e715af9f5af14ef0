"""The state in memory that the lanes of one tenant share."""

from __future__ import annotations

from msgspec import Struct

from holdfast.caches import Prompt, Room
from holdfast.facts import ModelFacts
from holdfast.lru import LRU

from .experience import Experience
from .plan import Sent
from .pool import Pool

MOST_HEADS = 10_000
MOST_CANCELLED = 100
MOST_STARTS = 64
"""Blocks of a conversation's beginning that are looked at."""


class Start(Struct, frozen=True):
    """The last block up to which a conversation begins like earlier ones, and how many those are."""

    block: int | None = None
    times: int = 0


class Tenant:
    """What lanes of one tenant share: pools, pools of the clients alone, experience."""

    def __init__(self, experience: Experience | None = None) -> None:
        self.experience = Experience() if experience is None else experience
        self.room: Room | None = None
        """What its pools may take together with those of others; None for each on its own."""
        self.pools: dict[str, Pool] = {}
        self.alone: dict[str, Pool] = {}
        self.loaded: set[str] = set()
        """Models whose pools were filled from the store."""
        self.heads: LRU[bytes, None] = LRU(MOST_HEADS)
        self.starts: LRU[bytes, int] = LRU(MOST_HEADS)
        self.cancelled: LRU[str, Sent | None] = LRU(MOST_CANCELLED)
        """Calls that never were, and what came before them, while a later one of their lane may go back to them."""

    def pool(self, model: ModelFacts) -> Pool:
        return self._pool(self.pools, model)

    def pool_alone(self, model: ModelFacts) -> Pool:
        """What would be alive if the client's own bytes had gone out with the client's own markers."""
        return self._pool(self.alone, model)

    def both(self, model: ModelFacts) -> tuple[Pool, Pool]:
        """What is alive, and what would be for the client alone."""
        ref = model.ref
        pool, alone = self.pools.get(ref), self.alone.get(ref)
        if pool is None or alone is None or self.experience.route(ref).raises is not None:
            return self.pool(model), self.pool_alone(model)
        return pool, alone

    def _pool(self, pools: dict[str, Pool], model: ModelFacts) -> Pool:
        ref = model.ref
        pool = pools.get(ref)
        if pool is None:
            pool = pools[ref] = Pool(model, room=self.room)
        raises = self.experience.route(ref).raises
        if raises is not None:
            pool.believe(raises)
        return pool

    def cold(self) -> None:
        """Forget the entries, since the provider's caches are empty; what was learned stays."""
        self.pools.clear()
        self.alone.clear()

    def head_known(self, key: bytes) -> bool:
        """Whether tools and system text with this key were sent before; they are from now on."""
        is_known = key in self.heads
        self.heads[key] = None
        return is_known

    def start(self, prompt: Prompt, head: int) -> Start:
        """Return what a conversation shares with earlier ones from its system text on, and record it. Its last block is
        the question and not part of that. `head` is the first block of its messages."""
        longest, blocks, first = Start(), prompt.blocks, head
        while first and blocks[first - 1].section == "system":
            first -= 1
        for index in range(first, min(head + MOST_STARTS, len(prompt.keys) - 1)):
            key = prompt.keys[index]
            times = self.starts.get(key, 0)
            if times and blocks[index].markable and blocks[index].role:
                longest = Start(index, times)
            self.starts[key] = times + 1
        return longest
