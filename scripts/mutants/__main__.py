"""Break Holdfast's wiring in copies of the repository and see whether the tests that should notice do.

    python -m scripts.mutants                  # all of them: minutes
    python -m scripts.mutants --only C81       # of one statement; or a part of a name, or a file
    python -m scripts.mutants --list

Ends with 0 if every mutant was killed, with 1 if one survived or could not be judged.
"""

from __future__ import annotations

import argparse
import queue
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from scripts.mutants.copies import Copy
from scripts.mutants.descriptions import Malformed, Mutant, chosen, load, problems
from scripts.mutants.runs import Programs, Runner, Stopped, Verdict, without_mutants

TIMEOUT = 180.0
BASELINE_TIMEOUT = 1800.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m scripts.mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME|ROW|FILE", help="may be given several times"
    )
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="mutants at a time (2)")
    parser.add_argument("--timeout", type=float, default=TIMEOUT, metavar="SECONDS", help="for one mutant (180)")
    parser.add_argument("--list", action="store_true", help="only say which there are")
    options = parser.parse_args(arguments)
    try:
        mutants = chosen(load(), options.only)
    except Malformed as error:
        parser.error(str(error))
    if not mutants:
        parser.error(
            f"no mutant is called {' or '.join(options.only)}; --list names them" if options.only else "there are none"
        )
    if options.list:
        for mutant in mutants:
            place = mutant.file.removeprefix("src/holdfast/")
            print(f"{mutant.source:<24} {','.join(mutant.rows) or '-':<16} {place}: {mutant.name}")
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _judge(mutants, jobs=max(1, min(options.jobs, len(mutants))), timeout=options.timeout)
    except (KeyboardInterrupt, Stopped):
        print("stopped; the copies are gone", file=sys.stderr)
        return 130


def _judge(mutants: Sequence[Mutant], *, jobs: int, timeout: float) -> int:
    programs = Programs()
    with tempfile.TemporaryDirectory(prefix="holdfast-mutants-", ignore_cleanup_errors=True) as folder:
        try:
            verdicts = _verdicts(mutants, Runner(programs, Path(folder)), Path(folder), jobs=jobs, timeout=timeout)
        except BaseException:
            programs.stop()
            raise
    return _summary(verdicts)


def _verdicts(mutants: Sequence[Mutant], runner: Runner, folder: Path, *, jobs: int, timeout: float) -> list[Verdict]:
    verdicts = [Verdict(mutant, "error", found[0]) for mutant in mutants if (found := problems(mutant))]
    sound = [mutant for mutant in mutants if not problems(mutant)]
    tests = sorted({test for mutant in sound for test in mutant.tests})
    first = Copy.of_repository(folder / "copy-1")
    runner.check_copy(first)
    print(f"{len(mutants)} mutants; first their {len(tests)} tests without any …", flush=True)
    begun = time.monotonic()
    code, outcomes, printed = runner.outcomes(first, tests, timeout=BASELINE_TIMEOUT, jobs=jobs, first=False)
    if code not in (0, 1):
        print(printed[-4000:], file=sys.stderr)
        raise SystemExit(f"pytest ended with {code} before anything was mutated")
    print(f"… {time.monotonic() - begun:.0f} s", flush=True)
    for mutant in sound:
        if why := without_mutants(outcomes, mutant):
            verdicts.append(Verdict(mutant, "error", why))
    for number, verdict in enumerate(verdicts, 1):
        _tell(number, len(mutants), verdict)
    left = [mutant for mutant in sound if without_mutants(outcomes, mutant) is None]
    copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for number in range(1, jobs + 1):
        copies.put(first if number == 1 else first.again(folder / f"copy-{number}"))

    def judge(mutant: Mutant) -> Verdict:
        copy = copies.get()
        began = time.monotonic()
        try:
            found = runner.verdict(copy, mutant, timeout=timeout)
            return replace(found, seconds=time.monotonic() - began)
        finally:
            copies.put(copy)

    with ThreadPoolExecutor(jobs) as pool:
        try:
            for done in as_completed([pool.submit(judge, mutant) for mutant in left]):
                verdicts.append(done.result())
                _tell(len(verdicts), len(mutants), verdicts[-1])
        except BaseException:
            runner.stop()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return verdicts


def _tell(number: int, of: int, verdict: Verdict) -> None:
    rows = ",".join(verdict.mutant.rows) or "-"
    fate = f"{verdict.fate:<9} {verdict.seconds:3.0f} s"
    print(f"{number:>4}/{of}  {fate}  {rows:<14} {verdict.mutant.name}  ({verdict.why})", flush=True)


def _summary(verdicts: Sequence[Verdict]) -> int:
    counts = {fate: sum(verdict.fate == fate for verdict in verdicts) for fate in ("killed", "survived", "error")}
    print(f"\n{counts['killed']} killed, {counts['survived']} survived, {counts['error']} errors")
    for verdict in sorted(verdicts, key=lambda each: (each.fate, each.mutant.source)):
        if verdict.fate != "killed":
            mutant = verdict.mutant
            print(f"{verdict.fate}: {mutant.source}: {mutant.name}\n    {mutant.file}: {verdict.why}")
            print("".join(f"    {test}\n" for test in mutant.tests), end="")
    return 0 if counts["killed"] == len(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
