"""Every name that a cure can have is in the library's list: found in the code itself, so that none is forgotten."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import holdfast
from holdfast.core import cures
from holdfast.core.cures import FAULTS, NAMES, RECOGNISERS, skills
from holdfast.records import BREAK_CAUSES, RESET_REASONS, causes
from holdfast.report.explainer import advice

SOURCES = Path(holdfast.__file__).parent
LIBRARY = Path(cures.__file__).parent
CAUSES = Path(causes.__file__)


def made(path: Path) -> Iterator[ast.expr]:
    """What stands for the name wherever a cure is made."""
    source = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)) if "Cure(" in source else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Cure" and node.args:
            yield node.args[0]


def literals(path: Path) -> set[str]:
    return {name.value for name in made(path) if isinstance(name, ast.Constant) and isinstance(name.value, str)}


def test_the_list_is_what_the_recognisers_say() -> None:
    given = {module.stem: literals(module) for module in LIBRARY.glob("*.py")}
    assert {*given["faults"], *skills.NAMES} == {*FAULTS}
    assert {name for name, names in given.items() if names} == {"faults"}
    listed = literals(CAUSES)
    assert listed <= {*NAMES, *RESET_REASONS}
    assert {*NAMES} <= {*FAULTS, *BREAK_CAUSES} | listed
    assert {each.__module__.rpartition(".")[2] for each in RECOGNISERS} == {"faults", "skills"}


def test_a_name_that_is_no_literal_is_one_of_these() -> None:
    """A variable may hold anything: each is known, and what it holds is checked above."""
    found = {
        (path.name, ast.unparse(name))
        for path in SOURCES.rglob("*.py")
        for name in made(path)
        if not isinstance(name, ast.Constant)
    }
    assert found == {
        ("skills.py", "_name(skills)"),
        ("skills.py", "BODY"),
        ("library.py", "reason"),
        ("library.py", "cause"),
        ("library.py", "cure.name"),
        ("advice.py", "cause"),
        ("explainer.py", "logged_break.cure"),
    }


def test_cures_are_made_nowhere_else() -> None:
    elsewhere = {path.name for path in SOURCES.rglob("*.py") if path.parent != LIBRARY and any(made(path))}
    assert elsewhere == {"causes.py", "advice.py", "explainer.py"}
    assert {advice.NO_MARKER, advice.SHORT_EXPIRY, *advice.NO_CURE, *advice.CURES} <= {*NAMES}
