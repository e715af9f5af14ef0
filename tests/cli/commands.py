"""Running commands: in this process, in a pipe, in terminals of any width, and as the real program."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from click.testing import CliRunner, Result

from holdfast import cli


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


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(command: click.Command, *arguments: str, columns: int) -> list[str]:
    """The lines that a terminal of so many columns gets."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(Terminal()) as terminal:
        patch.setenv("COLUMNS", str(columns))
        command.main(list(arguments), standalone_mode=False)
    return terminal.getvalue().splitlines()


class Stream(io.TextIOWrapper):
    """A standard stream in memory, for text and for bytes."""

    def __init__(self) -> None:
        self.bytes = io.BytesIO()
        super().__init__(self.bytes, "utf-8", newline="")

    def getvalue(self) -> str:
        self.flush()
        return self.bytes.getvalue().decode()


class Done(NamedTuple):
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str


def run(*arguments: str) -> Done:
    """The whole program in this process."""
    with redirect_stdout(Stream()) as out, redirect_stderr(Stream()) as err:
        code = cli.run(list(arguments))
    return Done(code, out.getvalue(), err.getvalue())


def output(*arguments: str) -> str:
    """What the whole program prints where it succeeds."""
    done = run(*arguments)
    assert done.code == 0, done
    return done.out


def refused(*arguments: str) -> str:
    """What the whole program says, in one sentence, while it changes nothing."""
    code, out, err = run(*arguments)
    assert (code, out) == (1, ""), (code, out, err)
    assert err.startswith("holdfast: ")
    assert "Traceback" not in err
    assert all(character.isprintable() or character == "\n" for character in err)
    return err


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


def shell(line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A line of a shell in which `holdfast` is the real program, in a home of its own."""
    return subprocess.run(
        ["bash", "-c", line.replace("holdfast", f"'{sys.executable}' -m holdfast", 1)],
        cwd=cwd,
        env=clean(cwd),
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
