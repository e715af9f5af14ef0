"""Sessions that load skills, told as a session's tools tell them, in a real database."""

from __future__ import annotations

import json
from pathlib import Path

from holdfast.records.events.fields import LoadReason
from holdfast.records.events.tools import SkillLoaded, ToolCompleted, ToolFailed
from holdfast.store import SqliteStore, open_store
from holdfast.tools.journal import ToolJournal

HOUR = 3_600_000_000
NOON = 1_794_657_600_000_000
"""2026-11-14 12:00 UTC."""


class Session:
    """One session; every event comes a second after the one before it."""

    def __init__(self, store: SqliteStore, name: str, *, tenant: str = "t1", at: int = NOON) -> None:
        self.at = at
        self._journal = ToolJournal(None, name, store=store, tenant=tenant, now=self._now)

    def _now(self) -> int:
        self.at += 1_000_000
        return self.at

    def preload(self, *skills: str, tokens: int = 100) -> Session:
        for skill in skills:
            self.loaded(skill, "always", tokens, None)
        return self

    def load(self, skill: str, *, tokens: int = 100, again: bool = False) -> Session:
        """A body that the agent asked for, or the pointer to one that it has already."""
        if not again:
            self.loaded(skill, "on_demand", tokens, "toolu_1")
        return self.complete({"skill_id": skill, **({"already_loaded": True} if again else {})})

    def point(self, skill: str, *, tool: str = "skill_load") -> Session:
        """The pointer to a body that stands in the prompt from the start."""
        return self.complete({"skill_id": skill, "already_preloaded": True}, tool=tool)

    def complete(self, metadata: object, *, tool: str = "skill_load", output: str = "text") -> Session:
        said = metadata if isinstance(metadata, str) else json.dumps(metadata)
        self._journal.emit(ToolCompleted(tool=tool, tool_use_id="toolu_1", output=output, metadata=said), turn="turn-1")
        return self

    def refuse(self, skill: str) -> Session:
        metadata = json.dumps({"skill_id": skill, "already_preloaded": True})
        self._journal.emit(ToolFailed(tool="skill_load", tool_use_id="toolu_1", error_message="no", metadata=metadata))
        return self

    def loaded(self, skill: str, reason: LoadReason, tokens: int, asked: str | None) -> None:
        self._journal.emit(
            SkillLoaded(
                skill_id=skill,
                skill_version="0123456789abcdef",
                load_reason=reason,
                load_size_tokens=tokens,
                source="workspace",
                triggered_by_tool_use_id=asked,
            )
        )


def worked(path: Path) -> Path:
    """Three sessions: `pdf` is preloaded in two of them and asked for in one, `forms` is never asked for."""
    with open_store(path) as store:
        one = Session(store, "one").preload("forms", "pdf", tokens=1_200)
        one.point("pdf").point("pdf").load("review", tokens=300).load("review", again=True)
        Session(store, "two", at=NOON + HOUR).preload("pdf", tokens=1_200).load("review", tokens=300)
        Session(store, "one", tenant="t2", at=NOON + 2 * HOUR).load("pdf", tokens=1_200)
        store.flush()
    return path
