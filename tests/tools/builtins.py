"""Calls of the built-in tools as a dispatcher makes them, and what must not be left over afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from holdfast.config.sections.agent import ToolsSettings
from holdfast.records.events import Event
from holdfast.tools.builtin import Processes, builtin_tools
from holdfast.tools.contract import Cancel, Tool, ToolContext, ToolExecutionError, ToolOutput
from holdfast.tools.workspace import Workspace

T = TypeVar("T")


class Session:
    """One session's built-in tools around a directory."""

    def __init__(self, root: Path, settings: ToolsSettings | None = None, *, offloads: Sequence[Path] = ()) -> None:
        self.root = root
        self.workspace = Workspace(root, offloads=offloads)
        self.processes = Processes()
        self.tools: dict[str, Tool] = {
            tool.name: tool for tool in builtin_tools(settings or ToolsSettings(), self.processes)
        }
        self.told: list[Event] = []
        self.streamed: list[str] = []
        self.watch: Callable[[str], None] = self.streamed.append

    async def call(self, tool: str, /, cancel: Cancel | None = None, **input: Any) -> ToolOutput:
        context = ToolContext(
            session="s",
            tool_use_id="call_1",
            workspace=self.workspace,
            cancel=cancel or Cancel(),
            emit=self.told.append,
            stream=self.watch,
        )
        return await self.tools[tool].run(input, context)

    async def said(self, tool: str, /, **input: Any) -> str:
        output = await self.call(tool, **input)
        assert isinstance(output.content, str)
        return output.content

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it in a loop of its own, and close the session's processes in the same."""

        async def whole() -> T:
            try:
                return await asyncio.wait_for(work, 60)
            finally:
                await self.processes.close()

        return asyncio.run(whole())

    def does(self, tool: str, /, **input: Any) -> ToolOutput:
        return asyncio.run(self.call(tool, **input))

    def says(self, tool: str, /, **input: Any) -> str:
        return asyncio.run(self.said(tool, **input))

    def refuses(self, tool: str, /, **input: Any) -> str:
        try:
            output = self.does(tool, **input)
        except ToolExecutionError as error:
            return str(error)
        raise AssertionError(f"{tool} gave {output.content!r}")


def descriptors() -> set[str]:
    """The open files of this process, by number and what they are."""
    found = set()
    for one in Path("/proc/self/fd").iterdir():
        try:
            found.add(f"{one.name} {one.readlink()}")
        except OSError:
            continue
    return found


def running(token: str) -> list[str]:
    """Commands of living processes that contain this token."""
    return [command for _, command in _running(token)]


def end_running(token: str) -> None:
    """End what a test that failed has left behind; nobody else's commands contain its token."""
    for process, _ in _running(token):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _running(token: str) -> list[tuple[int, str]]:
    found = []
    for one in Path("/proc").glob("[0-9]*"):
        if int(one.name) == os.getpid():
            continue
        try:
            state = (one / "stat").read_bytes().rpartition(b")")[2].split()[0]
            command = (one / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if token in command and state not in b"ZX":
            found.append((int(one.name), command))
    return found


def children() -> list[str]:
    """Our own children, dead ones that nobody waited for too."""
    found = []
    for one in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((one / "stat").read_bytes().rpartition(b")")[2].split()[1])
        except OSError:
            continue
        if parent == os.getpid():
            found.append(one.name)
    return found
