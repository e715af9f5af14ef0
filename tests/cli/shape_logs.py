"""Logs of shape traces, and what `holdfast explain` reports of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from holdfast.cli.explain.command import command
from tests.cli.commands import piped

HEAD = 6_000


def shape(number: int, read: int, written: int, *, session: str = "s", gap: float = 10.0, **more: Any) -> str:
    """A line of a shape trace."""
    at = 1_790_000_000.0 + number * gap
    used = {"input": 3, "read": read, "write_5m": written, "write_1h": 0, "output": 50}
    line = {"session": session, "request": number, "at": at, "first_token_at": at + 1, "model": "claude-opus-4-6"}
    return json.dumps(line | {"sidechain": False, "reset": None, "added": [], "usage": used} | more)


def log(path: Path, breaks: int = 2, session: str = "s") -> Path:
    """A session in which every other request reads the head only."""
    lines, number = [shape(1, HEAD, 4_000, session=session)], 1
    for _ in range(breaks):
        lines.append(shape(number := number + 1, HEAD, 4_100, session=session))
    lines.append(shape(number + 1, HEAD + 4_100, 10, session=session))
    path.write_text("\n".join(lines) + "\n")
    return path


def report(*arguments: str) -> dict[str, Any]:
    found = json.loads(piped(command, *arguments, "--format", "json", "--quiet"))
    assert isinstance(found, dict)
    return found
