"""docs/architecture.md keeps up with the tree: packages as the import rules order them, every name is there, and the
table of figures is the present one."""

from __future__ import annotations

import ast
import builtins
import importlib.util
import inspect
import re
import tomllib
from functools import cache
from types import ModuleType

import pytest

from holdfast.config import KEYS, SECTIONS
from holdfast.records.events import CATALOGUE
from scripts.house import BLOCK, measure
from tests.docs.pages import ROOT, spans, text

PAGE = "architecture.md"
SOURCE = ROOT / "src" / "holdfast"
ROWS: list[tuple[str, str]] = re.findall(r"^\| `(\w+)(?:/|\.py)` \| (.*?) \|", text(PAGE), re.MULTILINE)
"""The packages of the table, each with its job."""
PICTURES: list[str] = re.findall(r"^```\n(.*?)^```", text(PAGE), re.DOTALL | re.MULTILINE)
PATH = re.compile(r"(?:\w+/)+(?:[\w*]+(?:\.\w+)?)?|\w+\.py")
DOTTED = re.compile(r"\b[a-z_]+(?:\.\w+)+")
WORD = re.compile(r"[A-Za-z_]\w+")
INSIDE = {"window": "agent.window"}
"""Packages within others that the page calls by their last name."""
IN_ROWS = {name for _, job in ROWS for name in re.findall(r"`([^`]+)`", job)}
NAMED = sorted({*spans(PAGE), *(name for picture in PICTURES for name in DOTTED.findall(picture))})

LIMITED = (
    "modules named by a participle",
    "public class names used more than twice",
    "functions with 8 or more parameters",
    "places users import from",
    "of these past the package's `__init__`",
    "imports of one test module by another",
)
"""The figures of the table that are few. The others change with every commit."""


def is_there(path: str, package: str = "") -> bool:
    """From the top of the repository or of the source, or in a package."""
    return any(True for place in (ROOT, SOURCE, SOURCE / package) for _ in place.glob(path))


def leads_somewhere(dotted: str) -> bool:
    """A setting, an event, a module or something in it; `engine.prepare` is what a class of that package does."""
    if dotted in CATALOGUE or dotted in KEYS or dotted in SECTIONS:
        return True
    head, _, rest = dotted.partition(".")
    here: object = importlib.import_module(f"holdfast.{INSIDE.get(head, head)}")
    for name in rest.split("."):
        here = _within(here, name)
    return here is not None


def _within(here: object, name: str) -> object:
    if not isinstance(here, ModuleType) or not hasattr(here, "__path__"):
        return getattr(here, name, None)
    if importlib.util.find_spec(module := f"{here.__name__}.{name}") is not None:
        return importlib.import_module(module)
    owners = (here, *(each for _, each in inspect.getmembers(here, inspect.isclass)))
    return next((getattr(each, name) for each in owners if hasattr(each, name)), None)


@cache
def names() -> set[str]:
    """What the source defines: modules, packages, classes, functions, members, parameters, and the words it stores."""
    defined = {"src", *dir(builtins)}
    for path in SOURCE.rglob("*.py"):
        defined.update(part.removesuffix(".py") for part in path.relative_to(SOURCE).parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                defined.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                defined.add(node.id)
            elif isinstance(node, ast.arg):
                defined.add(node.arg)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                defined.add(node.value)
    return defined


def test_the_table_has_every_package_in_the_order_of_the_import_rules() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        layers = tomllib.load(file)["tool"]["importlinter"]["contracts"][0]["layers"]
    assert [package for package, _ in ROWS] == layers


@pytest.mark.parametrize(("package", "job"), ROWS, ids=[package for package, _ in ROWS])
def test_a_package_holds_what_its_row_names(package: str, job: str) -> None:
    assert [
        name for name in re.findall(r"`([^`]+)`", job) if PATH.fullmatch(name) and not is_there(name, package)
    ] == []


@pytest.mark.parametrize("path", [name for name in NAMED if PATH.fullmatch(name) and name not in IN_ROWS])
def test_a_named_file_exists(path: str) -> None:
    assert is_there(path)


@pytest.mark.parametrize(
    "dotted",
    [name for name in NAMED if DOTTED.fullmatch(name) and not PATH.fullmatch(name) and name != "holdfast.toml"],
)
def test_a_dotted_name_leads_somewhere(dotted: str) -> None:
    assert leads_somewhere(dotted)


def test_single_words_are_names_of_the_source() -> None:
    assert [name for name in NAMED if WORD.fullmatch(name) and name not in names()] == []


@pytest.mark.parametrize("module", re.findall(r"`python -m ([\w.]+)", text(PAGE)))
def test_a_script_exists(module: str) -> None:
    assert importlib.util.find_spec(module) is not None


def figures(table: str) -> dict[str, str]:
    """The rows of a table of two columns."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()]
    return {row[0]: row[1] for row in rows[2:]}


def test_the_table_of_figures_is_the_present_one() -> None:
    quoted = BLOCK.search(text(PAGE))
    assert quoted
    shown, measured = figures(quoted[0]), dict(measure(ROOT).rows())
    assert list(shown) == list(measured)
    renew = "run: python -m scripts.house --write docs/architecture.md"
    assert {name: shown[name] for name in LIMITED} == {name: measured[name] for name in LIMITED}, renew


def test_the_checks_would_notice() -> None:
    assert is_there("facts/data/*.toml")
    assert is_there("scan.py", "wire")
    assert not is_there("scan.py")
    assert leads_somewhere("engine.prepare")
    assert leads_somewhere("core.planner.prepare")
    assert not leads_somewhere("engine.frobnicate")
    assert not leads_somewhere("core.planner.frobnicate")
    assert "frobnicate" not in names()
    assert len(ROWS) > 20
    assert len(PICTURES) >= 6
