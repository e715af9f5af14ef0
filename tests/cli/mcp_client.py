"""`holdfast mcp` as the SDK's own client sees it: the real command over its pipes, or its server in this process."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any, TypeVar

from mcp import Client, StdioServerParameters, types

from holdfast.cli.mcp.server import build
from holdfast.cli.mcp.tools import OtherServers

T = TypeVar("T")
COMMAND = [sys.executable, "-m", "holdfast", "mcp"]


def environment(**more: str) -> dict[str, str]:
    """What the command is started with: nothing of Holdfast's but what is said here."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return kept | more


def served(ask: Callable[[Client], Awaitable[T]], *arguments: str, mode: str = "auto", **more: str) -> T:
    """What a client gets that starts the command, asks and leaves."""
    how = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], *arguments], env=environment(**more), cwd=Path.cwd()
    )

    async def run() -> T:
        async with Client(how, mode=mode) as client:
            return await ask(client)

    return asyncio.run(run())


def inside(ask: Callable[[Client], Awaitable[T]], *, read_only: bool = False) -> T:
    """What a client in this process gets; the other servers are programs all the same."""

    async def run() -> T:
        elsewhere = OtherServers(read_only=read_only)
        try:
            async with Client(build(elsewhere, read_only=read_only)) as client:
                return await ask(client)
        finally:
            await elsewhere.close()

    return asyncio.run(run())


def text(result: types.CallToolResult, *, wrong: bool = False) -> str:
    """What an answer says, which is one text."""
    assert result.is_error is wrong, result
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text


def in_order(*lines: Any) -> bytes:
    """JSON-RPC lines as a client writes them."""
    return b"".join(json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n" for line in lines)


INITIALIZE = {
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
INITIALIZED = {"method": "notifications/initialized"}


@contextmanager
def process(*arguments: str, **more: str) -> Iterator[Popen[bytes]]:
    """The command with its pipes."""
    with Popen([*COMMAND, *arguments], stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment(**more)) as started:
        try:
            yield started
        finally:
            if started.poll() is None:
                started.kill()


def said(started: Popen[bytes], lines: bytes, answers: int) -> list[dict[str, Any]]:
    """So many answers to these lines."""
    assert started.stdin is not None
    assert started.stdout is not None
    started.stdin.write(lines)
    started.stdin.flush()
    return [json.loads(started.stdout.readline()) for _ in range(answers)]
