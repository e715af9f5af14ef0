"""Runs benchmarks here and in another checkout in turn, and compares the figures that both report.

Both run with this interpreter and its packages, so that only their own code differs. The order changes from round to
round, and the ratio is that of the medians.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).parents[1]
_FIGURE = re.compile(r"^  (?P<name>.{58}) +(?P<value>-?\d+\.\d{3}) (?P<unit>\S+)")


def compare(other: Path, names: Sequence[str], *, rounds: int, quick: bool) -> Iterator[str]:
    """Yields a line for each figure: the medians of both checkouts and their ratio."""
    for name in names:
        figures: dict[Path, dict[str, list[float]]] = {HERE: defaultdict(list), other: defaultdict(list)}
        units: dict[str, str] = {}
        for round_ in range(rounds):
            for checkout in (HERE, other) if round_ % 2 else (other, HERE):
                for figure, value, unit in _run(checkout, name, quick=quick):
                    figures[checkout][figure].append(value)
                    units[figure] = unit
        yield name
        for figure, values in figures[HERE].items():
            if figure in figures[other]:
                yield f"  {_line(figure, units[figure], values, figures[other][figure])}"


def _run(checkout: Path, name: str, *, quick: bool) -> Iterator[tuple[str, float, str]]:
    command = [sys.executable, "-m", "benchmarks", name, *(["--quick"] if quick else [])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(checkout / "src"), str(checkout)))}
    ended = subprocess.run(command, cwd=checkout, env=env, stdout=subprocess.PIPE, text=True, check=False)
    if ended.returncode not in (0, 1):  # 1: a limit was missed
        raise SystemExit(f"the benchmark {name} failed in {checkout} (exit {ended.returncode})")
    for match in filter(None, map(_FIGURE.match, ended.stdout.splitlines())):
        yield match["name"].rstrip(), float(match["value"]), match["unit"]


def _line(figure: str, unit: str, here: list[float], other: list[float]) -> str:
    medians = statistics.median(here), statistics.median(other)
    ratio = medians[0] / medians[1] if medians[1] else float("nan")
    spread = " ".join(f"{value:.3f}" for value in sorted(here)), " ".join(f"{value:.3f}" for value in sorted(other))
    return f"{figure:<58} {ratio:>6.3f}  {medians[0]:.3f} / {medians[1]:.3f} {unit}  ({spread[0]} | {spread[1]})"
