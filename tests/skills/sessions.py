"""Sessions with skills: real dispatchers and toolboxes, a bus that is listened to, skills made in memory or on disk."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from holdfast.config.sections.agent import SkillsSettings
from holdfast.records import Message, ToolResult, ToolUse
from holdfast.records.events.tools import SkillLoaded
from holdfast.skills.session import SessionSkills
from holdfast.skills.skill import Skill
from holdfast.skills.store import SkillStore
from holdfast.skills.tools import SKILL_TOOLS
from holdfast.tools import Tool, Toolbox
from tests.support.toolboxes import Room, call, text
from tests.tools.dispatch_bench import Bench


def skill(name: str, description: str = "Does a thing.", body: str = "Do it.\n", **fields: Any) -> Skill:
    fields = {"source": "global", "skill_dir": Path("/skills") / name, **fields}
    return Skill(name=name, description=description, body=body, **fields)


def sized(name: str, tokens: int, **fields: Any) -> Skill:
    """A skill whose body has so many heuristic tokens."""
    return skill(name, body=("words " * tokens)[: tokens * 4], **fields)


def session(*skills: Skill, state: bytes | None = None, **settings: Any) -> SessionSkills:
    return SessionSkills(SkillStore(skills), settings=SkillsSettings(**settings), state=state)


def desk(root: Path, skills: SessionSkills | None, *tools: Tool) -> Bench:
    """A bare dispatcher with the two tools of skills."""
    return Bench(root, *tools, *SKILL_TOOLS, skills=skills)


def load(name: str, id: str = "c1") -> ToolUse:
    return call("skill_load", id, name=name)


class SkillRoom(Room):
    """Its sessions have skills."""

    def open(self, skills: SessionSkills | None, tools: Iterable[Tool] = (), **options: Any) -> Toolbox:  # type: ignore[override]
        return super().open(tools, skills=skills, **options)

    def types(self) -> list[str]:
        return [envelope.type for envelope in self.events()]

    def loads(self) -> list[SkillLoaded]:
        return [each.payload for each in self.events() if isinstance(each.payload, SkillLoaded)]


def said(*results: ToolResult) -> Message:
    return Message("user", results)


def consistent(room: SkillRoom, skills: SessionSkills, results: tuple[ToolResult, ...]) -> None:
    """Bodies that were answered, activations and events are the same."""
    bodies = [each.tool_use_id for each in results if "The way of" in text(each)]
    assert [each.tool_use_id for each in skills.registry.loaded] == bodies
    assert [each.triggered_by_tool_use_id for each in room.loads()] == bodies
