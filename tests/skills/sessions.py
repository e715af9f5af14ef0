"""Sessions with skills: real dispatchers and toolboxes, a bus that is listened to, skills made in memory or on disk."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from holdfast.config.sections.agent import Skills
from holdfast.records import Message, Text, ToolResult, ToolUse, canonical_json
from holdfast.records.events import Bus, Envelope
from holdfast.records.events.tools import SkillLoaded
from holdfast.skills.session import SessionSkills
from holdfast.skills.skill import Skill
from holdfast.skills.store import SkillStore
from holdfast.skills.tools import register_skill_tools
from holdfast.tools import Tool, Toolbox
from tests.tools.dispatching import Bench

MODEL = "anthropic:claude-opus-4-6"


def skill(name: str, description: str = "Does a thing.", body: str = "Do it.\n", **fields: Any) -> Skill:
    fields = {"source": "global", "skill_dir": Path("/skills") / name, **fields}
    return Skill(name=name, description=description, body=body, **fields)


def sized(name: str, tokens: int, **fields: Any) -> Skill:
    """A skill whose body has so many heuristic tokens."""
    return skill(name, body=("words " * tokens)[: tokens * 4], **fields)


def session(*skills: Skill, state: bytes | None = None, **settings: Any) -> SessionSkills:
    return SessionSkills(SkillStore(skills), settings=Skills(**settings), state=state)


def desk(root: Path, skills: SessionSkills | None, *tools: Tool) -> Bench:
    """A bare dispatcher with the two tools registered."""
    bench = Bench(root, *tools, skills=skills)
    register_skill_tools(bench.dispatcher)
    return bench


def call(name: str, id: str = "c1", /, **given: Any) -> ToolUse:
    return ToolUse(id, name, canonical_json(json.dumps(given).encode()))


def load(name: str, id: str = "c1") -> ToolUse:
    return call("skill_load", id, name=name)


def text(result: ToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, Text))


class Room:
    """A workspace and a home with sessions in them, and everything that was told."""

    def __init__(self, root: Path) -> None:
        self.workspace, self.home = root / "work", root / "home" / ".holdfast"
        self.workspace.mkdir(exist_ok=True)
        self.bus = Bus()
        self._heard = self.bus.subscribe()
        self.envelopes: list[Envelope] = []

    def open(self, skills: SessionSkills | None, tools: tuple[Tool, ...] = (), **options: Any) -> Toolbox:
        options = {"model": MODEL, "session": "s", "builtins": False, "bus": self.bus, **options}
        return Toolbox(tools, workspace=self.workspace, home=self.home, skills=skills, **options)

    def told(self) -> list[Envelope]:
        self.envelopes += self._heard.drain()
        return self.envelopes

    def types(self) -> list[str]:
        return [envelope.type for envelope in self.told()]

    def loads(self) -> list[SkillLoaded]:
        return [each.payload for each in self.told() if isinstance(each.payload, SkillLoaded)]


def do(box: Toolbox, *calls: ToolUse) -> tuple[ToolResult, ...]:
    """The results of one turn."""
    return tuple(answer.result for answer in asyncio.run(box.run(calls, turn="t1")).answers)


def said(*results: ToolResult) -> Message:
    return Message("user", results)


def consistent(room: Room, skills: SessionSkills, results: tuple[ToolResult, ...]) -> None:
    """Bodies that were answered, activations and events are the same."""
    bodies = [each.tool_use_id for each in results if "The way of" in text(each)]
    assert [each.tool_use_id for each in skills.registry.loaded] == bodies
    assert [each.triggered_by_tool_use_id for each in room.loads()] == bodies
