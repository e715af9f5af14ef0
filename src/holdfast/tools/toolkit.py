"""What tools are written with: input schemas as canonical text, errors in words, directories reached safely."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from holdfast.records import canonical_json

from . import safe_files
from .contract import ToolContext, ToolExecutionError
from .text_limits import shown


def schema(required: Mapping[str, Mapping[str, Any]], optional: Mapping[str, Mapping[str, Any]] | None = None) -> bytes:
    """The schema of an object with these members and no others."""
    shape: dict[str, Any] = {"type": "object", "properties": {**required, **(optional or {})}}
    if required:
        shape["required"] = list(required)
    shape["additionalProperties"] = False
    return canonical_json(msgspec.json.encode(shape))


def text(description: str | None = None, **more: Any) -> dict[str, Any]:
    return _member("string", description, more)


def whole(description: str | None = None, **more: Any) -> dict[str, Any]:
    return _member("integer", description, more)


def number(description: str | None = None, **more: Any) -> dict[str, Any]:
    return _member("number", description, more)


def flag(description: str | None = None) -> dict[str, Any]:
    return _member("boolean", description, {})


def _member(kind: str, description: str | None, more: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": kind, **more, **({"description": description} if description else {})}


def path_of(input: Mapping[str, Any]) -> str:
    return str(input.get("path", "."))


def go_on(context: ToolContext) -> None:
    """Asked by long work in a thread between two steps: raises when the call is wanted no more."""
    if context.cancel.is_set():
        raise ToolExecutionError("The call was cancelled.")


@contextmanager
def in_words(named: str) -> Iterator[None]:
    """The system's refusals about a file as an error that the model can act on."""
    try:
        yield
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        raise ToolExecutionError(f"{shown(named)} cannot be used: {reason}", {"errno": problem.errno}) from problem


def as_bytes(name: str, value: str) -> bytes:
    """Text of the model's as UTF-8."""
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError as problem:
        raise ToolExecutionError(
            f"{name} holds half of a surrogate pair at character {problem.start + 1}, which no file can hold; "
            "write the character itself."
        ) from problem


@contextmanager
def opened_directory(base: Path, parts: Sequence[str]) -> Iterator[int]:
    """A descriptor from which a directory can be listed, reached through no link."""
    with safe_files.directory(base, parts) as at:
        below = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=at)
    try:
        yield below
    finally:
        os.close(below)
