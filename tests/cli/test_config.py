"""`holdfast config show` in a home of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from holdfast.cli import cli
from holdfast.config import KEYS
from holdfast.errors import HoldfastError


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def show(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["config", "show", *arguments])


def test_it_prints_every_key(place: Path) -> None:
    done = show()
    assert done.exit_code == 0
    for name in KEYS:
        assert f"\n{name} " in done.output


def test_it_prints_where_a_value_came_from(place: Path) -> None:
    (place / "holdfast.toml").write_text('[cache]\nstrategy = "zones"\n')
    (place / ".holdfast").mkdir()
    (place / ".holdfast" / "holdfast.toml").write_text("gateway.port = 7\n")
    done = show("--changed", "--set", "memory.inject=yes")
    assert [line.split() for line in done.output.splitlines() if line[:1] not in ("", "[", "R", "N")] == [
        ["cache.strategy", '"zones"', f"{place}/holdfast.toml:2"],
        ["gateway.port", "7", f"{place}/.holdfast/holdfast.toml:1"],
        ["memory.inject", "true", "flag", "memory.inject"],
    ]


def test_json(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE_RETENTION", "short")
    found = json.loads(show("--json").output)
    assert set(found["values"]) == set(KEYS)
    assert found["values"]["cache.retention"]["value"] == "short"
    assert found["values"]["cache.retention"]["origin"] == "environment HOLDFAST_CACHE_RETENTION"
    assert found["values"]["tools.offload.max_result_chars"]["value"] is None
    assert len(found["notes"]) == 1


def test_the_values_of_one_agent(place: Path) -> None:
    (place / "holdfast.toml").write_text("[agents.scout.gateway]\nport = 7\n[agents.other.gateway]\nport = 8\n")
    assert json.loads(show("--json", "--agent", "scout").output)["values"]["gateway.port"]["value"] == 7
    assert json.loads(show("--json").output)["values"]["gateway.port"]["value"] == 8788


def test_an_agent_without_settings_is_an_error_that_names_the_others(place: Path) -> None:
    done = show("--agent", "scout")
    assert isinstance(done.exception, HoldfastError)
    assert str(done.exception) == (
        "there are no settings for an agent named scout; no holdfast.toml has an [agents.NAME] block"
    )
    (place / "holdfast.toml").write_text("[agents.b]\n[agents.a]\n")
    assert str(show("--agent", "scout").exception).endswith("; known agents are a, b")


def test_a_terminal_gets_lines_that_fit(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import holdfast.cli.config as module

    class Terminal:
        def isatty(self) -> bool:
            return True

    class Sys:
        stdout = Terminal()

    monkeypatch.setattr(module, "sys", Sys)
    monkeypatch.setenv("COLUMNS", "50")
    assert 'cache.strategy = "economic"\n    default\n' in show().output


def test_values_may_contain_the_sign_of_equality(place: Path) -> None:
    found = json.loads(show("--json", "--set", 'cache.retention_overrides={"a=b" = "none"}').output)
    assert found["values"]["cache.retention_overrides"]["value"] == {"a=b": "none"}


def test_the_group_alone_shows_its_help(place: Path) -> None:
    assert "show" in CliRunner().invoke(cli, ["config", "--help"]).output
