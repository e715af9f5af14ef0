"""A dispatcher around real parts: a workspace on disk, a bus that is listened to, tools that do what a test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from holdfast.config.sections.agent import Confirm, Tools
from holdfast.records import Message, Request, Text, ToolUse, validate
from holdfast.records.events import Bus, Event
from holdfast.tools.call_checks import read_input, unknown
from holdfast.tools.contract import Answer, Cancel, Effect, Refused, Resolved, Tool, ToolContext, ToolOutput
from holdfast.tools.dispatcher import Dispatcher
from holdfast.tools.workspace import Workspace

ALLOW = Tools(confirm=Confirm(mode="allow"))


def made(name: str, run: Callable[..., Any], effect: Effect = "read", **fields: Any) -> Tool:
    return Tool(name=name, description=name, run=run, effect=effect, **fields)


def says(content: Any = "done", **fields: Any) -> Callable[..., Any]:
    async def run(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        return ToolOutput(content=content, **fields)

    return run


def raises(error: BaseException) -> Callable[..., Any]:
    async def run(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        raise error

    return run


def call(name: str, input: Any = None, id: str | None = None) -> ToolUse:
    raw = input if isinstance(input, bytes) else json.dumps(input or {}).encode()
    return ToolUse(id or f"toolu_{name}", name, raw)


def by_name(tools: Mapping[str, Tool]) -> Callable[[ToolUse], Resolved | Refused]:
    """A look-up in these tools."""

    def resolve(call: ToolUse) -> Resolved | Refused:
        tool = tools.get(call.name)
        if tool is None:
            return unknown(call.name, tools)
        found = read_input(call)
        return found if isinstance(found, Refused) else Resolved(tool, found)

    return resolve


class Bench:
    """Runs calls of these tools and keeps what was told."""

    def __init__(self, root: Path, *tools: Tool, settings: Tools = ALLOW, **more: Any) -> None:
        self.bus = Bus()
        self._listening = self.bus.subscribe()
        self.workspace = more.pop("workspace", None) or Workspace(root)
        more.setdefault("grace_s", 0.05)
        resolve = more.pop("resolve", None) or by_name({tool.name: tool for tool in tools})
        self.dispatcher = Dispatcher(
            resolve, workspace=self.workspace, settings=settings, session="s", bus=self.bus, **more
        )

    def run(self, *calls: ToolUse, cancel: Cancel | None = None) -> tuple[Answer, ...]:
        return asyncio.run(self.dispatcher.run(calls, turn="t1", cancel=cancel))

    def one(self, name: str, input: Any = None) -> Answer:
        (answer,) = self.run(call(name, input))
        return answer

    def told(self) -> list[Event]:
        return [envelope.payload for envelope in self._listening.drain()]

    def types(self) -> list[str]:
        return [event.type for event in self.told()]


def text(answer: Answer) -> str:
    return "\n".join(block.text for block in answer.result.content if isinstance(block, Text))


def violations(calls: tuple[ToolUse, ...] | list[ToolUse], answers: tuple[Answer, ...]) -> Any:
    """What is wrong with the conversation that these calls and answers make."""
    assert [answer.result.tool_use_id for answer in answers] == [call.id for call in calls]
    messages = (Message("assistant", tuple(calls)), Message("user", tuple(answer.result for answer in answers)))
    return validate(Request(model="m:m", messages=(Message("user", (Text("go"),)), *messages)))
