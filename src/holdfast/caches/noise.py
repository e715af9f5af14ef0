"""What real fleets do to a cache: evictions, requests that land on another replica, small prefixes that are missed.

N1  Replicas: there are several, each with a memory of its own. A request goes to the one its beginning belongs to, and
    with a probability to another one.
N2  Eviction: with a probability per request everything that begins like it is lost before it is looked up.
N3  Small prefixes: a prompt below a size misses with a probability, and what it writes is found by nobody.
N4  The same seed gives the same noise; without noise the result is that of the bare cache.

Works around any cache and knows no provider.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256

from msgspec import Struct, structs

from holdfast.lru import LRU

from .prompts import Block, Cache, Entry, Outcome, Prompt


def chance(seed: int, *what: object) -> float:
    """A number in [0, 1) that looks random and depends on nothing but the seed and `what`."""
    text = "\0".join((str(seed), *map(str, what)))
    return int.from_bytes(sha256(text.encode()).digest()[:7], "big") / 256**7


REMEMBERED = 10_000  # beginnings whose evictions are remembered, and requests under way


class Noise(Struct, frozen=True, kw_only=True):
    """How much of what; probabilities between 0 and 1."""

    seed: int = 0
    eviction: float = 0.0
    replicas: int = 1
    bounce: float = 0.0
    small_tokens: int = 0
    small_miss: float = 0.0


class Noisy(Cache):
    """A cache, made once per replica, behind noise."""

    def __init__(self, make: Callable[[], Cache], noise: Noise) -> None:
        self._noise = noise
        self._replicas = [make() for _ in range(max(1, noise.replicas))]
        self._number = 0
        self.lost: LRU[bytes, int] = LRU(REMEMBERED)
        """Beginnings that were evicted, and with which request."""
        self._running: LRU[int, tuple[Outcome, Outcome, Cache]] = LRU(REMEMBERED)

    def begin(self, prompt: Prompt, now: float) -> Outcome:
        self._number += 1
        replica, bounced = self._replica(prompt)
        seen, why = self._seen(prompt)
        if bounced:
            why = (*why, "noise: the request landed on another replica (N1)")
        inner = replica.begin(seen, now)
        outcome = structs.replace(inner, prompt=prompt, why=(*inner.why, *why)) if why or seen is not prompt else inner
        self._running[id(outcome)] = (outcome, inner, replica)
        return outcome

    def first_token(self, outcome: Outcome, now: float) -> None:
        running = self._running.peek(id(outcome))
        if running is not None:
            running[2].first_token(running[1], now)

    def finish(self, outcome: Outcome, output: Sequence[Block], now: float) -> None:
        running = self._running.pop(id(outcome), None)
        if running is not None:
            running[2].finish(running[1], output, now)

    def abandon(self, outcome: Outcome, now: float) -> None:
        running = self._running.pop(id(outcome), None)
        if running is not None:
            running[2].abandon(running[1], now)

    def entries(self, now: float) -> list[Entry]:
        return [entry for replica in self._replicas for entry in replica.entries(now)]

    def _chance(self, what: str) -> float:
        return chance(self._noise.seed, what, self._number)

    def _replica(self, prompt: Prompt) -> tuple[Cache, bool]:
        count = len(self._replicas)
        home = int.from_bytes(_root(prompt)[:8], "big") % count
        if count == 1 or self._chance("bounce") >= self._noise.bounce:
            return self._replicas[home], False
        other = (home + 1 + int(self._chance("replica") * (count - 1))) % count
        return self._replicas[other], True

    def _seen(self, prompt: Prompt) -> tuple[Prompt, tuple[str, ...]]:
        """The prompt as the cache sees it: under another name when what began like it is lost."""
        root, why = _root(prompt), []
        if self._noise.eviction and self._chance("eviction") < self._noise.eviction:
            self.lost[root] = self._number
            why.append("noise: everything that begins like this was evicted (N2)")
        small = prompt.tokens < self._noise.small_tokens and self._chance("small") < self._noise.small_miss
        if small:
            why.append(f"noise: a prompt below {self._noise.small_tokens} tokens was missed (N3)")
            return _renamed(prompt, f"small {self._number}"), tuple(why)
        lost = self.lost.peek(root)
        return (prompt if lost is None else _renamed(prompt, f"lost {lost}")), tuple(why)


def _root(prompt: Prompt) -> bytes:
    return prompt.keys[0] if prompt.keys else b""


def _renamed(prompt: Prompt, name: str) -> Prompt:
    """The same prompt where nobody has been before: nothing stored under its own names is found by these."""
    salt = name.encode()
    borders = prompt.seeds or tuple({block.section: b"" for block in prompt.blocks}.items())
    return structs.replace(
        prompt,
        keys=tuple(sha256(salt + key).digest()[:16] for key in prompt.keys),
        seeds=tuple((section, sha256(salt + seed).digest()) for section, seed in borders),
    )
