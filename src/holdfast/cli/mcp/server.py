"""`holdfast mcp` as a server on standard input and output: three tools in a list that never changes.

This is the protocol only; the tools are in `explain` and `tools`. Every error of a call is returned as its answer.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import msgspec
from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.tools import cut
from holdfast.version import __version__

from . import stdio
from .explain import MOST_CHARS, Explain, explain
from .stdio import Wire
from .tools import CallTool, DiscoverTools, OtherServers, content

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.server.lowlevel import Server

_log = logging.getLogger(__name__)
_DAY_MS = 86_400_000

INSTRUCTIONS = (
    "explain says what broke the prompt cache of agents on this machine and what that cost. discover_tools finds tools "
    "of the other MCP servers that Holdfast is configured with; call_tool calls them. This list of tools never changes."
)
EXPLAIN = (
    "Say what broke the prompt cache of LLM agents, what it cost in dollars and what to do about it, from the logs "
    "that are on this machine. Reads only; sends nothing anywhere. Without arguments it reads the logs of all "
    "known clients."
)
DISCOVER = (
    "Find tools by what they do. Answers with names, descriptions and input schemas; call a found tool with call_tool. "
    "`select:NAME,NAME` gives tools by exact name, the name of a server gives its tools."
)
CALL = (
    "Call a tool that discover_tools found, by its exact name and with the arguments of its schema. The tool may "
    "change things outside this conversation."
)
CALL_READ_ONLY = "Call a tool that discover_tools found, by its exact name and with the arguments of its schema."

A = TypeVar("A", bound=Struct)


class OfferedTool(NamedTuple):
    """A tool as listed, and the function that runs it."""

    name: str
    about: str
    input: type[Struct]
    read_only: bool
    run: Callable[[Any], Awaitable[types.CallToolResult]]


def build(elsewhere: OtherServers, *, read_only: bool) -> Server[Any]:
    """The server; needs the extra."""
    import mcp_types as types
    from mcp.server.caching import CacheHint
    from mcp.server.lowlevel import Server

    async def explained(arguments: Explain) -> types.CallToolResult:
        explanation = await explain(arguments)
        return types.CallToolResult(
            content=[types.TextContent(text=explanation.text)], structured_content=explanation.data
        )

    async def discovered(arguments: DiscoverTools) -> types.CallToolResult:
        return _answer(await elsewhere.discover(arguments))

    async def called(arguments: Mapping[str, Any]) -> types.CallToolResult:
        return types.CallToolResult(content=content(await elsewhere.call(arguments)))

    offered = {
        each.name: each
        for each in (
            OfferedTool("explain", EXPLAIN, Explain, True, explained),
            OfferedTool("discover_tools", DISCOVER, DiscoverTools, True, discovered),
            OfferedTool("call_tool", CALL_READ_ONLY if read_only else CALL, CallTool, read_only, called),
        )
    }
    listed = [_listed(each) for each in offered.values()]

    async def list_tools(ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed)

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = offered.get(params.name)
        if tool is None:
            return _answer(f"There is no tool {params.name!r}; there are {', '.join(offered)}.", wrong=True)
        try:
            arguments = params.arguments or {}
            return await tool.run(arguments if tool.run is called else _read(tool, arguments))
        except HoldfastError as problem:
            return _answer(str(problem), wrong=True)
        except Exception as problem:  # noqa: BLE001  the server outlives whatever a log or another server does
            _log.exception("%s failed", tool.name)
            return _answer(f"{tool.name} failed ({type(problem).__name__}: {problem}).", wrong=True)

    return Server(
        "holdfast",
        version=__version__,
        instructions=INSTRUCTIONS,
        cache_hints={"tools/list": CacheHint(ttl_ms=_DAY_MS, scope="public")},
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _listed(tool: OfferedTool) -> types.Tool:
    import mcp_types as types

    _, parts = msgspec.json.schema_components([tool.input])
    schema = {name: value for name, value in parts[tool.input.__name__].items() if name != "title"}
    hints = types.ToolAnnotations(read_only_hint=tool.read_only, open_world_hint=tool.name != "explain")
    return types.Tool(name=tool.name, description=tool.about, input_schema=schema, annotations=hints)


def _read(tool: OfferedTool, arguments: Mapping[str, Any]) -> Struct:
    try:
        return msgspec.convert(arguments, tool.input)
    except msgspec.ValidationError as problem:
        raise HoldfastError(f"{tool.name} cannot use these arguments: {problem}.".replace("`", "'")) from None


def _answer(text: str, *, wrong: bool = False) -> types.CallToolResult:
    import mcp_types as types

    if wrong:  # it may quote what the client sent
        text = cut(text, MOST_CHARS)
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=wrong)


def serve(elsewhere: OtherServers, *, read_only: bool) -> int:
    """Serve until standard input ends; the exit code. Signals are raised after the servers are stopped."""
    stdio.run(lambda: _serve(elsewhere, read_only))
    return 0


async def _serve(elsewhere: OtherServers, read_only: bool) -> None:
    from mcp.server.stdio import stdio_server

    server = build(elsewhere, read_only=read_only)
    wire = cast(Any, Wire())
    try:
        async with stdio_server(stdin=wire, stdout=wire) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
    finally:
        await elsewhere.close()
