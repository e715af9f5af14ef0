"""A session while its log is read: counts, money, and the dearest of its breaks. Its size is that of its lanes."""

from __future__ import annotations

import heapq
from decimal import Decimal

from holdfast.canonical import Usage

from .lanes import Lane
from .lifetimes import Lifetimes
from .pricing import ZERO, Spent, plus
from .unmarked import Unmarked
from .values import BreakFound, CureSum, Tokens

MOST_BREAKS = 1_000
"""Breaks that are kept of one session: the dearest; the others are counted."""

Why = tuple[str | None, str | None]
"""Cause and reset, of which one is None."""


class Sum:
    """Breaks of one kind."""

    __slots__ = ("breaks", "cost", "tokens")

    def __init__(self) -> None:
        self.breaks = self.tokens = 0
        self.cost: Decimal | None = None

    def add(self, breaks: int, tokens: int, cost: Decimal | None) -> None:
        self.breaks += breaks
        self.tokens += tokens
        self.cost = plus(self.cost, cost)


class Cured(Sum):
    """Breaks that one cure is for, and how it reads for the dearest of them."""

    __slots__ = ("advice", "dearest", "requests", "setting")

    def __init__(self) -> None:
        super().__init__()
        self.requests = 0
        self.advice = ""
        self.setting: str | None = None
        self.dearest = Decimal(-1)

    def read_as(self, advice: str, setting: str | None, cost: Decimal) -> None:
        if cost > self.dearest:
            self.advice, self.setting, self.dearest = advice, setting, cost

    def result(self, name: str) -> CureSum:
        return CureSum(
            cure=name,
            advice=self.advice,
            setting=self.setting,
            breaks=self.breaks,
            saves_usd=self.cost,
            requests=self.requests,
        )


class Session:
    """A log may have very many of them, so a session has room for what most never have only once it is there."""

    __slots__ = (
        *("_breaks", "_counts", "billed", "causes", "client", "clock", "cost", "cures", "ended", "estimated", "file"),
        *("last_at", "lanes", "latest", "left_out", "lifetimes", "models", "name", "number", "numbered", "origin"),
        *("requests", "source", "spent", "started", "unmarked", "unpriced"),
    )

    def __init__(self, name: str, client: str, source: str, origin: str, file: str = "", number: int = 0) -> None:
        self.name, self.client, self.source, self.origin = name, client, source, origin
        self.file, self.number = file, number
        self.latest = 0  # of what the last request is known again by
        self.numbered = 0
        """Requests of the log, whether they are counted or not."""
        self.requests = 0
        self.models: dict[str, int] = {}
        self.started: float | None = None
        self.ended: float | None = None
        self.last_at: float | None = None
        self.billed = False
        self.clock = 0.0
        self.begin_again()

    def begin_again(self) -> None:
        """Forget what was worked out: it is not needed where the provider has billed."""
        self.lanes: dict[tuple[str, str], Lane] = {}
        self.unpriced = self.left_out = 0
        self.estimated = False
        self.cost: Decimal | None = None
        self.spent = Spent()
        self.lifetimes = Lifetimes()
        self.causes: dict[Why, Sum] = NONE
        self.cures: dict[str, Cured] = NONE
        self.unmarked: Unmarked | None = None
        self._counts = (0,) * 6
        self._breaks: list[tuple[Decimal, int, int, BreakFound]] | None = None

    @property
    def key(self) -> tuple[str, int]:
        """By which it differs from all others: names may be used again."""
        return self.name, self.number

    def lane(self, agent: str, model: str) -> Lane | None:
        """A lane that is remembered; it is the one used last."""
        lanes = self.lanes
        found = lanes.get((agent, model))
        if found is not None and len(lanes) > 1:
            del lanes[agent, model]
            lanes[agent, model] = found
        return found

    def counted(self, model: str, at: float | None) -> None:
        """One more request."""
        self.requests += 1
        self.models[model] = self.models.get(model, 0) + 1
        if at is not None:
            self.started = at if self.started is None else min(self.started, at)
            self.ended = at if self.ended is None else max(self.ended, at)

    def used(self, usage: Usage) -> None:
        counts = self._counts
        counts[0] += usage.input
        counts[1] += usage.read
        for ttl, tokens in usage.writes:
            counts[2 if ttl == "5m" else 3 if ttl == "1h" else 4] += tokens
        counts[5] += usage.output

    def tokens(self) -> Tokens:
        fields = ("input", "read", "write_5m", "write_1h", "write_other", "output")
        return Tokens(**dict(zip(fields, self._counts, strict=True)))

    def broke(self, found: BreakFound) -> None:
        """A break or a reset, once all is known of it."""
        why = (found.cause, found.reset)
        self.causes.setdefault(why, Sum()).add(1, found.tokens_lost, found.cost_usd)
        if found.reset is None and found.cure is not None:
            cured = self.cures.setdefault(found.cure, Cured())
            cured.add(1, found.tokens_lost, found.cost_usd)
            cured.read_as(found.advice or "", found.setting, found.cost_usd or ZERO)
        entry = (found.cost_usd or ZERO, found.tokens_lost, -found.request, found)
        if len(self._breaks) < MOST_BREAKS:
            heapq.heappush(self._breaks, entry)
        else:
            heapq.heappushpop(self._breaks, entry)
            self.left_out += 1

    def breaks(self) -> list[BreakFound]:
        """Those that were kept, in their order."""
        return sorted((entry[3] for entry in self._breaks), key=lambda found: found.request)
