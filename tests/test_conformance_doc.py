"""docs/conformance.md keeps its promises: every number once, what it calls built is there, and its tests pass."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

import pytest

from holdfast.config import KEYS
from tests.conformance_outcomes import PAGE, ROOT, Outcome, Row, judged, missing, rows_of

NUMBERS = {"A": 89, "B": 43, "C": 92, "D": 72, "E": 27}
STATES = re.compile(r"done|(not built|deviates): \S.*")
LEAST = 40
"""Characters of a reason: fewer say nothing."""


@cache
def _rows() -> list[Row]:
    return rows_of(PAGE.read_text(encoding="utf-8"))


def _module_exists(module: str) -> bool:
    places = [ROOT / "src" / "holdfast" / module, ROOT / module]
    return any(place.is_file() or (module.endswith("/") and place.is_dir()) for place in places)


def test_every_number_has_exactly_one_row_in_order() -> None:
    wanted = [f"{letter}{n}" for letter, count in NUMBERS.items() for n in range(1, count + 1)]
    assert [row.number for row in _rows()] == wanted


def test_every_row_has_a_statement_of_its_own_and_a_module() -> None:
    statements = [row.statement for row in _rows()]
    assert len(set(statements)) == len(statements)
    assert [row.number for row in _rows() if not row.modules] == []


def test_states_are_those_that_the_page_explains() -> None:
    assert {row.number: row.state for row in _rows() if not STATES.fullmatch(row.state)} == {}


def test_who_deviates_says_what_the_document_has_and_why_we_do_something_else() -> None:
    deviating = [row for row in _rows() if row.state.startswith("deviates")]
    assert deviating
    for row in deviating:
        assert "document" in row.statement.lower(), row.number
        assert len(row.state.partition(": ")[2]) >= LEAST, row.number
        assert "setting" in row.state or "`" in row.state, f"{row.number} names no setting, nor says that there is none"


def test_what_is_built_names_modules_that_exist() -> None:
    built = [row for row in _rows() if row.is_built]
    assert [(row.number, m) for row in built for m in row.modules if not _module_exists(m)] == []


def test_what_is_built_names_tests_that_exist() -> None:
    built = [row for row in _rows() if row.is_built]
    assert [row.number for row in built if not row.tests] == []
    assert [(row.number, why) for row in built for test in row.tests if (why := missing(test))] == []


def test_settings_named_there_exist() -> None:
    named = r"`\[?((?:cache|agent|skills|tools|memory)\.[a-z_.]*[a-z])\]?(?: = [^`]*)?`"
    settings = {name for row in _rows() for name in re.findall(named, row.statement)}
    assert len(settings) > 30
    assert sorted(settings - KEYS.keys()) == []


@pytest.mark.parametrize(
    ("test", "found"),
    [
        ("tests/test_conformance_doc.py::test_settings_named_there_exist", True),
        ("tests/test_shapes.py::test_escapes_stay_escapes[\\n]", True),
        ("tests/test_conformance_doc.py::test_nowhere", False),
        ("tests/test_conformance_doc.py::_rows", False),
        ("tests/nowhere.py::test_x", False),
        ("docs/conformance.md::test_x", False),
    ],
)
def test_the_check_itself_tells_existing_tests_from_others(test: str, found: bool) -> None:
    assert (missing(test) is None) is found


pytest_plugins = "pytester"
PASSED, FAILED, SKIPPED = Outcome("passed"), Outcome("failed"), Outcome("skipped", ": no npm")
XFAILED = Outcome("xfailed", ": one day")
HEAD = "| number | statement | module | test | state |\n|---|---|---|---|---|\n"
TESTS = """
import pytest

def test_good(): pass
@pytest.mark.parametrize("n", [1, 2])
def test_cases(n): pass
@pytest.mark.skip(reason="no npm")
def test_skipped(): pass
@pytest.mark.xfail(reason="one day")
def test_hoped(): assert False
def test_bad(): assert False
@pytest.fixture
def breaks():
    yield
    raise RuntimeError("afterwards")
