"""`holdfast mcp` as the SDK's own client sees it: the real command over its pipes, or its server in this process."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any, TypeVar

import pytest
from mcp import Client, StdioServerParameters, types

from holdfast.cli.mcp.server import build
from holdfast.cli.mcp.tools import OtherServers
from tests.cli import mcp_weather

T = TypeVar("T")
SERVER = Path(mcp_weather.__file__)
ON_POSIX = pytest.mark.skipif(sys.platform == "win32", reason="looks at processes")
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
    assert started.stdout is not None
    started.stdin.write(lines)
    started.stdin.flush()
    return [json.loads(started.stdout.readline()) for _ in range(answers)]


def weather(workspace: Path, *more: str) -> Path:
    """Name the server in the user's own configuration; where it leaves its process ids."""
    home, pids = workspace / "home" / ".holdfast", workspace / "pids"
    home.mkdir(parents=True, exist_ok=True)
    lines = ["[mcp.servers.weather]", f"command = {json.dumps(sys.executable)}"]
    lines += [f"args = {json.dumps([str(SERVER), str(pids)])}", *more]
    (home / "holdfast.toml").write_text("\n".join(lines))
    return pids


def functions(answer: str) -> dict[str, dict[str, Any]]:
    """The tools that an answer of discover_tools holds."""
    (block,) = re.findall(r"<functions>\n(.*)\n</functions>", answer, re.DOTALL)
    found = [json.loads(each) for each in re.findall(r"<function>(.*)</function>", block)]
    return {each["name"]: each for each in found}


def is_gone(pids: Path) -> bool:
    """Whether every program that was started has ended."""
    for pid in map(int, pids.read_text().split()):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            continue
        return False
    return True
