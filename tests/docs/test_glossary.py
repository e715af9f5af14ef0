"""docs/glossary.md: few words, and code, events, commands and pages use them for the same things."""

from __future__ import annotations

import ast
import importlib
import re
from collections import defaultdict
from functools import cache

import click
import pytest

import holdfast
from holdfast.cli import cli
from holdfast.config import KEYS
from holdfast.records.events import CATALOGUE
from tests.docs.pages import PAGES, ROOT, prose, text

PAGE = "glossary.md"
ROWS: dict[str, tuple[str, list[str]]] = {
    word: (meaning, re.findall(r"`([^`]+)`", places))
    for word, meaning, places in re.findall(r"^\| \*\*(\w+)\*\* \| (.*?) \| (.*?) \|$", text(PAGE), re.MULTILINE)
}
"""Each word with its meaning and where it stands."""
SYNONYMS: dict[str, str] = {
    "Block": "chunk",
    "Break": "cache miss|miss of the cache|cache bust|invalidation",
    "Cure": "remedy|workaround|mitigation",
    "Dialect": "wire format|API format|API flavou?r",
    "Entry": "cache record|cache item",
    "Floor": "cacheable minimum|minimum cacheable",
    "Lane": "conversation thread",
    "Ledger": "bookkeeping",
    "Lifetime": "TTL|time to live|lifespan",
    "Marker": "breakpoint|cache point",
    "Plan": "marking plan",
    "Prediction": "forecast",
    "Repair": "mend|mended|mending|heal|normali[sz]ation",
    "Strategy": "policy|policies",
    "Tenant": "customer",
    "Trace": "session recording",
    "Verdict": "judgement",
}
"""What no page calls the thing that has a word."""
OWN_WORDS = {
    ("cache-rules.md", "breakpoint"): "OpenAI's documentation",
    ("mechanisms.md", "breakpoint"): "OpenAI's documentation",
    ("results.md", "breakpoint"): "OpenAI's documentation",
    ("replay", "mends"): "the help of `holdfast replay --repair`, which is fixed",
}
"""Where one of these is somebody else's word."""


@cache
def public_classes() -> dict[str, set[str]]:
    """Every public class of the source: by its name, the modules that define one."""
    classes: dict[str, set[str]] = defaultdict(set)
    for path in (ROOT / "src" / "holdfast").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                classes[node.name].add(module)
    return classes


def resolve(dotted: str) -> object:
    """What stands under a name below `holdfast`."""
    here: object = holdfast
    for name in dotted.split("."):
        if not hasattr(here, name):
            importlib.import_module(f"{here.__name__}.{name}")  # type: ignore[attr-defined]
        here = getattr(here, name)
    return here


def command_text(words: list[str]) -> str:
    """The name and the help of a command."""
    command = cli.get_command(click.Context(cli, info_name="holdfast"), words[0])
    return f"{' '.join(words)} {command.get_short_help_str(limit=200)}"


def says(word: str, place: str) -> bool:
    """Whether an event, a setting, a command or a name in the code exists and has the word in it."""
    stem = word.lower().removesuffix("y")
    if place.startswith("holdfast "):
        return stem in command_text(place.split()[1:]).lower()
    if place not in CATALOGUE and place not in KEYS:
        resolve(place)
    return stem in place.lower()


def test_it_has_at_most_twenty_five_words_in_order() -> None:
    assert 20 <= len(ROWS) <= 25
    assert list(ROWS) == sorted(ROWS)
    assert len(ROWS) == len(re.findall(r"^\| \*\*", text(PAGE), re.MULTILINE))


@pytest.mark.parametrize("word", ROWS)
def test_a_meaning_is_one_or_two_sentences(word: str) -> None:
    meaning, _ = ROWS[word]
    assert 1 <= len(re.findall(r"\.(?= [A-Z]|$)", re.sub(r"`[^`]*`", "", meaning))) <= 2
    assert meaning.endswith(".")


@pytest.mark.parametrize("word", ROWS)
def test_the_word_stands_in_the_code_and_wherever_else_the_page_says(word: str) -> None:
    _, places = ROWS[word]
    assert any(place not in CATALOGUE and place not in KEYS and "holdfast " not in place for place in places)
    assert [place for place in places if not says(word, place)] == []


@pytest.mark.parametrize("word", ROWS)
def test_a_public_class_of_that_name_is_that_thing(word: str) -> None:
    _, places = ROWS[word]
    named = {resolve(place).__module__ for place in places if place.rpartition(".")[2] == word}
    assert public_classes().get(word, set()) <= named


def test_events_speak_of_the_same_things() -> None:
    named = {place for _, places in ROWS.values() for place in places}
    of_the_cache = {"cache.planned", "cache.verdict", "cache.break", "cache.reset"}
    assert of_the_cache <= named & CATALOGUE.keys()


@pytest.mark.parametrize("page", [*sorted({*PAGES} - {"conformance.md"}), "../README.md", "../CONTRIBUTING.md"])
def test_pages_use_the_word_and_no_synonym(page: str) -> None:
    """conformance.md quotes its sources."""
    assert synonyms(page, prose(page)) == []


def test_commands_use_the_word_and_no_synonym() -> None:
    for name in cli.list_commands(click.Context(cli)):
        command = cli.get_command(click.Context(cli), name)
        shown = re.sub(r"--[\w-]+", "", command.get_help(click.Context(command, info_name=name)))
        assert synonyms(name, shown) == []


def synonyms(place: str, words: str) -> list[str]:
    return [
        f"{place}: {match[0]} instead of {word}"
        for word, pattern in SYNONYMS.items()
        for match in re.finditer(rf"\b(?:{pattern})s?\b", words, re.IGNORECASE)
        if not any(place == page and match[0].lower().startswith(other) for page, other in OWN_WORDS)
    ]


def test_the_checks_would_notice() -> None:
    assert SYNONYMS.keys() <= ROWS.keys()
    assert synonyms("page", "Three TTLs and a breakpoint") == [
        "page: TTLs instead of Lifetime",
        "page: breakpoint instead of Marker",
    ]
    assert not says("Break", "holdfast models")
    assert not says("Break", "core.Plan")
    with pytest.raises(ModuleNotFoundError):
        says("Break", "core.Break")
