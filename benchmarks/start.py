"""How long the command line takes to say what it can do and what to do next, and a program to import the engine,
against an empty interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from benchmarks import Result, interleaved

LIMIT_MS = 150
IMPORT, IMPORT_LIMIT_MS = "from holdfast import Engine", 100


def run(*, quick: bool) -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as home:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        environ["HOME"] = home

        def call(*arguments: str) -> None:
            subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=environ, cwd=home)

        candidates = {
            "python": lambda: call("-c", "pass"),
            "holdfast --help": lambda: call("-m", "holdfast", "--help"),
            "holdfast": lambda: call("-m", "holdfast"),
            IMPORT: lambda: call("-c", IMPORT),
        }
        seconds = interleaved(candidates, 5 if quick else 15)
    empty = seconds.pop("python")
    yield Result(
        IMPORT, (seconds.pop(IMPORT) - empty) * 1e3, "ms", IMPORT_LIMIT_MS, "lower", "beyond an empty interpreter"
    )
    for name, taken in seconds.items():
        note = f"{taken / empty:.1f} times an empty interpreter, which takes {empty * 1e3:.0f} ms"
        yield Result(name, taken * 1e3, "ms", LIMIT_MS, "lower", note)
