"""Keep-alive pings: whether and when to read an idle lane's entry so that it is still there when the lane returns.

Rule 5.4 on observed returns, within a budget, and only while pings have returns to show for themselves. Pure: times and
prices come in, a decision comes out; sending is somebody else's.
"""

from __future__ import annotations

from decimal import Decimal
from math import log

from msgspec import Struct, field, structs

from holdfast.config.sections import KeepaliveSettings
from holdfast.facts import ModelFacts, Rates, rates

from .economics import chance_to_ping, pings_before_long

MARGIN = 15.0
"""Seconds before its end at which an entry is pinged: lifetimes count from the start of a request at the provider."""

EVIDENCE = 10.0
"""Gaps that must have lasted as long as the present one before anything is concluded from them."""

FIRST = 300 / 32
BINS = 30
"""Gaps are counted in two bins to the doubling, from nine seconds to almost two days, the longer ones in one.

Five minutes, the lifetime that is asked about most, is the border of two bins.
"""

_STEP = log(2) / 2
_DAY = 86_400


class Returns(Struct):
    """How long lanes paused before they came back, and how many never did.

    `gaps[0]` counts pauses up to `FIRST` seconds; inside a bin they are taken to be spread evenly by their logarithm.
    """

    gaps: list[float] = field(default_factory=lambda: [0.0] * BINS)
    never: float = 0.0

    def add(self, gap: float) -> None:
        """Record that a lane was used again after `gap` seconds."""
        self.gaps[min(BINS - 1, int(_place(gap)) + 1 if gap > FIRST else 0)] += 1

    def ended(self) -> None:
        """A lane did not come back."""
        self.never += 1

    def longer(self, idle: float) -> float:
        """How many pauses lasted longer than this, the endless ones included."""
        return self.never + self._beyond(idle)

    def chance(self, idle: float, after: float, until: float) -> float:
        """The probability that a lane idle for so long returns between two later moments of the same pause."""
        there = self.longer(idle)
        return (self._beyond(after) - self._beyond(until)) / there if there > 0 else 0.0

    def _beyond(self, idle: float) -> float:
        if idle <= FIRST:
            return sum(self.gaps) if idle < FIRST else sum(self.gaps[1:])
        place = _place(idle)
        whole = min(BINS - 1, int(place) + 1)
        if whole == BINS - 1:  # nobody knows how long these lasted: longer than anything that is asked about
            return self.gaps[-1]
        return sum(self.gaps[whole + 1 :]) + self.gaps[whole] * (int(place) + 1 - place)


class Pings(Struct, frozen=True, kw_only=True):
    """A lane's account: `row` counts pings since one last had a return, `covers` is how far the latest one reaches.

    `uncovered` is when the entry would have ended without the pings of this pause. `out` is the end of the entry that a
    ping is on its way to: nobody sends it a second one.
    """

    sent: int = 0
    row: int = 0
    returned: int = 0
    spent: Decimal = Decimal(0)
    saved: Decimal = Decimal(0)
    uncovered: float | None = None
    covers: float = 0.0
    out: float = 0.0


