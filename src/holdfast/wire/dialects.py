"""The dialects by name and by path, and what each of them offers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.facts import ModelFacts
from holdfast.records import Capabilities, Extra, Request

from .answer_builder import Builder
from .anthropic import Anthropic
from .body import Body, Marker, Splice, Ttl, Unreadable
from .errors import WireError
from .gemini import Gemini
from .openai_chat import OpenAIChat
from .openai_responses import OpenAIResponses
from .openrouter import OpenRouter
from .stream import Tap


class Dialect(Protocol):
    """One way to spell a provider call: all that the rest of Holdfast knows of it.

    Methods that take bytes from outside never raise on them; `place` on a block that is not `markable` is a ValueError.
    """

    name: str
    provider: str  # whose facts a model has that nobody else's name is on
    images: tuple[bytes, ...]  # texts that only a block with a picture has
    marker_keys: tuple[str, ...]  # members that are markers and no content
    text_part: bytes  # what a text part of a user's begins with, up to its literal
    streamed: Extra  # members that ask for a stream with usage
    builder: type[Builder]  # what reads an answer

    def model_in_path(self, path: str) -> str | None: ...
    def path(self, model: str) -> tuple[str, dict[str, str]]: ...
    def facts(self, model: str) -> ModelFacts: ...
    def parse(self, raw: bytes, *, model: str = "", like: Body | None = None) -> Body | Unreadable: ...
    def kind(self, body: Body, index: int) -> str: ...
    def deferred(self, body: Body, index: int) -> bool: ...
    def markers(self, body: Body, among: Sequence[int] | None = None) -> tuple[Marker, ...]: ...
    def markable(self, body: Body, index: int) -> bool: ...
    def place(self, body: Body, index: int, ttl: Ttl) -> list[Splice]: ...
    def remove(self, body: Body, marker: Marker) -> list[Splice]: ...
    def content(self, body: Body, index: int) -> bytes: ...
    def decode(self, body: Body) -> Request: ...
    def encode(self, request: Request) -> bytes: ...
    def tap(self) -> Tap: ...
    def capabilities(self, facts: ModelFacts) -> Capabilities: ...
    def read_error(self, status: int, raw: bytes) -> WireError: ...
    def write_error(self, error: WireError) -> bytes: ...


DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect for dialect in (Anthropic(), OpenAIChat(), OpenAIResponses(), Gemini(), OpenRouter())
}

COUNTING = ("/count_tokens", ":countTokens")
"""Ends of the paths that count a prompt and answer nothing to it."""


def dialect_of(path: str) -> tuple[Dialect, str] | None:
    """The dialect of a request path, and the model if the path names it; None for side calls."""
    path = path.partition("?")[0].rstrip("/")
    for dialect in DIALECTS.values():
        if (model := dialect.model_in_path(path)) is not None:
            return dialect, model
    return None


def path_of(dialect: str, model: str) -> tuple[str, dict[str, str]]:
    """The path and query by which a streamed answer is asked for; `model` is as the provider spells it."""
    return DIALECTS[dialect].path(model)
