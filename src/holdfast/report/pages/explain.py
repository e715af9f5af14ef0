"""`holdfast explain` as one HTML file: the cost, the avoidable part, its causes and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from holdfast.records import CAUSES
from holdfast.wording import counted

from ..explainer.advice import with_others
from ..explainer.results import BreakFinding, CauseSum, CureSum, ExplainReport, Money, OtherTtl, SessionFindings, Totals
from ..explainer.totals import with_head
from ..repair_estimates import sentence
from . import charts, page, texts
from .charts import Bar, Rise, Tone
from .markup import Cell, Child, Markup, TableColumn, joined, table, tag

MEANINGS = {name: cause.meaning for name, cause in CAUSES.items()}

EVIDENCE = {
    "bytes": "seen in the bytes of the requests",
    "usage": "concluded from the billed tokens",
    "log": "told by the log",
}


MOST_ROWS = 500
MOST_SESSIONS = 40
MOST_BREAKS = 50
"""Breaks of one session that are shown in full: the most expensive."""

MOST_TOLD = 1_000
"""Breaks of all sessions that are shown in full."""

OPEN = 3
NAME = 70
EXCERPT = 240

_COLUMNS = (
    TableColumn("Session"),
    TableColumn("Client"),
    TableColumn("Model"),
    TableColumn("Started"),
    TableColumn("Requests", number=True),
    TableColumn("Prompt tokens", number=True),
    TableColumn("Hit rate", number=True, note="Tokens read from the cache, of all prompt tokens"),
    TableColumn("Breaks", number=True, note="Without resets, which have a reason"),
    TableColumn("Lost", number=True, note="What breaks without a reason cost"),
    TableColumn("Cost", number=True),
)


def lost(session: SessionFindings) -> Decimal | None:
    """What the known breaks without a reason cost; None where no price is known."""
    amounts = [each.cost_usd for each in session.breaks if each.reset is None and each.cost_usd is not None]
    return sum(amounts, Decimal(0)) if amounts else None


def ranked(sessions: Sequence[SessionFindings]) -> list[tuple[int, SessionFindings]]:
    """The sessions with their places in the report, those first that lost most, then those that cost most."""

    def weight(each: tuple[int, SessionFindings]) -> tuple[Decimal, int, Decimal, int]:
        session = each[1]
        tokens = sum(one.tokens_lost for one in session.breaks if one.reset is None)
        return -(lost(session) or Decimal(0)), -tokens, -(session.cost_usd or Decimal(0)), each[0]

    return sorted(enumerate(sessions), key=weight)


def told(sessions: Sequence[SessionFindings]) -> list[tuple[int, SessionFindings]]:
    """Return the sessions whose breaks are shown, with their ranks, up to the page's limits."""
    numbered: list[tuple[int, SessionFindings]] = []
    number = 0
    for place, each in ranked(sessions):
        number += min(len(each.breaks), MOST_BREAKS)
        if not each.breaks:
            continue
        if number > MOST_TOLD or len(numbered) == MOST_SESSIONS:
            break
        numbered.append((place, each))
    return numbered


def _listed(sessions: Sequence[SessionFindings], total: int) -> Markup | None:
    """Every session as a row."""
    if not sessions:
        return None
    shown = ranked(sessions)[:MOST_ROWS]
    linked = {place for place, _ in told(sessions)}
    rows = [_row(each, f"#s{place}" if place in linked else None) for place, each in shown]
    left = max(total, len(sessions)) - len(shown)
    note = f"Not in this table, but in all sums: {counted(left, 'more session')}, which lost and cost less."
    grid = table("Sessions", _COLUMNS, rows, filtered=len(rows) > 15)
    return page.section("Sessions", grid, tag("p", note, class_="small") if left else None, wide=True)


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


def _broken(sessions: Sequence[SessionFindings]) -> Markup | None:
    """The sessions with breaks, each with its breaks in their order."""
    shown = told(sessions)
    if not shown:
        return None
    left = sum(bool(each.breaks) for each in sessions) - len(shown)
    items = [_session(place, each, opened=number < OPEN) for number, (place, each) in enumerate(shown)]
    more = counted(left, "more session")
    note = f"Not told here: {more} with breaks, which lost less; --format json has them."
    aside = "The sessions that lost most come first. Requests are counted from 1 in the order of the log."
    rest = tag("p", note, class_="small") if left else None
    return page.section("Break by break", items, rest, aside=aside, wide=True)


