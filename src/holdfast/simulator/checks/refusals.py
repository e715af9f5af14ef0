"""Pieces every provider's checks share: the refusal itself, keys, and the place of a shape error."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from holdfast.wire import WireError

from ..messages import HttpRequest

NOT_JSON = "the body is not JSON"

_SHAPE = re.compile(
    r"(?:Expected `(?P<expected>[^`]+)`(?:, got `(?P<got>[^`]+)`)?|.*required field `(?P<field>[^`]+)`)"
)
_PLACE = re.compile(r" - at `\$(?P<path>[^`]*)`$")


class Refusal(WireError, frozen=True):
    """An error with the two further members of OpenAI's."""

    param: str | None = None
    code: str | None = None


class ShapeMismatch(NamedTuple):
    """A body of an unexpected shape: where, what was expected, and what was found; `missing` if nothing was."""

    path: tuple[str | int, ...]
    expected: str
    got: str
    missing: bool = False

    @property
    def place(self) -> str:
        """The path in OpenAI's and Gemini's form: `messages[0].role`."""
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        return "".join(steps).removeprefix(".")


def shape_of(reason: str) -> ShapeMismatch | None:
    """The shape error in msgspec's words, `Expected `array`, got `int` - at `$.messages[0]``; None for another."""
    words = _SHAPE.search(reason)
    if words is None:
        return None
    place = _PLACE.search(reason)
    path = tuple(
        int(step[1:-1]) if step.startswith("[") else step.lstrip(".")
        for step in re.findall(r"\.[^.\[]+|\[\d+\]", place["path"] if place else "")
    )
    if words["field"]:
        return ShapeMismatch((*path, words["field"]), "", "", missing=True)
    return ShapeMismatch(path, words["expected"], words["got"] or "")


def bearer(call: HttpRequest) -> str:
    """The token of `Authorization: Bearer`, empty if there is none."""
    kind, _, token = call.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def wrong(key: str, keys: Collection[str] | None) -> bool:
    return keys is not None and key not in keys
