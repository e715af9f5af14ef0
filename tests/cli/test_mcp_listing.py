"""`holdfast mcp --list`, `--approve`, `--revoke`: which servers there are, how they are, which may be used."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from holdfast.cli import run as run_holdfast
from holdfast.cli.mcp import status
from holdfast.cli.mcp.command import command
from tests.cli.commands import invoke, piped, shown
from tests.cli.mcp_client import ON_POSIX, SERVER, is_gone, weather


def named(workspace: Path, **servers: Any) -> None:
    (workspace / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))


def test_without_servers_it_says_how_to_name_them(workspace: Path) -> None:
    text = piped(command, "--list")
    assert text.startswith("No MCP servers are configured. Name them in [mcp.servers.NAME] of ")
    assert str(workspace / "home" / ".holdfast" / "holdfast.toml") in text
    assert json.loads(piped(command, "--list", "--json")) == {"servers": []}


@pytest.mark.slow
@ON_POSIX
def test_every_server_is_connected_to_and_shown(workspace: Path) -> None:
    pids = weather(workspace)
    named(
        workspace,
        gone={"command": str(workspace / "no-such-program")},
        mine={"command": "holdfast", "args": ["mcp"]},
        other={"command": "sh", "args": ["-c", f"touch {workspace / 'started'}"]},
    )
    assert run_holdfast(["mcp", "--approve", "gone"]) == 0
    done = invoke(command, "--list")
    assert done.exit_code == 0, done.output
    assert done.stderr == "holdfast: connecting to 2 servers, for 30 seconds at most\n"
    title, gone, mine, other, sunny, *rest = done.stdout.splitlines()
    assert title.split() == ["SERVER", "STATE", "TOOLS", "TOKENS", "APPROVAL", "FROM"]
    assert gone.split()[:5] == ["gone", "failed", "-", "-", "approved"]
    assert mine.split()[:5] == ["mine", "blocked", "-", "-", "-"]
    assert other.split()[:6] == ["other", "blocked", "-", "-", "not", "approved"]
    assert sunny.split()[:3] == ["weather", "connected", "4"]
    assert sunny.split()[4] == "own"
    tokens = int(sunny.split()[3])
    assert f"4 tools: declared one by one they would take about {tokens} tokens of every request." in rest
    assert any(line.startswith("gone: ") and "no-such-program" in line for line in rest)
    assert any(line.startswith("mine: ") and "it is Holdfast itself" in line for line in rest)
    assert any(line.endswith("holdfast mcp --approve other") for line in rest)
    assert any(line.startswith("other: What would be started or connected to: sh -c 'touch") for line in rest)
    assert "not tried again" not in done.stdout
    assert not (workspace / "started").exists()
    assert is_gone(pids)

    found = json.loads(piped(command, "--list", "--json"))["servers"]
    assert [each["name"] for each in found] == ["gone", "mine", "other", "weather"]
    assert (found[3]["version"], found[3]["tokens"], found[3]["approval"]) == ("weather 1", tokens, "own")
    assert found[3]["tools"][0] == "mcp__weather__get_forecast"
    assert (found[0]["state"], found[0]["tools"], found[0]["tokens"]) == ("failed", [], None)


@pytest.mark.parametrize("columns", [40, 80])
def test_a_terminal_is_never_too_narrow(workspace: Path, columns: int) -> None:
    named(workspace, **{"a-server-with-a-rather-long-name": {"command": "sh"}})
    lines = shown(command, "--list", columns=columns)
    assert [line for line in lines if len(line) > columns] == []


def test_what_is_approved_is_shown_and_can_be_taken_back(workspace: Path) -> None:
    named(workspace, weather={"command": sys.executable, "args": [str(SERVER)], "env": {"TOKEN": "${TOKEN:-none}"}})
    text = piped(command, "--approve", "weather")
    assert text.startswith(f"weather, named by {workspace / '.mcp.json'}:\n  {sys.executable} {SERVER}")
    assert "TOKEN" in text
    assert "It is approved." in text
    assert "It is no longer approved." in piped(command, "--revoke", "weather")
    assert "It was not approved." in piped(command, "--revoke", "weather")


def test_on_a_terminal_it_asks_first(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    named(workspace, weather={"url": "https://weather.example/mcp"})
    answers = iter([False, True])
    monkeypatch.setattr(status, "_asks", lambda: True)
    monkeypatch.setattr(click, "confirm", lambda *_, **__: next(answers))
    assert run_holdfast(["mcp", "--approve", "weather"]) == 1
    out = capsys.readouterr().out
    assert "  https://weather.example/mcp\n" in out
    assert out.endswith("Nothing was changed.\n")
    assert "It was not approved." in piped(command, "--revoke", "weather")
    assert run_holdfast(["mcp", "--approve", "weather"]) == 0


def test_what_cannot_be_approved(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_holdfast(["mcp", "--approve", "x"]) == 1
    assert capsys.readouterr().err == "holdfast: there is no MCP server 'x'; none is configured here\n"
    weather(workspace)
    named(workspace, other={"command": "sh"}, us={"command": "holdfast", "args": ["mcp"]})
    assert run_holdfast(["mcp", "--approve", "x"]) == 1
    assert capsys.readouterr().err == "holdfast: there is no MCP server 'x'; there are other, us, weather\n"
    assert run_holdfast(["mcp", "--approve", "us"]) == 1
    assert "us is Holdfast itself, which needs no approval" in capsys.readouterr().err
    assert run_holdfast(["mcp", "--revoke", "wether"]) == 1
    assert capsys.readouterr().err == "holdfast: there is no MCP server 'wether'; did you mean 'weather'?\n"
    assert run_holdfast(["mcp", "--approve", "weather"]) == 1
    assert "which is your own file: it needs no approval" in capsys.readouterr().err
    (workspace / ".mcp.json").write_text("{")
    assert run_holdfast(["mcp", "--list"]) == 1
    assert ".mcp.json:1: this is not valid JSON" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--list", "--approve", "x"], "--list and --approve are two things to do; choose one."),
        (["--json"], "--json belongs to --list."),
    ],
)
def test_wrong_usage(arguments: list[str], told: str) -> None:
    done = invoke(command, *arguments)
    assert done.exit_code == 2
    assert told in done.stderr