def _session(place: int, each: SessionFindings, *, opened: bool) -> Markup:
    number = sum(one.reset is None for one in each.breaks)
    resets = len(each.breaks) - number
    facts = [counted(number, "break")] + ([counted(resets, "reset")] if resets else [])
    amount = lost(each)
    if number:
        facts.append(f"lost {texts.dollars(amount)}" if amount is not None else "at prices that are not known")
    facts.append(f"{counted(each.requests, 'request')}, {texts.dollars(each.cost_usd)}")
    dearest = sorted(each.breaks, key=lambda one: (-(one.cost_usd or Decimal(0)), -one.tokens_lost, one.request))
    chosen = sorted(dearest[:MOST_BREAKS], key=lambda one: one.request)
    left = len(each.breaks) - len(chosen) + each.breaks_left_out
    more = f"Not told here: {left:,} more of this session, which cost less." if left else ""
    where: dict[tuple[str | None, str], int] = {}
    items = [_break(one, each, where) for one in chosen]
    name = tag("bdi", texts.clip(each.session, NAME) or "(no name)")
    return tag(
        "details",
        tag("summary", tag("strong", name), tag("span", page.dotted(facts), class_="soft")),
        tag("div", _chart(each), tag("ol", items, class_="breaks"), tag("p", more) if more else None, class_="inside"),
        id_=f"s{place}",
        open=opened,
    )


def _chart(each: SessionFindings) -> Markup | None:
    """Return the chart of the losses so far, request by request."""
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
    unit = "Dollars" if priced else "Tokens"
    title = f"{unit} lost so far, by request"
    form = charts.money if priced else texts.short
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
    facts = [texts.moment(one.at)] if one.at is not None else []
    if one.gap_s is not None:
        facts.append(f"{texts.span(one.gap_s)} after the request before")
    if one.expected:
        facts.append(f"read {one.read:,} of {one.expected:,} tokens")
    if one.agent:
        facts.append(f"agent {texts.clip(one.agent, 40)}")
    if one.model and one.model != session.model:
        facts.append(texts.clip(one.model, 40))
    facts.append(EVIDENCE[one.evidence])
    if one.source:
        facts.append(texts.clip(one.source, 80))
    return facts


def _side(name: str, text: str | None) -> Markup:
    shown: Child = tag("code", tag("bdi", texts.clip(text, EXCERPT))) if text else tag("span", "nothing", class_="soft")
    return tag("div", tag("span", name, class_="soft"), shown)


def _advice(one: BreakFinding, where: dict[tuple[str | None, str], int]) -> Markup | None:
    """Return the advice, in full only for its first break in a session."""
    if not one.advice:
        return None
    first_place = where.setdefault((one.setting, one.advice), one.request)
    if first_place != one.request:
        return tag("p", f"Cure: as at request {first_place:,}.", class_="small soft")
    ways = [" Or set ", page.setting(texts.clip(one.setting, 300)), "."] if one.setting else None
    return tag("p", tag("strong", "Cure: "), page.prose(texts.clip(one.advice, 600)), ways)


MOST_CAUSES = 20
MOST_CURES = 3
MOST_FILES = 200
MOST_BROKEN = 50
TEXT = 600
"""Characters of advice."""

_PARTS: tuple[tuple[str, str, Tone], ...] = (
    ("reads", "Read from the cache", "read"),
    ("growth", "Written: what was new", "new"),
    ("input", "Plain input", "plain"),
    ("output", "Output", "out"),
    ("resets", "Paid again after resets", "reset"),
    ("rewritten", "Paid again after breaks", "lost"),
)


def explain_page(report: ExplainReport) -> str:
    """The report as a self-contained HTML file; the same report gives the same bytes."""
    totals = report.totals
    return page.page(
        title="What broke the cache: holdfast explain",
        kicker="holdfast explain",
        headline=_headline(totals),
        under=_under(report),
        body=[
            page.notices(_notices(report)),
            _tiles(totals),
            _money(totals.money, totals.cost_usd) if totals.sessions else None,
            _causes(totals.causes),
            _cures(totals.cures),
            _tips(report),
            _heads(report),
            _ttl(totals.ttl),
            _listed(report.sessions, totals.sessions),
            _broken(report.sessions),
            _sources(report),
        ],
        foot=_foot(report),
    )


