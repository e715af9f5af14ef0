"""What broke in a session: sums by cause and by cure, what it cost, and the dearest of the breaks themselves."""

from __future__ import annotations

import heapq
from decimal import Decimal

from .prices import ZERO, LostTokens, plus
from .results import BreakFinding, CureSum
from .sentences import SENTENCES, kind, others

MOST_BREAKS = 1_000
"""Breaks that are kept of one session: the dearest; the others are counted."""

Why = tuple[str | None, str | None]
"""Cause and reset, of which one is None."""


class BreakTally:
    """Breaks of one kind."""

    __slots__ = ("breaks", "cost", "tokens")

    def __init__(self) -> None:
        self.breaks = self.tokens = 0
        self.cost: Decimal | None = None

    def add(self, breaks: int, tokens: int, cost: Decimal | None) -> None:
        self.breaks += breaks
        self.tokens += tokens
        self.cost = plus(self.cost, cost)


class CureTally(BreakTally):
    """Breaks that one cure is for, and how it reads for the dearest of them. `told` are the dearest sentences that name
    different things, with what each cost."""

    __slots__ = ("advice", "dearest", "requests", "setting", "told")

    def __init__(self) -> None:
        super().__init__()
        self.requests = 0
        self.advice = ""
        self.setting: str | None = None
        self.dearest = Decimal(-1)
        self.told: dict[str, tuple[Decimal, str]] = {}

    def read_as(self, advice: str, setting: str | None, cost: Decimal) -> None:
        if cost > self.dearest:
            self.advice, self.setting, self.dearest = advice, setting, cost
        self._tell(advice, cost)

    def read_like(self, other: CureTally) -> None:
        """The same cure of another session."""
        self.read_as(other.advice, other.setting, other.dearest)
        for cost, advice in other.told.values():
            self._tell(advice, cost)

    def _tell(self, advice: str, cost: Decimal) -> None:
        what = kind(advice)
        known = self.told.get(what)
        if known is None or cost > known[0]:
            self.told[what] = cost, advice
        if len(self.told) > SENTENCES:
            del self.told[min(self.told, key=lambda each: self.told[each][0])]

    def result(self, name: str) -> CureSum:
        return CureSum(
            cure=name,
            advice=self.advice,
            also=others(self.advice, (advice for _, advice in sorted(self.told.values(), reverse=True))),
            setting=self.setting,
            breaks=self.breaks,
            saves_usd=self.cost,
            requests=self.requests,
        )


class SessionBreaks:
    """What broke in a session."""

    __slots__ = ("causes", "cures", "kept", "left_out", "lost")

    def __init__(self) -> None:
        self.lost = LostTokens()
        self.causes: dict[Why, BreakTally] = {}
        self.cures: dict[str, CureTally] = {}
        self.kept: list[tuple[Decimal, int, int, BreakFinding]] = []
        self.left_out = 0

    def add(self, found: BreakFinding) -> None:
        why = (found.cause, found.reset)
        self.causes.setdefault(why, BreakTally()).add(1, found.tokens_lost, found.cost_usd)
        if found.reset is None and found.cure is not None:
            cured = self.cures.setdefault(found.cure, CureTally())
            cured.add(1, found.tokens_lost, found.cost_usd)
            cured.read_as(found.advice or "", found.setting, found.cost_usd or ZERO)
        entry = (found.cost_usd or ZERO, found.tokens_lost, -found.request, found)
        if len(self.kept) < MOST_BREAKS:
            heapq.heappush(self.kept, entry)
        else:
            heapq.heappushpop(self.kept, entry)
            self.left_out += 1

    def listed(self) -> list[BreakFinding]:
        """Those that were kept, in their order."""
        return sorted((entry[3] for entry in self.kept), key=lambda found: found.request)


NOTHING = SessionBreaks()
"""Of a session in which nothing broke; never added to."""
