"""The command `holdfast`: what it shows, how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import click
import pytest

from holdfast import __version__, cli
from holdfast.errors import HoldfastError
from tests.cli.commands import clean, holdfast


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> object:
    """Puts a function in place of the command `config`."""

    def put(function: object) -> None:
        def get(self: object, ctx: click.Context, name: str) -> click.Command:
            return click.Command(name, callback=function)  # type: ignore[arg-type]

        monkeypatch.setattr(cli.Commands, "get_command", get)

    return put


def test_alone_it_shows_what_to_do_next(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run([]) == 0
    out = capfd.readouterr().out
    assert f"Holdfast {__version__}" in out
    assert "  holdfast demo " in out
    assert "  holdfast --help " in out


def test_help_lists_commands_and_examples(capfd: pytest.CaptureFixture[str]) -> None:
    for flag in ("--help", "-h"):
        assert cli.run([flag]) == 0
        out = capfd.readouterr().out
        for name, door in cli.COMMANDS.items():
            assert f"  {name} " in out
            assert door.help in out
            assert f"  {door.example}\n" in out


def test_help_and_next_steps_import_nothing_heavy(tmp_path: Path) -> None:
    script = """
        import sys
        from holdfast.cli import run
        run(["--help"])
        run([])
        heavy = {"msgspec", "rich", "genai_prices", "tiktoken", "mcp", "holdfast.config"} & set(sys.modules)
        assert not heavy, heavy
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], cwd=tmp_path, check=True, capture_output=True)


def test_a_bill_is_made_without_the_engine(tmp_path: Path) -> None:
    """Importing it takes as long as adding up 200,000 calls."""
    script = "import sys, holdfast.cli.bill; assert not {'holdfast.engine', 'holdfast.wire'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, capture_output=True)


def test_version(tmp_path: Path) -> None:
    done = holdfast("--version", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"holdfast, version {__version__}\n")


def test_commands_of_the_table_exist() -> None:
    ctx = click.Context(cli.cli)
    assert cli.cli.list_commands(ctx) == list(cli.COMMANDS)
    assert isinstance(cli.cli.get_command(ctx, "config"), click.Command)
    assert cli.cli.get_command(ctx, "nothing") is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["confg"], "No such command 'confg'; did you mean 'config'?"),
        (["zzz"], "No such command 'zzz'"),
        (["--nothing"], "No such option"),
        (["config", "show", "--set", "x"], '"x" is not of the form KEY=VALUE'),
        (["config", "show", "--set", "=x"], '"=x" is not of the form KEY=VALUE'),
        (["config", "show", "--set", "https://me:s3cret@x"], '"https://***@x" is not of the form KEY=VALUE'),
    ],
)
def test_wrong_usage_exits_with_2(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = holdfast(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_problem_is_one_sentence_on_standard_error_and_exit_1(tmp_path: Path) -> None:
    done = holdfast("config", "show", cwd=tmp_path, HOLDFAST_CACHE_STRATGY="x")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (
        "holdfast: environment HOLDFAST_CACHE_STRATGY: unknown variable; "
        "the nearest known name is HOLDFAST_CACHE_STRATEGY\n"
    )


def test_several_problems_are_a_line_each(tmp_path: Path) -> None:
    done = holdfast("config", "show", "--set", "a=1", "--set", "b=2", cwd=tmp_path)
    assert done.returncode == 1
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == ["holdfast", "holdfast"]


def test_a_traceback_is_shown_on_request(tmp_path: Path) -> None:
    done = holdfast("config", "show", "--set", "a=1", cwd=tmp_path, HOLDFAST_TRACEBACK="1")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_with_130_and_a_short_line(command, capfd: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    def interrupted() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    command(interrupted)
    assert cli.run(["config"]) == 130
    assert capfd.readouterr().err.strip() == "holdfast: interrupted"


@pytest.mark.parametrize("write", ["click.echo('text')", "sys.stdout.write('text')"])
def test_a_reader_that_went_away_is_nothing_to_talk_about(tmp_path: Path, write: str) -> None:
    script = f"""
        import sys, click
        from holdfast import cli
        cli.Commands.get_command = lambda *_: click.Command("config", callback=lambda: {write} and None)
        cli.main(["config"])
    """
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=tmp_path,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_said_so(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", "config", "show"],
            cwd=tmp_path,
            env=clean(tmp_path),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "holdfast: the disk is full; free some space and try again\n"


def test_other_failures_of_the_system_are_not_hidden(command) -> None:  # type: ignore[no-untyped-def]
    def broken() -> None:
        raise IsADirectoryError(21, "Is a directory")

    command(broken)
    with pytest.raises(IsADirectoryError):
        cli.run(["config"])


def test_a_command_chooses_its_exit_code(command) -> None:  # type: ignore[no-untyped-def]
    def three() -> None:
        click.get_current_context().exit(3)

    command(three)
    assert cli.run(["config"]) == 3


def test_main_exits_with_the_code(command, capfd: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    def wrong() -> None:
        raise HoldfastError("something is wrong here; mend it")

    command(wrong)
    with pytest.raises(SystemExit) as caught:
        cli.main(["config"])
    assert caught.value.code == 1
    assert capfd.readouterr().err == "holdfast: something is wrong here; mend it\n"


@pytest.mark.parametrize(
    "arguments",
    [
        "config show",
        "config show --json",
        "models",
        "models --json",
        pytest.param("demo --turns 2", marks=pytest.mark.slow),
        "--help",
    ],
)
def test_without_standard_output_it_still_ends_well(tmp_path: Path, arguments: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m holdfast {arguments} >&-', sys.executable],
        cwd=tmp_path,
        env=clean(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
