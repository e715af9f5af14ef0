"""The explainer's report as Markdown, for a comment on a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from holdfast.cli import tables
from holdfast.cli.repair_words import sentence
from holdfast.cli.tables import count, dollars, share
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

MORE = "`--limit` shows more"


def text(report: ExplainReport, limit: int, more: str = MORE) -> Iterator[str]:
    """Yield the lines. `more` describes how to see the omitted rows."""
    totals = report.totals
    yield f"## Prompt cache: {counted(totals.breaks, 'break')}, {dollars(totals.break_cost_usd)} lost"
    yield ""
    yield _plain(words.summary(report))
    if report.read:
        yield _plain(f"Read {in_words(report.read)}.")
    if report.partial:
        yield "Reading was interrupted: this is what was found until then."
    names = tables.short_ids(each.session for each in report.sessions)
    yield from _sessions(report, limit, names, more)
    yield from _breaks(report, limit, names, more)
    yield from _cures(report)
    yield from _tips(report)
    yield from _heads(report, limit, names)
    yield from _money(report)
    for note in words.notes(report):
        yield ""
        yield _plain(note)
    if report.repairs is not None:
        yield ""
        yield _plain(sentence(report.repairs))


def _sessions(report: ExplainReport, limit: int, names: dict[str, str], more: str) -> Iterator[str]:
    if not report.sessions:
        return
    yield from _title("Sessions")
    titles = ("session", "client", "model", "requests:", "hit rate:", "cost:", "breaks:", "lost:")
    yield from _table(titles, (_session(each, names) for each in words.by_loss(report)[:limit]))
    yield from _more(len(report.sessions) - limit, "session", more)


def _session(each: SessionFindings, names: dict[str, str]) -> tuple[str, ...]:
    named = _code(names[each.session]), _plain(each.client or "-"), _code(each.model or "-")
    return *named, *words.figures(each)


def _breaks(report: ExplainReport, limit: int, names: dict[str, str], more: str) -> Iterator[str]:
    every = words.dearest(report)
    if not every:
        return
    yield from _title("Breaks, the dearest first")
    titles = ("lost:", "cause", "where", "cure", "tokens:", "gap:", "session", "request:")
    yield from _table(titles, (_break(session, break_, names) for session, break_ in every[:limit]))
    yield from _more(len(every) - limit, "break", more)


def _break(session: SessionFindings, break_: BreakFinding, names: dict[str, str]) -> tuple[str, ...]:
    return (
        dollars(break_.cost_usd),
        _plain(words.what(break_)),
        "-" if break_.path is None else _code(words.where(break_)),
        _plain(words.cure(break_)),
        count(break_.tokens_lost),
        words.pause(break_.gap_s),
        _code(names[session.session]),
        count(break_.request),
    )


def _cures(report: ExplainReport) -> Iterator[str]:
    if report.totals.cures:
        yield from _title("What to do, by what it would have saved")
        yield from map(_advice, report.totals.cures)
    others = words.other_advice(report)
    if others:
        yield from _title("About the others" if report.totals.cures else "About them")
        yield from map(_advice, others)
    if report.totals.cures or others:
        yield ""
        yield CATALOGUE


def _advice(each: CureSum) -> str:
    setting = f" {by_setting(each.setting, _code(each.setting))}" if each.setting else ""
    return f"- **{_plain(each.cure)}** ({words.about(each)}): {_plain(with_others(each.advice, each.also))}{setting}"


def _tips(report: ExplainReport) -> Iterator[str]:
    if report.tips:
        yield from _title(words.TIPS)
    for each in report.tips:
        yield f"- **{_plain(each.tip)}**: {_plain(words.tip_told(each))}"


def _heads(report: ExplainReport, limit: int, names: dict[str, str]) -> Iterator[str]:
    if not report.totals.heads:
        return
    yield from _title(words.UNSHARED)
    for each in report.totals.heads[:limit]:
        advice = _plain(with_others(f"{each.what}.", each.also))
        where = words.in_heads(report, each, lambda name: _code(names.get(name, name)))
        yield f"- **{_plain(each.cure)}** ({words.about_head(each)}): {advice} {where}"


def _money(report: ExplainReport) -> Iterator[str]:
    total, ttl = report.totals.cost_usd, report.totals.ttl
    sums = words.parts(report.totals.money)
    if sums and total:
        yield from _title("Where the money went")
        rows = ((part, dollars(value), share(float(value / total))) for part, value in sums)
        yield from _table(("part", "dollars:", "share:"), rows)
    if ttl is not None and ttl.all_5m != ttl.all_1h:
        yield from _title("What another lifetime would have cost")
        rows = (
            (name, dollars(cost), dollars(more, signed=True) if more else "")
            for name, cost, more in words.lifetimes(ttl)
        )
        yield from _table(("lifetime", "dollars:", "difference:"), rows)


def _title(title: str) -> Iterator[str]:
    yield ""
    yield f"### {title}"
    yield ""


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Titles that end in a colon are of numbers."""
    yield f"| {' | '.join(title.rstrip(':') for title in titles)} |"
    yield f"|{'|'.join('---:' if title.endswith(':') else '---' for title in titles)}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _more(left: int, noun: str, more: str) -> Iterator[str]:
    if left > 0:
        yield ""
        yield f"And {counted(left, noun)} more; {more}."


def _plain(words: str) -> str:
    """Escape Markdown in a text, except code in backticks."""
    return re.sub(r"([\\|<>*_\[\]#~!])", r"\\\1", tables.printable(words)) if "`" not in words else _with_code(words)


def _with_code(words: str) -> str:
    pieces = tables.printable(words).split("`")
    if len(pieces) % 2 == 0:
        return _plain(words.replace("`", "'"))
    return "".join(_code(piece) if index % 2 else _plain(piece) for index, piece in enumerate(pieces))


def _code(words: str) -> str:
    return "`" + tables.printable(words).replace("`", "'").replace("|", "\\|") + "`"
