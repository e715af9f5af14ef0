"""A store with knowledge, read and written beside `holdfast memory`; and that command as a whole, in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import cli
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


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """The whole program in this process: its code and what it said."""
    capsys.readouterr()
    code = cli.run(["memory", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def entry(workspace: Path, id: str) -> KnowledgeEntry:
    with open_store(database(workspace)) as store:
        return Knowledge(store, "local").get(id)


def entries(workspace: Path) -> list[KnowledgeEntry]:
    with open_store(database(workspace)) as store:
        return Knowledge(store, "local").entries(projects="all", forgotten=True)


def refused(*arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What it says, in one sentence, while it changes nothing."""
    code, out, err = run(*arguments, capsys=capsys)
    assert (code, out) == (1, ""), (code, out, err)
    assert err.startswith("holdfast: ")
    assert "Traceback" not in err
    assert all(character.isprintable() or character == "\n" for character in err)
    return err
