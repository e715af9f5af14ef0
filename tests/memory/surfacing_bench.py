"""A real store with knowledge in it, a clock that goes by hand, and whoever asks for memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.config.sections.agent import MemorySettings
from holdfast.facts import estimate
from holdfast.memory.entries import Audience, ContextBlock, Delta, KnowledgeEntry, StableBlock
from holdfast.memory.knowledge import Knowledge
from holdfast.memory.surface import Surfacing
from holdfast.store import SqliteStore, open_store

PROJECT = "/home/me/shop"
HOUR = 3_600.0
BEGIN = 1_800_000_000.0


class Bench:
    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.now = BEGIN
        self.knowledge = self.of("local")

    def of(self, tenant: str, project: str | None = PROJECT) -> Knowledge:
        return Knowledge(self.store, tenant, project=project, clock=lambda: self.now)

    def add(self, id: str, title: str, content: str = "", **members: Any) -> KnowledgeEntry:
        return self.knowledge.add(title, content or f"{title}.", id=id, **members)

    def liked(self, id: str, title: str, content: str = "", **members: Any) -> KnowledgeEntry:
        return self.add(id, title, content, category="preference", **members)

    def asks(
        self,
        audience: Audience = "agent",
        *,
        knowledge: Knowledge | None = None,
        limit: int = 200_000,
        output: int = 64_000,
        **settings: Any,
    ) -> Surfacing:
        """A session of its own, which knows nothing of the others."""
        return Surfacing(
            knowledge or self.knowledge,
            MemorySettings(**settings),
            audience=audience,
            context_limit=limit,
            output_limit=output,
        )

    def stable(self, audience: Audience = "agent", **settings: Any) -> StableBlock:
        return self.asks(audience, **settings).stable(now=self.now)


@contextmanager
def bench(directory: Path) -> Iterator[Bench]:
    with open_store(directory / "holdfast.db") as store:
        yield Bench(store)


def ids(given: StableBlock | ContextBlock | Delta | None) -> list[str]:
    return [id_ for id_, _ in given.entries] if given is not None else []


def told(*given: StableBlock | ContextBlock | Delta | None) -> dict[str, str]:
    """What a conversation was last told, by these in their order."""
    return {id_: hash_ for each in given if each is not None for id_, hash_ in each.entries}


def size(text: str) -> int:
    return estimate(text) if text else 0