class Spending(Struct, frozen=True):
    """What the pings of a tenant have cost on one day, counted in days of 86,400 seconds."""

    day: int = 0
    usd: Decimal = Decimal(0)

    def on(self, now: float) -> Decimal:
        return self.usd if self.day == int(now // _DAY) else Decimal(0)

    def plus(self, cost: Decimal, now: float) -> Spending:
        return Spending(int(now // _DAY), self.on(now) + cost)

    def corrected(self, by: Decimal, at: float) -> Spending:
        """Add the difference between a ping's cost and its reserve; earlier days no longer limit anything."""
        return self.plus(by, at) if self.day == int(at // _DAY) else self


class IdleLane(Struct, frozen=True, kw_only=True):
    """A lane between two requests: when the last one began, and the entry worth keeping.

    `output` is how many tokens the provider makes a ping answer with, where it cannot be asked for none.
    """

    since: float
    tokens: int
    ttl: str
    seconds: float
    expires: float
    output: int = 0


class Ping(Struct, frozen=True):
    """Read these tokens at this time, at this cost in dollars."""

    at: float
    tokens: int
    cost: Decimal


def decide(
    idle: IdleLane,
    returns: Returns,
    pings: Pings,
    spending: Spending,
    model: ModelFacts,
    settings: KeepaliveSettings,
    now: float,
) -> Ping | str:
    """The next ping of an idle lane, or why there is none."""
    at = max(now, idle.expires - MARGIN)
    obstacle = _obstacle(idle, pings, model, settings, at)
    if obstacle is not None:
        return obstacle
    price = rates(model.ref, prompt_tokens=idle.tokens)
    if price is None:
        return "no price is known for this model"
    cost = idle.tokens * price.read + idle.output * price.output
    if spending.on(at) + cost > Decimal(str(settings.budget_usd)):
        return f"today's budget of ${settings.budget_usd:g} is used up"
    if returns.longer(at - idle.since) < EVIDENCE:
        return "too few pauses of this length have been seen"
    chance = returns.chance(at - idle.since, idle.expires - idle.since, at + idle.seconds - idle.since)
    needed = chance_to_ping(price.read, price.write(idle.ttl), cost / idle.tokens)
    if needed is None or chance <= needed:
        return f"a return within the next interval is too unlikely: {chance:.1%} (rule 5.4)"
    return Ping(at, idle.tokens, cost)


def sent(pings: Pings, spending: Spending, ping: Ping, idle: IdleLane) -> tuple[Pings, Spending]:
    """A ping goes out: it counts for breaker and budget from now on. What it brings, its answer tells."""
    after = structs.replace(
        pings, sent=pings.sent + 1, row=pings.row + 1, spent=pings.spent + ping.cost, out=idle.expires
    )
    return after, spending.plus(ping.cost, ping.at)


def answered(
    pings: Pings, spending: Spending, ping: Ping, idle: IdleLane, cost: Decimal, covers: float | None
) -> tuple[Pings, Spending]:
    """A ping has been answered: what was billed for it, and until when it keeps the entry; None where it kept none, or
    where the lane had come back before."""
    after = structs.replace(_home(pings, idle), spent=pings.spent + cost - ping.cost)
    if covers is not None:
        uncovered = idle.expires if pings.uncovered is None else pings.uncovered
        after = structs.replace(after, uncovered=uncovered, covers=covers)
    return after, spending.corrected(cost - ping.cost, ping.at)


def failed(pings: Pings, spending: Spending, ping: Ping, idle: IdleLane) -> tuple[Pings, Spending]:
    """A ping brought no answer: it cost and kept nothing. For the breaker it stays one without a return."""
    after = structs.replace(_home(pings, idle), sent=pings.sent - 1, spent=pings.spent - ping.cost)
    return after, spending.corrected(-ping.cost, ping.at)


def returned(pings: Pings, idle: IdleLane, read: int, price: Rates, now: float) -> Pings:
    """The lane's next request has been answered: what its pings have brought.

    They have a return if the request read what would have been gone without them.
    """
    if pings.uncovered is None:
        return pings
    after = structs.replace(pings, uncovered=None)
    if not pings.uncovered < now <= pings.covers or not read:
        return after
    saving = min(read, idle.tokens) * (price.write(idle.ttl) - price.read)
    return structs.replace(after, row=0, returned=pings.returned + 1, saved=pings.saved + saving)


def _obstacle(idle: IdleLane, pings: Pings, model: ModelFacts, settings: KeepaliveSettings, at: float) -> str | None:
    """Why a lane gets no ping, whatever its chances are."""
    if not settings.enabled:
        return "keep-alive is off"
    if not model.prewarm and not idle.output:
        return f"{model.ref} cannot be asked for no answer"
    if idle.tokens < max(1, model.floor):
        return "there is no entry to keep"
    if at > idle.expires:
        return "the entry has run out"
    if pings.out >= idle.expires:
        return "a ping is on its way"
    if pings.row >= settings.breaker:
        return f"{pings.row} pings in a row had no return"
    others = [write for ttl, write in model.writes if (model.ttl_seconds(ttl) or 0) > idle.seconds]
    if others and pings.sent + 1 > pings_before_long(model.read, model.write(idle.ttl), min(others)):
        return f"after {pings.sent} pings a longer lifetime is cheaper (rule 5.4)"
    return None


def _home(pings: Pings, idle: IdleLane) -> Pings:
    """Without the ping that was on its way to this entry."""
    return structs.replace(pings, out=0.0) if pings.out == idle.expires else pings


def _place(gap: float) -> float:
    """Where a gap stands on the scale of the bins, counted from the end of the first."""
    return log(gap / FIRST) / _STEP
