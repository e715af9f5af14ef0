"""docs/architecture.md keeps up with the tree: packages as the import rules order them, and every name is there."""

from __future__ import annotations

import importlib.util
import inspect
import re
import tomllib
from functools import cache
from types import ModuleType

import pytest

from holdfast.config import KEYS, SECTIONS
from holdfast.records.events import CATALOGUE
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


def is_there(path: str, package: str = "") -> bool:
    """From the top, or in a package."""
    return any(True for place in (SOURCE, SOURCE / package) for _ in place.glob(path))


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
def words() -> set[str]:
    """All words of the source, and the names of its files and folders."""
    files = [path for path in SOURCE.rglob("*.py") if "__pycache__" not in path.parts]
    found = {word for path in files for word in WORD.findall(path.read_text(encoding="utf-8"))}
    return found | {part.removesuffix(".py") for path in files for part in path.relative_to(SOURCE).parts}


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


def test_single_words_are_words_of_the_source() -> None:
    assert [name for name in NAMED if WORD.fullmatch(name) and name not in words()] == []


def test_the_checks_would_notice() -> None:
    assert is_there("facts/data/*.toml")
    assert is_there("scan.py", "wire")
    assert not is_there("scan.py")
    assert leads_somewhere("engine.prepare")
    assert leads_somewhere("core.planner.prepare")
    assert not leads_somewhere("engine.frobnicate")
    assert not leads_somewhere("core.planner.frobnicate")
    assert len(ROWS) > 20
    assert len(PICTURES) >= 6
