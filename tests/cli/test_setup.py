"""Commands use the facts the configuration asks for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast import facts
from holdfast.cli.models import command
from holdfast.errors import HoldfastError


def floor(model: str) -> int:
    rows = json.loads(CliRunner().invoke(command, ["--provider", "anthropic", "--json"], catch_exceptions=False).output)
    return int(next(row["floor"] for row in rows if row["model"] == model))


def test_a_shipped_set_is_named(workspace: Path) -> None:
    """The floor table of the seed is one setting away."""
    assert floor("anthropic:claude-haiku-4-5") == 4096
    (workspace / "holdfast.toml").write_text('[facts]\noverrides = ["seed-floors"]\n')
    assert floor("anthropic:claude-haiku-4-5") == 2048
    assert facts.model("anthropic:claude-haiku-4-5").floor == 2048


def test_a_file_of_the_workspace_is_found(workspace: Path) -> None:
    (workspace / "holdfast.toml").write_text('[facts]\noverrides = ["mine.toml"]\n')
    override = 'as_of = 2026-11-02\nsource = "measured"\n[anthropic.models.claude-haiku-4-5]\nfloor = 3000\n'
    (workspace / "mine.toml").write_text(override)
    assert floor("anthropic:claude-haiku-4-5") == 3000


def test_a_missing_file_is_named(workspace: Path) -> None:
    (workspace / "holdfast.toml").write_text('[facts]\noverrides = ["mine.toml"]\n')
    with pytest.raises(HoldfastError, match=r"mine\.toml"):
        CliRunner().invoke(command, [], catch_exceptions=False)
