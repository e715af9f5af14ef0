"""A replay as people read it: one table for each model, the cheapest first, and how the figures came about.

Where every lane is replayed on its own model and there are several, the first table is their sum, in dollars.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.cli import tables
from holdfast.cli.tables import Column, count, dollars, printable, share
from holdfast.lab import RECORDED, ReplayReport, Result
from holdfast.wording import counted

TTLS = ("5m", "1h", "30m")


def table(report: ReplayReport, room: int | None) -> Iterator[str]:
    for results in _by_model(report):
        yield from tables.wrapped(_title(report, results), room)
        yield ""
        columns = [Column(title, rank, right=right) for title, rank, right in _columns(results)]
        yield from tables.table(columns, [_row(result, results) for result in results], room)
        yield ""
    for sentence in (*method(report), *report.notes, speed(report)):
        yield from tables.wrapped(sentence, room)


def markdown(report: ReplayReport) -> Iterator[str]:
    yield "## What each strategy would have cost"
    for results in _by_model(report):
        columns = _columns(results)
        yield from ("", _escaped(_title(report, results)), "")
        yield f"| {' | '.join(title.lower() for title, _, _ in columns)} |"
        yield f"|{'|'.join('---:' if right else '---' for _, _, right in columns)}|"
        for result in results:
            yield f"| {' | '.join(_escaped(cell) for cell in _row(result, results))} |"
    for sentence in (*method(report), *report.notes, speed(report)):
        yield ""
        yield _escaped(sentence)


def _by_model(report: ReplayReport) -> list[list[Result]]:
    results: dict[str, list[Result]] = {}
    for result in report.results:
        results.setdefault(result.model, []).append(result)
    return list(results.values())


def method(report: ReplayReport) -> Iterator[str]:
    """How it was done, in two lines."""
    pauses = "at the recorded times" if report.gaps == "real" else f"with gaps: {report.gaps}"
    seeds = f", seed {report.seeds[0]}" if len(report.seeds) == 1 else f", seeds {', '.join(map(str, report.seeds))}"
    odd = [f"fault: {report.fault}"] if report.fault else []
    odd += [f"noise: {report.noise}"] if report.noise else []
    remarks = f" ({'; '.join(odd)})" if odd else ""
    yield (
        f"Method: every request planned by the engine, or marked as the named tool marks it, and billed by the "
        f"provider's cache rules {pauses}{seeds}{remarks}; cost is that of the input."
    )
    versions = ", ".join(f"{name} {version}" for name, version in report.versions)
    yield f"Optimum: {report.optimum}. Versions: {versions}."


def speed(report: ReplayReport) -> str:
    rate = f" ({report.requests / report.seconds:,.0f} a second)" if report.seconds else ""
    sentence = f"{counted(report.requests, 'request')} replayed in {report.seconds:.1f} s{rate}"
    return sentence + (f"; the optimum took {report.optimum_seconds:.1f} s." if report.optimum_seconds else ".")


def _title(report: ReplayReport, results: Sequence[Result]) -> str:
    first = results[0]
    name = f"{len(report.models)} models, each lane on its own" if first.model == RECORDED else first.model
    title = f"{name}: {counted(first.requests, 'request')} of {counted(first.sessions, 'session')}"
    if first.output_usd:
        return f"{title}; the output costs {dollars(first.output_usd)} beside, whoever marks."
    return f"{title}."


def _columns(results: Sequence[Result]) -> list[tuple[str, int, bool]]:
    """Title, what a narrow terminal keeps first, and whether it is a number."""
    written = [(f"WRITTEN {ttl}", 5, True) for ttl in _written(results)]
    ratio = [("/OPTIMAL", 2, True)] if any(result.over_optimal is not None for result in results) else []
    spread = [("P50", 4, True), ("P90", 3, True), ("WORST", 3, True)] if _spread(results) else []
    dearer = [("DEARER", 3, True)] if _dearer(results) else []
    return [
        ("STRATEGY", 0, False),
        ("COST", 1, True),
        *ratio,
        *spread,
        *dearer,
        ("HIT", 3, True),
        *written,
        ("BREAKS", 4, True),
        ("MAIN CAUSE", 7, False),
        ("SURPRISES", 6, True),
    ]


def _row(result: Result, results: Sequence[Result]) -> list[str]:
    cost = dollars(result.cost_usd) if result.cost_usd is not None else _tokens(result)
    spread = result.spread
    quantiles = ["-"] * 3 if spread is None else [f"{each:.3f}" for each in (spread.p50, spread.p90, spread.worst)]
    engine = result.kind != "billed"  # nobody has predicted what was billed
    ratio = "-" if result.over_optimal is None else f"{result.over_optimal:.3f}"
    return [
        result.strategy,
        cost,
        *([ratio] if any(each.over_optimal is not None for each in results) else []),
        *(quantiles if _spread(results) else []),
        *([share(result.dearer) if result.dearer is not None else "-"] if _dearer(results) else []),
        share(result.hit_rate),
        *(count(result.writes.get(ttl, 0)) for ttl in _written(results)),
        count(result.breaks) if engine else "-",
        _cause(result),
        count(result.surprises) if engine else "-",
    ]


def _tokens(result: Result) -> str:
    return "no price" if result.model == RECORDED else f"{result.cost_tokens:,.0f} tokens"


def _spread(results: Sequence[Result]) -> bool:
    """Return whether a result covers more than one session."""
    return any(result.spread is not None and result.spread.sessions > 1 for result in results)


def _dearer(results: Sequence[Result]) -> bool:
    return any(result.dearer is not None and result.sessions > 1 for result in results)


def _written(results: Sequence[Result]) -> list[str]:
    """The lifetimes anything was written for."""
    used = {ttl for result in results for ttl in result.writes}
    return [ttl for ttl in (*TTLS, *sorted(used.difference(TTLS))) if ttl in used]


def _cause(result: Result) -> str:
    if not result.causes:
        return "-"
    first = result.causes[0]
    return first.cause if first.breaks == result.breaks else f"{first.cause} ({first.breaks})"


def _escaped(text: str) -> str:
    return printable(text).replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")
