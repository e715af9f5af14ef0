"""How long the command line takes to say what it can do, against an interpreter that does nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from benchmarks import Result, interleaved


def run(*, quick: bool) -> Iterator[Result]:
    def call(*arguments: str) -> None:
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)

    candidates = {
        "python": lambda: call("-c", "pass"),
        "help": lambda: call("-m", "holdfast", "--help"),
    }
    seconds = interleaved(candidates, 5 if quick else 15)
    note = f"an empty interpreter takes {seconds['python'] * 1e3:.0f} ms"
    yield Result("holdfast --help", seconds["help"] * 1e3, "ms", 150, "lower", note)
