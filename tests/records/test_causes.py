"""The one list of causes: it is whole, what is said of a cause is said there, and the code emits nothing else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast import Engine, Lane
from holdfast.errors import HoldfastError
from holdfast.records import (
    BREAK_CAUSES,
    CAUSES,
    CHANGES,
    HEAD_CHANGES,
    MISSED,
    RESET_REASONS,
    expiry,
)

SOURCES = Path(holdfast.__file__).parent
EMITTING = ("core", "engine", "agent", "tools", "report/explainer")
TAKES_A_NAME = ("because", "BeginAnewError", "announce", "_due", "_missed", "Suspect")
"""Functions that are given a cause or a reason."""


def names_given(tree: ast.Module) -> Iterator[str]:
    """What a module says to those functions, or as `reset`, literally or by a constant of its own."""
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        given = [*call.args] if function in TAKES_A_NAME else []
        given += [keyword.value for keyword in call.keywords if keyword.arg == "reset"]
        for value in given:
            for part in ast.walk(value) if not isinstance(value, ast.Subscript) else ():
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value
                elif isinstance(part, ast.Name) and part.id in constants:
                    yield constants[part.id]


def emitted() -> set[str]:
    paths = [path for package in EMITTING for path in (SOURCES / package).rglob("*.py")]
    return {name for path in paths for name in names_given(ast.parse(path.read_text(encoding="utf-8")))}


def test_the_code_emits_what_is_listed_and_nothing_else() -> None:
    found = {name for name in emitted() if re.fullmatch("[a-z0-9_]+", name)}
    assert found <= set(CAUSES), "a cause or reason that no list knows"
    by_place = {*CHANGES.values(), *(expiry(seconds) for seconds in (300.0, 3_600.0))}
    assert set(BREAK_CAUSES) <= found | by_place, "a cause that nothing can find"
    assert len(found & set(RESET_REASONS)) >= 4


@pytest.mark.parametrize("reason", RESET_REASONS)
def test_whoever_departs_on_purpose_can_announce_every_reason(reason: str) -> None:
    engine, lane = Engine(), Lane(tenant="local", session="session", id="lane")
    engine.announce(lane, reason, now=0.0)
    with pytest.raises(HoldfastError, match="is no reason for a reset"):
        engine.announce(lane, f"{reason}_otherwise", now=0.0)


@pytest.mark.parametrize("name", CAUSES)
def test_each_says_what_it_means_and_what_helps(name: str) -> None:
    entry = CAUSES[name]
    assert re.fullmatch(r"[A-Z][^.]+\.", entry.meaning), "one sentence"
    assert entry.reset == (entry.name in RESET_REASONS)
    assert entry.reset or not entry.missed
    assert entry.reset or entry.cure is not None
    assert entry.cure is None or entry.cure.sentence.endswith(".")


def test_what_is_derived_from_the_list() -> None:
    assert tuple(CAUSES) == (*BREAK_CAUSES, *RESET_REASONS)
    assert list(CHANGES) == ["model", "tools", "system", "settings", "messages"]
    assert {"tools_changed", "system_prompt_changed"} == HEAD_CHANGES
    assert {"bypassed", "unmarked"} == MISSED
    assert expiry(300.0) == expiry(600.0) == "ttl_expired_5m"
    assert expiry(601.0) == "ttl_expired_1h"
