"""A bench whose agent has a knowledge store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holdfast.agent.session import Session
from holdfast.agent.window.entries import KnowledgeNews, Timeline
from holdfast.config.sections.agent import MemorySettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.memory.entries import KnowledgeEntry
from holdfast.memory.knowledge import Knowledge
from tests.agent.bench import Bench, settings

TENANT = "t"
LONG = "What was agreed on this and why it matters for everything that comes after it. " * 40


class KnowledgeBench(Bench):
    """`memory` are settings of the section, `strategy` and further members those of the cache."""

    def __init__(self, place: Path, *, memory: dict[str, Any] | None = None, **more: Any) -> None:
        cache = more.pop("cache", None) or CacheSettings()
        chosen = settings(
            cache=cache, **{name: more.pop(name) for name in ("agent", "compaction", "model") if name in more}
        )
        super().__init__(place, config=replace(chosen, memory=MemorySettings(**(memory or {}))), **more)

    @property
    def known(self) -> Knowledge:
        """What somebody else writes to it meanwhile."""
        return Knowledge(self.store, TENANT, project=str(self.workspace.resolve()), clock=self.clock.now)

    def add(self, title: str, content: str = "", **more: Any) -> KnowledgeEntry:
        more.setdefault("category", "gotcha")
        return self.known.add(title, content or f"{title}, as it was found out.", **more)

    def prefer(self, title: str, content: str = "") -> KnowledgeEntry:
        return self.add(title, content, category="preference")

    def raw(self, number: int = -1) -> dict[str, Any]:
        """A request as it went out."""
        body: dict[str, Any] = json.loads(self.sent[number][2])
        return body

    def system(self, number: int = -1) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = self.raw(number)["system"]
        return blocks

    def markers(self, number: int = -1) -> list[Any]:
        return [block.get("cache_control") for block in self.system(number)]

    def texts(self, number: int = -1) -> list[str]:
        """The texts of the newest user message."""
        return [block["text"] for block in self.raw(number)["messages"][-1]["content"] if block["type"] == "text"]


def knowledge_news(session: Session) -> list[str]:
    """What the conversation was told of the store, in order."""
    items = [item for entry in session.state.window.entries if isinstance(entry, Timeline) for item in entry.items]
    return [item.text for item in items if isinstance(item, KnowledgeNews)]
