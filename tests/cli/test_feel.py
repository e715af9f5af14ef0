"""What every command has in common: an example in its help, and errors that say what, where and what to do."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from holdfast import cli
from holdfast.store import Call, open_store
from holdfast.store import operations as op
from tests.cli.commands import output, refused


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command and subcommand."""
    yield path, command
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            found = command.get_command(ctx, name)
            assert found is not None
            yield from commands(found, (*path, name))


EVERY = dict(commands(cli.cli))


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_help_has_an_example(path: tuple[str, ...]) -> None:
    shown = output(*path, "--help")
    assert "Example" in shown
    assert f"holdfast {' '.join(path)}".rstrip() in shown.partition("Example")[2]


BAD = {
    "explain nowhere.jsonl": "nowhere.jsonl",
    "explain binary": "known format",
    "explain empty-directory": "no log of a known format",
    "explain log.jsonl --format pdf": "pdf",
    "explain log.jsonl --since yesterdayish": "is no time",
    "explain log.jsonl --output locked/x/y.html": "cannot be written",
    "explain log.jsonl --fail-over lots": "is no amount",
    "replay nowhere.jsonl": "nowhere.jsonl",
    "replay binary": "known format",
    "replay log.jsonl --strategy nonsense": "nonsense",
    "replay log.jsonl --model nonsense": "nonsense",
    "show nosuchsession": "nosuchsession",
    "breaks --session nosuchsession": "nosuchsession",
    "bill --session nosuchsession": "nosuchsession",
    "bill --by moon": "moon",
    "sessions --since 9x": "is no time",
    "sessions --limit 0": "0",
    "models --provider nobody": "nobody",
    "config show --agent nobody": "nobody",
    "config show --set cache.strateggy=zones": "cache.strategy",
    "config show --set nonsense": "KEY=VALUE",
    "init --path nowhere": "cannot be written",
    "completion csh": "csh",
    "doctor --nonsense": "nonsense",
    "serve --port 99999": "99999",
    "serve --host not.a.host.invalid": "not known",
    "simulate --port 99999": "99999",
    "simulate --script nowhere.toml": "nowhere.toml",
    "skills show nosuchskill": "nosuchskill",
    "skills new Not_A_Name": "Not_A_Name",
    "skills validate nowhere": "nowhere",
    "memory show nosuchentry": "nosuchentry",
    "memory why nosuchentry": "nosuchentry",
    "memory history nosuchentry": "nosuchentry",
    "memory forget nosuchentry": "nosuchentry",
    "memory import nowhere.jsonl": "nowhere.jsonl",
    "memory import binary": "binary",
    "memory export locked/x/y": "locked/x/y",
    "chat --simulate --model nonsense: hello": "nonsense",
    "chat --agent nobody --simulate hello": "nobody",
    "mcp --approve nobody": "nobody",
    "calibrate": "calibrate",
    "sesions": "sessions",
}


@pytest.mark.parametrize("line", BAD)
def test_bad_input_is_answered_in_a_sentence(line: str, workspace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (workspace / "binary").write_bytes(bytes(range(256)) * 40)
    (workspace / "empty-directory").mkdir()
    (workspace / "log.jsonl").write_text(
        '{"model":"claude-opus-4-6","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}\n'
    )
    (workspace / "locked").write_text("a file where a directory is wanted")
    with open_store(workspace / "home" / ".holdfast" / "holdfast.db") as store:
        store.write(op.PutCall(Call(tenant="t", id="c", session="s", lane="l", model="m", started_at=1)))
    code = cli.run(line.split())
    told = "".join(capfd.readouterr())
    assert code in (1, 2), told
    assert BAD[line] in told
    assert "Traceback" not in told


READS_STORE = ("sessions", "show", "breaks", "bill", "memory list", "skills usage")


@pytest.mark.parametrize("line", READS_STORE)
@pytest.mark.parametrize("state", ["nothing", "a file for a home", "no database", "unreadable toml", "a directory"])
def test_odd_homes(
    line: str, state: str, workspace: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    home = workspace / "odd"
    monkeypatch.setenv("HOLDFAST_HOME", str(home))
    if state == "a file for a home":
        home.write_text("")
    elif state != "nothing":
        home.mkdir()
    if state == "no database":
        (home / "holdfast.db").write_bytes(b"no database, but as long as one would be" * 60)
    if state == "unreadable toml":
        (home / "holdfast.toml").write_bytes(b"\xff\xfe\0")
    if state == "a directory":
        (home / "holdfast.db").mkdir()
    code = cli.run(line.split())
    out, err = capfd.readouterr()
    assert "Traceback" not in err
    if state == "nothing":
        assert code == 0 or err, out
    else:
        assert code in (0, 1, 2)
        assert code == 0 or err.startswith(("holdfast: ", "Usage: "))
    if state in ("no database", "unreadable toml", "a directory"):
        assert code == 1, out
        assert str(home) in err


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_what_may_not_be_read(workspace: Path) -> None:
    (workspace / "log.jsonl").write_text("{}")
    (workspace / "log.jsonl").chmod(stat.S_IWUSR)
    assert "check the path and its permissions" in refused("explain", "log.jsonl")
