"""The fence: how many blocks of a prompt are under a live entry.

A question to the pool by the prompt's own keys, never a stored index: it cannot be in the wrong message space, and what
was trimmed, forked or answered in parallel has its own keys. Knows neither bytes nor storage.
"""

from __future__ import annotations

from holdfast.caches import Entry, Lookup, Prompt, entry_key, rules
from holdfast.facts import ModelFacts

from .plan import Sent


def fence(prompt: Prompt, pool: Lookup, now: float, *, frozen: int = 0) -> int:
    """How many of the prompt's leading blocks are under a live entry, 0 for a cold lane.

    The prompt is one as it is sent, with its edits made. An entry that a request in flight is about to make readable
    counts: bytes under it are as good as cached. `frozen` are blocks that an explicit cache object holds (Gemini).
    """
    return max(frozen, fence_entry(prompt, pool, now)[0])


def fence_entry(prompt: Prompt, pool: Lookup, now: float) -> tuple[int, Entry | None]:
    """The fence and the entry that makes it."""
    for index in range(len(prompt.blocks) - 1, -1, -1):
        entry = pool.get(entry_key(prompt, index))
        if entry is not None and entry.expires >= now:
            return index + 1, entry
    return 0, None


def fence_of(last: Sent | None, pool: Lookup, now: float) -> int:
    """The fence of a lane's last request, from what its ledger keeps of it."""
    for index, key in reversed(() if last is None else last.entries):
        entry = pool.get(key)
        if entry is not None and entry.expires >= now:
            return index + 1
    return 0


def believed(prompt: Prompt, last: Sent | None, model: ModelFacts, now: float) -> int:
    """Return the fence of caches that match token by token and keep no entries at the ends of blocks.

    All that the lane's last request sent is assumed to be alive for as long as the provider may keep it, and for ever
    if that is unknown: wrongly warm costs an edit that is not made, wrongly cold a prefix.
    """
    if last is None or not rules(model).by_token or now > last.at + _longest(prompt, model):
        return 0
    return last.common_blocks(prompt)


def _longest(prompt: Prompt, model: ModelFacts) -> float:
    """The most seconds that a prefix may live after its last use."""
    chosen = model.ttl_seconds(prompt.mode)
    if chosen is not None:
        return max(chosen, model.limits.in_memory_max_seconds or 0)
    named = model.knobs.implicit_seconds or model.ttl_seconds(model.default_ttl or "")
    return float("inf") if named is None else max(named, model.limits.in_memory_max_seconds or 0)
