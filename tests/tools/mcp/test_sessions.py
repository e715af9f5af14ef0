"""MCP servers and live sessions: what a session's tools array, its calls and the bus learn of a server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.sections.agent import ConfirmSettings, ToolsSettings
from holdfast.config.sections.mcp import McpSettings
from holdfast.records import Text, ToolUse
from holdfast.records.events import NO_SESSION, Bus, Envelope
from holdfast.tools.confirmation import Confirmations
from holdfast.tools.contract import RefusedCall, ResolvedCall
from holdfast.tools.mcp import Hub, McpServer
from holdfast.tools.toolset import ToolSet
from tests.tools.mcp.hubs import call, hub, official, plain, until, where

pytest.importorskip("mcp")

from tests.support.toolboxes import dispatcher
from tests.tools.mcp.http_server import Serving
from tests.tools.mcp.servers.official import build

MODEL = "anthropic:claude-sonnet-4-5"
FOR_EVER = McpSettings(reconnect_s=60)


def session(running: Hub, name: str = "") -> ToolSet:
    """A session that has just begun."""
    tools = ToolSet(running.tools(), settings=ToolsSettings(), model=MODEL, dialect="anthropic")
    running.attach(tools, session=name or None)
    return tools


def use(name: str, number: int = 0, **given: Any) -> ToolUse:
    return ToolUse(f"toolu_{number}", name, json.dumps(given).encode())


def refused(tools: ToolSet, name: str) -> str:
    found = tools.resolve(use(name))
    return found.text if isinstance(found, RefusedCall) else ""


async def pid_of(running: Hub) -> int:
    return int((await where(running))["pid"])


def events(heard: list[Envelope]) -> list[tuple[str, str, Any]]:
    return [(envelope.session, envelope.type, envelope.payload) for envelope in heard]


async def test_c64_a_lost_servers_tools_leave_every_live_session() -> None:
    async with hub(plain(), plain("other"), settings=FOR_EVER) as running:
        sessions = [session(running) for _ in range(3)]
        before = [tools.definitions() for tools in sessions]
        os.kill(await pid_of(running), signal.SIGKILL)
        await until(lambda: len(running.tools()) == 20)
        for tools, definitions in zip(sessions, before, strict=True):
            assert refused(tools, "mcp__plain__echo") == (
                "The tool mcp__plain__echo is unavailable: "
                "the MCP server plain is not connected (it was ended by SIGKILL)."
            )
            assert isinstance(tools.resolve(use("mcp__other__echo")), ResolvedCall)
            assert tools.definitions() == definitions  # what was declared keeps its bytes
            assert not any(tool.server == "plain" for tool in tools.findable())


async def test_c64_a_server_that_comes_back_is_callable_again_under_the_same_bytes() -> None:
    async with hub(plain()) as running:
        tools = session(running)
        before = tools.definitions()
        pid = await pid_of(running)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: refused(tools, "mcp__plain__echo"))
        await until(lambda: not refused(tools, "mcp__plain__echo"))
        assert tools.definitions() == before
        assert await pid_of(running) != pid


async def test_c65_a_list_change_removes_only_what_went() -> None:
    async with hub(plain("plain", "one", "two")) as running:
        tools = session(running)
        before = tools.definitions()
        await call(running, "remove", {"text": "one"})
        await until(lambda: refused(tools, "mcp__plain__one"))
        assert "the MCP server plain no longer offers it" in refused(tools, "mcp__plain__one")
        assert not refused(tools, "mcp__plain__two")
        assert tools.definitions() == before
        await call(running, "add", {"text": "three"})
        await until(lambda: any(tool.name == "mcp__plain__three" for tool in tools.findable()))
        assert [tool.name for tool in tools.findable()] == ["mcp__plain__three"]


async def test_c65_a_tool_that_is_described_anew_keeps_its_bytes_in_sessions_that_know_it() -> None:
    async with hub(plain("plain", "one")) as running:
        tools = session(running)
        before = tools.definitions()
        await call(running, "change", {"text": "one"})
        await until(lambda: any(tool.description == "Does something else." for tool in running.tools()))
        assert tools.definitions() == before
        later = session(running)
        assert later.definitions() != before
        assert tools.at_reset() is not None
        assert tools.definitions() == later.definitions()


async def test_c66_the_turn_in_which_a_server_is_lost_knows_of_it_and_nothing_is_configured(tmp_path: Path) -> None:
    """The call that dies with the server is answered, and the next call of the turn is told."""
    async with hub(plain(), settings=FOR_EVER) as running:
        tools = session(running)
        settings = ToolsSettings(confirm=ConfirmSettings(mode="allow"))
        agent = dispatcher(tmp_path, tools.resolve, settings=settings)
        calls = [use("mcp__plain__echo", 1, text="a"), use("mcp__plain__crash", 2), use("mcp__plain__echo", 3)]
        answers = [await agent.run([one]) for one in calls]
        said = [answer.result.content[0].text for (answer,) in answers]  # type: ignore[union-attr]
        assert said == [
            "a",
            "The MCP server plain was lost during the call (it ended with exit code 3). "
            "Whether the call took effect is not known.",
            "The tool mcp__plain__echo is unavailable: "
            "the MCP server plain is not connected (it ended with exit code 3).",
        ]
        assert [answer.result.is_error for (answer,) in answers] == [False, True, True]


async def test_c67_both_events_reach_the_bus_once_for_each_live_session() -> None:
    with Bus() as bus:
        heard = bus.subscribe()
        async with hub(plain("plain", "one"), bus=bus) as running:
            every = tuple(sorted(tool.name for tool in running.tools()))
            assert heard.drain() == []
            session(running, "first")
            session(running, "second")
            await call(running, "remove", {"text": "one"})
            await until(lambda: len(running.tools()) == len(every) - 1)
            (one, two) = events(heard.drain())
            assert {one[0], two[0]} == {"first", "second"}
            assert one[1] == "mcp.tools_changed"
            assert (one[2].server, one[2].added, one[2].removed) == ("plain", (), ("mcp__plain__one",))
            os.kill(await pid_of(running), signal.SIGKILL)
            await until(lambda: running.tools() == ())
            (one, two) = events(heard.drain())
            assert {one[0], two[0]} == {"first", "second"}
            assert one[1] == "mcp.server_disconnected"
            left = tuple(name for name in every if name != "mcp__plain__one")
            assert (one[2].server, one[2].tools) == ("plain", left)
            assert one[2].error == "it was ended by SIGKILL"
            await until(lambda: len(running.tools()) == len(every))
            (one, two) = events(heard.drain())
            assert (one[1], one[2].added) == ("mcp.tools_changed", every)
        assert heard.drain() == []  # closing is no loss


async def test_c67_without_a_session_the_events_belong_to_none() -> None:
    with Bus() as bus:
        heard = bus.subscribe()
        async with hub(plain(), bus=bus, settings=FOR_EVER) as running:
            await call(running, "crash")
            assert [(where, kind) for where, kind, _ in events(heard.drain())] == [
                (NO_SESSION, "mcp.server_disconnected")
            ]


async def met(running: Hub, root: Path, settings: ToolsSettings) -> list[str]:
    tools = ToolSet(running.tools(), settings=settings, model=MODEL, dialect="anthropic")
    confirmations = Confirmations(settings.confirm)
    agent = dispatcher(root, tools.resolve, settings=settings, confirmations=confirmations)
    answers = await agent.run([use("mcp__far__meet", number) for number in range(3)])
    return [block.text for answer in answers for block in answer.result.content if isinstance(block, Text)]


def test_c60_mcp_tools_run_one_at_a_time_unless_the_user_declares_them_read_only(tmp_path: Path) -> None:
    async def main(**fields: Any) -> list[str]:
        with Serving(lambda: build().streamable_http_app()) as serving:
            async with hub(McpServer(name="far", url=serving.url, **fields)) as running:
                return await met(running, tmp_path, ToolsSettings(confirm=ConfirmSettings(mode="allow")))

    assert asyncio.run(main()) == ["1", "1", "1"]
    assert max(asyncio.run(main(read_only=("m*t",)))) == "3"


def test_c60_a_call_of_an_mcp_tool_is_confirmed_unless_it_is_read_only(tmp_path: Path) -> None:
    async def main(**fields: Any) -> list[str]:
        with Serving(lambda: build().streamable_http_app()) as serving:
            async with hub(McpServer(name="far", url=serving.url, **fields)) as running:
                return await met(running, tmp_path, ToolsSettings())

    assert all("was not run" in said for said in asyncio.run(main()))
    assert max(asyncio.run(main(read_only=("meet",)))) == "3"


@pytest.mark.slow
async def test_c64_c65_c67_with_a_program_made_with_the_official_library() -> None:
    with Bus() as bus:
        heard = bus.subscribe()
        async with hub(official(), bus=bus) as running:
            tools = session(running, "s")
            assert await call(running, "echo", {"text": "hi"}, "official") == "hi"
            await call(running, "add", {"name": "extra"}, "official")
            await until(lambda: any(tool.name == "mcp__official__extra" for tool in tools.findable()))
            await call(running, "remove", {"name": "extra"}, "official")
            await until(lambda: not tools.findable())
            assert not refused(tools, "mcp__official__echo")
            said = await call(running, "crash", {}, "official")
            assert "was lost during the call (it ended with exit code 7)" in said
            assert refused(tools, "mcp__official__echo")
            await until(lambda: not refused(tools, "mcp__official__echo"))
        kinds = [kind for _, kind, _ in events(heard.drain())]
        assert kinds == ["mcp.tools_changed"] * 2 + ["mcp.server_disconnected", "mcp.tools_changed"]
