"""Where a value came from, in words a user can act on."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from msgspec import Struct


class Origin(Struct, frozen=True):
    """The place that set a value: `where` is a file, a variable or a flag's key."""

    kind: Literal["default", "file", "agent", "environment", "flag"]
    where: str = ""
    line: int | None = None
    agent: str | None = None

    def __str__(self) -> str:
        if self.kind == "default":
            return "default"
        if self.kind in ("environment", "flag"):
            return f"{self.kind} {self.where}"
        place = self.where if self.line is None else f"{self.where}:{self.line}"
        return place if self.kind == "file" else f"{place} [agents.{self.agent}]"


DEFAULT = Origin("default")


def printable(text: str | Path) -> str:
    """The text on one line, whatever bytes a file name, a variable or a key brought with it."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in str(text))
