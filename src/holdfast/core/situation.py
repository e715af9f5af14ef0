"""The input of a strategy that plans a request."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from msgspec import Struct

from holdfast.caches import Lookup, Mark, Prompt
from holdfast.config.sections import CacheSettings
from holdfast.facts import ModelFacts

from .experience import Experience
from .ledger import Ledger
from .plan import Kind, Plan


class Situation(Struct, frozen=True, kw_only=True):
    """One request about to be sent. A strategy must not change anything in here.

    `prompt` has the client's own markers. `volatile` are blocks that must not have a marker. `pinned` are markers
    required by something injected (the preferences block: 1h). `summary` is the block of a compaction's summary,
    `common` the last block that other conversations begin with too, and `proved` if two of those came before.
    `allowance` is what the request may cost more than with the short lifetime everywhere, in plain input tokens. `kind`
    is what the request follows and `head` the blocks before its messages, if already known.
    """

    prompt: Prompt
    model: ModelFacts
    now: float
    pool: Lookup
    ledger: Ledger
    settings: CacheSettings = CacheSettings()
    experience: Experience | None = None
    volatile: frozenset[int] = frozenset()
    pinned: tuple[Mark, ...] = ()
    summary: int | None = None
    common: int | None = None
    proved: bool = False
    allowance: float = inf
    subagent: bool = False
    kind: Kind | None = None
    head: int | None = None

    @property
    def in_the_way(self) -> bool:
        """Whether a short entry of ours might be read where a client of the tenant's would have written a long one,
        which would then live no longer than ours."""
        if not self.prompt.marks or self.experience is None:
            return False
        return any(client.long_marks for client in self.experience.clients.values())


Strategy = Callable[[Situation], Plan]
