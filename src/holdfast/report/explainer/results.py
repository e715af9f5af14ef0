"""What `holdfast explain` finds, as frozen values; its JSON is these values, field by field (docs/explain.md).

Dollars are exact decimals, None where no price is known. Times are seconds since 1970 where the log has dates, else
seconds on its own clock. Tokens are as billed.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from msgspec import Struct

from ..logs.records import BrokenSource
from ..logs.traces import Kind
from ..results import RepairSavings
from ..tips import TipAdvice

Evidence = Literal["bytes", "usage", "log"]
"""How a cause is known: from the requests' bytes, from billed usage alone, or told by the log."""


def utf8(text: str) -> str:
    """A name as JSON can hold it: file names and clients may bring halves of characters."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


class TokenSums(Struct, frozen=True, kw_only=True):
    """Disjoint counts as billed; `write_other` has lifetimes beside the two (OpenAI's 30m) and sums without a split."""

    input: int = 0
    read: int = 0
    write_5m: int = 0
    write_1h: int = 0
    write_other: int = 0
    output: int = 0

    @property
    def written(self) -> int:
        return self.write_5m + self.write_1h + self.write_other

    @property
    def prompt(self) -> int:
        return self.input + self.read + self.written


class BreakFinding(Struct, frozen=True, kw_only=True):
    """A request that read less than its lane's previous request had covered.

    `request` counts the session's requests from 1 in file order. `cause` is None for a reset: a break with a reason.
    `gap_s` is start to start since the lane's previous request. `cost_usd` is what the lost tokens were billed beyond
    the price of reading them. `path`, `offset`, `before` and `after` locate the first different byte, if known (the two
    texts are a few redacted characters). `kind` is whether the request follows a user's message or tool results, if the
    log shows it. `cure` is the name of the recognised cure, `advice` what to do.
    """

    request: int
    at: float | None
    cause: str | None
    reset: str | None
    gap_s: float | None
    tokens_lost: int
    cost_usd: Decimal | None
    path: str | None
    cure: str | None
    advice: str | None = None
    setting: str | None = None
    offset: int | None = None
    before: str | None = None
    after: str | None = None
    model: str = ""
    agent: str = ""
    expected: int = 0
    read: int = 0
    evidence: Evidence = "usage"
    source: str = ""
    kind: Kind | None = None


class HeadFinding(Struct, frozen=True, kw_only=True):
    """The first request of a lane could not read the head (tools and system text) that the session `before` it had left
    in the cache, because its own differs: a note, not a break.

    `what` describes the difference, `cure` is the name of the recognised cure, `path` and `offset` are the place in the
    new request. `tokens` that could have been read were billed again, for `cost_usd` beyond the price of reading.
    """

    at: float
    tokens: int
    cost_usd: Decimal | None
    cure: str
    what: str
    path: str | None
    offset: int | None
    request: int
    before: str
    gap_s: float
    model: str
    agent: str
    source: str


class SessionFindings(Struct, frozen=True, kw_only=True):
    """A session. `model` is the one with the most requests. `estimated` if usage was computed from the bytes by the
    cache rules, because the log has none; `cut` counts requests with a partly estimated usage, because their answers
    were cut off; `unpriced` counts requests without a known price, which are not in `cost_usd`. `breaks` has the most
    expensive if there are very many; `breaks_left_out` counts the others. `head` is a note: why it could not share the
    head of the session before it. `subscription` if the log shows that one paid: its dollars are at list price."""

    session: str
    requests: int
    model: str
    usage: TokenSums
    cost_usd: Decimal | None
    hit_rate: float | None
    breaks: tuple[BreakFinding, ...] = ()
    breaks_left_out: int = 0
    models: tuple[str, ...] = ()
    client: str = ""
    source: str = ""
    started: float | None = None
    ended: float | None = None
    estimated: bool = False
    cut: int = 0
    unpriced: int = 0
    head: HeadFinding | None = None
    subscription: bool = False


class CauseSum(Struct, frozen=True, kw_only=True):
    """All breaks of one cause, or all resets of one reason."""

    cause: str | None
    reset: str | None
    breaks: int
    tokens_lost: int
    cost_usd: Decimal | None


class CureSum(Struct, frozen=True, kw_only=True):
    """What a cure would have saved: the cost of its breaks. `advice` is that of the most expensive, `also` has the
    subjects of the next ones. `requests` counts those without a break: without a marker they cached nothing at all."""

    cure: str
    advice: str
    setting: str | None
    breaks: int
    saves_usd: Decimal | None
    requests: int = 0
    also: tuple[str, ...] = ()


class HeadSum(Struct, frozen=True, kw_only=True):
    """New sessions that could not share the head of the one before, for one reason. Their dollars are in no other
    sum."""

    cure: str
    what: str
    sessions: int
    tokens: int
    cost_usd: Decimal | None
    also: tuple[str, ...] = ()


class Money(Struct, frozen=True, kw_only=True):
    """Where the money went. `growth` are writes of what was new, `rewritten` what breaks made be billed again (beyond
    the price of a read), `resets` the same with a reason; `input` and `output` the rest."""

    reads: Decimal = Decimal(0)
    growth: Decimal = Decimal(0)
    rewritten: Decimal = Decimal(0)
    resets: Decimal = Decimal(0)
    input: Decimal = Decimal(0)
    output: Decimal = Decimal(0)


class OtherTtl(Struct, frozen=True, kw_only=True):
    """What the same requests would have cost with another lifetime, computed from the gaps and the billed tokens; only
    requests whose provider sells lifetimes. `as_billed` is what those did cost."""

    as_billed: Decimal
    all_5m: Decimal
    all_1h: Decimal
    no_cache: Decimal
    requests: int


class Totals(Struct, frozen=True, kw_only=True):
    """All sessions together. `list_price_usd` is the part of `cost_usd` that subscriptions paid for, at list price."""

    sessions: int
    requests: int
    usage: TokenSums
    cost_usd: Decimal | None
    hit_rate: float | None
    breaks: int
    resets: int
    tokens_lost: int
    break_cost_usd: Decimal | None
    unpriced: int
    causes: tuple[CauseSum, ...]
    cures: tuple[CureSum, ...]
    money: Money
    ttl: OtherTtl | None
    estimated_sessions: int = 0
    list_price_usd: Decimal | None = None
    heads: tuple[HeadSum, ...] = ()
    heads_left_out: int = 0


class FileRead(Struct, frozen=True, kw_only=True):
    path: str
    format: str
    client: str
    size: int


class ExplainReport(Struct, frozen=True, kw_only=True):
    """The whole report. `broken_lines` names the first; `broken` counts them all. `partial` where reading was
    interrupted. `tips` are those for long-running agents that these logs show a reason for (docs/tips.md)."""

    sessions: tuple[SessionFindings, ...]
    totals: Totals
    read: tuple[FileRead, ...] = ()
    broken: int = 0
    broken_lines: tuple[BrokenSource, ...] = ()
    prices: str = ""
    partial: bool = False
    repairs: RepairSavings | None = None
    """What repairs would have saved of the requests that stand in the gateway's store or in logs with bodies."""
    tips: tuple[TipAdvice, ...] = ()
    tier: str = ""
    """The service tier of requests without one in their log; empty: the standard one."""
    tier_unlisted: tuple[str, ...] = ()
    """Models without a listed price of it, priced as standard."""
