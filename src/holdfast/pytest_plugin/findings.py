"""The findings of a check, as frozen values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.core import Divergence, cost_of, covered_by
from holdfast.errors import HoldfastError
from holdfast.facts import rates

from .request_reader import CheckedRequest

if TYPE_CHECKING:
    from holdfast.core.cures import Cure


class Cost(Struct, frozen=True, kw_only=True):
    """The cost of a break each time it happens. `tokens` are billed again instead of read; `dollars` is the difference,
    None without a known price. `today` is False if nothing would have been read anyway, for the reason in `why`: then
    both are what it would cost with a cache."""

    tokens: int
    dollars: Decimal | None
    today: bool = True
    why: str = ""
    model: str = ""
    prices: str = ""


class UnstableRequest(Struct, frozen=True, kw_only=True):
    """A request that does not begin with what its conversation had sent.

    `request` and `earlier` count from 1. `offset` is the byte in the request's body, `inside` the one in the text of
    the block. `before` and `after` are what stands around it; `at` counts their characters up to the divergence.
    """

    request: int
    earlier: int
    conversation: str
    dialect: str
    model: str
    cause: str
    what: str
    path: str
    cure: Cure
    cost: Cost
    offset: int | None = None
    inside: int | None = None
    before: str | None = None
    after: str | None = None
    at: int = 0
    reset: str | None = None


class PrefixCheck(Struct, frozen=True, kw_only=True):
    """A checked sequence. `compared` requests were compared with an earlier one; `resets` are the allowed divergences.
    Not compared are `side` requests outside of conversations (titles, probes), `parts`, of which the provider holds the
    rest, and `refused` ones. `unmarked` names conversations without a marker whose provider needs one."""

    requests: int
    conversations: int
    compared: int
    side: int = 0
    parts: int = 0
    refused: int = 0
    unstable: tuple[UnstableRequest, ...] = ()
    resets: tuple[UnstableRequest, ...] = ()
    unmarked: tuple[str, ...] = ()


class PrefixUnstable(AssertionError):
    """The prefix of a conversation is not stable. `checked` has what was found, for programs."""

    def __init__(self, message: str, checked: PrefixCheck) -> None:
        super().__init__(message)
        self.checked = checked


PrefixUnstable.__module__ = "holdfast.pytest_plugin"  # where users find it


DEFAULT_RATE = "1,000 requests/day"

_PER_YEAR = {"second": 31_536_000, "minute": 525_600, "hour": 8_760, "day": 365, "week": 52, "month": 12, "year": 1}
_RATE = re.compile(
    r"(?P<count>\d[\d,_]*(?:\.\d+)?)(?P<thousands>k?)\s*(?P<unit>requests?|sessions?|runs?|)\s*"
    r"(?:/|per|an?|every)\s*(?P<time>second|minute|hour|day|week|month|year)s?",
    re.IGNORECASE,
)


class Rate(Struct, frozen=True):
    """How often something is sent: so many requests, or whole sequences like the one checked, in a unit of time."""

    count: Decimal
    unit: str
    time: str

    def per_year(self, requests: int) -> Decimal:
        """How often the whole sequence of so many requests is sent in a year."""
        times = self.count * _PER_YEAR[self.time]
        return times / requests if self.unit == "requests" else times

    def __str__(self) -> str:
        count = f"{self.count:,f}"
        count = count.rstrip("0").rstrip(".") if "." in count else count
        unit = self.unit[:-1] if self.count == 1 else self.unit
        return f"{count} {unit} {'an' if self.time == 'hour' else 'a'} {self.time}"


def rate_of(rate: str | float | Decimal) -> Rate:
    """A rate in words: `1,000 requests/day`, `200 sessions per hour`, `50/day`. A bare number counts requests a day."""
    if isinstance(rate, int | float | Decimal) and not isinstance(rate, bool):
        text = f"{Decimal(str(rate)):f}/day"
    else:
        text = str(rate).strip()
        text = f"{text}/day" if re.fullmatch(r"[\d,_.]+k?", text, re.IGNORECASE) else text
    match = _RATE.fullmatch(text)
    if match is None:
        raise HoldfastError(f"the rate {rate!r} is not understood; write it like `1,000 requests/day`.")
    count = Decimal(match["count"].replace(",", "").replace("_", "")) * (1000 if match["thousands"] else 1)
    unit = "requests" if match["unit"].lower() in ("", "request", "requests") else "sessions"
    return Rate(count, unit, match["time"].lower())


def price_of(earlier: CheckedRequest, request: CheckedRequest, divergence: Divergence, *, in_head: bool) -> Cost:
    """Return the cost of a divergence each time, by the provider's rules where they depend on markers."""
    facts, tokens_sent = request.facts, request.prompt.tokens
    price = rates(facts.ref, prompt_tokens=tokens_sent)
    cost = partial(Cost, model=facts.name, prices="" if price is None else price.version)
    expected, read = covered_by(earlier.outcome), request.outcome.read
    if not in_head and expected and divergence.what != "model":
        lost = min(max(0, expected - read), tokens_sent - read)
        if not lost:
            why = f"the cache markers end before it, so the {divergence.behind:,} tokens behind it are never read"
            if divergence.kept < expected:
                why = "an earlier request had left the same prefix, which was read"
            return cost(tokens=0, dollars=None if price is None else Decimal(0), why=why)
        dollars = None if price is None else cost_of(lost, request.outcome.usage(), price)
        return cost(tokens=lost, dollars=dollars)
    again = _resent_tokens(earlier, request, divergence, in_head)
    if earlier.facts.ref != facts.ref and again and (again := max(0, again - read)) == 0:
        why = "an earlier request to this model had left the same prefix, which was read"
        return cost(tokens=0, dollars=None if price is None else Decimal(0), why=why)
    why = _nothing_read(earlier, in_head)
    dollars = None if price is None else again * (price.write() - price.read)
    return cost(tokens=again, dollars=dollars, today=not why, why=why)


