"""How quickly sessions are replayed: requests a second of one core on recorded coding sessions, and the optimum's time.

The replay's own clock is read, which leaves out what is done once for all strategies: reading traces and searching for
the optimum, which is told beside it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Literal

from benchmarks import Result
from benchmarks.recordings import JUDGED, SOURCE, shaped
from holdfast import lab
from holdfast.lab import ReplayReport
from holdfast.lab.contenders import Repair

MODEL = "claude-opus-4-6"
LEAST = 1_000.0


def run(*, quick: bool) -> Iterator[Result]:
    limit = LEAST if JUDGED else None
    _timed(["none"])  # prices and the vocabulary are loaded once
    for name in ("economic", "all"):
        rounds = [_timed([name]) for _ in range(2 if quick else 5)]
        report, whole = max(rounds, key=lambda each: each[0].requests / each[0].seconds)
        rate, note = report.requests / report.seconds, f"{report.requests:,} requests; {SOURCE}"
        yield Result(f"requests replayed a second, strategy {name}", rate, "/s", limit, "higher", note)
        note = f"the optimum took {report.optimum_seconds:.2f} s of it"
        yield Result(f"the whole of it, strategy {name}", whole, "s", None, "lower", note)
    report, _ = _timed(["economic"], repair="on")
    rate = report.requests / report.seconds
    yield Result("the same with bodies, through the whole engine", rate, "/s", None, "higher", "strategy economic")
    if not quick:
        report, _ = _timed(["economic"], ttl_raise="yes")
        yield Result(
            "the optimum where long markers raise", report.optimum_seconds, "s", None, "lower", "ttl_raise yes"
        )


def _timed(
    strategies: Sequence[str], *, repair: Repair = "suggest", ttl_raise: Literal["yes", "no"] | None = None
) -> tuple[ReplayReport, float]:
    """A replay, and the processor time all of it took."""
    begun = time.process_time()
    options = lab.ReplayOptions(repair=repair, ttl_raise=ttl_raise)
    report = lab.run(shaped(), strategies, [MODEL], options)
    return report, time.process_time() - begun
