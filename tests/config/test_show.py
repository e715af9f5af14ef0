"""The configuration as people and programs read it, and the reference page."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from holdfast.config import KEYS, SECTIONS, Config, load
from holdfast.config.show import as_json, as_markdown, as_text, notes

REPOSITORY = Path(__file__).resolve().parents[2]


def config(tmp_path: Path, text: str = "", flags: Mapping[str, object] = {}) -> Config:
    (tmp_path / "holdfast.toml").write_text(text, encoding="utf-8")
    return load(workspace=tmp_path, home=tmp_path / "home", environ={"HOME": str(tmp_path)}, flags=flags)


def test_every_key_stands_under_its_section_with_value_and_origin(tmp_path: Path) -> None:
    lines = list(as_text(config(tmp_path, "[gateway]\nport = 7")))
    assert [line[1:-1] for line in lines if line.startswith("[")] == [
        section for section in SECTIONS if any(key.section == section for key in KEYS.values())
    ]
    assert [line.split()[0] for line in lines if line.split(".")[0] in SECTIONS] == list(KEYS)
    (port,) = (line for line in lines if line.startswith("gateway.port "))
    assert port.split() == ["gateway.port", "7", f"{tmp_path}/holdfast.toml:2"]
    assert f"Read: {tmp_path}/holdfast.toml" in lines


def test_columns_are_aligned(tmp_path: Path) -> None:
    lines = [line for line in as_text(config(tmp_path)) if line.startswith(("cache.", "gateway.limits"))]
    short = [line for line in lines if "/" not in line]
    assert len({line.index(" default") for line in short}) == 1


def test_a_narrow_terminal_gets_two_short_lines_per_key(tmp_path: Path) -> None:
    lines = list(as_text(config(tmp_path), width=60))
    at = lines.index('cache.strategy = "economic"')
    assert lines[at + 1] == "    default"
    assert max(len(line) for line in lines if line.startswith("cache.gemini")) <= 60


def test_changed_leaves_the_defaults_out(tmp_path: Path) -> None:
    found = config(tmp_path, "gateway.port = 7")
    lines = list(as_text(found, changed=True))
    assert lines[:3] == ["[gateway]", f"gateway.port  7  {tmp_path}/holdfast.toml:1", ""]
    assert list(as_json(found, changed=True)["values"]) == ["gateway.port"]
    assert "Every value is the default." in list(as_text(config(tmp_path), changed=True))


def test_without_a_file_it_says_where_one_was_looked_for(tmp_path: Path) -> None:
    found = load(workspace=tmp_path, home=tmp_path / "home", environ={"HOME": "/nowhere"})
    assert f"No holdfast.toml in {tmp_path}/home or {tmp_path}" in list(as_text(found))


def test_json_has_value_origin_default_and_description_of_every_key(tmp_path: Path) -> None:
    found = as_json(config(tmp_path, flags={"cache.gemini.enabled": True}))
    assert list(found) == ["values", "notes"]
    assert list(found["values"]) == list(KEYS)
    assert found["values"]["cache.gemini.enabled"] == {
        "value": True,
        "origin": "flag cache.gemini.enabled",
        "default": False,
        "description": KEYS["cache.gemini.enabled"].description,
    }
    assert found["notes"] == []


@pytest.mark.parametrize("name", [name for name, key in KEYS.items() if key.zones])
def test_a_key_that_needs_zones_is_reported_under_another_strategy(tmp_path: Path, name: str) -> None:
    flags = {name: KEYS[name].default}
    (note,) = notes(config(tmp_path, flags=flags))
    assert note.startswith(f'{name} is set, but only used with cache.strategy = "zones"')
    assert f"flag {name}" in note
    assert f"Note: {note}" in list(as_text(config(tmp_path, flags=flags)))
    assert as_json(config(tmp_path, flags=flags))["notes"] == [note]
    assert list(notes(config(tmp_path, flags=flags | {"cache.strategy": "zones"}))) == []


def test_notes_are_those_of_the_agent_that_is_asked_for(tmp_path: Path) -> None:
    found = config(tmp_path, '[cache]\nstrategy = "zones"\nadaptive = true\n[agents.scout.cache]\nstrategy = "rolling"')
    assert list(notes(found)) == []
    (note,) = notes(found, "scout")
    assert 'the strategy is "rolling"' in note


def test_what_an_address_carries_is_masked(tmp_path: Path) -> None:
    address = "https://me:s3cret@proxy.example/v1?api_key=s3cret&x=1"
    found = config(tmp_path, flags={"upstream.openai": address, "facts.overrides": [address]})
    masked = "https://***@proxy.example/v1?api_key=***&x=1"
    assert found.settings.upstream.openai == address
    assert as_json(found)["values"]["upstream.openai"]["value"] == masked
    assert as_json(found)["values"]["facts.overrides"]["value"] == [masked]
    assert not any("s3cret" in line for line in as_text(found))


def test_names_in_a_table_are_masked_and_paths_are_not(tmp_path: Path) -> None:
    found = config(tmp_path, "cache.retention_overrides = { 'https://me:s3cret@x' = 'none' }")
    assert not any("s3cret" in line for line in as_text(found))
    assert as_json(found)["values"]["cache.retention_overrides"]["value"] == {"https://***@x": "none"}
    found = config(tmp_path, flags={"store.url": "sqlite:////home/me@work/x.db"})
    assert as_json(found)["values"]["store.url"]["value"] == "sqlite:////home/me@work/x.db"


def test_control_characters_in_names_do_not_reach_the_terminal(tmp_path: Path) -> None:
    found = config(tmp_path, '[cache.retention_overrides]\n"a\\u001b[31m" = "none"')
    assert all(line.isprintable() for line in as_text(found))


def test_the_reference_page_is_the_one_the_code_writes() -> None:
    page = (REPOSITORY / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert page == as_markdown(), "run: python -m holdfast.config --markdown > docs/configuration.md"


def test_the_reference_page_has_every_key_and_section() -> None:
    page = as_markdown()
    for section in SECTIONS:
        assert f"\n## [{section}]\n" in page
    for name, key in KEYS.items():
        assert f"| `{name.rpartition('.')[2]}` | " in page
        assert key.description in page


def test_the_page_is_written_by_a_command() -> None:
    command = [sys.executable, "-m", "holdfast.config"]
    done = subprocess.run([*command, "--markdown"], capture_output=True, text=True, encoding="utf-8", check=True)
    assert done.stdout == as_markdown()
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2
