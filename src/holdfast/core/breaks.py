"""Breaks: reads that fell short of what the lane had covered, and why.

Two phases. `expect` looks at the request before it goes out: what the lane could read if nothing had changed or
expired, and every reason why the rules say it cannot (suspects). `judge` compares with what the provider billed.

Several things can be wrong at once. A suspect carries what could have been read if it were the only thing wrong, and is
the cause if that alone explains the loss. Of several that do, the first in this order: model, settings and blocks in
prefix order (chains before times), an answer that had not begun, a lifetime that had passed, the floor, the lookback.
If none does alone, the one that explains most. If the rules say that it should have been read, it is likely the
provider; if what was read contradicts every suspect, the cause is unknown. Nothing is left out because an edit was
ours: an announced reset is counted as one only where the prefix parts in a section that its reason speaks of (law 5).

Knows neither texts nor wire formats; token counts come from the provider where it has told them.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal, localcontext

from msgspec import Struct

from holdfast.caches import Entry, Lookup, Outcome
from holdfast.config.sections import BreaksSettings
from holdfast.facts import ModelFacts, Rates
from holdfast.records import CAUSES, CHANGES, BreakCause, Usage

from .divergence import Comparison, Divergence
from .plan import Sent
from .suspects import Grounds, Suspect, grounds, set_otherwise

DEFAULTS = BreaksSettings()
_EXACT = Context(prec=60)


class Expectation(Struct, frozen=True, kw_only=True):
    """What a request should read, computed before it is sent.

    `expected` is what the lane could read if nothing had changed or expired; `counted` if the provider counted it,
    otherwise it is an estimate. `grounds` is the state that it follows from, if the lane had covered anything.
    """

    outcome: Outcome
    at: float
    expected: int = 0
    counted: bool = True
    comparison: Comparison | None = None
    reset: str | None = None
    grounds: Grounds | None = None

    @property
    def promised(self) -> int:
        """Return the tokens it will read according to the rules."""
        return self.outcome.read if self.grounds is None else self.grounds.promised()

    @property
    def suspects(self) -> tuple[Suspect, ...]:
        """The reasons for which it may read less than expected."""
        return () if self.grounds is None else self.grounds.suspects()


class Finding(Struct, frozen=True, kw_only=True):
    """A break, or a reset with its reason. `dollars` is what the lost tokens were billed beyond the price of reading
    them, 0 where no price is known. `also` are further things that were wrong."""

    cause: BreakCause | None
    reason: str | None
    tokens: int
    dollars: Decimal
    expected: int
    read: int
    divergence: Divergence | None = None
    comparison: Comparison | None = None
    entry: Entry | None = None
    idle: float = 0.0
    also: tuple[BreakCause, ...] = ()


def expect(
    before: Sent | None,
    comparison: Comparison | None,
    outcome: Outcome,
    pool: Lookup,
    model: ModelFacts,
    *,
    reset: str | None = None,
) -> Expectation:
    """What the lane should read with a request, and what may keep it from that.

    `before` is the lane's last request and `comparison` how this one continues it; `outcome` is the prediction under
    the markers that go out; `reset` is the reason the ledger announces, if any.
    """
    if before is None or comparison is None or not before.covered:
        return Expectation(outcome=outcome, at=outcome.at, reset=reset)
    moment = grounds(before, comparison, outcome, pool, model)
    back = comparison.course == "fork" and not set_otherwise(comparison)
    return Expectation(
        outcome=outcome,
        at=outcome.at,
        expected=moment.longest() if back else before.covered,
        counted=not back,
        comparison=comparison,
        reset=reset,
        grounds=moment,
    )


def judge(
    expectation: Expectation,
    usage: Usage,
    rates: Rates | None,
    thresholds: BreaksSettings = DEFAULTS,
    *,
    tolerance: BreaksSettings | None = None,
) -> Finding | None:
    """The break or reset that a billed usage shows, None where reads are within the thresholds of what they should be.

    Both thresholds have to be passed: the share of what was expected, and the number of tokens. `tolerance` is how far
    a suspect may be off, where that is not the same: our tokens are not quite the provider's.
    """
    if not fell_short(expectation, usage, thresholds):
        return None
    scale = _scale(expectation, usage)
    expected = _expected(expectation, usage)
    lost, suspects = expected - usage.read, expectation.suspects
    slack = float(_slack(tolerance or thresholds, expected))
    suspect = _explain(expectation, suspects, usage.read, expected, scale, slack)
    comparison = expectation.comparison
    divergence = comparison.divergence if comparison is not None else None
    parted = suspect.cause in CHANGES.values()
    announced = expectation.reset if parted and allowed(expectation.reset, divergence) else None
    others = dict.fromkeys(other.cause for other in suspects if other.cause != suspect.cause)
    return Finding(
        cause=None if announced else suspect.cause,
        reason=announced,
        tokens=lost,
        dollars=cost_of(lost, usage, rates),
        expected=expected,
        read=usage.read,
        divergence=divergence if parted else None,
        comparison=comparison,
        entry=suspect.entry,
        idle=max(0.0, expectation.at - suspect.entry.expires) if suspect.entry is not None else 0.0,
        also=tuple(others),
    )


def fell_short(expectation: Expectation, usage: Usage, thresholds: BreaksSettings = DEFAULTS) -> bool:
    """Whether a billed usage read less than the thresholds allow."""
    expected = _expected(expectation, usage)
    lost = expected - usage.read
    return lost > thresholds.min_tokens and lost > _slack(thresholds, expected)


def agrees(expectation: Expectation, usage: Usage, thresholds: BreaksSettings = DEFAULTS) -> bool:
    """Whether the provider read what was predicted, within the thresholds: neither less nor more (law 9)."""
    predicted = round(expectation.outcome.read * _scale(expectation, usage))
    apart = abs(predicted - usage.read)
    return apart <= thresholds.min_tokens or apart <= _slack(thresholds, max(predicted, usage.read))


def _expected(expectation: Expectation, usage: Usage) -> int:
    """What should have been read, in the provider's tokens."""
    if expectation.counted:
        return expectation.expected
    return round(expectation.expected * _scale(expectation, usage))


