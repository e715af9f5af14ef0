"""The command `holdfast`: what it shows alone, as it fits what is there, and how it ends."""

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
from holdfast.cli import COMMANDS
from holdfast.cli.next_steps import has_store, logs, program, text
from holdfast.errors import HoldfastError
from holdfast.report.logs.discovery import places
from holdfast.store import open_store
from tests.cli.commands import holdfast, shell


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
    done = shell("holdfast config show >/dev/full", tmp_path)
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


@pytest.mark.usefixtures("workday_store")
@pytest.mark.parametrize(
    ("question", "arguments"),
    [("holdfast.report.sessions", ["sessions"]), ("holdfast.report.skills", ["skills", "usage"])],
)
def test_an_interrupt_ends_it_cleanly(
    question: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(question, interrupted)
    assert cli.run(arguments) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "holdfast: interrupted"


@pytest.mark.parametrize(
    "arguments",
    [
        "skills list",
        "config show",
        "config show --json",
        "models",
        "models --json",
        pytest.param("demo --turns 2", marks=pytest.mark.slow),
        "--help",
    ],
)
def test_without_standard_output_it_still_ends_well(tmp_path: Path, arguments: str) -> None:
    done = shell(f"holdfast {arguments} >&-", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


CLIENTS = {"claude-code": "Claude Code", "codex": "Codex", "pi": "pi", "opencode": "opencode"}


def lines(home: Path) -> list[str]:
    return text({"HOME": str(home)}, "1.0", ".venv/bin/holdfast").splitlines()


def commands(shown: list[str]) -> list[str]:
    return [line.split()[1] for line in shown if line.startswith("  holdfast ")]


def test_in_an_empty_home_it_begins_with_what_needs_nothing(tmp_path: Path) -> None:
    assert commands(lines(tmp_path)) == ["demo", "explain", "run", "serve", "chat", "doctor", "--help"]


def test_where_no_shell_finds_it_it_says_how_to_call_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.argv", [".venv/bin/holdfast"])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program() == ".venv/bin/holdfast"
    assert lines(tmp_path)[-1] == "  . .venv/bin/activate"
    monkeypatch.setattr("sys.argv", ["/my clone/bin/holdfast"])
    assert program() == "'/my clone/bin/holdfast'"
    assert text({"HOME": str(tmp_path)}, "1.0", program()).endswith("  . '/my clone/bin/activate'")
    monkeypatch.setattr("sys.argv", ["-m"])
    assert program() == "holdfast"
    assert "activate" not in text({"HOME": str(tmp_path)}, "1.0")


def test_a_home_that_cannot_be_looked_into_is_an_empty_one(tmp_path: Path) -> None:
    assert commands(lines(tmp_path / ("x" * 300)))[0] == "demo"
    assert text({"HOME": "~nobody-of-this-name"}, "1.0").startswith("Holdfast 1.0")


def test_with_logs_it_begins_with_explaining_them(tmp_path: Path) -> None:
    (tmp_path / ".claude" / "projects").mkdir(parents=True)
    shown = lines(tmp_path)
    assert "Logs of Claude Code are here:" in shown
    assert commands(shown)[0] == "explain"


def test_with_a_store_it_begins_with_what_went_through(tmp_path: Path) -> None:
    open_store(tmp_path / ".holdfast" / "holdfast.db").close()
    assert has_store({"HOME": str(tmp_path)})
    assert has_store({"HOME": "/nowhere", "HOLDFAST_HOME": str(tmp_path / ".holdfast")})
    assert commands(lines(tmp_path))[:2] == ["sessions", "breaks"]


@pytest.mark.parametrize("what", [(), ("store",), ("logs",), ("store", "logs")])
def test_it_fits_a_small_terminal_and_names_real_commands(tmp_path: Path, what: tuple[str, ...]) -> None:
    if "store" in what:
        open_store(tmp_path / ".holdfast" / "holdfast.db").close()
    if "logs" in what:
        for format_, place in places(tmp_path, {}):
            if format_ != "store":
                place.mkdir(parents=True)
    shown = lines(tmp_path)
    assert len(shown) <= 24
    assert max(map(len, shown)) <= 80
    assert set(commands(shown)) - {"--help"} <= set(COMMANDS)


def test_it_knows_every_place_where_explain_looks(tmp_path: Path) -> None:
    """The list here is a shorter one of its own, to be quick."""
    moved = {
        "CLAUDE_CONFIG_DIR": "a",
        "CODEX_HOME": "~/b",
        "PI_CODING_AGENT_SESSION_DIR": str(tmp_path / "c"),
        "XDG_DATA_HOME": "d",
    }
    for number, environ in enumerate(({}, moved)):
        for index, (format_, _) in enumerate(places(tmp_path, environ)):
            if format_ == "store":
                continue
            home = tmp_path / f"{number}-{index}"
            environ_here = {name: value.replace(str(tmp_path), str(home)) for name, value in environ.items()}
            place = list(places(home, environ_here))[index][1]
            assert logs({"HOME": str(home), **environ_here}) == []
            place.mkdir(parents=True)
            assert logs({"HOME": str(home), **environ_here}) == [CLIENTS[format_]], place