def _headline(totals: Totals) -> Child:
    if not totals.sessions or not totals.requests:
        return "No requests were found in what was read."
    many = counted(totals.sessions, "session")
    about = "About " if totals.estimated_sessions else ""
    start = f"{many}, at prices that are not known" if totals.cost_usd is None else ""
    start = start or f"{about}{texts.dollars(totals.cost_usd)} spent in {many}"
    if not totals.breaks:
        reason = f" without a reason; {counted(totals.resets, 'reset')} had one." if totals.resets else "."
        return f"{start}; the cache never broke{reason}"
    broke = f"the cache broke {texts.times(totals.breaks)}"
    if totals.break_cost_usd is None:
        lost = tag("strong", f"{texts.short(totals.tokens_lost)} tokens were billed again")
        return [f"{start}; ", lost, f" because {broke}."]
    return [f"{start}; ", tag("strong", f"{texts.dollars(totals.break_cost_usd)} of it"), f" because {broke}."]


def _under(report: ExplainReport) -> Markup:
    totals = report.totals
    facts = [counted(totals.requests, "request"), f"{texts.count(totals.usage.prompt)} prompt tokens"]
    ends = [at for each in report.sessions for at in (each.started, each.ended) if at is not None and texts.dated(at)]
    if ends:
        facts.append(f"{texts.day(min(ends))} to {texts.day(max(ends))} UTC")
    models = sorted({each.model for each in report.sessions if each.model})
    model_names = ", ".join(texts.clip(model, 60) for model in models[:4])
    more = f" and {counted(len(models) - 4, 'more model')}" if len(models) > 4 else ""
    return page.dotted([*facts, model_names + more] if model_names else facts)


def _notices(report: ExplainReport) -> list[Child]:
    totals, sentences = report.totals, []
    if report.partial:
        sentences.append(joined("Reading was interrupted: this is what had been read until then."))
    if report.repairs is not None:
        sentences.append(joined(sentence(report.repairs, texts.dollars)))
    if report.broken:
        those = "line or file" if report.broken == 1 else "lines or files"
        could = f"{texts.count(report.broken)} {those} could not be read and had to be left out"
        sentences.append(joined(f"{could}; ", tag("a", "see which", href="#read"), "."))
    if totals.estimated_sessions:
        only = f"{totals.estimated_sessions:,} of {counted(totals.sessions, 'session')}"
        sentences.append(
            joined(f"For {only} the log holds no usage: tokens and dollars are estimates by the cache rules.")
        )
    if cut := sum(session.cut for session in report.sessions):
        which = counted(cut, "request")
        sentences.append(joined(f"{which} {'was' if cut == 1 else 'were'} cut: a part of the usage is estimated."))
    if totals.unpriced:
        number = counted(totals.unpriced, "request")
        verb = "has" if totals.unpriced == 1 else "have"
        sentences.append(joined(f"{number} {verb} no known price and no part in the dollars on this page."))
    if totals.list_price_usd is not None:
        part = f"{texts.dollars(totals.list_price_usd)} of the cost is at list price"
        sentences.append(joined(f"{part}: subscriptions paid for those sessions, and nobody was billed by the token."))
    return list(sentences)


def _tiles(totals: Totals) -> Markup:
    cost, lost = totals.cost_usd, totals.break_cost_usd
    of_all = texts.portion(lost, cost) if lost is not None else ""
    tokens = (f"{of_all} of the cost; " if of_all else "") + f"{texts.short(totals.tokens_lost)} tokens billed again"
    resets = f"and {counted(totals.resets, 'reset')}, which have a reason" if totals.resets else "and no resets"
    estimate = "an estimate in part" if totals.estimated_sessions else "for everything that was read"
    return page.tiles(
        ("Cost", texts.dollars(cost) if totals.requests else texts.NONE, estimate),
        ("Hit rate", texts.share(totals.hit_rate), "of all prompt tokens came from the cache"),
        ("Breaks", texts.count(totals.breaks), resets),
        ("Lost", texts.dollars(lost) if totals.breaks else "$0.00", tokens),
    )


