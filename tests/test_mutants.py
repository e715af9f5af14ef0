"""Every wiring mutant can still be applied and names tests that exist; whether they kill it is for `make mutants`."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.mutants.copies import Copy
from scripts.mutants.descriptions import ROOT, Malformed, Mutant, chosen, load, problems
from scripts.mutants.runs import Programs, Runner, without_mutants
from tests.conformance_outcomes import PAGE, missing, rows_of

MUTANTS = load()
SOURCE = "src/holdfast/thing.py"
EXAMPLE = Mutant("nothing is done", (), SOURCE, "return 1", "return 2", ("tests/test_thing.py::test_thing",), "example")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.source}: {mutant.name}")
def test_a_mutant_can_be_applied_and_names_tests_and_rows_that_exist(mutant: Mutant) -> None:
    assert problems(mutant) == []
    assert mutant.tests
    assert [why for test in mutant.tests if (why := missing(test))] == []
    numbers = {row.number for row in rows_of(PAGE.read_text(encoding="utf-8"))}
    assert set(mutant.rows) <= numbers


def test_no_two_mutants_are_the_same() -> None:
    broken = Counter((mutant.file, mutant.find.strip(), mutant.replace.strip()) for mutant in MUTANTS)
    assert [each for each, count in broken.items() if count > 1] == []


def test_no_two_mutants_have_one_name() -> None:
    assert [name for name, count in Counter(mutant.name for mutant in MUTANTS).items() if count > 1] == []


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small repository with one source file and a test of it."""
    place = tmp_path / "tree"
    for name, text in {
        "src/holdfast/__init__.py": "",
        SOURCE: "def thing():\n    return 1  # one\n",
        "tests/test_thing.py": "from holdfast.thing import thing\n\n\ndef test_thing():\n    assert thing() == 1\n\n\n"
        "def test_other():\n    assert thing()\n",
        "src/holdfast/data.toml": "floor = 1\n",
        "scripts/__init__.py": "",
        "scripts/mutants/__init__.py": "",
        "scripts/mutants/outcomes.py": (ROOT / "scripts/mutants/outcomes.py").read_text("utf-8"),
        "pytest.ini": "[pytest]\naddopts = -p no:holdfast -p no:langsmith_plugin\n",
    }.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text, "utf-8")
    subprocess.run(["git", "init", "--quiet", str(place)], check=True)
    return place


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, None),
        ({"file": "src/holdfast/nowhere.py"}, "no source file"),
        ({"file": "tests/test_thing.py"}, "no source file"),
        ({"find": "n"}, "occurs 3 times"),
        ({"find": "return 3"}, "occurs 0 times"),
        ({"replace": "return 1"}, "what is found"),
        ({"find": "# one", "replace": "# two"}, "layout or comments"),
        ({"replace": "return ("}, "no Python"),
        ({"file": "src/holdfast/data.toml", "find": "floor = 1", "replace": "floor = 2"}, None),
    ],
)
def test_the_check_tells_what_can_be_applied(tree: Path, changed: dict[str, str], words: str | None) -> None:
    found = problems(replace(EXAMPLE, **changed), tree)
    assert found == [] if words is None else words in found[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "fate", "words"),
    [
        ({}, "killed", "tests/test_thing.py::test_thing"),
        ({"tests": ("tests/test_thing.py::test_other",)}, "survived", "1 tests passed"),
        ({"find": "def thing", "replace": "def other"}, "error", "pytest ended with"),
        ({"find": "def thing", "replace": "import nowhere\ndef thing"}, "error", "does not import"),
        ({"replace": "while True: pass"}, "killed", "by timeout"),
    ],
)
def test_what_becomes_of_a_mutant(tree: Path, tmp_path: Path, changed: dict[str, str], fate: str, words: str) -> None:
    copy = Copy.of_repository(tmp_path / "copy", tree)
    runner = Runner(Programs(), tmp_path)
    runner.check_copy(copy)
    verdict = runner.verdict(copy, replace(EXAMPLE, **changed), timeout=5 if words == "by timeout" else 120)
    assert (verdict.fate, words in verdict.why) == (fate, True), verdict.why
    for place in (tree, copy.place):
        assert (place / SOURCE).read_text("utf-8") == "def thing():\n    return 1  # one\n"


@pytest.mark.parametrize(
    ("outcomes", "words"),
    [
        ({"t.py::a": "passed", "t.py::b[1]": "passed", "t.py::b[2]": "skipped"}, None),
        ({"t.py::a": "passed"}, "t.py::b did not run"),
        ({"t.py::a": "failed", "t.py::b[1]": "passed"}, "t.py::a fails"),
        ({"t.py::a": "passed", "t.py::b[1]": "skipped"}, "t.py::b is skipped"),
    ],
)
def test_tests_that_do_not_pass_without_a_mutant_kill_none(outcomes: dict[str, str], words: str | None) -> None:
    why = without_mutants(outcomes, replace(EXAMPLE, tests=("t.py::a", "t.py::b")))
    assert why is None if words is None else words in str(why)


def test_mutants_are_chosen_by_row_name_and_file() -> None:
    other = replace(EXAMPLE, name="else", rows=("A1",), file="src/holdfast/else/core.py", source="more")
    for word in ("A1", "ELSE", "else/core.py", "more", "more.toml", "src/holdfast/else/core.py"):
        assert chosen([EXAMPLE, other], [word]) == [other], word
    assert chosen([EXAMPLE, other], []) == [EXAMPLE, other]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[mutant]", "no TOML"),
        ("[other]", "something else"),
        ('[[mutant]]\nname = "x"', "look at file, find"),
        (
            '[[mutant]]\nname = "x"\nrows = "A1"\nfile = ""\nfind = ""\nreplace = ""\ntests = []',
            "rows is of the wrong type",
        ),
    ],
)
def test_a_description_that_is_none_is_refused_in_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "odd.toml").write_text(text, "utf-8")
    with pytest.raises(Malformed, match=r"odd\.toml") as refused:
        load(tmp_path)
    assert words in str(refused.value)


def test_the_list_names_every_mutant() -> None:
    asked = [sys.executable, "-m", "scripts.mutants", "--list"]
    lines = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.splitlines()
    assert len(lines) == len(MUTANTS)
