"""The scripted model of the demo's agent: it does what the coding session has planned, with the agent's own tools.

A pure function of the request, as every script of the simulator: the ask is found in the user's last message, how far
it has come by the answers since.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from holdfast.records import Message, Request, Text, ToolResult
from holdfast.simulator import Reply, ToolCall, Words

from .session import PARTS, DemoTurn

SUMMARIZE = "Summarize this conversation so that"
SKILLS = {
    "fail since": "fix-a-failing-test",
    "is slow": "measure-then-speed-up",
    "Rename": "rename-with-an-alias",
}
"""Skills by a text in the user's message."""

_scouted = re.compile(r"Read (\w+)\.py and say").search


class _Scene(Struct, frozen=True):
    """The ask that is worked on, and the model's answers since."""

    turn: int
    step: int


def asked(number: int, turn: DemoTurn) -> str:
    """Return the user's message, numbered so that a repeated text differs."""
    return f"{number + 1}. {turn.ask}"


def scout_task(part: str) -> str:
    return f"Read {part}.py and say in one line how many functions it has and how they sort."


def model(turns: Sequence[DemoTurn]) -> Callable[[Request], Reply]:
    """Return the scripted model, which replies to a request."""

    def reply(request: Request) -> Reply:
        if SUMMARIZE in _text(request.messages[-1]):
            return _text_reply(_summary(turns))
        scouted = next((latest for message in request.messages if (latest := _scouted(_text(message)))), None)
        if scouted is not None:
            return _scout(scouted[1], request)
        scene = _scene(request, turns)
        return _next(turns[scene.turn], scene, request)

    return reply


def _next(turn: DemoTurn, scene: _Scene, request: Request) -> Reply:
    step, skill = scene.step, next((name for words, name in SKILLS.items() if words in turn.ask), None)
    loads = skill is not None and _loads(request, skill, before=step)
    calls = [*([("skill_load", {"name": skill})] if loads else []), *(_ours(*call) for call in turn.calls)]
    if step >= len(calls):
        return _text_reply(turn.answer)
    name, arguments = calls[step]
    return _calling(f"toolu_{scene.turn:03}{step:02}", name, arguments)


def _text_reply(text: str) -> Reply:
    return Reply((Words(text),), "end", 0)


def _calling(id: str, name: str, arguments: dict[str, Any]) -> Reply:
    """A call. Its id stands in the prompt: one that came from elsewhere might have another number of tokens."""
    words = Words(f"I look at {arguments.get('path', name)} first.")
    return Reply((words, ToolCall(id, name, json.dumps(arguments).encode())), "tools", 0)


def _loads(request: Request, skill: str, *, before: int) -> bool:
    """Whether this turn begins with loading a skill: nothing that was sent before it has its text."""
    heading = f"# Skill: {skill} "
    if heading in _system(request):
        return False
    earlier = request.messages[: len(request.messages) - 2 * before]
    return not any(heading in _text(message) for message in earlier)


def _ours(name: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A call of the plan, as one of the agent's built-in tools."""
    if name == "run_tests":
        return "run_command", {"command": f"sh check {arguments['match']}"}
    if name == "read_file":
        return name, {"path": arguments["path"], "offset": arguments["first"], "limit": arguments["last"]}
    return name, arguments


def _scout(part: str, request: Request) -> Reply:
    results = [block for message in request.messages for block in message.content if isinstance(block, ToolResult)]
    if not results:
        return _calling(f"toolu_{PARTS.index(part):03}", "read_file", {"path": f"{part}.py"})
    functions = _text(request.messages[-1]).count("\ndef ") + 1
    return _text_reply(f"{part}.py has {functions} functions; all of them give the newest first.")


def _scene(request: Request, turns: Sequence[DemoTurn]) -> _Scene:
    for index in range(len(request.messages) - 1, -1, -1):
        message = request.messages[index]
        if message.role == "user":
            text = _text(message)
            latest = max((number for number, turn in enumerate(turns) if asked(number, turn) in text), default=None)
            if latest is not None:
                return _Scene(latest, sum(each.role == "assistant" for each in request.messages[index + 1 :]))
    return _Scene(len(turns) - 1, len(turns[-1].calls) + 1)


def _summary(turns: Sequence[DemoTurn]) -> str:
    files = "\n".join(f"- {part}.py and tests/test_{part}.py were read." for part in PARTS[: len(turns)])
    return (
        "## Goal\nThe user wants the parts of the shop mended, one after the other, with all tests passing.\n"
        "## Decisions and facts\nEvery function gives the newest first. Tests run with `sh check PART`.\n"
        f"## Files\n{files}\n## Open tasks\nWhat the user asks next.\n## Next step\nGo on with the last ask."
    )


def _system(request: Request) -> str:
    prompt = request.system_prompt
    return prompt if isinstance(prompt, str) else "\n".join(str(getattr(block, "text", "")) for block in prompt or ())


def _text(message: Message) -> str:
    parts = []
    for block in message.content:
        inner = block.content if isinstance(block, ToolResult) else (block,)
        parts += [each.text for each in inner if isinstance(each, Text)]
    return "\n".join(parts)
