"""The schema: every key at its place, with its default, range and description."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from keyword import iskeyword
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.config import KEYS, SECTIONS, Settings
from holdfast.config.keys import RESERVED, RESERVED_PREFIX
from holdfast.config.parse import check
from tests.config.settings_table import OWN, PRESCRIBED, PRESCRIBED_VALUES, ZONES_ONLY

SETTINGS_LIST = Path(__file__).resolve().parents[2].parent / "shared" / "SETTINGS.md"


def same(one: object, other: object) -> bool:
    return one == other and type(one) is type(other)


def at(settings: object, name: str) -> object:
    for part in name.split("."):
        settings = getattr(settings, f"{part}_" if iskeyword(part) else part)
    return settings


@pytest.mark.parametrize("name", sorted(PRESCRIBED | OWN))
def test_every_key_has_its_default(name: str) -> None:
    expected = (PRESCRIBED | OWN)[name]
    assert same(KEYS[name].default, expected)
    assert same(at(Settings(), name), expected)


def test_there_are_no_other_keys() -> None:
    assert set(KEYS) == set(PRESCRIBED) | set(OWN)
    assert set(PRESCRIBED).isdisjoint(OWN)


def test_keys_that_act_with_zones_only_are_marked() -> None:
    assert {name for name, key in KEYS.items() if key.zones} == ZONES_ONLY


def test_the_keys_a_workspace_cannot_set() -> None:
    guarded = {"gateway.host", "gateway.hosts", "gateway.origins", "gateway.subscriptions"}
    guarded |= {"store.url", "store.keep_bodies", "store.retention", "mcp.project"}
    guarded |= {"memory.inject", "memory.inject_tenants", "memory.inject_as", "memory.model_dir", "memory.project"}
    guarded |= {"tools.confirm.mode", "tools.confirm.allow", "tools.confirm.deny"}
    guarded |= {"tools.command.hide", "tools.command.pass"}
    upstreams = {name for name in KEYS if name.startswith("upstream.")}
    assert {name for name, key in KEYS.items() if key.guarded} == guarded | upstreams


def test_a_prescribed_value_that_is_not_our_default_is_known_and_allowed() -> None:
    found = {name: key.seed_value for name, key in KEYS.items() if key.seed_value is not None}
    assert found == PRESCRIBED_VALUES
    for name, value in found.items():
        assert check(KEYS[name], value) == value
        assert value != KEYS[name].default


@pytest.mark.parametrize("name", sorted(KEYS))
def test_every_key_is_described_and_its_default_is_allowed(name: str) -> None:
    key = KEYS[name]
    assert key.description.endswith(".")
    assert "\n" not in key.description
    assert key.allowed
    assert key.section in SECTIONS
    if key.default is not None:
        assert check(key, key.default) == key.default
    assert key.optional == (key.default is None)


def test_every_section_is_described() -> None:
    assert all(text and "\n" not in text for text in SECTIONS.values())


def test_no_two_keys_share_an_environment_variable() -> None:
    variables = [key.variable for key in KEYS.values()]
    assert len(set(variables)) == len(variables)
    assert not set(variables) & set(RESERVED)
    assert not any(variable.startswith(RESERVED_PREFIX) for variable in variables)
    assert KEYS["cache.gemini.enabled"].variable == "HOLDFAST_CACHE_GEMINI_ENABLED"


def test_settings_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Settings().cache.strategy = "zones"  # type: ignore[misc]


class Row(NamedTuple):
    """One key as the list of prescribed settings gives it."""

    key: str
    default: object
    zones: bool
    choices: tuple[str, ...] = ()
    seed_value: object = None


def value(text: str) -> object:
    text = text.split(" = ")[0].strip()
    if text in ("unset", "[]", "{}"):
        return {"unset": None, "[]": (), "{}": {}}[text]
    return json.loads(text) if re.fullmatch(r'".*"|[\d.]+|true|false', text) else text


def rows(text: str) -> Iterator[Row]:
    """The rows of both tables, a key each; what stands in parentheses are choices, or keys of its own."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 3 or cells[1] == "holdfast.toml" or not re.search(r"[a-z_]\.[a-z_]", cells[1]):
            continue
        aside = re.search(r"\((.*)\)", cells[1])
        places = re.findall(r"[a-z_]*(?:\.[a-z_]+)+", re.sub(r"\(.*\)", "", cells[1]))
        keys: list[str] = []
        for place in places:
            keys.append(keys[0].rpartition(".")[0] + place if place.startswith(".") else place)
        seed_value = re.search(r"\(seed (.*?)\)", cells[2])
        defaults = [value(part) for part in re.sub(r"\s*\(.*?\)", "", cells[2]).split(", ")]
        assert len(keys) == len(defaults), line
        zones = cells[1].endswith(" z")
        inside = aside[1] if aside else ""
        for number, (key, default) in enumerate(zip(keys, defaults, strict=True)):
            plain = inside and not re.search(r"[:\d]", inside)
            choices = tuple(inside.split(", ")) if plain else ()
            yield Row(key, default, zones, choices, value(seed_value[1]) if seed_value and not number else None)
        if own := re.fullmatch(r"(\w+) (\d+)", inside):
            yield Row(keys[0].rpartition(".")[0] + "." + own[1], int(own[2]), zones)
        if own := re.fullmatch(r"([\w.]+): (.*)", inside):
            default = value(re.search(r"\((.*)\)", cells[2])[1])  # type: ignore[index]
            yield Row(own[1], default, zones, tuple(own[2].split(", ")))


def test_the_schema_agrees_row_by_row_with_the_list_of_prescribed_settings() -> None:
    if not SETTINGS_LIST.exists():
        pytest.skip("the list of prescribed settings is not beside this repository; settings_table.py stands in")
    found = list(rows(SETTINGS_LIST.read_text(encoding="utf-8")))
    assert {row.key for row in found} == set(PRESCRIBED)
    for row in found:
        key = KEYS[row.key]
        assert same(key.default, row.default), row
        assert key.zones == row.zones, row
        if row.choices:
            assert key.choices == row.choices, row
        if row.seed_value is not None:
            assert key.seed_value == row.seed_value, row
