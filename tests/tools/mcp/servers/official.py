"""A server made with the official SDK, whose tools come and go on demand: as a program, or over HTTP."""

from __future__ import annotations

import os
import sys

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp_types.version import MODERN_PROTOCOL_VERSIONS


async def tell(ctx: Context) -> None:
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        await ctx.notify_tools_changed()
    else:
        await ctx.session.send_tool_list_changed()


def build() -> MCPServer:
    server = MCPServer("official", version="2")
    meeting = [0, 0]

    def extra(text: str = "") -> str:
        """A tool that comes later."""
        return f"extra {text}"

    @server.tool()
    def echo(text: str) -> str:
        """Give back the text."""
        return text

    @server.tool()
    async def add(name: str, ctx: Context) -> str:
        """Add a tool."""
        server.add_tool(extra, name=name)
        await tell(ctx)
        return "added"

    @server.tool()
    async def remove(name: str, ctx: Context) -> str:
        """Remove a tool."""
        server.remove_tool(name)
        await tell(ctx)
        return "removed"

    @server.tool()
    async def meet() -> str:
        """How many calls were here at the same time."""
        meeting[0] += 1
        meeting[1] = max(meeting)
        await anyio.sleep(0.05)
        meeting[0] -= 1
        return str(meeting[1])

    @server.tool()
    async def wait() -> str:
        """Takes long."""
        await anyio.sleep(60)
        return "at last"

    @server.tool()
    def large(size: int) -> str:
        """A large result."""
        return "x" * size

    @server.tool()
    def crash() -> str:
        """End at once."""
        os._exit(7)

    return server


if __name__ == "__main__":
    if len(sys.argv) > 1:
        build().run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        build().run("stdio")
