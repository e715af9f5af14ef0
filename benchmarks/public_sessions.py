"""What public sessions gave: figures only, since the sessions are not part of the repository.

`python -m benchmarks.public_sessions` measures them again where they are on this machine and writes the figures to
`public_sessions.json` beside this file, which `make results` reads.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks.recordings import PUBLIC
from holdfast import __version__
from holdfast.lab import RECORDED, ReplayReport, read, run

FIGURES = Path(__file__).with_suffix(".json")
STRATEGIES = ("economic", "rolling", "rolling-1h", "automatic", "claude-code", "none", "optimal")
CHEAP_READS = "claude-sonnet-5-5"


class Row(Struct, frozen=True):
    """One strategy: `billed` is its cost over the bill, `dearer` the share of sessions in which it cost more."""

    strategy: str
    optimal: float | None
    p50: float | None
    p90: float | None
    worst: float | None
    billed: float | None
    dearer: float | None


class Figures(Struct, frozen=True):
    """Sessions replayed on the models they were recorded with, and on one whose reads cost a twentieth."""

    version: str
    sessions: int
    requests: int
    models: int
    warm: int
    recorded: tuple[Row, ...]
    cheap_reads: tuple[Row, ...]


def figures() -> Figures:
    """The figures as they were measured last."""
    return msgspec.json.decode(FIGURES.read_bytes(), type=Figures)


def measure() -> Figures:
    traces = read(PUBLIC)
    own, cheap = (run(traces, STRATEGIES, models) for models in ((), (CHEAP_READS,)))
    return Figures(
        version=__version__,
        sessions=len(traces),
        requests=sum(len(trace.steps) for trace in traces),
        models=len(own.models),
        warm=own.warm,
        recorded=rows(own, RECORDED),
        cheap_reads=rows(cheap, cheap.models[0]),
    )


def rows(report: ReplayReport, model: str) -> tuple[Row, ...]:
    return tuple(
        Row(
            each.strategy,
            optimal=_short(each.over_optimal),
            p50=_short(None if spread is None else spread.p50),
            p90=_short(None if spread is None else spread.p90),
            worst=_short(None if spread is None else spread.worst),
            billed=_short(1.0 if each.kind == "billed" else each.over_billed),
            dearer=_short(each.dearer),
        )
        for each, spread in ((each, each.spread) for each in report.results if each.model == model)
    )


def _short(figure: float | None) -> float | None:
    return None if figure is None else round(figure, 3)


if __name__ == "__main__":
    if not PUBLIC.is_dir():
        sys.exit("the public sessions are not on this machine; HOLDFAST_TRACES names the directory above `sessions`")
    FIGURES.write_bytes(msgspec.json.format(msgspec.json.encode(measure()), indent=1) + b"\n")
