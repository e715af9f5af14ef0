"""docs/conformance.md keeps its promises: every number once, and what it calls built can be found.

That the named tests pass is looked at in every run, by tests/conformance_outcomes.py."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from holdfast.config import KEYS
from tests.conformance_outcomes import PAGE, Row, rows_of

ROOT = Path(__file__).parent.parent
NUMBERS = {"A": 89, "B": 43, "C": 92, "D": 72, "E": 27}
STATES = re.compile(r"done|not built: \S.*")


@cache
def _rows() -> list[Row]:
    return rows_of(PAGE.read_text(encoding="utf-8"))


@cache
def _names(path: Path) -> set[str]:
    """The test functions a file defines, those of its classes as `Class::test`."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            methods = [item for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)]
            found |= {f"{node.name}::{item.name}" for item in methods}
    return {name for name in found if name.rpartition("::")[2].startswith("test_")}


def _module_exists(module: str) -> bool:
    places = [ROOT / "src" / "holdfast" / module, ROOT / module]
    return any(place.is_file() or (module.endswith("/") and place.is_dir()) for place in places)


def _missing(test: str) -> str | None:
    """Why a test id cannot be found, None if it can."""
    file, _, name = test.partition("::")
    if not file.startswith("tests/") or not (ROOT / file).is_file():
        return f"{test}: no such file"
    plain = re.sub(r"\[.*\]$", "", name)
    return None if plain in _names(ROOT / file) else f"{test}: the file defines no such test"


def test_every_number_has_exactly_one_row_in_order() -> None:
    wanted = [f"{letter}{n}" for letter, count in NUMBERS.items() for n in range(1, count + 1)]
    assert [row.number for row in _rows()] == wanted


def test_every_row_has_a_statement_of_its_own_and_a_module() -> None:
    statements = [row.statement for row in _rows()]
    assert len(set(statements)) == len(statements)
    assert [row.number for row in _rows() if not row.modules] == []


def test_states_are_the_two_that_the_page_explains() -> None:
    assert {row.number: row.state for row in _rows() if not STATES.fullmatch(row.state)} == {}


def test_what_is_built_names_modules_that_exist() -> None:
    built = [row for row in _rows() if row.state == "done"]
    assert [(row.number, m) for row in built for m in row.modules if not _module_exists(m)] == []


def test_what_is_built_names_tests_that_exist() -> None:
    built = [row for row in _rows() if row.state == "done"]
    assert [row.number for row in built if not row.tests] == []
    assert [(row.number, why) for row in built for test in row.tests if (why := _missing(test))] == []


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
        ("tests/test_conformance_doc.py::_missing", False),
        ("tests/nowhere.py::test_x", False),
        ("docs/conformance.md::test_x", False),
    ],
)
def test_the_check_itself_tells_existing_tests_from_others(test: str, found: bool) -> None:
    assert (_missing(test) is None) is found
