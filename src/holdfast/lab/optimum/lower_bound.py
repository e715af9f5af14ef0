"""What the calls still to come cost at least: every block for itself, as if each could be cached alone.

A block is paid plainly, or written once at the lowest price and read wherever it comes again within the longest
lifetime (with pings: later too, at a read for every lifetime in between), or where it is given. Real entries can only
cost more.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import ceil

from ..timed_prompts import TimedCall, WholePrices

_NEVER: frozenset[int] = frozenset()


def _warm(calls: Sequence[TimedCall]) -> dict[bytes, frozenset[int]]:
    """For each block the calls that find it because it is given to them."""
    found: dict[bytes, frozenset[int]] = {}
    for number, call in enumerate(calls):
        if call.warm is not None:
            for key in call.prompt.keys[: call.prompt.keys.index(call.warm.key) + 1]:
                found[key] = found.get(key, _NEVER) | {number}
    return found


class Bound:
    def __init__(self, calls: Sequence[TimedCall], prices: WholePrices, longest: float, *, pings: bool) -> None:
        self._calls = calls
        self._prices = prices
        self._longest = longest
        self._pings = pings
        self._write = min(prices.writes.values())
        readers: dict[bytes, list[int]] = {}
        sizes: dict[bytes, int] = {}
        for number, call in enumerate(calls):
            for key, block in zip(call.prompt.keys, call.prompt.blocks, strict=True):
                readers.setdefault(key, []).append(number)
                sizes[key] = block.tokens
        steps = [0] * (len(calls) + 2)
        lost: dict[tuple[bytes, int], int] = {}
        warm = _warm(calls)
        # blocks that came together go together
        known: dict[tuple[tuple[int, ...], frozenset[int]], list[tuple[int, int, int]]] = {}
        for key, numbers in readers.items():
            since, alike = 0, (tuple(numbers), warm.get(key, _NEVER))
            if alike not in known:
                known[alike] = self._block(*alike)
            for number, best, missed in known[alike]:
                steps[since] += best * sizes[key]
                steps[number + 1] -= best * sizes[key]
                lost[key, number] = (missed - best) * sizes[key]
                since = number + 1
        self.least: list[int] = list(accumulate(steps))[:-1]
        """From each call on, if everything that can still be alive is."""
        self._lost = [
            list(accumulate((lost[key, number] for key in reversed(call.prompt.keys)), initial=0))[::-1]
            for number, call in enumerate(calls)
        ]

    def beyond(self, number: int, block: int) -> int:
        """How much more it is if the call finds nothing beyond this block."""
        return self._lost[number][block + 1]

    def _block(self, numbers: Sequence[int], warm: frozenset[int]) -> list[tuple[int, int, int]]:
        """For each call with a block: what a token costs from there on at least, and if this call does not find it.

        It may still be there for the next one: as part of an entry that goes on in another way. The calls in `warm`
        find it whatever was done before.
        """
        price, found = self._prices, list[tuple[int, int, int]]()
        dead = alive = 0
        for rank in range(len(numbers) - 1, -1, -1):
            factor = price.factor(self._calls[numbers[rank]].prompt.tokens)
            kept = dead
            if rank + 1 < len(numbers):
                kept = min(dead, alive + self._bridge(numbers[rank], numbers[rank + 1]))
            dead, alive = (
                min(price.unit * factor + dead, self._write * factor + kept),
                price.read * factor + kept,
            )
            given = numbers[rank] in warm
            reachable = rank and (self._pings or self._gap(numbers[rank - 1], numbers[rank]) <= self._longest)
            best = min(dead, alive) if reachable or given else dead
            found.append((numbers[rank], best, max(best, min(dead, price.unit * factor + kept))))
            dead = best if given else dead
        return found[::-1]

    def _bridge(self, one: int, other: int) -> int:
        """What it costs to keep a token from one call to another."""
        pings = ceil(self._gap(one, other) / self._longest) - 1
        if pings <= 0:
            return 0
        return pings * self._prices.read * self._prices.under if self._pings else self._prices.unit * 1_000_000

    def _gap(self, one: int, other: int) -> float:
        return self._calls[other].at - self._calls[one].at
