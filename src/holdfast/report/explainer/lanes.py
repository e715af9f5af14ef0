"""A lane as the next request of it is compared: what was covered, when, and how long it lives. A dozen numbers.

A read fell short if it is smaller than what the request before had covered (read and written). Providers that report
their writes are taken at their word, to the token. The others show only reads, in steps and without a promise: there a
read has to fall below the read before by more than a step.

`cause_of` says why, from billed usage alone, in this order: a request in flight, a lifetime that had passed, a request
without markers or below the floor, then by how much was still read: down to the shared head (messages), below it (tools
or system text), nothing (unknown).

`reads` and `other_ttl` say what the same requests would have cost if everything had been written for five minutes, or
for an hour: from the gap before each request and the billed tokens, without the bytes. After a request as much is
covered as was billed, whatever the lifetime. Within lifetime X of the request before, the next one reads what that had
covered; beyond it only what other sessions keep alive, which is what the lane read at its start, or at its last expiry.
A break that is no expiry stays as it was. What is covered and not read is written, at the price of X.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from msgspec.structs import replace

from holdfast.facts import ModelFacts, Rates
from holdfast.records import UNSPLIT, BreakCause, Usage, expiry

from .prices import EXACT, LONG, SHORT, ZERO, TokenBill, total
from .results import BreakFinding, OtherTtl

_STEP = 128  # tokens: the coarsest known steps, where nobody has told us a provider's own
_NOISE = 16  # tokens: local engines find a few in any prompt


class LaneUsage:
    """The usage of a lane; call `took` after every billed request."""

    __slots__ = (
        "asked",
        "at",
        "begun",
        "covered",
        "exact",
        "file",
        "first_token",
        "guaranteed",
        "head",
        "held",
        "long",
        "model",
        "others",
        "pending",
        "proved",
        "requests",
        "reset",
        "sells",
        "short",
        "short_end",
        "slack",
        "tail",
        "unsplit",
    )

    def __init__(self, model: ModelFacts, file: str = "") -> None:
        self.model = model
        self.short, self.long = model.ttl_seconds(SHORT), model.ttl_seconds(LONG)
        self.sells = self.short is not None and self.long is not None
        self.file = file  # where it was met last
        self.requests = 0
        self.covered = 0
        self.at: float | None = None
        self.first_token: float | None = None
        self.begun = 0  # covered by requests whose answer had begun when the last one started
        self.head: int | None = None  # the least that was read at the start or after a reset: tools and system text
        self.tail: str | None = None  # the lifetime written last
        self.short_end = 0  # where the last five-minute part ends: longer-lived parts behind it stand on it
        self.proved = False  # reads have outlived the lifetime that would be assumed
        self.others = 0  # what other sessions keep alive, as far as it was seen
        self.reset: str | None = None  # said by the log at a request that was not billed
        self.pending: BreakFinding | None = None  # a break of which the next request may tell more
        self.asked = 0  # requests after the first that are the first after a user's message
        self.held: list[BreakFinding] | None = None  # breaks that how often they come will tell more of
        self.unsplit: dict[TokenBill, int] | None = None  # tokens on a bill whose lifetime the log does not tell
        self.exact = model.reports_writes
        self.guaranteed = model.knobs.implicit_hit_probability is None
        self.slack = 0 if self.exact else _slack(model)

    def as_written(self, usage: Usage) -> Usage:
        """A usage with the lifetime of its writes: where the log has only their sum, an hour if reads have outlived
        five minutes."""
        if not (self.proved and self.sells and usage.written_for(UNSPLIT)):
            return usage
        writes = {LONG if ttl == UNSPLIT else ttl: tokens for ttl, tokens in usage.writes}
        return replace(usage, writes=tuple(sorted(writes.items())))

    def billed(self, bill: TokenBill, usage: Usage) -> None:
        """Record tokens that were billed without their lifetime."""
        if self.sells and (tokens := usage.written_for(UNSPLIT)):
            self.unsplit = self.unsplit or {}
            self.unsplit[bill] = self.unsplit.get(bill, 0) + tokens

    def settle_lifetimes(self) -> None:
        """Price earlier writes with the lifetime that was proved since."""
        if self.proved and self.unsplit:
            for bill, tokens in self.unsplit.items():
                bill.was_long(tokens)
            self.unsplit = None

    def gap(self, at: float | None) -> float | None:
        """Start to start since the request before, to the millisecond: differences of times near 1.8e9 are off by less
        than a microsecond, and a lifetime ends at its second, not behind it."""
        return None if at is None or self.at is None else max(0.0, round(at - self.at, 3))

    def lost(self, usage: Usage, least: int) -> int:
        """How many tokens a request read less than it could; 0 where that is no more than is allowed for."""
        missing = self.covered - usage.read
        return missing if missing > self.slack and missing > least else 0

    def by_chance(self, usage: Usage) -> bool:
        """Whether a read of nothing proves nothing: implicit caching guarantees no hit."""
        return not self.guaranteed and not usage.read

    def raced(self, usage: Usage, at: float | None) -> bool:
        """Whether a request started before the answer to the one before had begun, and that is all it lacked."""
        waiting = at is not None and self.first_token is not None and self.first_token > at
        return waiting and usage.read >= self.begun - self.slack

    def seconds(self) -> float | None:
        """Return how long the lane's entries live without being read; None if unknown."""
        model = self.model
        if self.tail is not None and self.tail != UNSPLIT:
            lifetime = model.ttl_seconds(self.tail)
            if lifetime is not None:
                return float(lifetime)
        if not self.exact and model.knobs.implicit_seconds is not None:
            return float(model.knobs.implicit_seconds)
        if not model.ttls:
            return None
        lives = [ttl.seconds for ttl in model.ttls]
        return float(max(lives) if self.proved else model.ttl_seconds(model.default_ttl or "") or min(lives))

    def expired(self, usage: Usage, gap: float | None) -> float | None:
        """Return the lifetime that had passed, if any: that of the covered end, or of a shorter-lived part in front."""
        seconds = self.seconds()
        if gap is None or seconds is None:
            return None
        if gap > seconds:
            return seconds
        short = self.short
        stands_on = short is not None and seconds > short and usage.read < self.short_end
        return float(short) if stands_on and short is not None and gap > short else None

    def took(
        self,
        usage: Usage,
        at: float | None,
        first_token: float | None,
        gap: float | None,
        *,
        lost: int,
        reset: bool,
        expired: bool,
    ) -> None:
        """A billed request has been looked at: the next one is compared with it."""
        began, read, first = self.first_token, usage.read, not self.requests
        if not lost and gap is not None and self.covered > self.others and not self.proved:
            self.proved = gap > self._assumed()
        if began is None or at is None or began <= at:
            self.begun = self.covered
        if (first or reset) and read:  # nothing read tells of no head
            self.head = read if self.head is None else min(self.head, read)
        if first or expired:
            self.others = read
        if lost and read < self.short_end:
            self.short_end = read
        self.covered = read
        if usage.writes:
            self._wrote(usage)
        self.at, self.first_token = at, first_token
        self.requests += 1

    def _wrote(self, usage: Usage) -> None:
        if not self.exact:
            self.exact, self.slack = True, 0
        self.covered = usage.read + usage.written
        shortest = None
        for ttl, _ in usage.writes:
            seconds = self.model.ttl_seconds(ttl) or 0
            if shortest is None or seconds < shortest:  # shorter-lived parts stand behind the others (A12)
                shortest, self.tail = seconds, ttl
            if ttl == SHORT:
                self.short_end = self.covered

    def _assumed(self) -> float:
        """Seconds beyond which a read proves a longer lifetime than would be assumed."""
        default = self.model.ttl_seconds(self.model.default_ttl or "") or 0
        return float(max(default, self.model.limits.in_memory_max_seconds or 0))


