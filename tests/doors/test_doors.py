"""Every mechanism acts through every door where docs/mechanisms.md says so, with every provider it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import mechanisms_doors
from holdfast.cli import COMMANDS
from holdfast.config.keys import KEYS
from holdfast.records.events import CATALOGUE
from tests.doors.doors import DOORS
from tests.doors.sessions import PROVIDERS
from tests.doors.table import PENDING, ROWS, Cell, Check, checks, door_named

PAGE = Path(__file__).parents[2] / "docs" / "mechanisms.md"


def cases(*, pending: bool) -> list[object]:
    found = [(cell, check) for cell, check in checks() if (cell in PENDING) == pending]
    return [pytest.param(cell, check, id="-".join(cell)) for cell, check in found]


@pytest.mark.slow
@pytest.mark.parametrize(("cell", "check"), cases(pending=False))
def test_it_acts(cell: Cell, check: Check) -> None:
    _, door, provider = cell
    check(door_named(door), provider)


@pytest.mark.xfail(strict=True, reason="it is not wired; once it acts it leaves PENDING")
@pytest.mark.parametrize(("cell", "check"), cases(pending=True))
def test_it_does_not_act_yet(cell: Cell, check: Check) -> None:
    _, door, provider = cell
    check(door_named(door), provider)


def test_the_page_has_this_table() -> None:
    """The page has what the checks say; that they pass is tested above."""
    made = "\n".join(mechanisms_doors.section(PENDING))
    assert made in PAGE.read_text("utf-8"), "make it anew: python -m benchmarks.mechanisms --markdown"


def test_a_cell_without_a_check_or_a_reason_is_empty() -> None:
    cells = {(row.name, door.name, provider) for row in ROWS for door in DOORS for provider in PROVIDERS}
    declared = {(row.name, door, provider) for row in ROWS for door, provider in row.cells}
    assert declared <= cells
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert {cell for cell, _ in checks()} >= PENDING


def test_settings_events_and_commands_exist() -> None:
    settings = {key for row in ROWS for key in re.findall(r"`([a-z_.]+)`", row.setting)}
    assert settings <= set(KEYS)
    events = {name for row in ROWS for name in re.findall(r"`([a-z]+\.[a-z_]+)`", row.seen)}
    assert events <= CATALOGUE.keys()
    assert {name for row in ROWS for name in re.findall(r"`holdfast (\w+)", row.seen)} <= COMMANDS.keys()


def test_the_sixteen_have_their_rows() -> None:
    numbers = [int(number) for row in ROWS for number in re.findall(r"\((\d+)\)", row.name)]
    assert sorted(numbers) == list(range(1, 17))
