"""Holdfast as an MCP server: an agent asks what broke its cache. Clients that take an `mcp.json` take the one here.

Starts `holdfast mcp` as an MCP client would, lists its three tools and calls `explain` on a log with one break.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from mcp import Client, StdioServerParameters

CONFIG = json.loads(Path(__file__).with_name("mcp.json").read_text())["mcpServers"]["holdfast"]


def log(path: Path) -> str:
    """Three requests of one conversation; the third comes after seven minutes and reads nothing."""
    said = []
    with path.open("w") as lines:
        for read, written, second in ((0, 9_000, 0), (9_000, 400, 20), (0, 9_800, 440)):
            said.append({"role": "user", "content": f"It is second {second}."})
            body = {"model": "claude-opus-4-6", "messages": said}
            used = {"cache_read_input_tokens": read, "cache_creation_input_tokens": written, "input_tokens": 3}
            print(json.dumps({"session": "s1", "at": 1_790_000_000 + second, "body": body, "usage": used}), file=lines)
            said.append({"role": "assistant", "content": "Thank you."})
    return str(path)


async def main(place: Path) -> None:
    holdfast = Path(sys.executable).with_name(CONFIG["command"])  # that of this environment, whatever the PATH says
    how = StdioServerParameters(command=str(holdfast), args=CONFIG["args"], cwd=place)
    async with Client(how) as client:
        print("tools:", *(tool.name for tool in (await client.list_tools()).tools))
        answer = await client.call_tool("explain", {"paths": [log(place / "requests.jsonl")]})
        for part in answer.content:
            print(getattr(part, "text", part))


with tempfile.TemporaryDirectory() as directory:
    asyncio.run(main(Path(directory)))
