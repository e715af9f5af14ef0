"""What tests of the hub share: servers to start, an owner that keeps what it is told, waiting for something."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from holdfast.config.sections.mcp import McpSettings
from holdfast.records import Image, Text
from holdfast.tools.contract import Cancel, Tool, ToolContext, ToolExecutionError
from holdfast.tools.mcp import Hub, McpServer
from holdfast.tools.workspace import Workspace

SERVERS = Path(__file__).parent / "servers"
QUICK = McpSettings(reconnect_s=0.05, reconnect_max_s=0.2, reconnect_tries=500, start_timeout_s=20)


def plain(name: str = "plain", *arguments: str, **fields: Any) -> McpServer:
    return McpServer(name=name, command=sys.executable, args=(str(SERVERS / "plain.py"), *arguments), **fields)


def official(name: str = "official", **fields: Any) -> McpServer:
    return McpServer(name=name, command=sys.executable, args=(str(SERVERS / "official.py"),), **fields)


def hub(*servers: McpServer, settings: McpSettings = QUICK, **more: Any) -> Hub:
    return Hub({server.name: server for server in servers}, settings=settings, **more)


class Owner:
    """Keeps what it is told, as the owner of a tools array would."""

    def __init__(self, found: Iterable[Tool] = ()) -> None:
        self.tools = {tool.name: tool for tool in found}
        self.told: list[tuple[str, tuple[str, ...], str]] = []

    def add(self, tools: Iterable[Tool]) -> tuple[str, ...]:
        new = {tool.name: tool for tool in tools}
        self.tools.update(new)
        self.told.append(("add", tuple(sorted(new)), ""))
        return tuple(new)

    def remove(self, names: Iterable[str], why: str = "") -> tuple[str, ...]:
        gone = tuple(sorted(names))
        for name in gone:
            del self.tools[name]
        self.told.append(("remove", gone, why))
        return gone


async def until(condition: Callable[[], object], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


def context(root: Path = Path()) -> ToolContext:
    return ToolContext(session="s", workspace=Workspace(root), cancel=Cancel())


async def call(hub: Hub, name: str, arguments: Mapping[str, Any] = {}, server: str = "plain") -> str:
    """What a tool says, images by their type; `! ` and the reason where it fails."""
    (tool,) = (tool for tool in hub.tools() if tool.name == f"mcp__{server}__{name}")
    try:
        output = await tool.run(arguments, context())
    except ToolExecutionError as error:
        return f"! {error}"
    return "\n".join(
        block.text if isinstance(block, Text) else f"<{block.media_type}>"
        for block in output.blocks
        if isinstance(block, (Text, Image))
    )


async def where(hub: Hub, server: str = "plain") -> dict[str, Any]:
    """The process, directory and variables of a plain server."""
    found: dict[str, Any] = json.loads(await call(hub, "environment", server=server))
    return found
