"""The report from what was counted: sessions in the order of their logs, and the sums over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from msgspec import Struct

from ..logs.records import BrokenSource
from ..results import RepairSavings
from ..tips import TipAdvice
from . import advice
from .advice import others
from .lanes import other_ttl, together
from .prices import ZERO, DatedPrices, moneys, plus, total
from .results import (
    CauseSum,
    CureSum,
    ExplainReport,
    FileRead,
    HeadFinding,
    HeadSum,
    Money,
    OtherTtl,
    SessionFindings,
    TokenSums,
    Totals,
    utf8,
)
from .sessions import BreakTally, CureTally, SessionTally, Why

CURES = 3
"""Cures that are named: those worth most."""


class ReadLogs(Struct, frozen=True):
    """The files that were read, and the lines that could not be, the first ones by name."""

    files: tuple[FileRead, ...]
    broken: int
    broken_lines: tuple[BrokenSource, ...]


def explained(
    sessions: Sequence[SessionTally],
    logs: ReadLogs,
    prices: DatedPrices,
    *,
    heads_left_out: int,
    repairs: RepairSavings | None = None,
    tips: tuple[TipAdvice, ...] = (),
) -> ExplainReport:
    """The report on these sessions; `heads_left_out` counts the new sessions whose heads were not compared."""
    versions = "; ".join(sorted(prices.versions))
    ttls = [other_ttl(session.bills) for session in sessions]
    money = [session.money() for session in sessions]
    findings = [_session(*each) for each in zip(sessions, ttls, money, strict=True)]
    return ExplainReport(
        sessions=tuple(findings),
        totals=_totals(sessions, findings, ttls, moneys(money), heads_left_out),
        read=logs.files,
        broken=logs.broken,
        broken_lines=logs.broken_lines,
        prices=f"{versions}, {prices.tier}" if prices.tier and versions else versions,
        repairs=repairs,
        tips=tips,
        tier=prices.tier,
        tier_unlisted=tuple(utf8(name) for name in prices.unlisted),
    )


def _session(session: SessionTally, ttl: OtherTtl | None, money: Money) -> SessionFindings:
    usage = session.tokens()
    unpriced = sum(bill.requests for bill in session.bills if bill.rates is None)
    priced = any(bill.rates is not None for bill in session.bills)
    models = [utf8(name) for name in session.models()]
    return SessionFindings(
        session=utf8(session.name),
        requests=session.requests,
        model=models[0] if models else "",
        usage=usage,
        cost_usd=total(money) if priced else None,
        hit_rate=_hit_rate(usage),
        breaks=tuple(advice.with_figures(break_, ttl) for break_ in session.broken.listed()),
        breaks_left_out=session.broken.left_out,
        head=session.head,
        models=tuple(models),
        client=utf8(session.client),
        source=utf8(session.source),
        started=session.started,
        ended=session.ended,
        estimated=session.estimated,
        cut=session.cut,
        unpriced=unpriced,
        subscription=session.subscription,
    )


def _totals(
    sessions: Sequence[SessionTally],
    findings: Sequence[SessionFindings],
    ttls: list[OtherTtl | None],
    money: Money,
    heads_left_out: int,
) -> Totals:
    usage = _tokens(findings)
    causes = _causes(sessions)
    broke = [sum_ for (_, reset), sum_ in causes.items() if reset is None]
    cost: Decimal | None = None
    lost: Decimal | None = ZERO if not broke else None
    listed: Decimal | None = None
    for each in findings:
        cost = plus(cost, each.cost_usd)
        listed = plus(listed, each.cost_usd) if each.subscription else listed
    for sum_ in broke:
        lost = plus(lost, sum_.cost)
    ranked = sorted(causes.items(), key=lambda item: (-(item[1].cost or ZERO), -item[1].tokens, str(item[0])))
    return Totals(
        sessions=len(findings),
        requests=sum(each.requests for each in findings),
        usage=usage,
        cost_usd=cost,
        hit_rate=_hit_rate(usage),
        breaks=sum(sum_.breaks for sum_ in broke),
        resets=sum(sum_.breaks for (_, reset), sum_ in causes.items() if reset is not None),
        tokens_lost=sum(sum_.tokens for sum_ in broke),
        break_cost_usd=lost,
        unpriced=sum(each.unpriced for each in findings),
        causes=tuple(
            CauseSum(cause=why[0], reset=why[1], breaks=sum_.breaks, tokens_lost=sum_.tokens, cost_usd=sum_.cost)
            for why, sum_ in ranked
        ),
        cures=_cures(sessions, ttls),
        money=money,
        ttl=together(ttls),
        estimated_sessions=sum(each.estimated for each in findings),
        list_price_usd=listed,
        heads=_heads(findings),
        heads_left_out=heads_left_out,
    )


def _tokens(findings: Sequence[SessionFindings]) -> TokenSums:
    names = TokenSums.__struct_fields__
    return TokenSums(**{name: sum(getattr(each.usage, name) for each in findings) for name in names})


def _hit_rate(usage: TokenSums) -> float | None:
    return usage.read / usage.prompt if usage.prompt else None


def _causes(sessions: Sequence[SessionTally]) -> dict[Why, BreakTally]:
    causes: dict[Why, BreakTally] = {}
    for session in sessions:
        for why, sum_ in session.broken.causes.items():
            causes.setdefault(why, BreakTally()).add(sum_.breaks, sum_.tokens, sum_.cost)
    return causes


def _cures(sessions: Sequence[SessionTally], ttls: Sequence[OtherTtl | None]) -> tuple[CureSum, ...]:
    """The cures worth most. The hour is worth what it saves where it does, not what the pauses cost: it costs too."""
    cures: dict[str, CureTally] = {}
    cheaper = 0
    for session, ttl in zip(sessions, ttls, strict=True):
        for name, cured in session.broken.cures.items():
            cost = cured.cost
            if name in advice.NO_CURE:
                continue
            if name == advice.SHORT_EXPIRY:
                saved = ZERO if ttl is None else ttl.as_billed - ttl.all_1h
                if saved <= 0:
                    continue
                cost, cheaper = min(saved, cost or ZERO), cheaper + 1
            all_ = cures.setdefault(name, CureTally())
            all_.add(cured.breaks, cured.tokens, cost)
            all_.read_like(cured)
    _add_unmarked(sessions, cures)
    if advice.SHORT_EXPIRY in cures:
        pauses = cures[advice.SHORT_EXPIRY]
        pauses.advice, pauses.setting = advice.hour_for(cheaper, pauses.cost or ZERO), advice.MANAGE
        pauses.told.clear()
    ranked = sorted(cures.items(), key=lambda item: (-(item[1].cost or ZERO), -item[1].tokens, item[0]))
    return tuple(cured.result(name) for name, cured in ranked[:CURES])


def with_head(findings: Sequence[SessionFindings], cure: str) -> list[tuple[SessionFindings, HeadFinding]]:
    """New sessions that could not read the head of the one before, of one kind, the dearest first."""
    with_heads = [(each, each.head) for each in findings if each.head is not None and each.head.cure == cure]
    return sorted(with_heads, key=lambda pair: (-(pair[1].cost_usd or ZERO), -pair[1].tokens))


def _heads(findings: Sequence[SessionFindings]) -> tuple[HeadSum, ...]:
    """Sum up the heads by cure, the most expensive first."""
    sums = []
    for cure in {each.head.cure for each in findings if each.head is not None}:
        heads = [head for _, head in with_head(findings, cure)]
        cost: Decimal | None = None
        for each in heads:
            cost = plus(cost, each.cost_usd)
        tokens, description = sum(each.tokens for each in heads), heads[0].what
        also = others(description, (each.what for each in heads[1:]))
        sums.append(HeadSum(cure=cure, what=description, also=also, sessions=len(heads), tokens=tokens, cost_usd=cost))
    return tuple(sorted(sums, key=lambda each: (-(each.cost_usd or ZERO), -each.tokens, each.cure)))


def _add_unmarked(sessions: Sequence[SessionTally], cures: dict[str, CureTally]) -> None:
    """Lanes that cached nothing for want of a marker, where one would have paid."""
    unmarked_lanes = [session.unmarked for session in sessions if session.unmarked is not None]
    if not unmarked_lanes:
        return
    cured = cures.setdefault(advice.NO_MARKER, CureTally())
    for unmarked in unmarked_lanes:
        cured.add(0, 0, unmarked.saves)
        cured.requests += unmarked.requests
    sentence = advice.markers_for(cured.requests, cured.cost or ZERO)
    cured.advice, cured.setting = sentence, advice.IMPROVE
    cured.told.clear()
