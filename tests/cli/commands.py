"""Running commands: in this process, in a pipe, in terminals of any width, and as the real program."""

from __future__ import annotations

import os
import subprocess
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


def clean(home: Path) -> dict[str, str]:
    """This environment with a home of its own and nothing of Holdfast's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return kept | {"HOME": str(home)}


def holdfast(*arguments: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """The real program, in a home of its own."""
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *arguments],
        cwd=cwd,
        env=clean(cwd) | environ,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
