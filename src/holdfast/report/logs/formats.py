"""The registry of log formats: one line each, asked by content.

A format is a module with `read(path, advance)` and `is_mine(path, start)`, imported when it is first needed. `is_mine`
is asked about directories too, with an empty start: a format that keeps its logs as a directory of small files gets it
whole, as one source. A module may have more, see `Reading` (`reading`) and `directory_walk` (`owner`, `began`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .records import Advance, Reader, Record, Source

MODULES = {
    # The order is the order of asking: what is told by unmistakable members first, the general forms last.
    "claude-code": "claude_code",
    "codex": "codex",
    "pi": "pi",
    "opencode": "opencode",
    "store": "gateway_store",
    "shapes": "shapes",
    "bodies": "bodies",
    "chat": "chat",
}
CLIENTS = {"claude-code", "codex", "pi", "opencode"}
"""Formats that one client writes and that are named after it."""
KNOWN = (
    "Claude Code transcripts, Codex rollouts, pi and opencode sessions, the gateway's store, "
    "JSONL of request bodies, OpenAI chat JSON and shape traces"
)
UNREADABLE = "unreadable"
"""The format of a file or directory that could not be opened; reading it says why."""
EMPTY = "empty"


def part(format: str, name: str) -> Callable[..., Any] | None:
    """A function of a format's module, None where it has none of that name."""
    found: Callable[..., Any] | None = getattr(importlib.import_module(f".{MODULES[format]}", __package__), name, None)
    return found


def needed(format: str, name: str) -> Callable[..., Any]:
    found = part(format, name)
    if found is None:
        raise AttributeError(f"the format {format} has no {name}")
    return found


def _reader(format: str) -> Reader:
    def read(path: Path, advance: Advance) -> Iterator[Record]:
        yield from needed(format, "read")(path, advance)

    return read


FORMATS: dict[str, Reader] = {name: _reader(name) for name in MODULES}


def format_of(path: Path, start: bytes) -> str | None:
    """The format of a file that begins so, or of a directory."""
    return next((name for name in MODULES if needed(name, "is_mine")(path, start)), None)


def source(path: Path, format: str, size: int) -> Source:
    return Source(path=path, format=format, size=size, client=format if format in CLIENTS else "")