def _money(money: Money, cost: Decimal | None) -> Markup:
    amounts = [(name, getattr(money, field), tone) for field, name, tone in _PARTS]
    total = sum((amount for _, amount, _ in amounts), Decimal(0))
    aside = "A break makes tokens be billed again that could have been read for a fraction of the price."
    if not total or cost is None:
        return page.section("Where the money went", tag("p", "No price is known for these requests."), aside=aside)
    parts = [Bar(name, float(amount), texts.dollars(amount), tone) for name, amount, tone in amounts]
    rows: list[tuple[Tone, str, str, str]] = [
        (tone, name, texts.dollars(amount), texts.portion(amount, total)) for name, amount, tone in amounts
    ]
    description = "; ".join(f"{part.label}: {part.shown}" for part in parts)
    chart = charts.stacked("Where the money went", parts, charts.money, desc=description)
    return page.section("Where the money went", chart, page.legend(rows), aside=aside)


def _causes(causes: tuple[CauseSum, ...]) -> Markup | None:
    if not causes:
        return None
    priced = any(each.cost_usd is not None for each in causes)
    ranked = sorted(causes, key=lambda each: -(float(each.cost_usd or 0) if priced else each.tokens_lost))
    rows, meanings_by_cause = [], {}
    for each in ranked[:MOST_CAUSES]:
        name = texts.clip(each.cause or each.reset or "unknown", 60)
        many = counted(each.breaks, "reset" if each.reset else "break")
        figure = texts.dollars(each.cost_usd) if priced else f"{texts.short(each.tokens_lost)} tokens"
        note = f"{name}: {figure}, {many}, {texts.count(each.tokens_lost)} tokens"
        value = float(each.cost_usd or 0) if priced else float(each.tokens_lost)
        rows.append(Bar(name, value, f"{figure} · {many}", "reset" if each.reset else "lost", note))
        if name in MEANINGS:
            meanings_by_cause[name] = MEANINGS[name]
    left = f"Not shown here: {counted(len(ranked) - MOST_CAUSES, 'more cause')}." if len(ranked) > MOST_CAUSES else ""
    kinds = page.inline([("lost", "break"), ("reset", "reset: a break that has a reason")])
    title = "Money lost by cause" if priced else "Tokens lost by cause"
    chart = charts.bars(title, rows, charts.money if priced else texts.short, desc="; ".join(row.note for row in rows))
    meanings = tag(
        "dl",
        [tag("div", tag("dt", name), tag("dd", meaning)) for name, meaning in meanings_by_cause.items()],
        class_="words",
    )
    aside = "What the lost tokens were billed beyond the price of reading them, and how often it happened."
    return page.section(
        title, kinds, chart, tag("p", left) if left else None, meanings if meanings_by_cause else None, aside=aside
    )


def _cures(cures: tuple[CureSum, ...]) -> Markup | None:
    if not cures:
        return None
    those = []
    for each in cures[:MOST_CURES]:
        saved = [f"would have saved {texts.dollars(each.saves_usd)}"] if each.saves_usd is not None else []
        broke = [counted(each.breaks, "break")] if each.breaks else []
        worth = tag("span", " – ", ", ".join([*saved, *broke]), class_="soft") if saved or broke else None
        line = page.setting(texts.clip(each.setting, TEXT)) if each.setting else None
        those.append(
            tag(
                "li",
                tag("h3", texts.clip(each.cure, 80), worth),
                tag("p", page.prose(texts.clip(with_others(each.advice, each.also), TEXT))),
                tag("p", "Or let Holdfast do it: ", line) if line else None,
            )
        )
    aside = "What each would have saved, and how many breaks it is for; docs/cures has a page on each."
    return page.section("What would save most", tag("ol", those, class_="cures"), aside=aside)


