"""The explainer's report for a terminal: sessions, breaks, what to do, where the money went."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from decimal import Decimal

from holdfast.cli import tables
from holdfast.cli.repair_words import sentence
from holdfast.cli.tables import Column, count, dollars, share
from holdfast.report.explainer import (
    CATALOGUE,
    BreakFinding,
    CureSum,
    ExplainReport,
    SessionFindings,
    by_setting,
    with_others,
)
from holdfast.report.logs import in_words
from holdfast.wording import counted

from . import words

SESSIONS = (
    Column("SESSION", 0, least=10),
    Column("CLIENT", 7, least=8, always=False),
    Column("MODEL", 5, least=12),
    Column("REQUESTS", 4, right=True),
    Column("HIT RATE", 3, right=True),
    Column("COST", 2, right=True),
    Column("BREAKS", 1, right=True),
    Column("LOST", 1, right=True),
    Column("RESETS", 6, right=True, always=False),
)
BREAKS = (
    Column("LOST", 0, right=True),
    Column("CAUSE", 1, least=15),
    Column("WHERE", 5, least=14, always=False),
    Column("CURE", 8, least=10, always=False),
    Column("TOKENS", 4, right=True),
    Column("GAP", 3, right=True),
    Column("SESSION", 2, least=8),
    Column("REQUEST", 1, right=True),
    Column("WHEN", 6),
    Column("AGENT", 10, least=8, always=False),
    Column("MODEL", 9, least=15),
    Column("LINE", 11, least=12),
)
_BAR = 24


def text(report: ExplainReport, room: int | None, limit: int, *, home: bool = False) -> Iterator[str]:
    """The report in lines; `home` if nobody named the logs."""
    if report.read:
        origin = ", found under your home directory" if home else ""
        yield from tables.wrapped(f"Read {in_words(report.read)}{origin}.", room)
        yield ""
    yield from _sessions(report, room, limit)
    yield from _breaks(report, room, limit)
    yield from _cures(report, room)
    yield from _tips(report, room)
    yield from _heads(report, room, limit)
    yield from _money(report, room)
    yield from _lifetimes(report)
    yield from tables.wrapped(words.summary(report), room)
    if report.repairs is not None:
        yield from tables.wrapped(sentence(report.repairs), room)
    for note in words.notes(report):
        yield from tables.wrapped(note, room)


def _sessions(report: ExplainReport, room: int | None, limit: int) -> Iterator[str]:
    chosen = words.by_loss(report)[:limit]
    names = tables.short_ids(each.session for each in report.sessions)
    yield from tables.table(SESSIONS, [_session(each, names) for each in chosen], room)
    if len(report.sessions) > len(chosen):
        yield f"and {counted(len(report.sessions) - len(chosen), 'session')} more; --limit shows more"
    yield ""


def _session(each: SessionFindings, names: dict[str, str]) -> tuple[str, ...]:
    resets = words.broke(each)[1]
    more = f"+{len(each.models) - 1}" if len(each.models) > 1 else ""
    return (
        names[each.session],
        each.client or "-",
        (each.model or "-") + more,
        *words.figures(each),
        count(resets) if resets else "-",
    )


def _breaks(report: ExplainReport, room: int | None, limit: int) -> Iterator[str]:
    every = words.dearest(report)
    if not every:
        return
    names = tables.short_ids(each.session for each in report.sessions)
    yield from tables.table(BREAKS, [_break(session, break_, names) for session, break_ in every[:limit]], room)
    if len(every) > limit:
        yield f"and {len(every) - limit:,} more, which cost less; --limit shows more"
    yield ""


def _break(session: SessionFindings, break_: BreakFinding, names: dict[str, str]) -> tuple[str, ...]:
    return (
        dollars(break_.cost_usd),
        words.what(break_),
        words.where(break_),
        words.cure(break_),
        count(break_.tokens_lost),
        words.pause(break_.gap_s),
        names[session.session],
        count(break_.request),
        words.when(break_.at),
        break_.agent or "-",
        break_.model,
        break_.source,
    )


def _cures(report: ExplainReport, room: int | None) -> Iterator[str]:
    cures, others = report.totals.cures, words.other_advice(report)
    if cures:
        yield "What to do, by what it would have saved:"
        for each in cures:
            yield from _advice(each, room)
        yield from tables.wrapped(f"  {CATALOGUE}", room, indent="    ")
        yield ""
    if others:
        yield "About the others:" if cures else "About them:"
        for each in others:
            yield from _advice(each, room)
        if not cures:
            yield from tables.wrapped(f"  {CATALOGUE}", room, indent="    ")
        yield ""


def _advice(each: CureSum, room: int | None) -> Iterator[str]:
    setting = f" {by_setting(each.setting)}" if each.setting else ""
    advice = f"  {each.cure} ({words.about(each)}): {with_others(each.advice, each.also)}{setting}"
    yield from tables.wrapped(advice, room, indent="    ")


def _tips(report: ExplainReport, room: int | None) -> Iterator[str]:
    if not report.tips:
        return
    yield f"{words.TIPS}:"
    for each in report.tips:
        yield from tables.wrapped(f"  {each.tip}: {words.tip_told(each)}", room, indent="    ")
    yield ""


def _heads(report: ExplainReport, room: int | None, limit: int) -> Iterator[str]:
    if not report.totals.heads:
        return
    yield from tables.wrapped(f"{words.UNSHARED}:", room)
    names = tables.short_ids(each.session for each in report.sessions)
    for each in report.totals.heads[:limit]:
        advice = f"  {each.cure} ({words.about_head(each)}): {with_others(f'{each.what}.', each.also)}"
        where = words.in_heads(report, each, lambda name: names.get(name, name))
        yield from tables.wrapped(f"{advice} {where}", room, indent="    ")
    yield ""


def _money(report: ExplainReport, room: int | None) -> Iterator[str]:
    sums, total = words.parts(report.totals.money), report.totals.cost_usd
    if not sums or not total:
        return
    yield f"Where the money went: {dollars(total)}"
    width = max(len(part) for part, _ in sums)
    figures = max(len(dollars(value)) for _, value in sums)
    for part, value in sums:
        line = f"  {part:{width}}  {dollars(value):>{figures}}  {share(float(value / total)):>6}"
        space = _BAR if room is None else min(_BAR, room - len(line) - 2)
        yield f"{line}  {_bar(value / total, space)}".rstrip()
    yield ""


def _bar(part: Decimal, space: int) -> str:
    encoding = (getattr(sys.stdout, "encoding", None) or "").lower()
    return ("█" if encoding.startswith("utf") else "#") * round(part * max(0, space))


def _lifetimes(report: ExplainReport) -> Iterator[str]:
    ttl = report.totals.ttl
    if ttl is None or ttl.all_5m == ttl.all_1h:  # nothing was written
        return
    whole = "" if ttl.requests == report.totals.requests else f" ({counted(ttl.requests, 'request')})"
    yield f"What another lifetime would have cost{whole}:"
    rows = words.lifetimes(ttl)
    figures = max(len(dollars(cost)) for _, cost, _ in rows)
    for name, cost, more in rows:
        difference = f"{dollars(abs(more))} {'more' if more > 0 else 'less'}" if more else ""
        yield f"  {name:9}  {dollars(cost):>{figures}}  {difference}".rstrip()
    yield ""
