"""OpenAI's prompt cache up to GPT-5.5: implicit, matched token by token, one memory per machine.

O1  Everything is cached by itself; writing is free and not reported.
O2  A hit has at least the floor of 1,024 tokens and grows in steps of 128.
O3  Entries belong to a machine. A request goes to the machine named by a hash of its first tokens and its
    `prompt_cache_key`.
O4  Above about 15 requests a minute for one such name the rest overflow to another machine, which has to learn the
    prefix itself.
O5  `prompt_cache_retention`: `in_memory` lives 5 to 10 minutes idle (5 are counted on), `24h` a day; use refreshes.
O6  What a request wrote can be read once its answer has begun.
O7  The settings in `AFFECTING` are part of the prefix.

Numbers come from `facts`. Knows nothing of bodies or prices.
"""

from __future__ import annotations

from collections import deque
from hashlib import sha256

from holdfast.facts import ModelFacts
from holdfast.lru import LRU

from .prompts import NEVER, Cache, Entry, Outcome, Prompt
from .streams import Room, TokenStream, TokenStreams
from .tokens import WIDTH, TokenSequence

_MINUTE = 60.0
_ROUTES = 100_000  # routes whose request rate is remembered


def whole_steps(tokens: int, facts: ModelFacts) -> int:
    """How much of a common prefix counts as a hit (O2)."""
    steps = tokens - tokens % facts.granularity
    return steps if steps >= facts.floor else 0


def machine_name(tokens: TokenSequence, route: str, facts: ModelFacts) -> bytes:
    """Which machine a request belongs to before any overflow (O3)."""
    head = tokens.ids[: (facts.knobs.route_tokens or 0) * WIDTH]
    seed = tokens.borders[0][1] if tokens.borders else b""
    return sha256(seed + route.encode() + b"\0" + head).digest()[:16]


class OpenAIPrefix(Cache):
    """The machines of one model."""

    def __init__(self, facts: ModelFacts, *, room: Room | None = None) -> None:
        self._facts = facts
        self._streams = TokenStreams(facts.floor, room=room)
        self._recent: LRU[bytes, deque[float]] = LRU(_ROUTES)

    def begin(self, prompt: Prompt, now: float) -> Outcome:
        self._streams.sweep(now)
        tokens = self._streams.room.tokens(prompt)
        machine = self._machine(machine_name(tokens, prompt.route, self._facts), now)
        matches = self._streams.match(machine, tokens, now) if self._facts.caching != "none" else []
        hit = whole_steps(max((shared for shared, _ in matches), default=0), self._facts)
        if hit:
            self._streams.put(machine, self._stream(tokens.first(hit), prompt.mode, now, readable=now))
        why = "nothing read: the machine this prompt is routed to knows no such prefix (O3)"
        if hit:
            why = f"read {hit} tokens, in whole steps of {self._facts.granularity}, known to the machine (O2)"
        # the machine travels with the outcome, so that its tokens are kept where they were computed
        pending = Entry(machine, prompt.tokens, prompt.mode, 0.0, now, now)
        return Outcome(
            prompt=prompt,
            at=now,
            read=hit,
            input=prompt.tokens - hit,
            hit=prompt.block_at(hit),
            new=(pending,),
            why=(why,),
        )

    def first_token(self, outcome: Outcome, now: float) -> None:
        if self._facts.caching == "none":
            return
        stream = self._stream(self._streams.room.tokens(outcome.prompt), outcome.prompt.mode, outcome.at, readable=now)
        self._streams.put(outcome.new[0].key, stream)

    def entries(self, now: float) -> list[Entry]:
        return self._streams.live(now)

    def _machine(self, name: bytes, now: float) -> bytes:
        """O4: the first so many requests of a minute go to the route's own machine, the next to its first neighbour…"""
        recent = self._recent.setdefault(name, deque())
        while recent and recent[0] <= now - _MINUTE:
            recent.popleft()
        limit = self._facts.limits.requests_per_minute
        overflow = len(recent) // limit if limit else 0
        recent.append(now)
        return name + overflow.to_bytes(4, "big") if overflow else name

    def _stream(self, tokens: TokenSequence, mode: str, now: float, readable: float = NEVER) -> TokenStream:
        named = self._facts.ttl_seconds(mode)
        ttl = mode if named is not None else self._facts.default_ttl or ""
        seconds = float(self._facts.ttl_seconds(ttl) or 0)
        return TokenStream(tokens, ttl, seconds, now, now + seconds, readable)
