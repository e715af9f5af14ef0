"""`holdfast memory` anywhere in a repository: its project is the repository."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.cli.memory import command
from tests.cli.commands import piped
from tests.cli.knowledge import remember


def listed(*arguments: str) -> list[str]:
    return [entry["id"] for entry in json.loads(piped(command, "list", "--json", *arguments))["entries"]]


def test_all_of_a_repository_has_what_is_known_at_its_top(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / ".git").mkdir()
    (workspace / "src" / "deep").mkdir(parents=True)
    first = remember(workspace, "Deploy to staging")
    monkeypatch.chdir(workspace / "src" / "deep")
    assert listed() == [first]
    piped(command, "add", "Linting", "ruff checks it.")
    monkeypatch.chdir(workspace)
    assert len(listed()) == 2
    assert listed("--project", "src/deep") == listed("--project", str(workspace)) == listed()
    (workspace / "home").mkdir(exist_ok=True)
    monkeypatch.chdir(workspace / "home")
    assert listed() == []