def _slack(thresholds: BreaksSettings, tokens: int) -> Decimal:
    """The difference that both thresholds still allow. The share counts as it was written: 5% of 41,000 is 2,050 and
    not a hair more."""
    return max(Decimal(thresholds.min_tokens), Decimal(repr(thresholds.min_drop)) * tokens)


def _explain(
    expectation: Expectation, suspects: Sequence[Suspect], read: int, expected: int, scale: float, slack: float
) -> Suspect:
    """The cause of a loss, by the order in the module's docstring."""
    possible = [suspect for suspect in suspects if read <= suspect.limit * scale + slack]
    alone = [suspect for suspect in possible if suspect.readable * scale <= read + slack]
    if alone:
        return alone[0]
    promised = expectation.promised
    unkept = promised * scale - read
    if unkept > slack and unkept >= expected - promised * scale:
        return Suspect("likely_server_side", promised, expected)
    if possible:
        return min(possible, key=lambda suspect: suspect.readable)
    return Suspect("unknown", 0, expected)


def allowed(reset: str | None, divergence: Divergence | None) -> bool:
    """Return whether a reset's reason covers the place of the divergence (law 5)."""
    if reset is None or divergence is None:
        return False
    parts = CAUSES[reset].parts if reset in CAUSES else ()
    return not parts or divergence.part in parts


def _scale(expectation: Expectation, usage: Usage) -> float:
    """The provider's tokens for one of ours: this request's own, counted by both."""
    ours, theirs = expectation.outcome.prompt.tokens, usage.prompt
    return theirs / ours if ours and theirs else 1.0


def cost_of(lost: int, usage: Usage, rates: Rates | None) -> Decimal:
    """Return what lost tokens were billed beyond the price of a read. They directly follow what was read, so they are
    those written first, longest lifetime first (A12), then plain input; what was not sent costs nothing."""
    if rates is None:
        return Decimal(0)
    billed = sorted(((rates.write(ttl), tokens) for ttl, tokens in usage.writes), reverse=True)
    dollars, left = Decimal(0), lost
    with localcontext(_EXACT):
        for price, tokens in (*billed, (rates.input, usage.input)):
            dollars += min(left, tokens) * (price - rates.read)
            left -= min(left, tokens)
    return dollars
