"""DeepSeek's context cache: automatic, in whole stored prefix units.

D1  Everything is cached by itself; writing is free and not reported.
D2  A hit is a whole stored unit that the new prompt begins with; part of a unit is no hit.
D3  Units end at the end of the input and at the end of the output of each request.
D4  A prefix that two requests share becomes a unit when it is seen, and so helps the next one.
D5  A long prompt is also stored at fixed intervals.
D6  Units of the input can be read once the answer has begun, those of the output when it is complete.
D7  A unit shorter than the floor is not stored.

Numbers come from `facts`. Knows nothing of bodies or prices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from msgspec import structs

from holdfast.facts import ModelFacts
from holdfast.lru import LRU

from .entries import Entries
from .prompts import NEVER, Block, Cache, Entry, Outcome, Prompt, Section
from .streams import Room, TokenStream, TokenStreams
from .tokens import WIDTH, TokenSequence

AFFECTING: Mapping[str, Section] = {}
"""No setting is known to lose the prefix; tools and system are part of its tokens."""

_STEP = 256  # tokens between the signposts units are filed under, unless the floor is smaller
_FILED = 200_000  # signposts remembered


def unit_ends(length: int, interval: int, floor: int, seen: Iterable[int] = ()) -> tuple[int, ...]:
    """Where units end in a sequence of so many tokens (D3, D4, D5, D7)."""
    ends = {*range(interval, length + 1, interval), length, *seen}
    return tuple(sorted(end for end in ends if floor <= end <= length))


class Units:
    """Stored prefixes of any length, found by what a prompt begins with."""

    def __init__(self, floor: int, room: Room | None = None) -> None:
        self._step = max(1, min(_STEP, floor))
        self._names = (Room() if room is None else room).names(self._step)
        self._entries = Entries()
        self._lengths: LRU[bytes, set[int]] = LRU(_FILED)

    def key(self, tokens: TokenSequence, end: int) -> bytes:
        names = self._names.of(tokens)
        return self._key(tokens, names[end // self._step - 1], end)

    def longest(self, tokens: TokenSequence, now: float) -> Entry | None:
        """The longest readable unit that `tokens` begins with (D2)."""
        names = self._names.of(tokens)
        for name in reversed(names):
            for end in sorted(self._lengths.peek(name) or (), reverse=True):
                entry = self._entries.find(self._key(tokens, name, end), now) if end <= len(tokens) else None
                if entry is not None:
                    return entry
        return None

    def put(self, tokens: TokenSequence, entries: Sequence[Entry], now: float) -> None:
        names = self._names.of(tokens)
        for entry in entries:
            name = names[entry.tokens // self._step - 1]
            self._lengths.setdefault(name, set()).add(entry.tokens)
        self._entries.put(entries, now)

    def live(self, now: float) -> list[Entry]:
        return self._entries.live(now)

    def _key(self, tokens: TokenSequence, name: bytes, end: int) -> bytes:
        start = end - end % self._step
        ids = tokens.ids[start * WIDTH : end * WIDTH]
        return sha256(name + ids + tokens.settings(start, end)).digest()[:16]


class DeepSeek(Cache):
    """The cache of one model; units are shared within a scope."""

    def __init__(self, facts: ModelFacts, *, room: Room | None = None) -> None:
        self._facts = facts
        self._interval = facts.knobs.unit_interval or facts.context_limit
        self._seen = TokenStreams(facts.floor, room=room)
        self._units = Units(facts.floor, self._seen.room)
        self._ttl = facts.default_ttl or ""
        self._seconds = float(facts.ttl_seconds(self._ttl) or NEVER)

    def begin(self, prompt: Prompt, now: float) -> Outcome:
        self._seen.sweep(now)
        tokens = self._seen.room.tokens(prompt)
        unit = self._units.longest(tokens, now)
        hit = unit.tokens if unit is not None else 0
        refreshed = () if unit is None else (structs.replace(unit, expires=now + self._seconds),)
        self._units.put(tokens, refreshed, now)
        shared = max((shared for shared, _ in self._seen.match(b"", tokens, now)), default=0)
        why = (
            f"a stored unit of {hit} tokens begins the prompt (D2)" if hit else "no stored unit begins the prompt (D2)"
        )
        if shared > hit and shared >= self._facts.floor:
            why += f"; the {shared} tokens shared with an earlier request become a unit (D4)"
        return Outcome(
            prompt=prompt,
            at=now,
            read=hit,
            input=prompt.tokens - hit,
            hit=prompt.block_at(hit),
            new=self._new(tokens, hit, [shared], now),
            refreshed=refreshed,
            why=(why,),
        )

    def first_token(self, outcome: Outcome, now: float) -> None:
        tokens = self._seen.room.tokens(outcome.prompt)
        self._units.put(tokens, [structs.replace(entry, readable=now) for entry in outcome.new], now)
        self._see(tokens, now)

    def finish(self, outcome: Outcome, output: Sequence[Block], now: float) -> None:
        tokens = self._seen.room.tokens(outcome.prompt)
        whole = tokens.followed_by(output)
        if len(whole) > len(tokens):
            new = self._new(whole, len(tokens), (), now)
            self._units.put(whole, [structs.replace(entry, readable=now) for entry in new], now)
            self._see(whole, now)

    def entries(self, now: float) -> list[Entry]:
        return self._units.live(now)

    def _new(self, tokens: TokenSequence, after: int, seen: Iterable[int], now: float) -> tuple[Entry, ...]:
        ends = unit_ends(len(tokens), self._interval, self._facts.floor, seen)
        return tuple(
            Entry(self._units.key(tokens, end), end, self._ttl, self._seconds, now, now + self._seconds)
            for end in ends
            if end > after
        )

    def _see(self, tokens: TokenSequence, now: float) -> None:
        """Remembered whole, to notice what later requests have in common with it (D4)."""
        self._seen.put(b"", TokenStream(tokens, self._ttl, self._seconds, now, now + self._seconds, now))
