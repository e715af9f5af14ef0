"""What the same requests would have cost if everything had been written for five minutes, or for an hour.

Reckoned request by request from the gap before it and the billed tokens, without the bytes. After a request as much is
covered as was billed, whatever the lifetime. Within lifetime X of the request before, the next one reads what that had
covered; beyond it only what other sessions keep alive, which is what the lane read at its start, or at its last expiry.
A break that is no expiry stays as it was. What is covered and not read is written, at the price of X.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from holdfast.facts import Rates
from holdfast.records import Usage

from .lanes import LONG, SHORT, LaneUsage
from .prices import EXACT, ZERO, TokenBill, total
from .results import OtherTtl

_add, _fma, _times = EXACT.add, EXACT.fma, EXACT.multiply


def reads(lane: LaneUsage, usage: Usage, gap: float | None, *, lost: int, expired: bool) -> tuple[int, int]:
    """What a request would have read under either lifetime; `lane` is as it was before it."""
    read = usage.read
    kept = read if expired else min(read, lane.others)
    could = min(lane.covered, read + usage.written) if lost and expired else read
    if gap is None:
        return could, could
    return could if gap <= (lane.short or 0) else kept, could if gap <= (lane.long or 0) else kept


def other_ttl(bills: Iterable[TokenBill]) -> OtherTtl | None:
    """What the bills of models that sell both lifetimes would have come to."""
    return together([_other_ttl(bill, bill.rates) for bill in bills if bill.sells and bill.rates is not None])


def _other_ttl(bill: TokenBill, rates: Rates) -> OtherTtl:
    covered, output = bill.covered, _times(bill.output, rates.output)
    fixed = _fma(bill.input, rates.input, output)

    def cost(read: int, ttl: str) -> Decimal:
        return _fma(covered - read, rates.write(ttl), _fma(read, rates.read, fixed))

    return OtherTtl(
        as_billed=total(bill.money()),
        all_5m=cost(bill.short_read, SHORT),
        all_1h=cost(bill.long_read, LONG),
        no_cache=_fma(bill.input + covered, rates.input, output),
        requests=bill.requests,
    )


def _sum(parts: Iterable[Decimal]) -> Decimal:
    whole = ZERO
    for part in parts:
        whole = _add(whole, part)
    return whole


def together(parts: list[OtherTtl | None]) -> OtherTtl | None:
    known = [part for part in parts if part is not None]
    if len(known) <= 1:
        return known[0] if known else None
    return OtherTtl(
        as_billed=_sum(part.as_billed for part in known),
        all_5m=_sum(part.all_5m for part in known),
        all_1h=_sum(part.all_1h for part in known),
        no_cache=_sum(part.no_cache for part in known),
        requests=sum(part.requests for part in known),
    )
