"""The optimum by trying everything: every set of markers, every lifetime, every ping. For very small traces only.

Shares nothing with the search it checks but the cache rules and the price of an outcome.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import combinations

from msgspec.structs import replace

from holdfast.caches import chain
from holdfast.caches.anthropic import AnthropicCache
from holdfast.caches.entries import Entries
from holdfast.caches.prompts import Block, Entry, Mark, Outcome
from holdfast.facts import ModelFacts
from holdfast.lab.marker_plans import TimedCall, prices

Pending = tuple[tuple[float, Outcome], ...]


def block(name: int, tokens: int, markable: bool = True, kind: str = "text") -> Block:
    return Block("messages", kind, "user", 0, name.to_bytes(2), tokens, markable)


def call(at: float, blocks: Sequence[Block], first_token_at: float | None = None) -> TimedCall:
    return TimedCall(at, at + 1 if first_token_at is None else first_token_at, chain.build("m", blocks))


def random_calls(
    rng: random.Random, count: int, most_blocks: int, gaps: Sequence[float], waits: Sequence[float]
) -> list[TimedCall]:
    """Conversations that grow, fork, start again and overlap."""
    calls: list[TimedCall] = []
    paths: list[list[Block]] = []
    now = 0.0
    for number in range(count):
        path: list[Block] = []
        if paths and rng.random() > 0.15:
            path = list(rng.choice(paths) if rng.random() < 0.4 else paths[-1])
            if rng.random() < 0.35:
                path = path[: rng.randint(0, len(path))]
        for _ in range(rng.randint(0 if path else 1, 2)):
            if len(path) < most_blocks:
                name = rng.randint(0, 3) if rng.random() < 0.3 else rng.randint(4, 999)
                path.append(block(name, (1, 10, 37, 100, 400)[name * 7 % 5], name % 7 != 3))
        paths.append(path)
        now += rng.choice(gaps) if number else 0.0
        calls.append(call(now, path, now + rng.choice(waits)))
    return calls


def repeated_calls(rng: random.Random, count: int, most_blocks: int, pauses: Sequence[float]) -> list[TimedCall]:
    """A few prompts on one trunk, over and over, close together and with pauses."""
    trunk = [block(n, rng.choice([1, 5, 40, 300, 1000])) for n in range(rng.randint(2, most_blocks))]
    prompts = [trunk]
    for n in range(rng.randint(0, 2)):
        cut = trunk[: rng.randint(1, len(trunk))]
        prompts.append([*cut, block(50 + n, 40)] if len(cut) < most_blocks and rng.random() < 0.5 else cut)
    now, calls = 0.0, list[TimedCall]()
    for number in range(count):
        calls.append(call(now, rng.choice(prompts), now + rng.choice([1, 1, 5, 120])))
        now += rng.choice(pauses if number and rng.random() < 0.5 else [1, 10, 10, 250])
    return calls


def warmed(rng: random.Random, calls: Sequence[TimedCall]) -> list[TimedCall]:
    """The same calls, some of which find an entry that nobody of them has written."""
    found: list[TimedCall] = []
    seen: set[bytes] = set()
    for asked in calls:
        free = [i for i, key in enumerate(asked.prompt.keys) if key not in seen and asked.prompt.blocks[i].markable]
        seen.update(asked.prompt.keys)
        if free and (not found or rng.random() < 0.3):
            end, (ttl, seconds) = rng.choice(free), rng.choice([("5m", 300.0), ("1h", 3600.0)])
            key, tokens = asked.prompt.keys[end], asked.prompt.ends[end]
            entry = Entry(key, tokens, ttl, seconds, asked.at, asked.at + seconds, asked.at)
            asked = replace(asked, warm=entry)
        found.append(asked)
    return found


class Exhaustive:
    def __init__(
        self, calls: Sequence[TimedCall], model: ModelFacts, *, pings: bool, grid: Sequence[float] = ()
    ) -> None:
        self._calls = calls
        self._model = model
        self._pings = pings
        self._grid = grid
        self._prices = prices(model)
        self._known: dict[object, int] = {}
        self._paths = {key: (c.prompt, i) for c in calls for i, key in enumerate(c.prompt.keys)}
        # What nobody reads again tells no two states apart, and every token is at least read.
        self._later = [frozenset(key for c in calls[n:] for key in c.prompt.keys) for n in range(len(calls) + 1)]
        reads = [c.prompt.tokens * self._prices.read * self._prices.factor(c.prompt.tokens) for c in calls]
        self._rest = [sum(reads[n:]) for n in range(len(calls) + 1)]

    def cost(self) -> Decimal:
        return self._prices.tokens(self._least(0, 0.0, {}, ()))

    def _least(self, number: int, now: float, entries: dict[bytes, Entry], pending: Pending) -> int:
        if number == len(self._calls):
            return 0
        later = self._later[number]
        entries = {key: entry for key, entry in entries.items() if entry.expires >= now and key in later}
        state = (
            number,
            now,
            tuple(sorted((e.key, e.seconds, e.expires, e.readable) for e in entries.values())),
            tuple(
                (at, tuple((e.key, e.seconds, e.expires) for e in outcome.new if e.key in later))
                for at, outcome in pending
            ),
        )
        if state not in self._known:
            costs = [self._call(number, entries, pending)]
            if self._pings and number:
                costs += self._pinged(number, now, entries, pending)
            self._known[state] = min(costs)
        return self._known[state]

    def _call(self, number: int, entries: dict[bytes, Entry], pending: Pending) -> int:
        asked = self._calls[number]
        ways: list[tuple[int, dict[bytes, Entry], Pending]] = []
        for marks in markings(asked, self._model.max_markers):
            cache, kept, waiting = self._at(asked.at, entries, pending)
            if asked.warm is not None:
                cache.first_token(Outcome(asked.prompt, asked.at, 0, 0, new=(asked.warm,)), asked.at)
            outcome = cache.begin(replace(asked.prompt, marks=marks), asked.at)
            later = (*waiting, (asked.first_token_at, outcome)) if outcome.new else waiting
            ways.append((self._prices.of(outcome), self._held(kept), later))
        ways.sort(key=lambda way: way[0])
        best = ways[0][0] + self._least(number + 1, asked.at, *ways[0][1:])
        for cost, held, later in ways[1:]:
            if cost + self._rest[number + 1] < best:
                best = min(best, cost + self._least(number + 1, asked.at, held, later))
        return best

    def _pinged(self, number: int, now: float, entries: dict[bytes, Entry], pending: Pending) -> Iterator[int]:
        """Every single ping before the call, at every moment something expires; more of them by recursion."""
        moments = {entry.expires for entry in entries.values()} | {e.expires for _, o in pending for e in o.new}
        for at in sorted(moments | set(self._grid)):
            if not now <= at < self._calls[number].at:
                continue
            _, before, waiting = self._at(at, entries, pending)
            for entry in before.live(at):
                if entry.expires >= self._calls[-1].at:
                    continue
                cache, kept, _ = self._at(at, entries, pending)
                prompt, end = self._paths[entry.key]
                cut = slice(0, end + 1)
                short = replace(prompt, blocks=prompt.blocks[cut], keys=prompt.keys[cut], ends=prompt.ends[cut])
                outcome = cache.begin(replace(short, marks=(Mark(end, "5m"),)), at)
                if self._held(kept) != self._held(before):  # it kept something alive
                    yield self._prices.of(outcome) + self._least(number, at, self._held(kept), waiting)

    def _at(self, now: float, entries: dict[bytes, Entry], pending: Pending) -> tuple[AnthropicCache, Entries, Pending]:
        kept = Entries()
        kept.put(entries.values(), now)
        cache = AnthropicCache(self._model, kept)
        for at, outcome in sorted(pending, key=lambda pair: pair[0]):
            if at <= now:
                cache.first_token(outcome, at)
        return cache, kept, tuple(pair for pair in pending if pair[0] > now)

    def _held(self, entries: Entries) -> dict[bytes, Entry]:
        """Everything in a cache, readable or not."""
        return {key: entry for key in self._paths if (entry := entries.get(key)) is not None}


def markings(asked: TimedCall, most: int) -> Iterator[tuple[Mark, ...]]:
    """Every legal set of markers: at most so many, 1h before 5m."""
    places = [i for i, each in enumerate(asked.prompt.blocks) if each.markable]
    for size in range(min(most, len(places)) + 1):
        for chosen in combinations(places, size):
            for long in range(size + 1):
                yield tuple(Mark(at, "1h" if rank < long else "5m") for rank, at in enumerate(chosen))
