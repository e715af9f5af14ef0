"""The sessions of an explained report: one row each, and for those with breaks when, where and why."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from ..explainer.results import BreakFinding, SessionFindings
from . import charts, page, scales, texts, words
from .charts import Rise
from .markup import Child, Markup, tag
from .tables import Cell, Column, table

MOST_ROWS = 500
MOST_SESSIONS = 40
MOST_BREAKS = 50
"""Breaks of one session that are told in full: the dearest."""

MOST_TOLD = 1_000
"""Breaks of all sessions that are told in full."""

OPEN = 3
NAME = 70
EXCERPT = 240

_COLUMNS = (
    Column("Session"),
    Column("Client"),
    Column("Model"),
    Column("Started"),
    Column("Requests", number=True),
    Column("Prompt tokens", number=True),
    Column("Hit rate", number=True, note="Tokens read from the cache, of all prompt tokens"),
    Column("Breaks", number=True, note="Without resets, which have a reason"),
    Column("Lost", number=True, note="What breaks without a reason cost"),
    Column("Cost", number=True),
)


def lost(session: SessionFindings) -> Decimal | None:
    """What the known breaks without a reason cost; None where no price is known."""
    known = [each.cost_usd for each in session.breaks if each.reset is None and each.cost_usd is not None]
    return sum(known, Decimal(0)) if known else None


def ranked(sessions: Sequence[SessionFindings]) -> list[tuple[int, SessionFindings]]:
    """The sessions with their places in the report, those first that lost most, then those that cost most."""

    def weight(each: tuple[int, SessionFindings]) -> tuple[Decimal, int, Decimal, int]:
        found = each[1]
        tokens = sum(one.tokens_lost for one in found.breaks if one.reset is None)
        return -(lost(found) or Decimal(0)), -tokens, -(found.cost_usd or Decimal(0)), each[0]

    return sorted(enumerate(sessions), key=weight)


def told(sessions: Sequence[SessionFindings]) -> list[tuple[int, SessionFindings]]:
    """The sessions whose breaks are told, as far as there is room for them."""
    found: list[tuple[int, SessionFindings]] = []
    number = 0
    for place, each in ranked(sessions):
        number += min(len(each.breaks), MOST_BREAKS)
        if not each.breaks:
            continue
        if number > MOST_TOLD or len(found) == MOST_SESSIONS:
            break
        found.append((place, each))
    return found


def listed(sessions: Sequence[SessionFindings], total: int) -> Markup | None:
    """Every session as a row."""
    if not sessions:
        return None
    shown = ranked(sessions)[:MOST_ROWS]
    linked = {place for place, _ in told(sessions)}
    rows = [_row(each, f"#s{place}" if place in linked else None) for place, each in shown]
    left = max(total, len(sessions)) - len(shown)
    said = f"Not in this table, but in all sums: {texts.counted(left, 'more session')}, which lost and cost less."
    grid = table("Sessions", _COLUMNS, rows, filtered=len(rows) > 15)
    return page.section("Sessions", grid, tag("p", said, class_="small") if left else None, wide=True)


def _row(each: SessionFindings, link: str | None) -> list[Cell]:
    name = tag("bdi", texts.clip(each.session, NAME) or "(no name)")
    number = sum(one.reset is None for one in each.breaks)
    plus = "+" if each.breaks_left_out else ""
    amount = lost(each)
    cost = texts.dollars(each.cost_usd) + ("+" if each.unpriced and each.cost_usd is not None else "")
    cost += " at list price" if each.subscription and each.cost_usd is not None else ""
    estimated = " (estimated)" if each.estimated else None
    others = f" +{len(each.models) - 1}" if len(each.models) > 1 else ""
    return [
        Cell([tag("a", name, href=link) if link else name, estimated], each.session[:NAME]),
        Cell(texts.clip(each.client, 40) or texts.NONE),
        Cell((texts.clip(each.model, 40) or texts.NONE) + others),
        Cell(tag("span", texts.day(each.started), class_="once"), f"{each.started or 0:020.6f}"),
        Cell(texts.count(each.requests), each.requests),
        Cell(texts.count(each.usage.prompt), each.usage.prompt),
        Cell(texts.share(each.hit_rate), each.hit_rate),
        Cell(f"{texts.count(number)}{plus}", number),
        Cell(texts.dollars(amount) + plus if amount is not None else texts.UNKNOWN if number else texts.NONE, amount),
        Cell(cost, each.cost_usd),
    ]  # fmt: skip


def broken(sessions: Sequence[SessionFindings]) -> Markup | None:
    """The sessions with breaks, each with its breaks in their order."""
    shown = told(sessions)
    if not shown:
        return None
    left = sum(bool(each.breaks) for each in sessions) - len(shown)
    items = [_session(place, each, opened=number < OPEN) for number, (place, each) in enumerate(shown)]
    more = texts.counted(left, "more session")
    said = f"Not told here: {more} with breaks, which lost less; --format json has them."
    aside = "The sessions that lost most come first. Requests are counted from 1 in the order of the log."
    rest = tag("p", said, class_="small") if left else None
    return page.section("Break by break", items, rest, aside=aside, wide=True)


def _session(place: int, each: SessionFindings, *, opened: bool) -> Markup:
    number = sum(one.reset is None for one in each.breaks)
    resets = len(each.breaks) - number
    said = [texts.counted(number, "break")] + ([texts.counted(resets, "reset")] if resets else [])
    amount = lost(each)
    if number:
        said.append(f"lost {texts.dollars(amount)}" if amount is not None else "at prices that are not known")
    said.append(f"{texts.counted(each.requests, 'request')}, {texts.dollars(each.cost_usd)}")
    dearest = sorted(each.breaks, key=lambda one: (-(one.cost_usd or Decimal(0)), -one.tokens_lost, one.request))
    chosen = sorted(dearest[:MOST_BREAKS], key=lambda one: one.request)
    left = len(each.breaks) - len(chosen) + each.breaks_left_out
    more = f"Not told here: {left:,} more of this session, which cost less." if left else ""
    where: dict[tuple[str | None, str], int] = {}
    items = [_break(one, each, where) for one in chosen]
    name = tag("bdi", texts.clip(each.session, NAME) or "(no name)")
    return tag(
        "details",
        tag("summary", tag("strong", name), tag("span", page.dotted(said), class_="soft")),
        tag("div", _chart(each), tag("ol", items, class_="breaks"), tag("p", more) if more else None, class_="inside"),
        id_=f"s{place}",
        open=opened,
    )


def _chart(each: SessionFindings) -> Markup | None:
    """What was lost so far, request by request."""
    if len(each.breaks) < 2:
        return None
    priced = any(one.cost_usd is not None for one in each.breaks)
    points = [
        Rise(
            one.request,
            max(0.0, float(one.cost_usd or 0) if priced else float(one.tokens_lost)),
            "lost" if one.reset is None else "reset",
            f"Request {one.request:,}: {_what(one)}, {texts.dollars(one.cost_usd)}, {one.tokens_lost:,} tokens",
        )
        for one in each.breaks
    ]
    what = "Dollars" if priced else "Tokens"
    title = f"{what} lost so far, by request"
    form = scales.money if priced else texts.short
    largest = max(points, key=lambda point: point.by)
    chart = charts.steps(title, points, each.requests, form, desc=f"The largest: {largest.note}.")
    return tag("figure", tag("figcaption", f"{title}, breaks and resets"), chart)


def _what(one: BreakFinding) -> str:
    return texts.clip(f"reset: {one.reset}" if one.reset is not None else one.cause or "unknown", 60)


def _break(one: BreakFinding, session: SessionFindings, where: dict[tuple[str | None, str], int]) -> Markup:
    first = tag(
        "p",
        tag("span", _what(one), class_="badge" if one.reset is None else "badge was-reset"),
        tag("span", f"{texts.count(one.tokens_lost)} tokens", class_="soft"),
        tag("span", texts.dollars(one.cost_usd), class_="cost"),
        class_="first",
    )
    body: list[Child] = [first, tag("p", page.dotted(_circumstances(one, session)), class_="small soft")]
    if one.path is not None:
        at = f" @ byte {one.offset:,}" if one.offset is not None else ""
        body.append(tag("p", tag("code", texts.clip(one.path, 200)), at, class_="small"))
    if one.before is not None or one.after is not None:
        body.append(tag("div", _side("before", one.before), _side("after", one.after), class_="sides"))
    body.append(_advice(one, where))
    number = tag("div", f"{one.request:,}", class_="request", title=f"Request {one.request:,}")
    return tag("li", number, tag("div", body))


def _circumstances(one: BreakFinding, session: SessionFindings) -> list[str]:
    said = [texts.moment(one.at)] if one.at is not None else []
    if one.gap_s is not None:
        said.append(f"{texts.span(one.gap_s)} after the request before")
    if one.expected:
        said.append(f"read {one.read:,} of {one.expected:,} tokens")
    if one.agent:
        said.append(f"agent {texts.clip(one.agent, 40)}")
    if one.model and one.model != session.model:
        said.append(texts.clip(one.model, 40))
    said.append(words.EVIDENCE[one.evidence])
    if one.source:
        said.append(texts.clip(one.source, 80))
    return said


def _side(name: str, text: str | None) -> Markup:
    shown: Child = tag("code", tag("bdi", texts.clip(text, EXCERPT))) if text else tag("span", "nothing", class_="soft")
    return tag("div", tag("span", name, class_="soft"), shown)


def _advice(one: BreakFinding, where: dict[tuple[str | None, str], int]) -> Markup | None:
    """What to do, in full where it is first said in a session."""
    if not one.advice:
        return None
    said = where.setdefault((one.setting, one.advice), one.request)
    if said != one.request:
        return tag("p", f"Cure: as at request {said:,}.", class_="small soft")
    ways = [" Or set ", page.setting(texts.clip(one.setting, 300)), "."] if one.setting else None
    return tag("p", tag("strong", "Cure: "), page.prose(texts.clip(one.advice, 600)), ways)
