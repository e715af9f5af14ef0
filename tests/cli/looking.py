"""Running the commands that look at a store: in a pipe and in terminals of any width."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result


def use(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this database the configured one."""
    monkeypatch.setenv("HOLDFAST_STORE_URL", f"sqlite:///{path}")
    monkeypatch.setenv("TZ", "UTC")


def invoke(command: click.Command, *arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


def piped(command: click.Command, *arguments: str) -> str:
    done = CliRunner().invoke(command, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def shown(
    command: click.Command,
    *arguments: str,
    columns: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> list[str]:
    """The lines that a terminal of so many columns gets."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(columns))
    capsys.readouterr()
    command.main(list(arguments), standalone_mode=False)
    return capsys.readouterr().out.splitlines()
