"""From a document to a script: which keys there are, what they may hold, and one sentence for everything else."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar, get_args

from holdfast.facts import nearest

from .document import Value, problem
from .rules import CallStep, Script, ScriptRule, ScriptStep, StopWord, When

ROLES = ("user", "tool", "assistant", "system")
LONGEST = 1_000_000
"""Tokens of filler: more than any model's output limit."""

_SAYING = ("say", "think", "call", "stop", "tokens", "first_token", "per_token")
_SPEAKING = ("say", "think", "call", "stop", "tokens")
_T = TypeVar("_T")


def read(document: Value, where: str) -> Script:
    """The script a YAML document describes; a bare list is its rules."""
    return _Reader(where).script(document)


def read_step(value: Value, where: str) -> ScriptStep:
    """One reply on its own, as a Python script returns it."""
    return _Reader(where).step(value, _SAYING)


class _Reader:
    def __init__(self, where: str) -> None:
        self.where = where

    def script(self, document: Value) -> Script:
        if isinstance(document.value, list):
            document = Value({"rules": document}, document.line, {"rules": document.line})
        self.keys(document, ("rules", "turns", "delay"), "a script")
        first, per = self.delay(document.value.get("delay"))
        turns = tuple(self.step(item, _SAYING) for item in self.items(document, "turns"))
        rules = tuple(self.rule(item) for item in self.items(document, "rules"))
        if not turns and not rules:
            raise problem(self.where, document.line, "the script has no rules; give it a list of `rules` or `turns`")
        return Script(name=self.where, turns=turns, rules=rules, first_token=first or 0.0, per_token=per or 0.0)

    def delay(self, value: Value | None) -> tuple[float | None, float | None]:
        if value is None:
            return None, None
        self.keys(value, ("first_token", "per_token"), "`delay`")
        return self.get(value, "first_token", self.seconds), self.get(value, "per_token", self.seconds)

    def rule(self, value: Value) -> ScriptRule:
        step = self.step(value, ("when", "times", *_SAYING))
        if not isinstance(value.value, dict):
            return ScriptRule(step)
        when = value.value.get("when")
        return ScriptRule(
            step,
            When() if when is None else self.when(when),
            self.get(value, "times", lambda key, inner: self.whole(key, inner, least=1)),
        )

    def when(self, value: Value) -> When:
        self.keys(value, When.__struct_fields__, "`when`")
        role = self.get(value, "role", self.text)
        if role is not None and role not in ROLES:
            raise problem(self.where, value.lines["role"], f"`role` is {role!r}; {nearest(role, ROLES)}")
        return When(
            contains=self.get(value, "contains", self.text),
            matches=self.get(value, "matches", self.pattern),
            tool_result=self.get(value, "tool_result", self.text),
            turn=self.get(value, "turn", lambda key, inner: self.whole(key, inner, least=1)),
            role=role,
        )

    def step(self, value: Value, allowed: tuple[str, ...]) -> ScriptStep:
        if isinstance(value.value, str):
            return ScriptStep(say=value.value, line=value.line)
        self.keys(value, allowed, "a rule" if "when" in allowed else "a turn")
        if not value.value.keys() & set(_SPEAKING):
            hint = f"give it one of {', '.join(_SPEAKING)}"
            raise problem(self.where, value.line, f"the rule says nothing; {hint}")
        stop = self.get(value, "stop", self.text)
        if stop is not None and stop not in get_args(StopWord):
            hint = nearest(stop, get_args(StopWord))
            raise problem(self.where, value.lines["stop"], f"`stop` is {stop!r}; {hint}")
        return ScriptStep(
            say=self.get(value, "say", self.text),
            think=self.get(value, "think", self.text),
            calls=self.calls(value.value["call"]) if "call" in value.value else (),
            stop=stop,  # type: ignore[arg-type]  # checked above
            tokens=self.get(value, "tokens", lambda key, inner: self.whole(key, inner, most=LONGEST)) or 0,
            first_token=self.get(value, "first_token", self.seconds),
            per_token=self.get(value, "per_token", self.seconds),
            line=value.line,
        )

    def calls(self, value: Value) -> tuple[CallStep, ...]:
        items = value.value if isinstance(value.value, list) else [value]
        if not items:
            raise problem(self.where, value.line, "`call` is an empty list; name a tool or remove it")
        return tuple(self.call(item) for item in items)

    def call(self, value: Value) -> CallStep:
        if isinstance(value.value, str):
            return CallStep(value.value, None, value.line)
        self.keys(value, ("tool", "input"), "`call`")
        tool, input_ = self.get(value, "tool", self.text), value.value.get("input")
        if not tool:
            raise problem(self.where, value.line, "`call` names no tool; add `tool`")
        if input_ is not None and not isinstance(input_.value, dict):
            raise problem(self.where, value.lines["input"], f"`input` must be a mapping, not {_kind(input_.value)}")
        return CallStep(tool, None if input_ is None else input_.plain(), value.line)

    # Values

    def keys(self, value: Value, allowed: tuple[str, ...], holder: str) -> None:
        if not isinstance(value.value, dict):
            raise problem(self.where, value.line, f"{holder} must be a mapping, not {_kind(value.value)}")
        for key in value.value:
            if key not in allowed:
                raise problem(self.where, value.lines[key], f"unknown key `{key}` in {holder}; {nearest(key, allowed)}")

    def items(self, document: Value, key: str) -> list[Value]:
        value = document.value.get(key)
        if value is None:
            return []
        if not isinstance(value.value, list):
            raise problem(self.where, document.lines[key], f"`{key}` must be a list, not {_kind(value.value)}")
        return list(value.value)

    def get(self, holder: Value, key: str, read: Callable[[str, Value], _T]) -> _T | None:
        value = holder.value.get(key)
        return None if value is None else read(key, value)

    def text(self, key: str, value: Value) -> str:
        """Return a text as written; a number or a word like `yes` counts as text here."""
        if value.text is None:
            raise problem(self.where, value.line, f"`{key}` must be a text, not {_kind(value.value)}")
        return value.text

    def pattern(self, key: str, value: Value) -> str:
        text = self.text(key, value)
        try:
            re.compile(text)
        except re.error as error:
            raise problem(self.where, value.line, f"`{key}` is no regular expression ({error}); correct it") from error
        return text

    def whole(self, key: str, value: Value, *, least: int = 0, most: int | None = None) -> int:
        number = value.value
        if isinstance(number, bool) or not isinstance(number, int):
            raise problem(self.where, value.line, f"`{key}` must be a whole number, not {_kind(number)}")
        if number < least or (most is not None and number > most):
            bounds = f"at least {least}" if most is None else f"between {least} and {most}"
            raise problem(self.where, value.line, f"`{key}` is {number}; it must be {bounds}")
        return number

    def seconds(self, key: str, value: Value) -> float:
        number = value.value
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < float("inf"):
            raise problem(self.where, value.line, f"`{key}` must be a number of seconds, zero or more")
        return float(number)


def _kind(value: Any) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "yes or no"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case dict():
            return "a mapping"
    return f"a {type(value).__name__}"
