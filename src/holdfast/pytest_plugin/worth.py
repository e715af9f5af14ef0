"""What breaks cost: each time by the providers' rules and prices, in a year at a rate that the user gives."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from functools import partial

from msgspec import Struct

from holdfast.core import Divergence, cost_of, covered_by
from holdfast.errors import HoldfastError
from holdfast.facts import rates

from .findings import Cost, UnstableRequest
from .request_reader import CheckedRequest

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


def rate_of(given: str | float | Decimal) -> Rate:
    """A rate in words: `1,000 requests/day`, `200 sessions per hour`, `50/day`. A bare number counts requests a day."""
    if isinstance(given, int | float | Decimal) and not isinstance(given, bool):
        text = f"{Decimal(str(given)):f}/day"
    else:
        text = str(given).strip()
        text = f"{text}/day" if re.fullmatch(r"[\d,_.]+k?", text, re.IGNORECASE) else text
    match = _RATE.fullmatch(text)
    if match is None:
        raise HoldfastError(f"the rate {given!r} is not understood; write it like `1,000 requests/day`.")
    count = Decimal(match["count"].replace(",", "").replace("_", "")) * (1000 if match["thousands"] else 1)
    unit = "requests" if match["unit"].lower() in ("", "request", "requests") else "sessions"
    return Rate(count, unit, match["time"].lower())


def price_of(earlier: CheckedRequest, asked: CheckedRequest, divergence: Divergence, *, in_head: bool) -> Cost:
    """What a departure costs each time: the provider's own rules say what is read, where they go by markers."""
    facts, sent = asked.facts, asked.prompt.tokens
    price = rates(facts.ref, prompt_tokens=sent)
    told = partial(Cost, model=facts.name, prices="" if price is None else price.version)
    expected, read = covered_by(earlier.outcome), asked.outcome.read
    if not in_head and expected and divergence.what != "model":
        lost = min(max(0, expected - read), sent - read)
        if not lost:
            why = f"the cache markers end before it, so the {divergence.behind:,} tokens behind it are never read"
            if divergence.kept < expected:
                why = "an earlier request had left the same prefix, which was read"
            return told(tokens=0, dollars=None if price is None else Decimal(0), why=why)
        dollars = None if price is None else cost_of(lost, asked.outcome.usage(), price)
        return told(tokens=lost, dollars=dollars)
    again = _again(earlier, asked, divergence, in_head)
    if earlier.facts.ref != facts.ref and again and (again := max(0, again - read)) == 0:
        why = "an earlier request to this model had left the same prefix, which was read"
        return told(tokens=0, dollars=None if price is None else Decimal(0), why=why)
    why = _nothing_read(earlier, in_head)
    dollars = None if price is None else again * (price.write() - price.read)
    return told(tokens=again, dollars=dollars, today=not why, why=why)


def yearly(unstable: Iterable[UnstableRequest], requests: int, rate: Rate) -> Decimal | None:
    """What they cost in a year; None where the price of any is not known."""
    each = [found.cost.dollars for found in unstable]
    known = [dollars for dollars in each if dollars is not None]
    return sum(known, Decimal(0)) * rate.per_year(requests) if known and len(known) == len(each) else None


def dollars(amount: Decimal) -> str:
    """A sum for people: cents where there are few of them, four digits where there are none."""
    if amount >= 1000:
        return f"${amount:,.0f}"
    if amount >= Decimal("0.995") or not amount:
        return f"${amount:,.2f}"
    places = max(2, 2 - amount.adjusted())
    return f"${amount:.{min(places, 8)}f}"


def _again(earlier: CheckedRequest, asked: CheckedRequest, divergence: Divergence, in_head: bool) -> int:
    """Tokens that the earlier request had sent behind the divergence, as far as they are sent again."""
    before = earlier.view.tokens if not in_head else _end(earlier)
    now = asked.view.tokens if not in_head else _end(asked)
    return max(0, min(before, now) - divergence.kept)


def _end(asked: CheckedRequest) -> int:
    return asked.view.ends[asked.head - 1] if asked.head else 0


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
