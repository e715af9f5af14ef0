"""An MCP server for tests, as a program: `python mcp_weather.py PLACE` leaves its process id in PLACE."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = {
    "get_forecast": "Say how the weather will be in a city.",
    "get_map": "Draw a map of the clouds.",
    "order_rain": "Make it rain.",
    "wait_for_sun": "Wait until the sun comes out.",
}


async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(
        tools=[types.Tool(name=name, description=about, input_schema=CITY) for name, about in TOOLS.items()]
    )


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    city = (params.arguments or {}).get("city")
    if params.name == "get_map":
        return types.CallToolResult(
            content=[types.TextContent(text="clouds"), types.ImageContent(data=PIXEL, mime_type="image/png")]
        )
    if params.name == "order_rain":
        return types.CallToolResult(content=[types.TextContent(text=f"no rain for {city}")], is_error=True)
    if params.name == "wait_for_sun":
        Path(sys.argv[1]).with_suffix(".waiting").touch()
        await asyncio.sleep(600)
    return types.CallToolResult(content=[types.TextContent(text=f"sunny in {city}")])


async def main() -> None:
    server = Server("weather", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    with Path(sys.argv[1]).open("a") as place:
        place.write(f"{os.getpid()}\n")
    asyncio.run(main())
