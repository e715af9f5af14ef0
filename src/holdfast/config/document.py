"""A `holdfast.toml` as text: parsed, with the line of each key; and where a value came from, for messages."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

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


FILE = "holdfast.toml"
_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_NAME = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*\[\s*({_NAME})\s*\]")
_KEY = re.compile(rf"\s*({_NAME})\s*=")
_AT = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)")

KeyPath = tuple[str, ...]
"""The names of tables down to a key."""


class MalformedError(Exception):
    """The text is not TOML: the reason and the line."""

    def __init__(self, reason: str, line: int | None) -> None:
        super().__init__(reason)
        self.reason, self.line = reason, line


class ConfigDocument(Struct, frozen=True):
    """One file that was found: its name for messages, its table, the lines of its keys."""

    where: str
    table: Mapping[str, Any]
    lines: Mapping[KeyPath, int]
    workspace: bool

    def line(self, path: KeyPath) -> int | None:
        """The line of a key, or of the nearest table around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)


def parse(where: str, text: str, *, workspace: bool = False) -> ConfigDocument:
    try:
        table = tomllib.loads(text)
    except RecursionError as problem:
        raise MalformedError("it is nested too deeply", None) from problem
    except tomllib.TOMLDecodeError as problem:
        place = _AT.search(str(problem))
        line = int(place[1]) if place and place[1] else text.count("\n") + 1
        raise MalformedError(_AT.sub("", str(problem)), line) from problem
    except ValueError as problem:  # a number with more digits than Python converts
        raise MalformedError(str(problem), None) from problem
    return ConfigDocument(where, table, _lines(text), workspace)


def _lines(text: str) -> dict[KeyPath, int]:
    """Where keys stand, for messages only: TOML that parsed is read line by line, long strings skipped."""
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    closing = ""
    for number, line in enumerate(text.split("\n"), start=1):
        if closing:
            closing = "" if closing in line else closing
            continue
        if header := _HEADER.match(line):
            table = _parts(header[1])
            _note(lines, table, number)
        elif key := _KEY.match(line):
            _note(lines, table + _parts(key[1]), number)
            closing = _opened(line[key.end() :])
    return lines


def _note(lines: dict[KeyPath, int], path: KeyPath, number: int) -> None:
    """A key stands where it is first named, and so do the tables that its name implies."""
    for length in range(1, len(path) + 1):
        lines.setdefault(path[:length], number)


def _opened(value: str) -> str:
    """The quotes that a multi-line string begun on this line still waits for."""
    return next((quotes for quotes in ('"""', "'''") if value.count(quotes) % 2), "")


def _parts(name: str) -> KeyPath:
    path: list[str] = []
    table: Any = tomllib.loads(f"{name} = 0")
    while isinstance(table, dict):
        ((part, table),) = table.items()
        path.append(part)
    return tuple(path)
