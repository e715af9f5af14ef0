"""Where in each prompt an entry can be worth having, and which later calls contain it. Knows no states and no times.

All prefixes of a call that the same later calls contain (a group) are worth the same per token, and every cost is
linear in their length: the best is the longest one that can carry a marker, or none. So a call has one place for each
point where a later call leaves it.

Where a 1h entry over a live 5m one lives an hour (`ttl_raise`), length is not all that counts. An hour costs only the
tokens from the 5m entry to the next block that can carry a marker, and none can be had where the entry ends at the last
such block. Hence two more sorts of places:

- the block right after a 5m entry, for 1h (`Tree.after`);
- a stub: an entry for 5m that ends early in its group, because the block behind it is small and raises it cheaply. One
  that ends later is better unless its own step is larger by more than its length makes good (`Tree.cheaper`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import ceil

from holdfast.caches import Entry

from ..marker_plans import TimedCall, WholePrices

Kind = tuple[int, int]
"""Which later calls contain a prefix: the next one, and how many. Two prefixes of one call that agree have the same."""


class Tree:
    """The calls' prompts as one tree of prefixes."""

    def __init__(self, calls: Sequence[TimedCall], prices: WholePrices, *, raises: bool = False) -> None:
        self.calls = calls
        self.raises = raises
        self._prices = prices
        self._markable = [tuple(i for i, b in enumerate(call.prompt.blocks) if b.markable) for call in calls]
        shared = _shared(calls)
        self.places: list[tuple[int, ...]] = [
            _ends(marks, counts) for marks, counts in zip(self._markable, shared, strict=True)
        ]
        open_to = self._markable if raises else self.places
        nodes = {call.prompt.keys[i] for call, blocks in zip(calls, open_to, strict=True) for i in blocks}
        nodes.update(call.warm.key for call in calls if call.warm is not None)
        self.nodes: list[tuple[int, ...]] = []
        self.home: dict[bytes, tuple[int, int]] = {}
        self._readers: dict[bytes, list[int]] = {key: [] for key in nodes}
        for number, call in enumerate(calls):
            here = tuple(i for i, key in enumerate(call.prompt.keys) if key in nodes)
            self.nodes.append(here)
            for i in here:
                self._readers[call.prompt.keys[i]].append(number)
                self.home.setdefault(call.prompt.keys[i], (number, i))
        self._lines: dict[bytes, frozenset[bytes]] = {}
        self.stubs: list[tuple[int, ...]] = [
            self._stubs(number, counts) if raises else () for number, counts in enumerate(shared)
        ]

    def kind(self, key: bytes, after: int) -> Kind | None:
        """The calls after this one that contain the prefix; None if there are none."""
        readers = self._readers[key]
        first = bisect_right(readers, after)
        return None if first == len(readers) else (readers[first], len(readers) - first)

    def next_use(self, entry: Entry, after: int) -> float | None:
        """When a call after this one could first read the entry, if it lived so long."""
        readers = self._readers[entry.key]
        for number in readers[bisect_right(readers, after) :]:
            if self.calls[number].at >= entry.readable:
                return self.calls[number].at
        return None

    def extends(self, longer: bytes, shorter: bytes) -> bool:
        """Whether one place's prefix begins with the other's."""
        line = self._lines.get(longer)
        if line is None:
            call, end = self.home[longer]
            line = frozenset(self.calls[call].prompt.keys[i] for i in self.nodes[call] if i <= end)
            self._lines[longer] = line
        return shorter in line

    def after(self, number: int, block: int) -> int | None:
        """The next block of a call that can carry a marker."""
        marks = self._markable[number]
        at = bisect_right(marks, block)
        return marks[at] if at < len(marks) else None

    def step(self, key: bytes, after: int) -> int | None:
        """The tokens that raise an entry for all who read it after this call; None if no block serves them all."""
        kind = self.kind(key, after)
        if kind is None:
            return None
        prompt, block = self.calls[kind[0]].prompt, self.home[key][1]
        beyond = self.after(kind[0], block)
        if beyond is None or self.kind(prompt.keys[beyond], after) != kind:
            return None
        return prompt.ends[beyond] - prompt.ends[block]

    def cheaper(self, longer: int, step: int | None, length: int, short_step: int, paid: int = 0) -> bool:
        """Whether a 5m entry that ends at `longer` is as good as one of the same group that ends at `length`.

        Who raises the shorter one pays for an hour at least `short_step`, and plainly what lies between; who raises the
        longer one pays `step` and has read the rest. `paid` is what each token of greater length costs elsewhere.
        """
        if step is None:
            return False
        price = self._prices
        return (price.writes["1h"] - price.unit) * (step - short_step) <= (price.unit - price.read - paid) * (
            longer - length
        )

    def _stubs(self, number: int, shared: Sequence[int]) -> tuple[int, ...]:
        """The places of a call where an entry for 5m may end early."""
        price = self._prices
        paid = (price.writes["5m"] - price.unit) * price.over // price.under + 1  # the write is another call's
        prompt = self.calls[number].prompt
        stubs: list[int] = []
        right: list[tuple[int, int | None]] = []  # ends and steps of the group's later candidates
        for block in reversed(self._markable[number]):
            beyond = self.after(number, block)
            if beyond is None or shared[beyond] != shared[block]:
                right = [(prompt.ends[block], self.step(prompt.keys[block], number))]
                continue
            end, step = prompt.ends[block], prompt.ends[beyond] - prompt.ends[block]
            # One call has to raise it, and another to come back for it.
            if shared[block] > 1 and not any(self.cheaper(longer, other, end, step, paid) for longer, other in right):
                stubs.append(block)
                right.append((end, step))
        return tuple(reversed(stubs))