def _slack(model: ModelFacts) -> int:
    """By how much reads may differ without a reason."""
    if model.caching == "none" or not model.known:
        return _STEP
    return max(model.granularity, model.limits.block_tokens_cpu or 0, _NOISE)


def cause_of(lane: LaneUsage, usage: Usage, at: float | None, expired: float | None) -> BreakCause:
    """The cause of a fall; `lane` is as it was before the request."""
    if lane.raced(usage, at):
        return "parallel_race"
    if expired is not None:
        return expiry(expired)
    if not usage.read and not usage.writes and lane.tail is not None and lane.model.caching == "explicit":
        # A marker above the floor reads or writes (A6, A9), and this log tells of writes: there was none above it.
        return "below_minimum" if usage.prompt < lane.model.floor else "lookback_exceeded"
    if not usage.read:
        return "unknown"
    if lane.head is None or usage.read >= lane.head - lane.slack:
        return "messages_rewritten"
    return "system_prompt_changed"


def lost_by_provider(before: LaneUsage, usage: Usage, found_expected: int) -> bool:
    """Return whether a request proves that what the previous one could not read was still alive: it reads more than
    that one left cached, and all that had been expected."""
    return before.exact and usage.read > before.covered and usage.read >= found_expected


_add, _fma, _times = EXACT.add, EXACT.fma, EXACT.multiply


def reads(lane: LaneUsage, usage: Usage, gap: float | None, *, lost: int, expired: bool) -> tuple[int, int]:
    """What a request would have read under either lifetime; `lane` is as it was before it."""
    read = usage.read
    long_read = read if expired else min(read, lane.others)
    could = min(lane.covered, read + usage.written) if lost and expired else read
    if gap is None:
        return could, could
    return could if gap <= (lane.short or 0) else long_read, could if gap <= (lane.long or 0) else long_read


def other_ttl(bills: Iterable[TokenBill]) -> OtherTtl | None:
    """Return the cost with other lifetimes, for models that have both."""
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
    ttls = [part for part in parts if part is not None]
    if len(ttls) <= 1:
        return ttls[0] if ttls else None
    return OtherTtl(
        as_billed=_sum(part.as_billed for part in ttls),
        all_5m=_sum(part.all_5m for part in ttls),
        all_1h=_sum(part.all_1h for part in ttls),
        no_cache=_sum(part.no_cache for part in ttls),
        requests=sum(part.requests for part in ttls),
    )