def test_teardown(breaks): pass
"""


def row(*tests: str, state: str = "done") -> Row:
    return Row("A12", "It works.", ["x.py"], list(tests), state)


class TestJudging:
    def test_what_passed_shows_its_row(self) -> None:
        assert judged([row("t.py::a")], {"t.py::a": PASSED}, full=True) == ([], [])

    @pytest.mark.parametrize(
        ("outcome", "line"),
        [(FAILED, "A12: t.py::a failed"), (XFAILED, "A12: t.py::a xfailed: one day")],
    )
    def test_what_failed_or_was_to_fail_contradicts_it_though_another_passed(self, outcome: Outcome, line: str) -> None:
        cases = {"t.py::a": outcome, "t.py::b": PASSED}
        assert judged([row("t.py::a", "t.py::b")], cases, full=False) == ([line], [])

    def test_what_was_skipped_is_told_where_another_test_shows_the_row(self) -> None:
        cases = {"t.py::a": SKIPPED, "t.py::b": PASSED}
        assert judged([row("t.py::a", "t.py::b")], cases, full=True) == ([], ["A12: t.py::a skipped: no npm"])

    def test_a_row_all_of_whose_tests_were_skipped_is_not_shown(self) -> None:
        cases = {"t.py::a": SKIPPED, "t.py::b": SKIPPED}
        lines = ["A12: t.py::a skipped: no npm", "A12: t.py::b skipped: no npm"]
        assert judged([row("t.py::a", "t.py::b")], cases, full=False) == (lines, [])

    def test_what_did_not_run_counts_in_a_run_of_everything_only(self) -> None:
        cases = {"t.py::a": PASSED}
        assert judged([row("t.py::a", "t.py::b")], cases, full=False) == ([], [])
        assert judged([row("t.py::a", "t.py::b")], cases, full=True) == (["A12: t.py::b did not run"], [])

    def test_of_a_row_of_which_only_a_part_ran_a_skipped_test_is_no_fault(self) -> None:
        found = judged([row("t.py::a", "t.py::b")], {"t.py::a": SKIPPED}, full=False)
        assert found == ([], ["A12: t.py::a skipped: no npm"])

    def test_a_test_with_cases_is_its_worst_one_unless_the_row_names_one(self) -> None:
        cases = {"t.py::a[1]": PASSED, "t.py::a[2]": FAILED}
        assert judged([row("t.py::a")], cases, full=True).wrong == ["A12: t.py::a failed"]
        assert judged([row("t.py::a[1]")], cases, full=True) == ([], [])
        assert judged([row("t.py::a[3]")], cases, full=True).wrong == ["A12: t.py::a[3] did not run"]

    def test_what_deviates_from_its_document_has_to_show_what_it_does(self) -> None:
        assert judged([row("t.py::a", state="deviates: it pays")], {}, full=True).wrong == ["A12: t.py::a did not run"]

    def test_rows_that_promise_nothing_are_left_alone(self) -> None:
        assert judged([row("t.py::a", state="not built: nobody asked")], {}, full=True) == ([], [])


def test_a_row_is_read_as_it_is_written() -> None:
    (found,) = rows_of(HEAD + "| A12 | It `works`. | `x.py` `y/` | `t.py::a`<br>`t.py::b[1]` | done |\n")
    assert found == Row("A12", "It `works`.", ["x.py", "y/"], ["t.py::a", "t.py::b[1]"], "done")


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with a page of its own, looked at as ours is."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    for name in [each for each in os.environ if each.startswith(("PYTEST_", "COV_", "COVERAGE_"))]:
        monkeypatch.delenv(name)
    hook = "from pathlib import Path\nfrom tests.conformance_outcomes import watch\n"
    pytester.makeconftest(f"{hook}def pytest_configure(config): watch(config, Path('page.md'))\n")
    pytester.makepyfile(test_it=TESTS)
    pytester.makeini("[pytest]\ntestpaths = .\n")
    return pytester


def ran(project: pytest.Pytester, page: str, *arguments: str) -> pytest.RunResult:
    project.path.joinpath("page.md").write_text(HEAD + page)
    alone = ("-p", "no:cacheprovider", "-p", "no:langsmith_plugin", "-p", "no:pytest_cov")
    return project.runpytest_subprocess(*alone, *arguments)


def line(number: str, *tests: str) -> str:
    return f"| {number} | It works. | `x.py` | {'<br>'.join(f'`test_it.py::{test}`' for test in tests)} | done |\n"


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_a_run_of_everything(project: pytest.Pytester, workers: tuple[str, ...]) -> None:
    page = line("A1", "test_good", "test_cases") + line("A2", "test_skipped") + line("A3", "test_good", "test_skipped")
    page += line("B1", "test_hoped") + line("B2", "test_bad") + line("B3", "test_nowhere") + line("B4", "test_teardown")
    result = ran(project, page, *workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    told = [each for each in result.outlines if each[:1] in "AB" and each[2:4] == ": "]
    assert told == [
        "A3: test_it.py::test_skipped skipped: no npm",
        "A2: test_it.py::test_skipped skipped: no npm",
        "B1: test_it.py::test_hoped xfailed: one day",
        "B2: test_it.py::test_bad failed",
        "B3: test_it.py::test_nowhere did not run",
        "B4: test_it.py::test_teardown failed",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "arguments", "code"),
    [
        (line("A2", "test_skipped"), ("-n", "2", "-k", "good or skipped"), pytest.ExitCode.TESTS_FAILED),
        (line("B1", "test_hoped"), ("-k", "good or hoped"), pytest.ExitCode.TESTS_FAILED),
        (line("A1", "test_good") + line("B3", "test_nowhere", "test_bad"), ("-k", "good"), pytest.ExitCode.OK),
        (line("A3", "test_good", "test_skipped"), ("test_it.py::test_skipped",), pytest.ExitCode.OK),
        (line("A1", "test_good"), ("--collect-only",), pytest.ExitCode.OK),
    ],
    ids=["nothing shows it", "expected to fail", "only what ran", "told, no fault", "no run"],
)
def test_a_run_of_some_tests(
    project: pytest.Pytester, page: str, arguments: tuple[str, ...], code: pytest.ExitCode
) -> None:
    assert ran(project, page, *arguments).ret == code


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["one process", "xdist"])
def test_a_run_that_was_stopped_says_nothing_of_what_it_did_not_come_to(
    project: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    result = ran(project, line("B2", "test_bad", "test_nowhere"), "-x", *workers)
    assert result.ret != pytest.ExitCode.OK
    assert "did not run" not in result.stdout.str()