def _shared(calls: Sequence[TimedCall]) -> list[list[int]]:
    """For each block of each call how many later calls contain the prefix that ends there."""
    later: dict[bytes, int] = {}
    counts: list[list[int]] = []
    for call in reversed(calls):
        counts.append([later.get(key, 0) for key in call.prompt.keys])
        for key in call.prompt.keys:
            later[key] = later.get(key, 0) + 1
    return counts[::-1]


def _ends(markable: Sequence[int], shared: Sequence[int]) -> tuple[int, ...]:
    """Return the blocks at whose end later calls diverge from this one, moved back to where a marker is allowed."""
    ends: set[int] = set()
    for i, count in enumerate(shared):
        if count > (shared[i + 1] if i + 1 < len(shared) else 0) and (at := bisect_right(markable, i)):
            ends.add(markable[at - 1])
    return tuple(sorted(ends))


_NEVER: frozenset[int] = frozenset()


def _warm(calls: Sequence[TimedCall]) -> dict[bytes, frozenset[int]]:
    """For each block the calls that find it because it is given to them."""
    by_key: dict[bytes, frozenset[int]] = {}
    for number, call in enumerate(calls):
        if call.warm is not None:
            for key in call.prompt.keys[: call.prompt.keys.index(call.warm.key) + 1]:
                by_key[key] = by_key.get(key, _NEVER) | {number}
    return by_key


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
        costs: dict[tuple[tuple[int, ...], frozenset[int]], list[tuple[int, int, int]]] = {}
        for key, numbers in readers.items():
            since, alike = 0, (tuple(numbers), warm.get(key, _NEVER))
            if alike not in costs:
                costs[alike] = self._block(*alike)
            for number, best, missed in costs[alike]:
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
        """Return for each call with a block the least cost of a token from there on, and if this call does not read it.

        It may still be alive for the next one as part of an entry that continues differently. The calls in `warm` read
        it in any case.
        """
        price, costs = self._prices, list[tuple[int, int, int]]()
        dead = alive = 0
        for rank in range(len(numbers) - 1, -1, -1):
            factor = price.factor(self._calls[numbers[rank]].prompt.tokens)
            onward = dead
            if rank + 1 < len(numbers):
                onward = min(dead, alive + self._bridge(numbers[rank], numbers[rank + 1]))
            dead, alive = (
                min(price.unit * factor + dead, self._write * factor + onward),
                price.read * factor + onward,
            )
            is_warm = numbers[rank] in warm
            reachable = rank and (self._pings or self._gap(numbers[rank - 1], numbers[rank]) <= self._longest)
            best = min(dead, alive) if reachable or is_warm else dead
            costs.append((numbers[rank], best, max(best, min(dead, price.unit * factor + onward))))
            dead = best if is_warm else dead
        return costs[::-1]

    def _bridge(self, one: int, other: int) -> int:
        """What it costs to keep a token from one call to another."""
        pings = ceil(self._gap(one, other) / self._longest) - 1
        if pings <= 0:
            return 0
        return pings * self._prices.read * self._prices.under if self._pings else self._prices.unit * 1_000_000

    def _gap(self, one: int, other: int) -> float:
        return self._calls[other].at - self._calls[one].at
