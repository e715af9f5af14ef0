"""docs/conformance.md keeps its promises: every number once, and what it calls built can be found.

That the named tests pass is looked at in every run, by tests/conformance_outcomes.py."""

from __future__ import annotations

import re
from functools import cache

import pytest

from holdfast.config import KEYS
from tests.conformance_outcomes import PAGE, ROOT, Row, missing, rows_of

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
