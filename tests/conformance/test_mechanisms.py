"""C20: every mechanism has a name, a setting, modules and a place where it is seen, and none of them is made up.

What they are worth is measured by `benchmarks.mechanisms` and compared with the page by
tests/test_benchmark_mechanisms.py.
"""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.cli import COMMANDS
from holdfast.config.keys import KEYS
from holdfast.records.events import CATALOGUE

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "mechanisms.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text().splitlines()
    if re.match(r"\| \d", line)
]


def test_c20_all_sixteen_are_named() -> None:
    assert [int(row[0]) for row in ROWS] == list(range(1, 17))
    assert len({row[1] for row in ROWS}) == 16


def test_c20_their_settings_and_events_exist() -> None:
    settings = {key for row in ROWS for key in re.findall(r"`([a-z_.]+)`", row[3])}
    assert len(settings) > 15
    assert settings <= set(KEYS)
    seen = {name for row in ROWS for name in re.findall(r"`([a-z]+\.[a-z_]+)`", row[6])}
    assert len(seen) >= 8
    assert seen <= CATALOGUE.keys()
    commands = {name for row in ROWS for name in re.findall(r"`holdfast (\w+)", row[6])}
    assert commands
    assert commands <= COMMANDS.keys()


def test_c20_their_modules_exist_and_each_has_a_measured_effect() -> None:
    modules = {number: re.findall(r"`([^`]+)`", module) for number, *_, module, _, _ in ROWS}
    assert [number for number, named in modules.items() if not named] == []
    sources = ROOT / "src" / "holdfast"
    assert [name for named in modules.values() for name in named if not (sources / name).is_file()] == []
    assert [row[0] for row in ROWS if not re.search(r"\d", row[5])] == []
