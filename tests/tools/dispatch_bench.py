"""A dispatcher around real parts: a workspace on disk, a bus that is listened to, tools that do what a test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from holdfast.config.sections.agent import ToolsSettings
from holdfast.records import Message, Request, Text, ToolUse, validate
from holdfast.records.events import Bus, Event
from holdfast.tools.contract import Cancel, Effect, Tool, ToolAnswer, ToolContext, ToolOutput
from holdfast.tools.workspace import Workspace
from tests.support.toolboxes import ALLOW, dispatcher


def tool_named(name: str, run: Callable[..., Any], effect: Effect = "read", **fields: Any) -> Tool:
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


class Bench:
    """Runs calls of these tools and keeps what was told."""

    def __init__(self, root: Path, *tools: Tool, settings: ToolsSettings = ALLOW, **more: Any) -> None:
        self.bus = Bus()
        self._listening = self.bus.subscribe()
        self.workspace = more.pop("workspace", None) or Workspace(root)
        resolve = more.pop("resolve", None) or {tool.name: tool for tool in tools}
        more = {"settings": settings, "bus": self.bus, "grace_s": 0.05, **more}
        self.dispatcher = dispatcher(self.workspace, resolve, **more)

    def run(self, *calls: ToolUse, cancel: Cancel | None = None) -> tuple[ToolAnswer, ...]:
        return asyncio.run(self.dispatcher.run(calls, turn="t1", cancel=cancel))

    def one(self, name: str, input: Any = None) -> ToolAnswer:
        (answer,) = self.run(call(name, input))
        return answer

    def told(self) -> list[Event]:
        return [envelope.payload for envelope in self._listening.drain()]

    def types(self) -> list[str]:
        return [event.type for event in self.told()]


def text(answer: ToolAnswer) -> str:
    return "\n".join(block.text for block in answer.result.content if isinstance(block, Text))


def violations(calls: tuple[ToolUse, ...] | list[ToolUse], answers: tuple[ToolAnswer, ...]) -> Any:
    """What is wrong with the conversation that these calls and answers make."""
    assert [answer.result.tool_use_id for answer in answers] == [call.id for call in calls]
    messages = (Message("assistant", tuple(calls)), Message("user", tuple(answer.result for answer in answers)))
    return validate(Request(model="m:m", messages=(Message("user", (Text("go"),)), *messages)))
