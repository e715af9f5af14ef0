"""What the same requests would have cost if everything had been written for five minutes, or for an hour.

Reckoned request by request from the gap before it and the billed tokens, without the bytes. After a request as much is
covered as was billed, whatever the lifetime. Within lifetime X of the request before, the next one reads what that had
covered; beyond it only what other sessions keep alive, which is what the lane read at its start, or at its last expiry.
A break that is no expiry stays as it was. What is covered and not read is written, at the price of X.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from holdfast.canonical import Usage
from holdfast.facts import ModelFacts, Rates

from .lanes import LONG, SHORT, Lane
from .pricing import EXACT, ZERO, request_cost
from .values import OtherTtl

_add, _fma, _times = EXACT.add, EXACT.fma, EXACT.multiply


def sells_lifetimes(model: ModelFacts) -> bool:
    """Whether both lifetimes can be had."""
    return model.ttl_seconds(SHORT) is not None and model.ttl_seconds(LONG) is not None


class Lifetimes:
    """Sums over the requests of a session."""

    __slots__ = ("as_billed", "long", "none", "requests", "short")

    def __init__(self) -> None:
        self.requests = 0
        self.as_billed = self.short = self.long = self.none = ZERO

    def add(self, lane: Lane, usage: Usage, rates: Rates, gap: float | None, *, lost: int, expired: bool) -> None:
        """A request of a lane whose provider sells lifetimes; `lane` is as it was before it."""
        model, covered = lane.model, usage.read + usage.written
        could = min(lane.covered, covered) if lost and expired else usage.read
        fixed = _fma(usage.input, rates.input, _times(usage.output, rates.output))
        self.requests += 1
        self.as_billed = _add(self.as_billed, request_cost(usage, rates))
        self.none = _fma(usage.prompt, rates.input, _fma(usage.output, rates.output, self.none))
        for name in (SHORT, LONG):
            alive = gap is None or gap <= (model.ttl_seconds(name) or 0)
            kept = usage.read if expired else min(usage.read, lane.others)
            read = could if alive else kept
            cost = _fma(covered - read, rates.write(name), _fma(read, rates.read, fixed))
            if name == SHORT:
                self.short = _add(self.short, cost)
            else:
                self.long = _add(self.long, cost)

    def result(self) -> OtherTtl | None:
        if not self.requests:
            return None
        return OtherTtl(
            as_billed=self.as_billed,
            all_5m=self.short,
            all_1h=self.long,
            no_cache=self.none,
            requests=self.requests,
        )

    @property
    def saved_by_hour(self) -> Decimal:
        """What an hour would have saved; negative where it would have cost more."""
        return _add(self.as_billed, -self.long)


def _sum(parts: Iterable[Decimal]) -> Decimal:
    total = ZERO
    for part in parts:
        total = _add(total, part)
    return total


def together(parts: list[OtherTtl | None]) -> OtherTtl | None:
    known = [part for part in parts if part is not None]
    if not known:
        return None
    return OtherTtl(
        as_billed=_sum(part.as_billed for part in known),
        all_5m=_sum(part.all_5m for part in known),
        all_1h=_sum(part.all_1h for part in known),
        no_cache=_sum(part.no_cache for part in known),
        requests=sum(part.requests for part in known),
    )
