"""A store with knowledge, read and written beside `holdfast memory`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.memory.knowledge import Knowledge
from holdfast.store import open_store
from holdfast.store.rows import KnowledgeEntry


def database(workspace: Path) -> Path:
    """Where the configuration of these tests keeps the store."""
    return workspace / "home" / ".holdfast" / "holdfast.db"


def remember(workspace: Path, title: str, content: str = "Some text.", *, tenant: str = "local", **more: Any) -> str:
    """An entry, as somebody else has written it; its id."""
    with open_store(database(workspace)) as store:
        project = more.pop("project", str(workspace.resolve()))
        return Knowledge(store, tenant, project=project).add(title, content, **more).id


def entry(workspace: Path, id: str) -> KnowledgeEntry:
    with open_store(database(workspace)) as store:
        return Knowledge(store, "local").get(id)


def entries(workspace: Path) -> list[KnowledgeEntry]:
    with open_store(database(workspace)) as store:
        return Knowledge(store, "local").entries(projects="all", forgotten=True)
