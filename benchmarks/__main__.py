"""Run the benchmarks and say whether every limit was kept."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from benchmarks import Result
from benchmarks.comparison import compare

NAMES = (
    "wire",
    "store",
    "bill",
    "start",
    "install",
    "simulator",
    "core",
    "economics",
    "replay",
    "faults",
    "padding",
    "tools",
    "skills",
    "memory_retrieval",
    "agent",
    "memory",
    "memory_search",
    "mechanisms",
    "explain",
    "upstream",
    "gateway",
    "restart",
    "peers",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which to run: {', '.join(NAMES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="smaller data, the same questions")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="compare with another checkout, run in turn")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="with --against: how often (default: 3)")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(NAMES)
    if unknown:
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    if arguments.against:
        if not (arguments.against / "benchmarks" / "__main__.py").is_file():
            parser.error(f"{arguments.against} is no checkout with benchmarks")
        print("ratio of the medians, here / there; both medians; all values, here | there", flush=True)
        names = arguments.names or NAMES
        for text in compare(arguments.against.resolve(), names, rounds=arguments.rounds, quick=arguments.quick):
            print(text, flush=True)
        return 0
    missed = 0
    for name in arguments.names or NAMES:
        print(f"{name}", flush=True)
        for result in importlib.import_module(f"benchmarks.{name}").run(quick=arguments.quick):
            missed += not result.kept
            print(f"  {line(result)}", flush=True)
    print(f"\n{missed} limit(s) missed" if missed else "\nall limits kept")
    return 1 if missed else 0


def line(result: Result) -> str:
    sign = "at most" if result.better == "lower" else "at least"
    limit = "" if result.limit is None else f"{sign} {result.limit:g} {result.unit}"
    state = "" if result.limit is None else ("ok" if result.kept else "MISSED")
    return f"{result.name:<58} {result.value:>9.3f} {result.unit:<4} {limit:<18} {state:<7} {result.note}".rstrip()


if __name__ == "__main__":
    sys.exit(main())
