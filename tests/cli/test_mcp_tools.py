"""`holdfast mcp`: tools of other servers, found and called; `--list`, `--approve`, `--revoke`; what is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from mcp import Client, types

from holdfast.cli import run as run_holdfast
from holdfast.cli.mcp import status
from holdfast.cli.mcp.command import command
from holdfast.cli.mcp.tools import fitting_tools
from holdfast.tools.contract import Tool, ToolOutput
from tests.cli import mcp_weather
from tests.cli.commands import invoke, piped, refused, shown
from tests.cli.mcp_client import (
    INITIALIZE,
    INITIALIZED,
    ON_POSIX,
    SERVER,
    functions,
    in_order,
    inside,
    is_gone,
    process,
    said,
    served,
    text,
    weather,
)
from tests.gateway.gate import eventually


@pytest.mark.slow
@ON_POSIX
def test_tools_of_other_servers_are_found_and_called(workspace: Path) -> None:
    pids = weather(workspace)

    async def ask(client: Client) -> tuple[list[types.Tool], ...]:
        before = (await client.list_tools(cache_mode="bypass")).tools
        await client.call_tool("explain", {})
        assert not pids.exists()  # nothing was asked for yet
        found = functions(text(await client.call_tool("discover_tools", {"query": "forecast for a city", "limit": 1})))
        assert list(found) == ["mcp__weather__get_forecast"]
        assert found["mcp__weather__get_forecast"]["description"] == "Say how the weather will be in a city."
        assert found["mcp__weather__get_forecast"]["parameters"] == mcp_weather.CITY
        call = {"name": "mcp__weather__get_forecast", "arguments": {"city": "Oslo"}}
        assert text(await client.call_tool("call_tool", call)) == "sunny in Oslo"
        assert text(await client.call_tool("call_tool", call | {"arguments": '{"city": "Rome"}'})) == "sunny in Rome"
        return before, (await client.list_tools(cache_mode="bypass")).tools

    before, after = served(ask)
    assert before == after
    assert is_gone(pids)


@pytest.mark.slow
@ON_POSIX
def test_what_is_found_and_what_is_answered(workspace: Path) -> None:
    pids = weather(workspace)

    async def ask(client: Client) -> None:
        async def discover(**asked: Any) -> str:
            return text(await client.call_tool("discover_tools", asked))

        async def call(name: str, arguments: Any = None) -> types.CallToolResult:
            return await client.call_tool("call_tool", {"name": name, "arguments": arguments or {}})

        assert list(functions(await discover(query="weather", limit=20))) == [
            f"mcp__weather__{name}" for name in mcp_weather.TOOLS
        ]
        answer = await discover(query="weather", limit=3)
        assert answer.endswith("And 1 tool more of this server; a larger limit shows more.")
        answer = await discover(query="select:mcp__weather__order_rain,nothing")
        assert list(functions(answer)) == ["mcp__weather__order_rain"]
        assert answer.endswith("There is no tool named nothing.")
        assert await discover(query="xylophone") == (
            "No tool matches 'xylophone'. There are 4 tools of weather: try other words, or the name of a server."
        )
        drawn = await call("mcp__weather__get_map", {"city": "Oslo"})
        assert [each.type for each in drawn.content] == ["text", "image"]
        assert isinstance(drawn.content[1], types.ImageContent)
        assert (drawn.content[1].data, drawn.content[1].mime_type) == (mcp_weather.PIXEL, "image/png")
        assert text(await call("mcp__weather__order_rain", {"city": "Oslo"}), wrong=True) == "no rain for Oslo"
        assert "Did you mean mcp__weather__get_map" in text(await call("mcp__weather__get_maps"), wrong=True)
        nameless = await client.call_tool("call_tool", {"arguments": {}})
        assert text(nameless, wrong=True).startswith("call_tool was called without the name of a tool.")

        os.kill(int(pids.read_text()), signal.SIGKILL)
        for _ in range(500):
            lost = await call("mcp__weather__get_map", {"city": "Oslo"})
            if lost.is_error:
                break
            await asyncio.sleep(0.01)
        assert "weather" in text(lost, wrong=True)

    inside(ask)
    assert is_gone(pids)


@pytest.mark.slow
def test_read_only_offers_what_the_user_declared(workspace: Path) -> None:
    weather(workspace, 'read_only = ["get_*"]')

    async def ask(client: Client) -> tuple[list[types.Tool], str, str, str]:
        found = text(await client.call_tool("discover_tools", {"query": "weather", "limit": 20}))
        call = {"name": "mcp__weather__order_rain", "arguments": {"city": "Oslo"}}
        refused = text(await client.call_tool("call_tool", call), wrong=True)
        call["name"] = "mcp__weather__get_forecast"
        return (await client.list_tools()).tools, found, refused, text(await client.call_tool("call_tool", call))

    listed, found, refused, well = inside(ask, read_only=True)
    assert [each.annotations and each.annotations.read_only_hint for each in listed] == [True, True, True]
    assert list(functions(found)) == ["mcp__weather__get_forecast", "mcp__weather__get_map"]
    assert refused.startswith("mcp__weather__order_rain is not declared read-only, and this server was started with")
    assert well == "sunny in Oslo"


def test_without_servers_it_says_how_to_name_them(workspace: Path) -> None:
    async def ask(client: Client) -> tuple[str, str]:
        found = await client.call_tool("discover_tools", {"query": "weather"})
        return text(found), text(await client.call_tool("call_tool", {"name": "x", "arguments": {}}), wrong=True)

    found, called = inside(ask)
    (workspace / ".mcp.json").write_text('{"mcpServers": {"holdfast": {"command": "holdfast", "args": ["mcp"]}}}')
    assert inside(ask) == (found, called)
    assert found == called
    assert "[mcp.servers.NAME] of holdfast.toml" in found
    assert str(workspace / "home" / ".holdfast" / "holdfast.toml") in found
    assert "`holdfast mcp --list`" in found


@pytest.mark.slow
def test_a_server_of_the_workspace_waits_for_approval(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pids = workspace / "pids"
    servers = {"weather": {"command": sys.executable, "args": [str(SERVER), str(pids)]}}
    servers["holdfast"] = {"command": "holdfast", "args": ["mcp"]}
    (workspace / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))

    async def ask(client: Client) -> tuple[str, str]:
        waiting = text(await client.call_tool("discover_tools", {"query": "weather"}))
        assert not pids.exists()
        assert run_holdfast(["mcp", "--approve", "weather"]) == 0
        return waiting, text(await client.call_tool("discover_tools", {"query": "weather"}))

    waiting, found = inside(ask)
    assert "Not connected: weather. It is named by a file of the workspace and not approved;" in waiting
    assert "holdfast mcp --approve weather" in waiting
    assert len(functions(found)) == 4
    assert "holdfast" not in found.rpartition("</functions>")[2]  # that we do not start ourselves concerns nobody
    assert f"{sys.executable} {SERVER} {pids}" in capsys.readouterr().out


@pytest.mark.slow
@ON_POSIX
def test_a_script_that_starts_us_again_does_not_go_on_for_ever(workspace: Path) -> None:
    """What is started is not known by its name here. The second one starts nothing before somebody asks it to."""
    starts = workspace / "starts"
    script = f"echo x >> {starts}; exec {sys.executable} -m holdfast mcp"
    (workspace / "home" / ".holdfast").mkdir(parents=True)
    (workspace / "home" / ".holdfast" / "holdfast.toml").write_text(
        f'[mcp.servers.wrapped]\ncommand = "sh"\nargs = ["-c", {json.dumps(script)}]\n'
    )

    async def ask(client: Client) -> str:
        return text(await client.call_tool("discover_tools", {"query": "wrapped"}))

    assert list(functions(inside(ask))) == [
        f"mcp__wrapped__{name}" for name in ("call_tool", "discover_tools", "explain")
    ]
    assert starts.read_text() == "x\n"


@pytest.mark.slow
@ON_POSIX
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("end", ["closed", "SIGINT"])
def test_the_end_comes_in_the_middle_of_a_call(workspace: Path, end: str) -> None:
    pids = weather(workspace)
    arguments = {"name": "mcp__weather__wait_for_sun", "arguments": {"city": "Oslo"}}
    call = {"id": 2, "method": "tools/call", "params": {"name": "call_tool", "arguments": arguments}}
    with process() as started:
        said(started, in_order(INITIALIZE, INITIALIZED, call), 1)
        eventually(pids.with_suffix(".waiting").exists, 60)
        if end == "closed":
            started.stdin.close()
        else:
            started.send_signal(signal.Signals[end])
        assert started.wait(30) == {"closed": 0, "SIGINT": 130}[end]
        assert b"Traceback" not in started.stderr.read()
    assert is_gone(pids)


def test_schemas_that_would_fill_the_conversation_are_left_out() -> None:
    async def run(input: Any, context: Any) -> ToolOutput:
        return ToolOutput()

    tools = [Tool(name=f"t{i}", description="d" * 4_000, run=run, effect="read") for i in range(5)]
    assert [tool.name for tool in fitting_tools(tools)] == ["t0", "t1", "t2"]
    huge = Tool(name="huge", description="d" * 40_000, run=run, effect="read")
    assert [tool.name for tool in fitting_tools([huge, *tools])] == ["huge"]


def named(workspace: Path, **servers: Any) -> None:
    (workspace / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))


def test_a_list_of_no_servers_says_how_to_name_them(workspace: Path) -> None:
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


def test_what_cannot_be_approved(workspace: Path) -> None:
    assert refused("mcp", "--approve", "x") == "holdfast: there is no MCP server 'x'; none is configured here\n"
    weather(workspace)
    named(workspace, other={"command": "sh"}, us={"command": "holdfast", "args": ["mcp"]})
    assert refused("mcp", "--approve", "x") == "holdfast: there is no MCP server 'x'; there are other, us, weather\n"
    assert "us is Holdfast itself, which needs no approval" in refused("mcp", "--approve", "us")
    assert (
        refused("mcp", "--revoke", "wether") == "holdfast: there is no MCP server 'wether'; did you mean 'weather'?\n"
    )
    assert "which is your own file: it needs no approval" in refused("mcp", "--approve", "weather")
    (workspace / ".mcp.json").write_text("{")
    assert ".mcp.json:1: this is not valid JSON" in refused("mcp", "--list")


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
