"""`holdfast replay` as one HTML file: what the same sessions cost under each strategy, on each model."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from decimal import Decimal

from holdfast.core.strategies import NAME as OURS
from holdfast.report.pages import (
    Bar,
    Cell,
    Child,
    Dots,
    Markup,
    TableColumn,
    Tone,
    charts,
    joined,
    page,
    table,
    tag,
    texts,
)
from holdfast.wording import counted

from .results import RECORDED, Kind, ReplayReport, Result, SessionResult, price_of

MOST_MODELS = 20
MOST_STRATEGIES = 40
MOST_NAMES = 12
MOST_NOTES = 50
NAME = 60

_KINDS: dict[Kind, str] = {"engine": "Holdfast", "peer": "other tool", "bound": "bound", "billed": "client, recorded"}
_TTLS = ("5m", "1h", "30m")


def replay_page(report: ReplayReport) -> str:
    """The report as a self-contained HTML file; the same report gives the same bytes."""
    models = list(dict.fromkeys(each.model for each in report.results))
    left = len(models) - MOST_MODELS
    more = f"Not shown here: {counted(left, 'more model')}; --format json has them." if left > 0 else ""
    return page.page(
        title="What each strategy would have cost: holdfast replay",
        kicker="holdfast replay",
        headline=_headline(report.results),
        under=_under(report),
        body=[
            _replayed(report),
            [_model(model, report) for model in models[:MOST_MODELS]],
            page.section("Left out", tag("p", more)) if more else None,
            _notes(report),
        ],
        foot=_foot(report),
    )


def _headline(results: Sequence[Result]) -> Child:
    if not results:
        return "Nothing was replayed."
    ratios = [each.over_optimal for each in results if each.strategy == OURS and each.over_optimal is not None]
    by_model: dict[str, float] = {}
    for each in results:
        if each.kind == "peer" and each.over_optimal is not None:
            by_model[each.model] = min(each.over_optimal, by_model.get(each.model, each.over_optimal))
    if not ratios:
        number = counted(len({each.strategy for each in results}), "strategy").replace("strategys", "strategies")
        return f"The same sessions under {number}."
    models = len({each.model for each in results})
    where = f" on {models:,} models" if models > 1 else ""
    headline = f"Holdfast ({OURS}) costs {_range(ratios)} times the optimum{where}"
    return f"{headline}; the best other tool, {_range(list(by_model.values()))}." if by_model else f"{headline}."


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"


def _under(report: ReplayReport) -> Markup:
    facts = [counted(len(report.traces), "trace"), counted(report.requests, "request")]
    return page.dotted([*facts, f"{texts.count(len(report.results))} results", f"in {texts.span(report.seconds)}"])


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(texts.clip(name, NAME) for name in names[:MOST_NAMES])
    rest = len(names) - MOST_NAMES
    return f"{shown} and {rest:,} more" if rest > 0 else shown or texts.NONE


def _replayed(report: ReplayReport) -> Markup:
    facts = (
        ("Traces", _names(report.traces)),
        ("Models", _names(report.models)),
        ("Gaps between requests", texts.clip(report.gaps, 200)),
        ("Seeds", _names([str(seed) for seed in report.seeds])),
        ("Fault of the client", texts.clip(report.fault or "none", 200)),
        ("Noise of the provider", texts.clip(report.noise or "none", 200)),
        ("ttl_raise", texts.clip(report.ttl_raise, 200)),
        ("Optimum", texts.clip(report.optimum, 600)),
    )
    rows = [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts]
    aside = "Every strategy met the same requests at the same times, under the same cache rules, on a virtual clock."
    return page.section("What was replayed", tag("dl", rows, class_="facts"), aside=aside)


def _tone(result: Result) -> Tone:
    if result.strategy == OURS:
        return "ours"
    tones: dict[Kind, Tone] = {"engine": "kin", "peer": "peer", "bound": "bound", "billed": "peer"}
    return tones[result.kind]


def _rank(result: Result) -> tuple[float, Decimal, str]:
    ratio = result.over_optimal if result.over_optimal is not None else float("inf")
    return ratio, price_of(result), result.strategy


def _model(model: str, report: ReplayReport) -> Markup:
    results = sorted((each for each in report.results if each.model == model), key=_rank)
    left = len(results) - MOST_STRATEGIES
    results = results[:MOST_STRATEGIES]
    more = tag("p", f"Not shown here: {left:,} more, which cost more.") if left > 0 else None
    kinds: list[tuple[Tone, str]] = [("ours", f"{OURS}, Holdfast's default"), ("kin", "other strategies of its engine")]
    kinds += [("peer", "other tools"), ("bound", "knows the future")]
    present = {_tone(each) for each in results}
    name = texts.clip(model, NAME)
    aside = "Cost of the prompts, answers aside, over the optimum, which the dashed line marks; shorter is cheaper."
    legend = page.inline([each for each in kinds if each[0] in present])
    return joined(
        page.section(name, legend, _bars(model, results), more, _spread(model, results, report.sessions), aside=aside),
        page.section(f"{name} in figures", _figures(model, results), wide=True),
    )


def _bars(model: str, results: Sequence[Result]) -> Markup:
    with_optimum = [each for each in results if each.over_optimal is not None]
    where = f"on {texts.clip(model, NAME)}"
    if with_optimum:
        rows = [_bar(each, each.over_optimal or 0.0, texts.ratio(each.over_optimal)) for each in with_optimum]
        desc = "; ".join(f"{row.label}: {row.shown}" for row in rows)
        limit = _limit([row.value for row in rows])
        chart = charts.bars(f"Cost over the optimum {where}", rows, charts.multiple, desc=desc, line=1.0, limit=limit)
        note = "A bar with a gap is longer than there is room for."
        return joined(chart, tag("p", note, class_="small soft") if rows[-1].value > limit else None)
    rows = [_bar(each, float(price_of(each)), _shown(each)) for each in results if price_of(each).is_finite()]
    unit = "in dollars" if model == RECORDED else "in tokens of plain input"
    none = tag("p", f"There is no optimum to divide by; cost {unit}.")
    return joined(none, charts.bars(f"Cost {where}", rows, texts.short))


def _shown(each: Result) -> str:
    if each.model == RECORDED:
        return texts.dollars(each.cost_usd)
    return f"{texts.short(float(each.cost_tokens))} tokens"


def _limit(ratios: Sequence[float]) -> float:
    """How long a bar may be: a few that are far longer must not make the others look alike."""
    return 1.8 * sorted(ratios)[3 * (len(ratios) - 1) // 4]


def _bar(each: Result, value: float, shown: str) -> Bar:
    return Bar(texts.clip(each.strategy, NAME), value, shown, _tone(each), _said(each), each.strategy == OURS)


def _said(each: Result) -> str:
    name = f"{texts.clip(each.strategy, NAME)} ({_KINDS[each.kind]})"
    return f"{name}: {texts.ratio(each.over_optimal)}, {texts.dollars(each.cost_usd)}"


def _figures(model: str, results: Sequence[Result]) -> Markup:
    used = {ttl for each in results for ttl in each.writes}
    ttls = [*(ttl for ttl in _TTLS if ttl in used), *sorted(used.difference(_TTLS))][:6]
    columns = (
        TableColumn("Strategy"),
        TableColumn("Placed by"),
        TableColumn("Over optimum", number=True),
        TableColumn("P50", number=True, note="Of the sessions, each over its own optimum"),
        TableColumn("P90", number=True, note="Of the sessions, each over its own optimum"),
        TableColumn("Worst", number=True, note="Of the sessions, each over its own optimum"),
        TableColumn("Dearer than billed", number=True, note="Share of the sessions whose bill was recorded"),
        TableColumn("Cost", number=True, note="Of the prompts: reads, writes and plain input"),
        TableColumn("Hit rate", number=True, note="Tokens read from the cache, of all prompt tokens"),
        TableColumn("Read", number=True, note="Tokens"),
        *(TableColumn(f"Written {texts.clip(ttl, 12)}", number=True, note="Tokens") for ttl in ttls),
        TableColumn("Plain", number=True, note="Tokens beside the cache"),
        TableColumn("Breaks", number=True),
        TableColumn("Resets", number=True),
        TableColumn("Surprises", number=True, note="Requests that read something else than was predicted"),
        TableColumn("Causes of breaks", wrap=True),
    )
    rows = [_row(each, ttls) for each in results]
    return table(f"Strategies on {texts.clip(model, NAME)}", columns, rows)


def _row(each: Result, ttls: Sequence[str]) -> list[Cell]:
    name = tag("bdi", texts.clip(each.strategy, NAME), class_="strong" if each.strategy == OURS else None)
    causes = sorted(each.causes, key=lambda one: (-one.breaks, one.cause))
    cause_counts = ", ".join(f"{texts.clip(one.cause, 40)} {one.breaks:,}" for one in causes[:4])
    predicted = each.kind == "engine"
    return [
        Cell(name, each.strategy[:NAME]),
        Cell(tag("span", _KINDS[each.kind], class_="once"), _KINDS[each.kind]),
        Cell(texts.ratio(each.over_optimal), each.over_optimal),
        *(Cell(texts.ratio(value), value) for value in _quantiles(each)),
        Cell(texts.share(each.dearer), each.dearer),
        Cell(texts.dollars(each.cost_usd), each.cost_usd),
        Cell(texts.share(each.hit_rate), each.hit_rate),
        Cell(texts.short(each.read), each.read),
        *(Cell(texts.short(each.writes.get(ttl, 0)), each.writes.get(ttl, 0)) for ttl in ttls),
        Cell(texts.short(each.input), each.input),
        Cell(texts.count(each.breaks), each.breaks),
        Cell(texts.count(each.resets), each.resets),
        Cell(texts.count(each.surprises) if predicted else texts.NONE, each.surprises if predicted else None),
        Cell(cause_counts or texts.NONE),
    ]


def _quantiles(each: Result) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if each.spread is None else (each.spread.p50, each.spread.p90, each.spread.worst)


def _spread(model: str, results: Sequence[Result], sessions: Sequence[SessionResult]) -> Child:
    by_strategy: dict[str, list[float]] = {}
    for each in sessions:
        if each.model == model and each.over_optimal is not None and 0 < each.over_optimal < math.inf:
            by_strategy.setdefault(each.strategy, []).append(each.over_optimal)
    rows = [
        Dots(each.strategy, by_strategy[each.strategy], _tone(each), each.strategy == OURS)
        for each in results
        if each.strategy in by_strategy
    ]
    most = max((len(row.values) for row in rows), default=0)
    if most < 2:
        return None
    limit = _limit([statistics.median(row.values) for row in rows])
    near = [row for row in rows if statistics.median(row.values) <= limit]
    far = ", ".join(texts.clip(row.label, NAME) for row in rows if row not in near)
    legend = "Each dot is one session over its own optimum, the stroke is the median."
    legend += f" Of {most:,} a row, {charts.MOST_DOTS} are drawn, evenly by rank." if most > charts.MOST_DOTS else ""
    legend += f" Too far off to be drawn: {far}." if far else ""
    chart = charts.dots(f"Sessions on {texts.clip(model, NAME)}", near, charts.multiple, desc=legend)
    return [tag("h3", "Session by session"), tag("p", legend, class_="small soft"), chart]


def _notes(report: ReplayReport) -> Markup | None:
    notes = [tag("li", texts.clip(note, 600)) for note in report.notes[:MOST_NOTES]]
    left = len(report.notes) - MOST_NOTES
    more = tag("li", f"Not shown here: {left:,} more.") if left > 0 else None
    return page.section("Notes", tag("ul", notes, more, class_="list")) if notes else None


def _foot(report: ReplayReport) -> Child:
    versions = ", ".join(
        f"{texts.clip(name, NAME)} {texts.clip(version, NAME)}" for name, version in report.versions[:50]
    )
    how = (
        "The engine and models of other tools sent the same sessions to the same cache rules; every cost is "
        "computed from the tokens that were read, written and sent beside the cache."
    )
    return [tag("p", how), tag("p", f"Versions: {versions}.") if versions else None]
