"""How the explainer's findings read in tables: causes, places, pauses, moments."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal

from holdfast.cli import tables
from holdfast.cli.tables import AT_LIST_PRICE, count, day, dollars, share
from holdfast.report import TipAdvice
from holdfast.report.explainer import (
    DATED,
    LOOKS,
    BreakFinding,
    CureSum,
    ExplainReport,
    HeadSum,
    Money,
    OtherTtl,
    SessionFindings,
    others,
    with_head,
)
from holdfast.wording import counted

MONEY = (
    ("reads", "read from the cache"),
    ("growth", "written: what was new"),
    ("rewritten", "paid again after breaks"),
    ("resets", "paid again after resets"),
    ("input", "plain input"),
    ("output", "output"),
)
"""The parts of the money and what they are called."""

_NAMED = 3  # sessions that are named of one kind of head


def what(break_: BreakFinding) -> str:
    return f"reset: {break_.reset}" if break_.reset is not None else break_.cause or "unknown"


def where(break_: BreakFinding) -> str:
    if break_.path is None:
        return "-"
    return break_.path if break_.offset is None else f"{break_.path} @{break_.offset:,}"


def cure(break_: BreakFinding) -> str:
    """Return the recognised cure, or "-" if it only repeats the cause."""
    return "-" if break_.cure in (None, break_.cause, break_.reset) else str(break_.cure)


def pause(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def when(at: float | None) -> str:
    """A moment in local time, or on the log's own clock."""
    if at is None:
        return "-"
    try:
        return day(datetime.fromtimestamp(at, UTC)) if at >= DATED else f"at {at:,.0f} s"
    except (OverflowError, ValueError, OSError):
        return "-"


def broke(session: SessionFindings) -> tuple[int, int, Decimal | None]:
    """Breaks without resets, resets, and what the breaks cost; of a session with more than are kept, those kept."""
    lost = [break_ for break_ in session.breaks if break_.reset is None]
    costs = [break_.cost_usd for break_ in lost if break_.cost_usd is not None]
    cost = sum(costs, Decimal(0)) if costs or not lost else None
    return len(lost), len(session.breaks) - len(lost), cost


def figures(each: SessionFindings) -> tuple[str, ...]:
    """What stands behind a session: requests, hit rate, cost, breaks and what they lost."""
    breaks, _, lost = broke(each)
    cost = tables.cost(each.cost_usd, each.unpriced, at_list=each.subscription)
    guessed = "~" if each.estimated or each.cut else ""
    return count(each.requests), share(each.hit_rate), guessed + cost, count(breaks), dollars(lost) if breaks else "-"


def dearest(report: ExplainReport) -> list[tuple[SessionFindings, BreakFinding]]:
    """All breaks and resets, those that cost most first."""
    every = [(session, break_) for session in report.sessions for break_ in session.breaks]
    return sorted(every, key=lambda pair: (-(pair[1].cost_usd or Decimal(0)), -pair[1].tokens_lost))


def by_loss(report: ExplainReport) -> list[SessionFindings]:
    """The sessions, those that lost most first, then the dearest."""
    zero = Decimal(0)
    return sorted(report.sessions, key=lambda each: (-(broke(each)[2] or zero), -(each.cost_usd or zero)))


def other_advice(report: ExplainReport) -> list[CureSum]:
    """Return the advice for breaks without one of the named cures, each once, the most expensive first."""
    cures = {each.cure for each in report.totals.cures}
    by_cure: dict[str, CureSum] = {}
    for _, each in dearest(report):
        if each.reset is None and each.cure is not None and each.advice and each.cure not in cures:
            before = by_cure.get(each.cure)
            breaks = 1 if before is None else before.breaks + 1
            cost = (each.cost_usd or Decimal(0)) + (Decimal(0) if before is None else before.saves_usd or Decimal(0))
            advice = each.advice if before is None else before.advice
            by_cure[each.cure] = CureSum(
                cure=each.cure,
                advice=advice,
                setting=None,
                breaks=breaks,
                saves_usd=cost if report.totals.cost_usd else None,
                also=() if before is None else others(advice, (*before.also, each.advice)),
            )
    return list(by_cure.values())


def about(each: CureSum) -> str:
    """`2 breaks, $1.37`."""
    breaks = counted(each.breaks, "break") if each.breaks or not each.requests else ""
    more = counted(each.requests, "request") if each.requests else ""
    return ", ".join(part for part in (breaks, more, dollars(each.saves_usd)) if part)


TIPS = "Tips for long-running agents"


def tip_told(each: TipAdvice) -> str:
    """Return a tip's observation and advice, which follow its name."""
    setting = f" Set {' and '.join(f'`{line}`' for line in each.settings)}." if each.settings else ""
    return f"{each.seen}. {each.sentence}{setting}"