def yearly(unstable: Iterable[UnstableRequest], requests: int, rate: Rate) -> Decimal | None:
    """What they cost in a year; None where the price of any is not known."""
    each = [request.cost.dollars for request in unstable]
    priced = [dollars for dollars in each if dollars is not None]
    return sum(priced, Decimal(0)) * rate.per_year(requests) if priced and len(priced) == len(each) else None


def dollars(amount: Decimal) -> str:
    """A sum for people: cents where there are few of them, four digits where there are none."""
    if amount >= 1000:
        return f"${amount:,.0f}"
    if amount >= Decimal("0.995") or not amount:
        return f"${amount:,.2f}"
    places = max(2, 2 - amount.adjusted())
    return f"${amount:.{min(places, 8)}f}"


def _resent_tokens(earlier: CheckedRequest, request: CheckedRequest, divergence: Divergence, in_head: bool) -> int:
    """Tokens that the earlier request had sent behind the divergence, as far as they are sent again."""
    before = earlier.view.tokens if not in_head else _end(earlier)
    now = request.view.tokens if not in_head else _end(request)
    return max(0, min(before, now) - divergence.kept)


def _end(request: CheckedRequest) -> int:
    return request.view.ends[request.head - 1] if request.head else 0


def _nothing_read(earlier: CheckedRequest, in_head: bool) -> str:
    """Why the earlier request left nothing that could have been read; empty where it did."""
    facts, prompt = earlier.facts, earlier.prompt
    if facts.caching == "none":
        return f"{facts.name} has no prompt cache" if facts.known else f"nothing is known of {facts.name}"
    tokens = _end(earlier) if in_head else prompt.tokens
    if tokens < facts.floor:
        return f"{facts.name} caches nothing below {facts.floor:,} tokens and this prompt has {tokens:,}"
    if facts.caching != "explicit":
        return ""
    ends = [prompt.ends[mark.block] for mark in prompt.marks]
    ends = [end for end in ends if end <= tokens] if in_head else ends
    if not ends:
        return "no cache marker stands on tools or system text" if in_head else "no request carries a cache marker"
    if max(ends) < facts.floor:
        return f"all cache markers stand below the {facts.floor:,} tokens that {facts.name} needs"
    return ""
