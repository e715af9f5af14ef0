"""What became of the tests that docs/conformance.md names, looked at in every run and without running one twice.

A named test that fails or is expected to fail, and in a run of everything one that did not run at all, contradicts its
row. One that was skipped is told as not shown here; the run fails where nothing else shows the row. A run of some tests
is judged by those only. Under xdist reports of all workers come to the one process where this is registered.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "conformance.md"
NARROWING = ("keyword", "markexpr", "deselect", "ignore", "ignore_glob", "lf", "stepwise")
"""Options of pytest that leave tests out, by the names pytest keeps them under."""

Came = Literal["passed", "skipped", "xfailed", "failed"]
WORST: tuple[Came, ...] = ("passed", "skipped", "xfailed", "failed")
"""A test with many cases is what its worst one is."""


class Row(NamedTuple):
    number: str
    statement: str
    modules: list[str]
    tests: list[str]
    state: str

    @property
    def is_built(self) -> bool:
        """Whether its tests have something to show: what deviates from its document is built too."""
        return self.state == "done" or self.state.startswith("deviates")


class Outcome(NamedTuple):
    came: Came
    why: str = ""


class Judgement(NamedTuple):
    """`wrong` makes a run fail, `unseen` is only told. Both are lines like `A12: tests/x.py::test_y skipped: why`."""

    wrong: list[str]
    unseen: list[str]


def rows_of(text: str) -> list[Row]:
    return [_row(line) for line in text.splitlines() if re.match(r"\| [A-E]\d+ ", line)]


def _row(line: str) -> Row:
    cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
    assert len(cells) == 5, f"not five cells: {line}"
    number, statement, module, test, state = cells
    tests = [] if test == "-" else [name.strip().strip("`") for name in test.split("<br>")]
    return Row(number, statement, re.findall(r"`([^`]+)`", module), tests, state)


@cache
def _tests_of(path: Path) -> set[str]:
    """The test functions a file defines, those of its classes as `Class::test`."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            methods = [item for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)]
            names |= {f"{node.name}::{item.name}" for item in methods}
    return {name for name in names if name.rpartition("::")[2].startswith("test_")}


def missing(test: str) -> str | None:
    """Why a test id cannot be found, None if it can."""
    file, _, name = test.partition("::")
    if not file.startswith("tests/") or not (ROOT / file).is_file():
        return f"{test}: no such file"
    plain = re.sub(r"\[.*\]$", "", name)
    return None if plain in _tests_of(ROOT / file) else f"{test}: the file defines no such test"


def judged(rows: Iterable[Row], cases: Mapping[str, Outcome], *, full: bool) -> Judgement:
    """What the outcomes of single cases, by node id, say of the rows; `full` if every test was to run."""
    tests: dict[str, dict[str, Outcome]] = {}
    for node, outcome in cases.items():
        tests.setdefault(node.partition("[")[0], {})[node] = outcome
    found = Judgement([], [])
    for row in rows:
        named = {test: _of(test, tests) for test in row.tests} if row.is_built else {}
        for test, outcome in named.items():
            if outcome is None:
                found.wrong.extend([f"{row.number}: {test} did not run"] if full else [])
            elif outcome.came in ("failed", "xfailed"):
                found.wrong.append(f"{row.number}: {test} {outcome.came}{outcome.why}")
        skipped = [
            f"{row.number}: {test} skipped{out.why}" for test, out in named.items() if out and out.came == WORST[1]
        ]
        alone = len(skipped) == len(named)
        (found.wrong if alone else found.unseen).extend(skipped)
    return found


def _of(test: str, tests: Mapping[str, Mapping[str, Outcome]]) -> Outcome | None:
    """What a named test came to: one case where the row names one, else all of them."""
    cases = tests.get(test.partition("[")[0], {})
    own = [outcome for node, outcome in cases.items() if test in (node, node.partition("[")[0])]
    return max(own, key=lambda each: WORST.index(each.came), default=None)


class Outcomes:
    """The plugin, for the process that all reports come to."""

    def __init__(self, config: pytest.Config, rows: Sequence[Row]) -> None:
        self._rows, self._cases = rows, dict[str, Outcome]()
        self._full = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not any(
            config.getoption(name, None) for name in (*NARROWING, "collectonly")
        )
        self._found = Judgement([], [])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            old, new = self._cases.get(report.nodeid), _outcome(report)
            if old is None or WORST.index(new.came) > WORST.index(old.came):
                self._cases[report.nodeid] = new

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        ended = session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        stopped = bool(session.shouldstop or session.shouldfail)
        self._found = judged(self._rows, self._cases, full=self._full and ended and not stopped)
        if self._found.wrong and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        titles = ("conformance: not shown here", "conformance: rows that their tests do not show")
        for title, lines in zip(titles, (self._found.unseen, self._found.wrong), strict=True):
            if lines:
                terminalreporter.section(title)
                for line in lines:
                    terminalreporter.line(line)


def _outcome(report: pytest.TestReport) -> Outcome:
    if hasattr(report, "wasxfail"):  # passing in spite of it proves as little: the mark says that it need not
        return Outcome("xfailed", f": {report.wasxfail}" if report.wasxfail else "")
    if report.skipped:
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        return Outcome("skipped", f": {why.removeprefix('Skipped: ')}")
    return Outcome("passed" if report.passed else "failed")


def watch(config: pytest.Config, page: Path = PAGE) -> None:
    """To be called once the run is configured. Workers of xdist only report."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(
            Outcomes(config, rows_of(page.read_text(encoding="utf-8"))), "conformance-outcomes"
        )
