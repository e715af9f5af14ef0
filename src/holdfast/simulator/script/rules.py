"""A script as frozen values. `line` is where a thing stands in its file, for messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

from holdfast.records import Request

ANY = "any"
"""In the place of a tool's name: whichever tool is offered."""

StopWord = Literal["end", "limit", "refusal"]


class CallStep(Struct, frozen=True):
    """A tool call. Without `input` one is made that fits the tool's schema."""

    tool: str
    input: dict[str, Any] | None = None
    line: int = 0


class ScriptStep(Struct, frozen=True, kw_only=True):
    """One reply: thoughts, text, calls, in this order. `tokens` is the least length of the whole, made with filler."""

    say: str | None = None
    think: str | None = None
    calls: tuple[CallStep, ...] = ()
    stop: StopWord | None = None
    tokens: int = 0
    first_token: float | None = None
    per_token: float | None = None
    line: int = 0


class When(Struct, frozen=True, kw_only=True):
    """Conditions on the last message; all that are given must hold."""

    contains: str | None = None
    matches: str | None = None
    tool_result: str | None = None
    turn: int | None = None
    role: str | None = None


class ScriptRule(Struct, frozen=True):
    """A step with its condition; `times` limits how often it is taken in one conversation."""

    step: ScriptStep
    when: When = When()
    times: int | None = None


class Script(Struct, frozen=True, kw_only=True):
    """`turns` are played first, by the number of the assistant's turn; then the first rule that holds; then an echo.

    `function` is a Python script's `reply`; a script with one has no turns and no rules.
    """

    name: str
    turns: tuple[ScriptStep, ...] = ()
    rules: tuple[ScriptRule, ...] = ()
    first_token: float = 0.0
    per_token: float = 0.0
    function: Callable[[Request], object] | None = None
    line: int = 0

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools it calls by name, sorted."""
        steps = (*self.turns, *(rule.step for rule in self.rules))
        return tuple(sorted({call.tool for step in steps for call in step.calls} - {ANY}))
