"""Watches of a turn: what a user would see of it."""

from __future__ import annotations

from typing import Any

from holdfast.agent.contract import CostLine, Watch
from holdfast.records import Message, ToolUse
from holdfast.tools import Cancel, ToolAnswer


class RecordingWatch(Watch):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    @property
    def lines(self) -> list[str]:
        """The lines that a user is shown."""
        return [text for kind, text in self.events if kind == "notice"]

    @property
    def pieces(self) -> list[str]:
        """The pieces of answers."""
        return [text for kind, text in self.events if kind.startswith("piece ")]

    def piece(self, kind: Any, text: str) -> None:
        self.events.append((f"piece {kind}", text))

    def answered(self, message: Message, line: CostLine) -> None:
        self.events.append(("answered", line))

    def retrying(self, why: str, seconds: float) -> None:
        self.events.append(("retrying", seconds))

    def calling(self, call: ToolUse) -> None:
        self.events.append(("calling", call.name))

    def called(self, answer: ToolAnswer) -> None:
        self.events.append(("called", answer.tool))

    def notice(self, text: str) -> None:
        self.events.append(("notice", text))


class StoppingWatch(RecordingWatch):
    """Stops the turn at the first piece of an answer that says so."""

    def __init__(self, cancel: Cancel, at: str) -> None:
        super().__init__()
        self.cancel, self.at = cancel, at

    def piece(self, kind: Any, text: str) -> None:
        super().piece(kind, text)
        if kind == self.at:
            self.cancel.set()
