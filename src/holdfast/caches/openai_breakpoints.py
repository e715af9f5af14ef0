"""OpenAI's prompt cache from GPT-5.6 on: entries at breakpoints, implicit and explicit.

B1  An entry is written at each breakpoint and nowhere else. Implicit mode (the default): the end of the latest eligible
    message, and the latest 3 explicit breakpoints. Explicit mode: the latest 4; with none there is no caching at all.
B2  Eligible are user messages, the last tool output of a group, and the last developer message of the initial group.
B3  Nothing below the floor is written or read.
B4  Looked up are the first 2 and the latest 50 explicit breakpoints; in implicit mode also the latest eligible message,
    20 message endings before it and the end of the initial developer block. The longest live one wins, to the token.
B5  A message that grows moves its end, so an implicit entry at its old end is not looked up any more.
B6  Entries live 30 minutes and are refreshed by use; they can be read once the answer of the writer has begun.
B7  `prompt_cache_key` separates entries.
B8  What lies between the hit and the last breakpoint is reported as written; the rest is plain input.
B9  The settings in `AFFECTING` are part of the prefix from its start, and so are the tools with their order.
B10 Tools that an `additional_tools` item brings are part of the prefix where it stands. Which tools may be called
    (`tool_choice`) is no part of it.

Numbers come from `facts`. Knows nothing of bodies or prices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice

from msgspec import structs

from holdfast.facts import ModelFacts

from .entries import Entries
from .prompts import Block, Cache, Entry, Outcome, Prompt, Section

AFFECTING: Mapping[str, Section] = {
    "parallel_tool_calls": "system",
    "text.format": "system",
    "response_format": "system",
    "text.verbosity": "system",
    "verbosity": "system",
    "reasoning.effort": "system",
    "reasoning_effort": "system",
    "service_tier": "system",
}
"""Members of a request whose change loses the prefix from a section on. Model and tools lose all of it."""

_DEVELOPER = ("system", "developer")
_TOOL = ("tool", "function")


def endings(blocks: Sequence[Block], before: int | None = None) -> Iterator[int]:
    """The last block of each message, from the end of the prompt backwards; tools are no messages."""
    follower = None if before is None else blocks[before]
    for index in range((len(blocks) if before is None else before) - 1, -1, -1):
        block = blocks[index]
        if block.section == "tools":
            continue
        if follower is None or block.message != follower.message or block.section != follower.section:
            yield index
        follower = block


def developer_end(blocks: Sequence[Block]) -> int | None:
    """The last block of the initial developer messages (B2)."""
    last = None
    for index, block in enumerate(blocks):
        if block.section == "tools":
            continue
        if block.section != "system" and block.role not in _DEVELOPER:
            break
        last = index
    return last


def latest_eligible(blocks: Sequence[Block]) -> int | None:
    """Return the block with the implicit breakpoint (B2)."""
    for index in endings(blocks):
        if blocks[index].role == "user" or _is_output(blocks[index]):
            return index
    return developer_end(blocks)


def _is_output(block: Block) -> bool:
    """A tool message, or an item of one of the many kinds of output (`function_call_output`, `shell_call_output`…)."""
    return block.role in _TOOL or block.kind == "tool_result" or block.kind.endswith("_output")


def breakpoints(prompt: Prompt, facts: ModelFacts) -> list[int]:
    """The blocks at whose ends an entry is written, in order (B1, B3)."""
    marks = sorted({mark.block for mark in prompt.marks})
    if prompt.mode == "explicit":
        chosen = marks[-(facts.limits.explicit_markers or 0) :] if facts.limits.explicit_markers else []
    else:
        extra = facts.limits.implicit_extra_markers or 0
        eligible = latest_eligible(prompt.blocks)
        chosen = sorted({*(marks[-extra:] if extra else []), *([] if eligible is None else [eligible])})
    return [index for index in chosen if prompt.ends[index] >= facts.floor]


def candidates(prompt: Prompt, facts: ModelFacts) -> list[int]:
    """The blocks at whose ends an entry is looked up, the longest prefix first (B3, B4)."""
    marks = sorted({mark.block for mark in prompt.marks})
    first, latest = facts.limits.lookup_first or 0, facts.knobs.lookup_latest or 0
    places = {*marks[:first], *(marks[-latest:] if latest else [])}
    if prompt.mode != "explicit":
        places.update(_implicit_candidates(prompt.blocks, facts.limits.lookup_endings or 0))
    return sorted((index for index in places if prompt.ends[index] >= facts.floor), reverse=True)


def _implicit_candidates(blocks: Sequence[Block], earlier: int) -> set[int]:
    latest, developer = latest_eligible(blocks), developer_end(blocks)
    places = {index for index in (latest, developer) if index is not None}
    if latest is not None and earlier:
        places.update(islice(endings(blocks, latest), earlier))
    return places


def decide(prompt: Prompt, entries: Entries, now: float, facts: ModelFacts) -> Outcome:
    """What a request that starts now reads, refreshes and writes; nothing is changed."""
    ttl = facts.default_ttl or ""
    seconds = float(facts.ttl_seconds(ttl) or 0)
    written = breakpoints(prompt, facts)
    alive: list[tuple[int, Entry]] = []
    for index in candidates(prompt, facts):
        entry = entries.find(entry_key(prompt, index), now)
        if entry is not None:
            alive.append((index, entry))
    hit = alive[0][0] if alive else -1
    beyond = [index for index in written if index > hit]
    read = prompt.ends[hit] if hit >= 0 else 0
    wrote = prompt.ends[written[-1]] - read if beyond else 0
    return Outcome(
        prompt=prompt,
        at=now,
        read=read,
        input=prompt.tokens - read - wrote,
        writes=((ttl, wrote),) if wrote else (),
        hit=hit,
        new=tuple(Entry(entry_key(prompt, i), prompt.ends[i], ttl, seconds, now, now + seconds) for i in beyond),
        refreshed=tuple(structs.replace(entry, expires=max(entry.expires, now + seconds)) for _, entry in alive),
        why=tuple(_why(prompt, written, hit, facts)),
    )


class OpenAIBreakpoints(Cache):
    """The cache of one model's generation; entries are shared by all who have the same scope, model and cache key."""

    def __init__(self, facts: ModelFacts, entries: Entries | None = None) -> None:
        self._facts = facts
        self._entries = Entries() if entries is None else entries

    def begin(self, prompt: Prompt, now: float) -> Outcome:
        return self.enter(decide(prompt, self._entries, now, self._facts), now)

    def enter(self, outcome: Outcome, now: float) -> Outcome:
        """Begin a request of which it is decided already what it does."""
        self._entries.put(outcome.refreshed, now)
        return outcome

    def first_token(self, outcome: Outcome, now: float) -> None:
        self._entries.put([self._readable(entry, now) for entry in outcome.new], now)

    def _readable(self, entry: Entry, now: float) -> Entry:
        """B6. Of requests that write the same prefix side by side, the first answer makes it readable."""
        earlier = self._entries.get(entry.key)
        if earlier is None or earlier.expires < now:
            return structs.replace(entry, readable=now)
        expires = max(entry.expires, earlier.expires)
        return structs.replace(entry, readable=min(now, earlier.readable), expires=expires)

    def entries(self, now: float) -> list[Entry]:
        return self._entries.live(now)


def entry_key(prompt: Prompt, index: int) -> bytes:
    """B7: the cache key is part of an entry's name."""
    return (
        sha256(prompt.route.encode() + b"\0" + prompt.keys[index]).digest()[:16] if prompt.route else prompt.keys[index]
    )


def _why(prompt: Prompt, written: Sequence[int], hit: int, facts: ModelFacts) -> Iterator[str]:
    if prompt.mode == "explicit" and not prompt.marks:
        yield "explicit mode without a breakpoint: nothing is cached (B1)"
    elif hit >= 0:
        yield f"read {prompt.ends[hit]} tokens up to the end of block {hit}, the longest live entry looked up (B4)"
    elif not written:
        yield f"no breakpoint at or above the floor of {facts.floor} tokens (B3)"
    else:
        yield "nothing read: no live entry at any place looked up (B4)"
    if written and written[-1] > hit:
        tokens = prompt.ends[written[-1]] - (prompt.ends[hit] if hit >= 0 else 0)
        yield f"wrote {tokens} tokens for {facts.default_ttl}, up to the end of block {written[-1]} (B8)"
