"""How many logs of which kinds, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

_KINDS = {
    "claude-code": "Claude Code",
    "codex": "Codex",
    "store": "the gateway's store",
    "shapes": "shape traces",
    "bodies": "request bodies",
    "chat": "conversations",
    "empty": "empty files",
    "unreadable": "unreadable files",
}


class LogFile(Protocol):
    @property
    def format(self) -> str: ...
    @property
    def size(self) -> int: ...


def in_words(files: Sequence[LogFile]) -> str:
    """`3 logs of Claude Code and 1 of Codex (12 MB)`."""
    kinds = Counter(_KINDS.get(file.format, file.format) for file in files)
    parts = [
        f"{number:,}{'' if i else ' log' if number == 1 else ' logs'} of {kind}"
        for i, (kind, number) in enumerate(kinds.items())
    ]
    listed = parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + f" and {parts[-1]}"
    return f"{listed} ({megabytes(sum(file.size for file in files))})"


def megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB" if size >= 9_500_000 else f"{size / 1e6:,.1f} MB"
