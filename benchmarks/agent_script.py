"""The model of the agent's workloads: it decides by what the tools really answered.

A pure function of the request, as every script of the simulator: the task is found by its number in the user's message,
how far it has come by the answers since. A step that does not find what it needs gives up, and the workspace shows it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.records import Message, Request, Text, ToolResult, ToolUse

Reply = str | dict[str, Any]

GAVE_UP = "I could not go on."
_task = re.compile(r"\[task (\d+)\]")


class Answered(Struct, frozen=True):
    """A call and what came back."""

    tool: str
    input: dict[str, Any]
    text: str
    error: bool


class Scene(Struct, frozen=True, kw_only=True):
    """Where the model stands: in which task, after how many answers of its own, and what it has seen in it."""

    task: int
    step: int
    seen: tuple[Answered, ...]
    system: str

    def last(self, tool: str) -> Answered | None:
        return next((each for each in reversed(self.seen) if each.tool == tool), None)

    def all(self, tool: str) -> list[Answered]:
        return [each for each in self.seen if each.tool == tool]


Step = Callable[[Scene], Reply | None]
"""What the model does next; None where it finds nothing to go on with."""


def call(tool: str, **given: Any) -> dict[str, Any]:
    return {"tool": tool, "input": given}


def calls(say: str, *made: dict[str, Any]) -> Reply:
    return {"say": say, "call": list(made)}


def fixed(reply: Reply) -> Step:
    """A step that needs to have seen nothing."""
    return lambda _scene: reply


def model(tasks: Sequence[Sequence[Step]]) -> Callable[[Request], Reply]:
    """The script of a workload: the steps of each task."""

    def reply(request: Request) -> Reply:
        scene = scene_of(request)
        if scene is None or scene.task > len(tasks):
            return GAVE_UP
        steps = tasks[scene.task - 1]
        if scene.step >= len(steps) or any(each.error for each in scene.seen):
            return GAVE_UP
        return steps[scene.step](scene) or GAVE_UP

    return reply


def scene_of(request: Request) -> Scene | None:
    at = number = 0
    for index, message in enumerate(request.messages):
        for text in _texts(message) if message.role == "user" else ():
            if found := _task.search(text):
                at, number = index, int(found[1])
    if not number:
        return None
    since = request.messages[at + 1 :]
    return Scene(
        task=number,
        step=sum(message.role == "assistant" for message in since),
        seen=tuple(_seen(since)),
        system=request.system_prompt if isinstance(request.system_prompt, str) else "",
    )


def _texts(message: Message) -> list[str]:
    return [block.text for block in message.content if isinstance(block, Text)]


def _seen(messages: Sequence[Message]) -> list[Answered]:
    made = {b.id: b for message in messages for b in message.content if isinstance(b, ToolUse)}
    results = [b for message in messages for b in message.content if isinstance(b, ToolResult)]
    found = []
    for result in results:
        used = made[result.tool_use_id]
        text = "".join(inner.text for inner in result.content if isinstance(inner, Text))
        found.append(Answered(used.name, msgspec.json.decode(used.input), text, result.is_error))
    return found
