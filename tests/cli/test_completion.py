"""Shell completion, in a real bash where Tab is pressed."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast.cli import COMMANDS, cli
from holdfast.cli.completion import sessions, settings
from holdfast.store import Call, open_store
from holdfast.store import operations as op

TIMEOUT_S = 60.0


def complete(*words: str, incomplete: str) -> list[str]:
    """What the program itself answers, as zsh and bash ask it."""
    environ = {
        **os.environ,
        "_HOLDFAST_COMPLETE": "bash_complete",
        "COMP_LINE": " ".join(["holdfast", *words, incomplete]),
    }
    done = subprocess.run([sys.executable, "-m", "holdfast"], env=environ, capture_output=True, text=True, check=False)
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell(shell: str) -> None:
    done = CliRunner().invoke(cli, ["completion", shell])
    assert done.exit_code == 0
    assert f"_HOLDFAST_COMPLETE={shell}_complete" in done.stdout
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=done.stdout, text=True, check=True)


def test_commands_complete_without_importing_them() -> None:
    script = """
        import os, sys
        os.environ.update(_HOLDFAST_COMPLETE="bash_complete", COMP_LINE="holdfast s")
        from holdfast.cli import run
        try:
            run([])
        except SystemExit:
            pass
        heavy = {"msgspec", "holdfast.config", "holdfast.cli.serve", "holdfast.cli.skills"} & set(sys.modules)
        assert not heavy, heavy
    """
    code = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(code, capture_output=True, text=True, check=True)
    assert {line.partition(",")[2] for line in done.stdout.splitlines()} == {
        name for name in COMMANDS if name.startswith("s")
    }


@pytest.mark.slow
def test_names_inside_of_words_that_bash_breaks() -> None:
    assert complete("config", "show", "--set", incomplete="cache.strategy=zo") == ["zones"]
    assert complete("config", "show", "--set", incomplete="cache.strat") == ["cache.strategy="]
    assert "claude-haiku-4-5" in complete("chat", "--model", incomplete="anthropic:claude-haiku")
    assert complete("replay", "--strategy", incomplete="zones,eco") == ["zones,economic"]
    assert complete("memory", incomplete="his") == ["history"]
    assert complete("models", incomplete="--provider=anth") == ["anthropic"]
    assert complete("config", "show", incomplete="--set=cache.strat") == ["cache.strategy="]
    assert complete("config", "show", incomplete="--set=cache.strategy=zo") == ["zones"]
    assert complete("config", "show", "--set", incomplete='"cache.strategy=zo') == ["cache.strategy=zones"]


def test_sessions_come_from_the_store(workspace: Path) -> None:
    assert sessions(None, None, "") == []  # type: ignore[arg-type]
    with open_store(workspace / "home" / ".holdfast" / "holdfast.db") as store:
        for number, name in enumerate(("01KA", "01KB", "5f0c")):
            store.write(
                op.PutCall(Call(tenant="t", id=f"c{number}", session=name, lane="l", model="m", started_at=number))
            )
    assert complete("show", incomplete="01K") == ["01KB", "01KA"]


def test_names_that_a_shell_would_take_for_more_are_not_offered(workspace: Path) -> None:
    names = ("a:b", "a;id", "a b", "-a", "a$(id)", "a`id`", "a\nb", "a*", "a\x1b[31m", "a'", "é.1")
    with open_store(workspace / "home" / ".holdfast" / "holdfast.db") as store:
        for number, name in enumerate(names):
            store.write(
                op.PutCall(Call(tenant="t", id=f"c{number}", session=name, lane="l", model="m", started_at=number))
            )
    assert set(sessions(None, None, "")) == {"a:b", "é.1"}  # type: ignore[arg-type]


def test_whatever_is_wrong_nothing_is_said(workspace: Path) -> None:
    (workspace / "holdfast.toml").write_text("no toml")
    assert sessions(None, None, "") == []  # type: ignore[arg-type]
    assert settings(None, None, "no.such=") == []  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_tab_in_a_real_bash(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "holdfast"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m holdfast "$@"\n')
    program.chmod(0o755)
    typed = {
        "holdfast simu": "holdfast simulate ",
        "holdfast chat --model anthropic:claude-haiku-4": "holdfast chat --model anthropic:claude-haiku-4-5 ",
        "holdfast config show --set cache.strategy=zo": "holdfast config show --set cache.strategy=zones ",
    }
    with_tab = _tab(list(typed), {"HOME": str(tmp_path), "PATH": f"{program.parent}:{os.environ['PATH']}"})
    assert with_tab == list(typed.values())


def _tab(lines: list[str], environ: dict[str, str]) -> list[str]:
    """What each line becomes when Tab is pressed at its end: it is then printed instead of run."""
    child, terminal = pty.fork()
    if not child:
        os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], {**environ, "TERM": "dumb", "PS1": "> "})
    try:
        _write(terminal, 'bind "set bell-style none"; eval "$(holdfast completion bash)"; echo rea""dy\n')
        _until(terminal, "\nready")
        found = []
        for line in lines:
            _write(terminal, f"{line}\t")
            _until(terminal, line)
            # To the beginning of the line and back: readline works the keys off in order, after the completion.
            _write(terminal, "\x01echo '<\x05>' do\"\"ne\n")
            found.append(_until(terminal, "> done").rpartition("\n<")[2].partition("> done")[0])
        return found
    finally:
        os.close(terminal)
        os.waitpid(child, 0)


def _write(terminal: int, text: str) -> None:
    os.write(terminal, text.encode())


def _until(terminal: int, mark: str) -> str:
    said, deadline = "", time.monotonic() + TIMEOUT_S
    while mark not in said:
        if time.monotonic() > deadline:
            raise AssertionError(f"no {mark!r} in {said!r}")
        if select.select([terminal], [], [], 0.5)[0]:
            said += os.read(terminal, 65_536).decode(errors="replace")
    return said
