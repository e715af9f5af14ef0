"""The dialects by name and by path, and what each of them offers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol
from urllib.parse import quote

from holdfast.canonical import Capabilities, Request
from holdfast.facts import ModelFacts

from .anthropic import Anthropic
from .body import Body, Marker, Splice, Ttl, Unreadable
from .gemini import Gemini
from .openai_chat import OpenAIChat
from .openai_responses import OpenAIResponses
from .openrouter import OpenRouter
from .parsing import WireError
from .stream import Tap


class Dialect(Protocol):
    """One way to spell a provider call.

    Methods that take bytes from outside never raise on them; `place` on a block that is not `markable` is a ValueError.
    """

    name: str

    def parse(self, raw: bytes, *, model: str = "", like: Body | None = None) -> Body | Unreadable: ...
    def kind(self, body: Body, index: int) -> str: ...
    def deferred(self, body: Body, index: int) -> bool: ...
    def markers(self, body: Body, among: Sequence[int] | None = None) -> tuple[Marker, ...]: ...
    def markable(self, body: Body, index: int) -> bool: ...
    def place(self, body: Body, index: int, ttl: Ttl) -> list[Splice]: ...
    def remove(self, body: Body, marker: Marker) -> list[Splice]: ...
    def content(self, body: Body, index: int) -> bytes: ...
    def decode(self, body: Body) -> Request: ...
    def encode(self, request: Request, *, mark: Ttl | None = None) -> bytes: ...
    def tap(self) -> Tap: ...
    def capabilities(self, facts: ModelFacts) -> Capabilities: ...
    def read_error(self, status: int, raw: bytes) -> WireError: ...
    def write_error(self, error: WireError) -> bytes: ...


DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect for dialect in (Anthropic(), OpenAIChat(), OpenAIResponses(), Gemini(), OpenRouter())
}

_gemini_path = re.compile(r"/models/([^/:]+):(?:streamGenerateContent|generateContent|countTokens)$").search


def dialect_of(path: str) -> tuple[Dialect, str] | None:
    """The dialect of a request path, and the model if the path names it; None for side calls."""
    path = path.partition("?")[0].rstrip("/")
    if path.endswith(("/messages", "/messages/count_tokens")) and "/threads/" not in path:
        return DIALECTS["anthropic"], ""
    if path.endswith("/chat/completions"):
        return DIALECTS["openai_chat"], ""
    if path.endswith("/responses"):
        return DIALECTS["openai_responses"], ""
    if (match := _gemini_path(path)) is not None:
        return DIALECTS["gemini"], match[1]
    return None


_PATHS = {"anthropic": "/v1/messages", "openai_responses": "/v1/responses", "gemini": "/v1beta/models/{}"}


def path_of(dialect: str, model: str) -> tuple[str, dict[str, str]]:
    """The path and query by which a streamed answer is asked for; `model` is as the provider spells it."""
    path = _PATHS.get(dialect, "/v1/chat/completions")
    if dialect != "gemini":
        return path, {}
    name = quote(model.removeprefix("models/"), safe="")
    return f"{path.format(name)}:streamGenerateContent", {"alt": "sse"}
