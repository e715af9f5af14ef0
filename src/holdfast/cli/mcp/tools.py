"""The tools of all MCP servers configured in Holdfast, behind two tools of ours.

The servers are started at the first request for a tool, and stopped with us. The tools found may change at any time;
those that a client declares to its model do not.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from holdfast.cli.tables import printable
from holdfast.config import Config, load_config
from holdfast.errors import HoldfastError
from holdfast.records import Block, Image, Text, ToolUse
from holdfast.tools import (
    CALL_TOOL,
    Cancel,
    RefusedCall,
    Tool,
    ToolContext,
    ToolExecutionError,
    ToolIndex,
    ToolMatches,
    Workspace,
    definition_of,
    functions_text,
    unknown,
    unwrapped,
)
from holdfast.tools.mcp import Hub, McpServer, servers
from holdfast.wording import counted

from .explain import MOST_CHARS

_NAMED = 20


class DiscoverTools(Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[
        str,
        Meta(description="Words for what you want to do, the name of a server, or `select:name,name` for exact names."),
    ]
    limit: Annotated[int, Meta(description="At most so many tools.", ge=1, le=20)] = 5


class CallTool(Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(description="The tool's exact name.")]
    arguments: Annotated[dict[str, Any], Meta(description="What the tool's own schema asks for.")] = {}


def configured() -> tuple[Config, dict[str, McpServer]]:
    """The configuration of the current directory and the servers it names, also those that are not used."""
    config = load_config()
    return config, servers(config.settings, config.workspace or Path(), config.home)


class OtherServers:
    """The other servers. With `read_only`, of their tools only those that are declared to change nothing."""

    def __init__(self, *, read_only: bool) -> None:
        self._read_only = read_only
        self._starting = asyncio.Lock()
        self._hub: Hub | None = None
        self._blocked: dict[str, str] = {}
        self._index: ToolIndex | None = None

    async def discover(self, arguments: DiscoverTools) -> str:
        """Return names, descriptions and schemas of the matching tools, and notes on them."""
        hub = await self._started()
        if hub is None:
            return self._none()
        tools = tuple(tool for tool in hub.tools() if tool.read_only or not self._read_only)
        if self._index is None or self._index.tools != tools:
            self._index = ToolIndex(tools)
        matches = await asyncio.to_thread(self._index.find, arguments.query, arguments.limit)
        notes = [*_notes(matches), *self._unreachable(hub)]
        if not matches.tools:
            return "\n".join([_nothing(arguments.query, matches, self._index, read_only=self._read_only), *notes])
        shown = fitting_tools(matches.tools)
        if len(shown) < len(matches.tools):
            left = ", ".join(tool.name for tool in matches.tools[len(shown) :])
            notes.insert(0, f"Left out to keep this short: {left}. `select:NAME` shows one.")
        return "\n".join([functions_text([definition_of(tool) for tool in shown]), *notes])

    async def call(self, arguments: Mapping[str, Any]) -> tuple[Block, ...]:
        """What the tool answers; a HoldfastError where it does not."""
        unwrapped_call = unwrapped(ToolUse("", CALL_TOOL, json.dumps(arguments).encode()))
        if isinstance(unwrapped_call, RefusedCall):
            raise ToolExecutionError(unwrapped_call.text)
        name, tool_input = unwrapped_call
        hub = await self._started()
        if hub is None:
            raise ToolExecutionError(self._none())
        every = {tool.name: tool for tool in hub.tools()}
        tool = every.get(name)
        if tool is None:
            notes = " ".join(self._unreachable(hub))
            raise ToolExecutionError(f"{unknown(name, every).text} {notes}".strip())
        if self._read_only and not tool.read_only:
            raise ToolExecutionError(
                f"{name} is not declared read-only, and this server was started with --read-only. The user can name it "
                "in `read_only` of its server in holdfast.toml."
            )
        context = ToolContext(session="mcp", workspace=Workspace(Path()), cancel=Cancel())
        return (await tool.run(tool_input, context)).blocks

    async def close(self) -> None:
        """Stop every server that was started."""
        if self._hub is not None:
            await self._hub.close()

    async def _started(self) -> Hub | None:
        """The hub; None, to be asked again, while no server may be used."""
        async with self._starting:
            if self._hub is None:
                config, every = configured()
                others = {name: server for name, server in every.items() if not server.ourselves}
                self._blocked = {name: server.blocked for name, server in others.items() if server.blocked}
                if len(self._blocked) == len(others):
                    return None
                hub = Hub(others, settings=config.settings.mcp, workspace=config.workspace)
                await hub.start()
                self._hub = hub
            return self._hub

    def _none(self) -> str:
        if not self._blocked:
            return (
                "No MCP servers are configured for Holdfast. The user names them in [mcp.servers.NAME] of "
                f"holdfast.toml ({printable(load_config().home / 'holdfast.toml')}) or in .mcp.json of the "
                "workspace, and sees with `holdfast mcp --list` whether they work."
            )
        return "\n".join(["No MCP server of Holdfast can be used.", *self._told(self._blocked)])

    def _unreachable(self, hub: Hub) -> list[str]:
        return self._told({each.server: each.why for each in hub.status() if each.state != "connected"})

    def _told(self, why: Mapping[str, str]) -> list[str]:
        return [f"Not connected: {printable(name)}. {printable(each)}" for name, each in list(why.items())[:_NAMED]]


def fitting_tools(tools: Sequence[Tool]) -> Sequence[Tool]:
    """As many as there is room for, and one at least."""
    for number in range(len(tools), 1, -1):
        if len(functions_text([definition_of(tool) for tool in tools[:number]])) <= MOST_CHARS:
            return tools[:number]
    return tools[:1]


def _notes(matches: ToolMatches) -> list[str]:
    notes = []
    if matches.unknown and matches.tools:
        notes.append(f"There is no tool named {', '.join(map(printable, matches.unknown[:_NAMED]))}.")
    if matches.more:
        notes.append(f"And {counted(matches.more, 'tool')} more of this server; a larger limit shows more.")
    return notes


def _nothing(query: str, matches: ToolMatches, index: ToolIndex, *, read_only: bool) -> str:
    if not index.tools:
        return f"There are no {'read-only ' if read_only else ''}tools to be found."
    missing = ", ".join(map(printable, matches.unknown[:_NAMED]))
    problem = f"There is no tool named {missing}." if missing else f"No tool matches {printable(query[:200])!r}."
    among = ", ".join(map(printable, index.servers[:_NAMED]))
    return (
        f"{problem} There are {counted(len(index.tools), 'tool')} of {among}: try other words, or the name of a server."
    )


def content(blocks: Sequence[Block]) -> list[Any]:
    """A tool's answer as the protocol has it."""
    import mcp_types as types

    contents: list[Any] = []
    for block in blocks:
        if isinstance(block, Text):
            contents.append(types.TextContent(text=block.text))
        elif isinstance(block, Image) and block.data is not None:
            contents.append(types.ImageContent(data=block.data, mime_type=block.media_type or "image/png"))
        else:
            raise HoldfastError("the tool answered with something that cannot be passed on")
    return contents