def _tips(report: ExplainReport) -> Markup | None:
    """Those for long-running agents that the logs show a reason for."""
    items = [
        tag(
            "li",
            tag("h3", texts.clip(each.tip, 80)),
            tag("p", f"{texts.clip(each.seen, TEXT)}. ", page.prose(each.sentence)),
            [tag("p", page.setting(texts.clip(line, TEXT))) for line in each.settings],
        )
        for each in report.tips
    ]
    aside = "What these logs show a reason for; none of it is a break."
    return (
        page.section("Tips for long-running agents", tag("ol", items, class_="cures"), aside=aside) if items else None
    )


def _heads(report: ExplainReport) -> Markup | None:
    """New sessions that could not share the head of the one before, by what differs."""
    items = []
    for each in report.totals.heads[:MOST_CURES]:
        number = counted(each.sessions, "session")
        worth = f" – {number}, {texts.count(each.tokens)} tokens, {texts.dollars(each.cost_usd)}"
        names = [session.session for session, _ in with_head(report.sessions, each.cure)]
        which = [joined(", " if at else "", tag("bdi", texts.clip(name, 40))) for at, name in enumerate(names[:3])]
        items.append(
            tag(
                "li",
                tag("h3", texts.clip(each.cure, 80), tag("span", worth, class_="soft")),
                tag("p", page.prose(texts.clip(with_others(f"{each.what}.", each.also), TEXT))),
                tag("p", "In ", which, f" and {len(names) - 3:,} more" if len(names) > 3 else "", class_="small"),
            )
        )
    aside = "No breaks: what they begin with differs from what the session before them had left in the cache."
    title = "New sessions that could not read the tools and system text of the one before"
    return page.section(title, tag("ol", items, class_="cures"), aside=aside) if items else None


def _ttl(ttl: OtherTtl | None) -> Markup | None:
    if ttl is None:
        return None
    choices = (
        ("as billed", ttl.as_billed),
        ("all for 5 minutes", ttl.all_5m),
        ("all for 1 hour", ttl.all_1h),
        ("no cache", ttl.no_cache),
    )
    best = min(amount for _, amount in choices)
    rows = [
        Bar(name, float(amount), texts.dollars(amount), "ours" if number == 0 else "kin", strong=amount == best)
        for number, (name, amount) in enumerate(choices)
    ]
    less = ttl.as_billed - best
    cheapest = next(name for name, amount in choices if amount == best)
    verdict = f"Cheapest: {cheapest}, {texts.dollars(less)} less than as billed." if less else "As billed was cheapest."
    chart = charts.bars("Cost under other lifetimes", rows, charts.money, desc=verdict)
    number = counted(ttl.requests, "request")
    aside = f"Reckoned from the gaps and billed tokens of {number} whose provider sells lifetimes."
    return page.section("Another lifetime", tag("p", verdict), chart, aside=aside)


def _sources(report: ExplainReport) -> Markup | None:
    if not report.read and not report.broken:
        return None
    files = report.read[:MOST_FILES]
    rest = len(report.read) - len(files)
    size = sum(each.size for each in report.read)
    listed = [
        tag("li", tag("code", texts.clip(each.path, 300)), f" {texts.clip(each.format, 40)}, {texts.size(each.size)}")
        for each in files
    ]
    lines = report.broken_lines[:MOST_BROKEN]
    unread = [tag("li", tag("code", texts.clip(each.source, 300)), f": {texts.clip(each.why, 300)}") for each in lines]
    unnamed = report.broken - len(lines)
    return page.section(
        "What was read",
        tag("p", f"{counted(len(report.read), 'place')}, {texts.size(size)}."),
        tag("ul", listed, class_="list") if listed else None,
        tag("p", f"Not listed here: {rest:,} more.") if rest else None,
        tag("h3", "What could not be read") if report.broken else None,
        tag("ul", unread, class_="list") if unread else None,
        tag("p", f"Not listed here: {unnamed:,} more.") if unnamed > 0 else None,
        id_="read",
    )  # fmt: skip


def _foot(report: ExplainReport) -> Child:
    reckoned = (
        "A break is a request that read less from the cache than the request before it in the same conversation, with "
        "the same model, had covered. Its cost is what the lost tokens were billed beyond the price of reading them."
    )
    prices = f"Prices: {texts.clip(report.prices, 200)}." if report.prices else "Prices: none known."
    return [tag("p", reckoned), tag("p", f"{prices} Times are UTC.")]
