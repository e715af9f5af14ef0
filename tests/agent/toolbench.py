"""Agents whose tools come and go: tools of a host, a model that does several things in one turn, what came of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from holdfast.config.keys import Settings
from holdfast.config.sections.agent import (
    AgentSettings,
    CompactionSettings,
    ConfirmSettings,
    DeferralSettings,
    LifecycleSettings,
    SkillsSettings,
    ToolsSettings,
)
from holdfast.records import Message, Opaque, Request, Text, ToolDefinition, ToolResult
from holdfast.tools.contract import Effect, Tool, ToolContext, ToolOutput
from tests.agent.bench import MODEL, Bench

_NOT_OURS = ("likely_server_side",)
SCHEMA = b'{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}'


def in_steps(request: Request) -> object:
    """The scripted model: the user's last message names calls as JSON, a list for each request of the turn."""
    since: list[Message] = []
    for message in reversed(request.messages):
        texts = [block.text for block in message.content if isinstance(block, Text)]
        if message.role == "user" and texts:
            break
        since.append(message)
    else:
        return "Nothing to do."
    line = next((line for line in texts[-1].splitlines() if line.startswith("[[")), "")
    try:
        steps = json.loads(line)
    except ValueError:
        return "Done."
    done = sum(message.role == "assistant" for message in since)
    if not isinstance(steps, list) or done >= len(steps):
        return "Done."
    return {"call": [{"tool": tool, "input": given} for tool, given in steps[done]]}


def steps(*made: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """A message that makes the scripted model make these calls, one list for each request."""
    return json.dumps([[list(call) for call in calls] for calls in made])


def says(name: str, *, words: int = 20, effect: Effect = "read", ran: list[str] | None = None, **fields: Any) -> Tool:
    """A tool that says which one it is, with a description of so many words."""

    async def run(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        if ran is not None:
            ran.append(name)
        return ToolOutput(content=f"{name} says {input.get('city', 'nothing')}")

    about = f"Tell of {name}. " + "It does what it says and nothing else. " * (words // 8)
    return Tool(name=name, description=about, run=run, effect=effect, **{"input_schema": SCHEMA} | fields)


def deferring(
    *,
    model: str = MODEL,
    compaction: dict[str, Any] | None = None,
    lifecycle: LifecycleSettings | None = None,
    **deferral: Any,
) -> Settings:
    """Settings with these of `tools.deferral`."""
    return Settings(
        agent=AgentSettings(model=model, compaction=CompactionSettings(**(compaction or {}))),
        skills=SkillsSettings(roots=()),
        tools=ToolsSettings(
            confirm=ConfirmSettings(mode="allow"),
            deferral=DeferralSettings(**deferral),
            lifecycle=lifecycle or LifecycleSettings(),
        ),
    )


def opened(place: Path, config: Settings | Any, *tools: Tool, **more: Any) -> Bench:
    return Bench(place, config=config, reply=in_steps, tools=tools, **more)


def declared(request: Request) -> list[str]:
    """The functions that are part of the prefix."""
    return [
        tool.name
        for tool in request.tools
        if isinstance(tool, ToolDefinition) and dict(tool.extra).get("defer_loading") != b"true"
    ]


def answers(request: Request) -> list[str]:
    """The texts of the tool results in a request, in order."""
    return [
        "".join(part.text if isinstance(part, Text) else _raw(part) for part in block.content)
        for message in request.messages
        for block in message.content
        if isinstance(block, ToolResult)
    ]


def _raw(part: object) -> str:
    return part.raw.decode() if isinstance(part, Opaque) else ""


def resets(bench: Bench, session: str) -> list[str | None]:
    """The reason that the log gives for each request of a session."""
    return [reset for sender, reset in bench.sent_by if sender == session]


def keeps_law_5(bench: Bench) -> None:
    """Whatever departs from what its session sent before has a reason, and no break came without one, but for pauses
    and for a provider that promises nothing."""
    by_session: dict[str, list[tuple[Request, str | None]]] = {}
    for request, (session, reset) in zip(bench.bodies(), bench.sent_by, strict=True):
        by_session.setdefault(session, []).append((request, reset))
    for sent in by_session.values():
        for (before, _), (now, reset) in pairwise(sent):
            same = before.tools == now.tools and before.system_prompt == now.system_prompt
            assert reset is not None or (same and now.messages[: len(before.messages)] == before.messages)
    broken = [each.cause for each in bench.breaks() if each.cause not in _NOT_OURS and "ttl_expired" not in each.cause]
    assert not broken
