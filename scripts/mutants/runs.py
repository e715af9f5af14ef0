"""Runs of pytest in a copy, and what they say of a mutant."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from scripts.mutants.copies import Copy
from scripts.mutants.descriptions import Malformed, Mutant
from scripts.mutants.outcomes import REPORT

Fate = Literal["killed", "survived", "error"]
UNWANTED = (
    "PYTEST_ADDOPTS",
    "PYTEST_CURRENT_TEST",
    "PYTEST_XDIST_WORKER",
    "COVERAGE_PROCESS_CONFIG",
    "COV_CORE_SOURCE",
)


class Stopped(Exception):
    """Somebody pressed Ctrl-C."""


@dataclass(frozen=True)
class Verdict:
    mutant: Mutant
    fate: Fate
    why: str
    seconds: float = 0.0


class Programs:
    """What is running, so that it can be ended together with what it started."""

    def __init__(self) -> None:
        self._lock, self._running, self._stopped = threading.Lock(), set[subprocess.Popen[str]](), False

    def run(
        self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float
    ) -> tuple[int | None, str]:
        """The exit code and what was printed; no code after a timeout."""
        with self._lock:
            if self._stopped:
                raise Stopped
            program = subprocess.Popen(
                command,
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            self._running.add(program)
        try:
            printed, _ = program.communicate(timeout=timeout)
            code: int | None = program.returncode
        except subprocess.TimeoutExpired:
            _kill(program)
            printed, code = program.communicate()[0], None
        finally:
            with self._lock:
                self._running.discard(program)
            _kill(program)  # what a test left behind
        if self._stopped:
            raise Stopped
        return code, printed

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            for program in self._running:
                _kill(program)


def _kill(program: subprocess.Popen[str]) -> None:
    """The group was made for this program, so nothing else is in it."""
    try:
        os.killpg(program.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


class Runner:
    def __init__(self, programs: Programs, reports: Path) -> None:
        self._programs, self._reports = programs, reports

    def stop(self) -> None:
        self._programs.stop()

    def check_copy(self, copy: Copy) -> None:
        """Raise Malformed unless programs of a copy import its own sources, wherever they are started."""
        asked = "import holdfast; print(holdfast.__file__)"
        command = [str(copy.python), "-I", "-c", asked]
        code, printed = self._programs.run(command, cwd=self._reports, env=_environment(copy), timeout=60)
        if code != 0 or not Path(printed.strip()).is_relative_to(copy.place / "src"):
            raise Malformed(f"a program of the copy does not import the copy's Holdfast: {printed.strip()}")

    def outcomes(
        self, copy: Copy, tests: Iterable[str], *, timeout: float, jobs: int = 0, first: bool = True
    ) -> tuple[int | None, dict[str, str], str]:
        """Exit code, outcome by test id, output. With `first` a run ends at the first failure."""
        report = self._reports / f"{copy.place.name}.json"
        report.unlink(missing_ok=True)
        options = ["-q", "-p", "no:cacheprovider", "-p", "scripts.mutants.outcomes", *(["-x"] if first else [])]
        options += ["-n", str(jobs), "--dist", "worksteal"] if jobs > 1 else ["-p", "no:xdist"]
        command = [str(copy.python), "-m", "pytest", *options, *tests]
        environment = {**_environment(copy), REPORT: str(report)}
        code, printed = self._programs.run(command, cwd=copy.place, env=environment, timeout=timeout)
        outcomes = json.loads(report.read_text(encoding="utf-8")) if report.is_file() else {}
        return code, outcomes, printed

    def verdict(self, copy: Copy, mutant: Mutant, *, timeout: float) -> Verdict:
        with copy.broken_by(mutant):
            asked = f"import {mutant.module}" if mutant.is_python else ""
            imported = [str(copy.python), "-c", asked]
            code, printed = self._programs.run(imported, cwd=copy.place, env=_environment(copy), timeout=60)
            if code != 0:
                return Verdict(mutant, "error", f"it does not import: {_last(printed)}")
            code, outcomes, printed = self.outcomes(copy, mutant.tests, timeout=timeout)
        failed = [test for test, outcome in outcomes.items() if outcome == "failed"]
        if code is None:
            return Verdict(mutant, "killed", f"by timeout, after {timeout:.0f} s")
        if code == 1 and failed:
            return Verdict(mutant, "killed", failed[0])
        if code in (0, 1) and outcomes:
            return Verdict(mutant, "survived", f"{len(outcomes)} tests passed")
        return Verdict(mutant, "error", f"pytest ended with {code}: {_last(printed)}")


def without_mutants(outcomes: Mapping[str, str], mutant: Mutant) -> str | None:
    """Why the tests of a mutant could say nothing, by what became of them without any; None if they can."""
    for test in mutant.tests:
        cases = [outcome for node, outcome in outcomes.items() if test in (node, node.partition("[")[0])]
        if not cases:
            return f"{test} did not run without the mutant"
        if "failed" in cases:
            return f"{test} fails without the mutant"
        if "passed" not in cases:
            return f"{test} is skipped on this machine"
    return None


def _environment(copy: Copy) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    path = os.pathsep.join([str(copy.python.parent), os.environ.get("PATH", os.defpath)])
    return {**kept, "PATH": path, "PYTHONPATH": str(copy.place / "src"), "VIRTUAL_ENV": str(copy.python.parents[1])}


def _last(printed: str) -> str:
    lines = [line for line in printed.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "nothing was printed"
