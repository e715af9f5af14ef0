"""MCP servers of the configuration in a program: started and ended with its agent, unless it says `mcp=False`."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from pathlib import Path

import pytest

from holdfast import notices
from holdfast.config import load
from holdfast.errors import HoldfastError
from holdfast.tools.mcp import approve, servers
from tests.agent.bench import calls
from tests.agent.open_agents import opened

pytest.importorskip("mcp")

SERVER = str(Path(__file__).parent.parent / "cli" / "mcp_weather.py")
FORECAST = "mcp__weather__get_forecast"
ASKS = calls((FORECAST, {"city": "Brest"}))


@pytest.fixture(autouse=True)
def nothing_said_before() -> None:
    notices.forget()


def own(place: Path) -> dict[str, object]:
    """The user's own configuration names the server."""
    home = place / "home"
    home.mkdir()
    table = f"[mcp.servers.weather]\ncommand = {json.dumps(sys.executable)}\n"
    table += f'args = {json.dumps([SERVER, str(place / "pid")])}\nread_only = ["get_*"]\n'
    (home / "holdfast.toml").write_text(table, "utf-8")
    return {"tools.confirm.mode": "allow", "tools.deferral.mode": "never"}


def workspaces(place: Path) -> dict[str, object]:
    """A file of the workspace names it."""
    work = place / "work"
    work.mkdir()
    named = {"weather": {"command": sys.executable, "args": [SERVER, str(place / "pid")]}}
    (work / ".mcp.json").write_text(json.dumps({"mcpServers": named}), "utf-8")
    return {"tools.confirm.mode": "allow", "tools.deferral.mode": "never"}


def alive(place: Path) -> bool:
    try:
        os.kill(int((place / "pid").read_text()), 0)
    except (FileNotFoundError, ProcessLookupError):
        return False
    return True


async def test_its_tools_are_declared_and_run_and_it_ends_with_the_agent(tmp_path: Path) -> None:
    async with opened(tmp_path, flags=own(tmp_path)) as agent:
        await agent.begin(ASKS)
        assert FORECAST in [each["name"] for each in agent.bodies[0]["tools"]]
        assert "Brest" in agent.results()[-1]
        assert alive(tmp_path)
    assert not alive(tmp_path)


async def test_where_the_program_wants_none_nothing_is_started_and_the_log_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flags = own(tmp_path)

    with caplog.at_level(logging.WARNING, "holdfast"):
        for _ in range(2):
            async with opened(tmp_path, flags=flags, mcp=False) as agent:
                await agent.begin("Hello.")
                assert FORECAST not in [each["name"] for each in agent.bodies[0]["tools"]]
    assert not (tmp_path / "pid").exists()
    said = [record.getMessage() for record in caplog.records if "mcp.servers" in record.getMessage()]
    assert said == [
        "mcp.servers has no effect in the agent: open_agent was given mcp=False, which starts no MCP server."
    ]


async def test_where_they_are_started_nothing_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "holdfast"):
        async with opened(tmp_path, flags=own(tmp_path)):
            pass
    assert not [record for record in caplog.records if "mcp" in record.getMessage().lower()]


def test_one_that_the_workspace_names_waits_for_approval(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    flags = workspaces(tmp_path)

    async def names() -> list[str]:
        async with opened(tmp_path, flags=flags) as agent:
            await agent.begin("Hello.")
            return [each["name"] for each in agent.bodies[0]["tools"]]

    with caplog.at_level(logging.WARNING, "holdfast"):
        assert FORECAST not in asyncio.run(names())
    assert not (tmp_path / "pid").exists()
    assert "holdfast mcp --approve weather" in caplog.text
    work, home = tmp_path / "work", tmp_path / "home"
    named = servers(load(workspace=work, home=home, environ={}).settings, work.resolve(), home)
    approve(home, named["weather"])
    assert FORECAST in asyncio.run(names())


async def test_one_that_does_not_come_is_named_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "holdfast.toml").write_text('[mcp.servers.weather]\ncommand = "no-such-program"\n', "utf-8")

    with caplog.at_level(logging.WARNING, "holdfast"):
        async with opened(tmp_path) as agent:
            session = await agent.sessions.create()
            assert (await session.ask("Hello.")).ended == "completed"
    assert "MCP server weather is not connected" in caplog.text


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path):
            pass

    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".mcp.json").write_text("{", "utf-8")
    with pytest.raises(HoldfastError, match=r"not valid JSON.* pass mcp=False"):
        asyncio.run(main())

    async def without() -> None:
        async with opened(tmp_path, mcp=False):
            pass

    asyncio.run(without())


async def test_it_ends_also_where_the_agent_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError):
        async with opened(tmp_path, flags=own(tmp_path), tools=["no tool"]):
            pass
    assert not alive(tmp_path)