UNSHARED = "New sessions that could not read the tools and system text of the one before (no breaks)"


def about_head(each: HeadSum) -> str:
    """`2 sessions, 8,120 tokens, $0.05`."""
    return f"{counted(each.sessions, 'session')}, {counted(each.tokens, 'token')}, {dollars(each.cost_usd)}"


def in_heads(report: ExplainReport, each: HeadSum, name: Callable[[str], str]) -> str:
    """`In b, after a, at byte 15,310; c, after b, at byte 15,310; and 4 more.`"""
    heads = with_head(report.sessions, each.cure)
    places = []
    for session, head in heads[:_NAMED]:
        place = "" if head.offset is None else f", at byte {head.offset:,}"
        places.append(f"{name(session.session)}, after {name(head.before)}{place}")
    more = f"; and {len(heads) - _NAMED:,} more" if len(heads) > _NAMED else ""
    return f"In {'; '.join(places)}{more}." if places else ""


def summary(report: ExplainReport) -> str:
    """The whole in one sentence or two."""
    totals = report.totals
    cost = dollars(totals.cost_usd)
    if totals.cost_usd is not None:
        cost = tables.cost(totals.cost_usd, totals.unpriced, at_list=totals.list_price_usd is not None)
    text = f"{counted(totals.sessions, 'session')}, {counted(totals.requests, 'request')}: {cost}"
    text += f", hit rate {share(totals.hit_rate)}." if totals.hit_rate is not None else "."
    if not totals.breaks and not totals.resets:
        return f"{text} {'Nothing broke the cache' if totals.usage.read else 'Nothing was read from a cache'}."
    lost, part = totals.break_cost_usd, ""
    if lost and totals.cost_usd:
        part = f", {share(float(lost / totals.cost_usd))} of the cost"
    text += f" {counted(totals.breaks, 'break')} lost {dollars(lost)}{part}" if totals.breaks else " No breaks"
    if totals.resets:
        text += f"; {counted(totals.resets, 'reset')}, which had a reason, {dollars(totals.money.resets)}"
    return text + "."


def notes(report: ExplainReport) -> list[str]:
    """Return notes on the figures."""
    totals, lines = report.totals, []
    if report.tier:
        lines.append(f"Requests whose log does not say their service tier are at the prices of {report.tier}.")
    if totals.estimated_sessions:
        which = "1 session has" if totals.estimated_sessions == 1 else f"{totals.estimated_sessions:,} sessions have"
        lines.append(f"~ {which} no usage in the log: worked out from the bodies by the cache rules, without output.")
    if cut := sum(session.cut for session in report.sessions):
        which = "1 request was" if cut == 1 else f"{cut:,} requests were"
        lines.append(f"~ {which} cut: what the provider had not told of the usage is estimated.")
    if totals.unpriced:
        which = "1 request has" if totals.unpriced == 1 else f"{totals.unpriced:,} requests have"
        lines.append(f"+ {which} no known price: the dollars leave that out.")
    if totals.list_price_usd is not None:
        part = f"{dollars(totals.list_price_usd)} of it is {AT_LIST_PRICE}"
        lines.append(f"* {part}: subscriptions paid for those sessions.")
    if nameless := sum("" in session.models for session in report.sessions):
        which = "1 session names" if nameless == 1 else f"{nameless:,} sessions name"
        lines.append(
            f"{which} no model: tokens only, by careful rules, and no dollars; --model NAME says which it was."
        )
    left_out = sum(session.breaks_left_out for session in report.sessions)
    if left_out:
        lines.append(f"{counted(left_out, 'break')} more are in the totals only: of a session the dearest are listed.")
    if totals.heads and totals.heads_left_out:
        which = counted(totals.heads_left_out, "new session")
        lines.append(f"Not compared with the one before: {which} more; of one agent the first {LOOKS} are.")
    return lines


def cents(value: Decimal) -> str:
    """Dollars to the hundredth of a cent."""
    return f"${value.quantize(Decimal('0.0001'), ROUND_HALF_UP):,}"


def parts(money: Money) -> list[tuple[str, Decimal]]:
    """Return the named parts of a sum of money, without those that are zero."""
    sums = [(words, getattr(money, name)) for name, words in MONEY]
    return [(words, value) for words, value in sums if value]


def lifetimes(ttl: OtherTtl) -> list[tuple[str, Decimal, Decimal]]:
    """Name, cost, and how much more that is than was billed."""
    rows = (("as billed", ttl.as_billed), ("all 5m", ttl.all_5m), ("all 1h", ttl.all_1h), ("no cache", ttl.no_cache))
    return [(name, cost, cost - ttl.as_billed) for name, cost in rows]
